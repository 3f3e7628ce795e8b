"""Wrappers around runs of a person's own code and model: errors in one sentence, one run at a time, no dropout."""

import threading
import traceback
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

import attnviz
from attnviz.core.errors import AttnvizError, InputError

_OTHERS = (*(str(Path(module.__file__).parent) for module in (torch, attnviz)), "<frozen ")
"""Folders of the code that is not the person's."""


@contextmanager
def errors_said() -> Iterator[None]:
    """Turn an error of a person's code into one sentence.

    Raises:
        InputError: with the line of the innermost frame that is the person's; what attnviz raises is left as it is.
    """
    try:
        yield
    except AttnvizError:
        raise
    except (Exception, SystemExit) as error:
        lines = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
        lines = [(file, line) for file, line in lines if not file.startswith(_OTHERS)]
        what = " ".join(str(error).split())
        if isinstance(error, SyntaxError):
            lines, what = [(error.filename, error.lineno)], error.msg
        location = f"Line {lines[-1][1]} of {Path(str(lines[-1][0])).name}" if lines else "Code outside of attnviz"
        raise InputError(f"{location} raised {type(error).__name__}: {what[:300]}") from error


@contextmanager
def in_evaluation(model: nn.Module) -> Iterator[None]:
    """Meanwhile no dropout; then each module is as it was."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


_locks: weakref.WeakKeyDictionary[nn.Module, Any] = weakref.WeakKeyDictionary()
_locking = threading.Lock()


def lock_of(model: nn.Module) -> AbstractContextManager:
    """Held while a model runs: one for each model."""
    with _locking:
        return _locks.setdefault(model, threading.RLock())


def moment_of(model: nn.Module) -> int:
    """A number that changes when a weight does: by what torch counts, and by the first numbers of each tensor."""
    tensors = [*model.parameters(), *model.buffers()]
    with torch.no_grad():
        sums = [
            float(tensor.detach().reshape(-1)[:8].double().nan_to_num().sum()) if tensor.numel() else 0.0
            for tensor in tensors
        ]
    counted = ((id(tensor), tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version) for tensor in tensors)
    return hash((tuple(counted), tuple(sums)))
