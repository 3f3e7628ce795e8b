"""Models and calls that cannot be captured: reported before the run where possible, else at the call."""

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from attnviz.core.errors import AttnvizError

_lock = threading.Lock()
_running = 0
_stance = ExitStack()


def check(model: nn.Module) -> None:
    """Raises: AttnvizError: if a part of a model runs without Python, so that nothing of it can be seen."""
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            what = f"{name or 'The model'} is TorchScript, whose attention cannot be seen"
            raise AttnvizError(f"{what}. Capture the module that it was made of.")


COMPILERS = frozenset({"torch._dynamo", "torch.nn.attention.flex_attention"})
"""Modules that compile: the second imports the first when it is called first."""


@contextmanager
def uncompiled() -> Iterator[None]:
    """Run compiled functions as the Python that they were made of, until the last capture of all threads ends."""
    global _running
    if COMPILERS.isdisjoint(sys.modules):  # nothing was or is compiled in this process
        yield
        return
    with _lock:
        if not _running:
            _stance.enter_context(torch.compiler.set_stance("force_eager"))
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                _stance.close()


def why_not(tensors: tuple[Tensor, ...]) -> str:
    """Why a call on some tensors is passed by; "" if it is seen."""
    if any(tensor.is_nested for tensor in tensors):
        return "on nested tensors"
    if any(torch._C._functorch.is_batchedtensor(tensor) for tensor in tensors):
        return "under vmap"
    return ""
