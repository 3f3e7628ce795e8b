"""Conditions of a capture: tensors that cannot be captured, and global changes while a capture runs.

A function mode does not intercept functions of other libraries, and `from flash_attn import flash_attn_func` copies the
name to the model's file. During a capture, each such name refers to a wrapper that checks for a mode in its thread.
"""

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function

LIBRARIES = {
    "flash_attn": "flash_attn_func flash_attn_qkvpacked_func flash_attn_kvpacked_func flash_attn_varlen_func "
    "flash_attn_varlen_qkvpacked_func flash_attn_varlen_kvpacked_func flash_attn_with_kvcache".split(),
    "xformers.ops": ["memory_efficient_attention"],
}
"""Attention functions of other libraries, by the module from which they are imported."""

_lock = threading.Lock()
_running = 0
_stances = ExitStack()
_stand_ins: dict[Callable, Callable] = {}


def why_not(tensors: tuple[Tensor, ...]) -> str:
    """Reason why a call on these tensors is not captured; "" if it is."""
    if any(tensor.is_nested for tensor in tensors):
        return "on nested tensors"
    return "under vmap" if any(map(torch._C._functorch.is_batchedtensor, tensors)) else ""


@contextmanager
def all_visible() -> Iterator[None]:
    """Run compiled functions as Python, and install the wrappers, until the last capture of all threads ends."""
    global _running
    with _lock:
        _running += 1
        if {"torch._dynamo", "torch.nn.attention.flex_attention"} & sys.modules.keys():  # else nothing is compiled
            _stances.enter_context(torch.compiler.set_stance("force_eager"))
        for library, names in LIBRARIES.items():
            functions = {getattr(sys.modules.get(library), name, None) for name in names}
            for function in functions - {None, *_stand_ins, *_stand_ins.values()}:
                _stand_ins[function] = _stand_in(function)
        _exchange(_stand_ins)
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                _stances.close()
                _exchange({stand_in: function for function, stand_in in _stand_ins.items()})
                _stand_ins.clear()


def _stand_in(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        if has_torch_function((None,)):  # a mode of this thread is active
            return handle_torch_function(stand_in, (None,), *args, **kwargs)
        return function(*args, **kwargs)

    return stand_in


def _exchange(functions: dict[Callable, Callable]) -> None:
    """Replace functions in all loaded modules, wherever a module-level name refers to one of them."""
    by_id = {id(old): new for old, new in functions.items()}  # not every value is hashable
    for module in list(sys.modules.values()) if by_id else ():
        names = getattr(module, "__dict__", {})
        for name, value in list(names.items()):
            if id(value) in by_id:
                names[name] = by_id[id(value)]


def fill_padding(encoder: nn.TransformerEncoder, args: tuple, kwargs: dict[str, Any], output: Tensor) -> Tensor:
    """Set the output of an encoder to zero at padding, as PyTorch's fast path does, which a function mode disables.

    The conditions are those of `nn.TransformerEncoder.forward`; used as a forward hook with kwargs.
    """
    if type(encoder).forward is not nn.TransformerEncoder.forward or not getattr(encoder, "use_nested_tensor", False):
        return output
    arguments = inspect.signature(nn.TransformerEncoder.forward).bind(encoder, *args, **kwargs).arguments
    source, padding, layer = arguments["src"], arguments.get("src_key_padding_mask"), encoder.layers[0]
    if padding is None or arguments.get("mask") is not None or source.dim() != 3 or source.is_nested or layer.training:
        return output
    learns = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (source, *layer.parameters()))
    if learns or torch.is_autocast_enabled() or not torch.backends.mha.get_fastpath_enabled():
        return output
    is_padding = padding if padding.dtype is torch.bool else padding < 0
    if getattr(encoder, "mask_check", True) and bool((is_padding[:, :-1] & ~is_padding[:, 1:]).any()):
        return output  # padding on the left
    zeros = output.new_zeros(output.shape[-1])
    return output.where(~is_padding.unsqueeze(-1), zeros if encoder.norm is None else encoder.norm(zeros))
