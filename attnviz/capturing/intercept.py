"""The function mode that intercepts the torch functions of attention while a model runs.

A function mode does not intercept functions of other libraries, and `from flash_attn import flash_attn_func` copies the
name to the model's file. During a capture, each such name refers to a wrapper that checks for a mode in its thread.
"""

import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function

from attnviz.capturing import kernels
from attnviz.capturing.axes import PRODUCTS
from attnviz.capturing.captured import Capture
from attnviz.capturing.scores import carry
from attnviz.capturing.softmax import DROPOUTS, SOFTMAXES, dropout, multiply, softmax
from attnviz.capturing.tracker import Tracker
from attnviz.core.edits import NOT_TAKEN, Edits, Site
from attnviz.core.errors import InputError

CALLS = {"scaled_dot_product_attention": kernels.scaled_dot_product, "multi_head_attention_forward": kernels.multi_head}
"""Replacements of torch functions, by name."""
PARTS = dict.fromkeys(PRODUCTS, multiply) | dict.fromkeys(SOFTMAXES, softmax)
PARTS |= dict.fromkeys(kernels.NAMES, kernels.attend) | dict.fromkeys(DROPOUTS, dropout)
"""Replacements of functions that are parts of attention; their second argument is the original function."""
UNREAD = frozenset({*CALLS, *PARTS} - {*DROPOUTS})
"""Functions whose results need no tracking by `carry`."""

_lock = threading.Lock()
_running = 0  # number of captures in all threads
_stances = ExitStack()  # settings of the compiler, for all captures
_stand_ins: dict[Callable, Callable] = {}  # wrapper of each function of other libraries


@contextmanager
def capture(
    model: nn.Module, edits: Edits = Edits(), *, heads: int | None = None, sites: Mapping[Site, str] | None = None
) -> Iterator[Capture]:
    """Capture the attention of any PyTorch model, and edit it, while the model runs its own code.

        with attnviz.capture(model, edits=Edits()) as seen:
            output = model(batch)
        record = seen.record(tokens=["The", "cat", "sat"])

    Without edits, outputs and gradients are bitwise identical to those without a capture, except for rounding where
    PyTorch fuses a layer of `nn.Transformer` or a single `nn.MultiheadAttention` (evaluation without gradients). The
    model is not changed; the capture acts in this thread only, and ends with the block, even after an error. Run the
    model as usual, once or several times: the passes of a generation with a cache become one map.

    Args:
        model: any module; attention outside of it is not captured.
        edits: changes to the attention. Sites are numbered by kind in the order of the calls in a forward pass;
            `seen.sites` lists them with the names of their modules.
        heads: number of heads per call, if sentences and heads share one axis and the model has no attribute for it.
        sites: `seen.sites` of an earlier run, for the same numbering: a single token shows no causal mask.

    Yields:
        The captured attention, complete after the block; see `Capture.record`.

    Raises:
        AttnvizError: after the block, if an edit had no effect, with the sites.
    """
    if edits.taken:
        raise InputError(NOT_TAKEN)
    mode = Mode(model, edits, heads, sites or {})
    encoders = [module for module in model.modules() if isinstance(module, nn.TransformerEncoder)]
    handles = [encoder.register_forward_hook(mode.fill_padding, with_kwargs=True) for encoder in encoders]
    handles += [model.register_forward_pre_hook(mode.begin), model.register_forward_hook(mode.end)]
    try:
        with _intercept_all(), mode:
            yield mode.captured
    finally:
        for handle in handles:
            handle.remove()
        for pending in mode.softmaxes:
            pending.forget()
    dropouts = [module for module in model.modules() if isinstance(module, nn.modules.dropout._DropoutNd)]
    if mode.captured.calls and any(module.training and module.p for module in dropouts):
        reason = "the weights are those before dropout, and the output is not"
        mode.captured.findings.append(f"The model was in training: {reason}")
    mode.captured.check()


class Mode(Tracker, TorchFunctionMode):
    """Intercepts torch functions of one model in one thread: PyTorch calls `__torch_function__` in place of each."""

    def __torch_function__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name, kwargs = getattr(func, "__name__", "").partition(".")[0], kwargs or {}
        if name in CALLS:
            result = CALLS[name](self, *args, **kwargs)
        elif name in PARTS:
            result = PARTS[name](self, func, args, kwargs)
        else:
            result = func(*args, **kwargs)
        if self._order_unknown is not None:
            self.check_order(result)
        if isinstance(result, Tensor) and name not in UNREAD:
            carry(self.tracked, func, name, args, kwargs, result)
        return result

    def begin(self, *_: object) -> None:
        """Pre-forward hook of the model: start a new forward pass."""
        if threading.get_ident() == self._thread:
            self._sites.begin()

    def end(self, model: nn.Module, inputs: object, output: Any) -> None:
        """Forward hook of the model: keep its output."""
        if threading.get_ident() == self._thread:
            self.captured.output = output

    def fill_padding(
        self, encoder: nn.TransformerEncoder, args: tuple, kwargs: dict[str, Any], output: Tensor
    ) -> Tensor:
        """Forward hook of an encoder: set its output to zero at padding, as PyTorch's fast path does, which a capture
        disables. The conditions for the fast path are those of `nn.TransformerEncoder.forward`."""
        has_fast_path = type(encoder).forward is nn.TransformerEncoder.forward and encoder.use_nested_tensor
        has_fast_path = has_fast_path and torch.backends.mha.get_fastpath_enabled()
        if threading.get_ident() != self._thread or not has_fast_path:
            return output
        arguments = inspect.signature(nn.TransformerEncoder.forward).bind(encoder, *args, **kwargs).arguments
        source, padding, layer = arguments["src"], arguments.get("src_key_padding_mask"), encoder.layers[0]
        if padding is None or arguments.get("mask") is not None or source.dim() != 3 or source.is_nested:
            return output
        needs_gradients = torch.is_grad_enabled() and any(x.requires_grad for x in (source, *layer.parameters()))
        is_padding = padding if padding.dtype is torch.bool else padding < 0
        is_left_padded = encoder.mask_check and bool((is_padding[:, :-1] & ~is_padding[:, 1:]).any())
        if needs_gradients or layer.training or torch.is_autocast_enabled() or is_left_padded:
            return output
        zeros = output.new_zeros(output.shape[-1])
        return output.where(~is_padding.unsqueeze(-1), zeros if encoder.norm is None else encoder.norm(zeros))


@contextmanager
def _intercept_all() -> Iterator[None]:
    """While any capture runs, run compiled code as Python, and wrap library functions so that a capture sees them."""
    global _running
    with _lock:
        _running += 1
        if {"torch._dynamo", "torch.nn.attention.flex_attention"} & sys.modules.keys():  # else nothing is compiled
            _stances.enter_context(torch.compiler.set_stance("force_eager"))
        for library, names in kernels.LIBRARIES.items():
            functions = {getattr(sys.modules.get(library), name, None) for name in names}
            for function in functions - {None, *_stand_ins, *_stand_ins.values()}:
                _stand_ins[function] = _stand_in(function)
        _replace_functions(_stand_ins)
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                _stances.close()
                _replace_functions({stand_in: function for function, stand_in in _stand_ins.items()})
                _stand_ins.clear()


def _stand_in(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that a torch function mode of the calling thread, if there is one, intercepts its calls."""

    @wraps(function)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        if has_torch_function((None,)):
            return handle_torch_function(stand_in, (None,), *args, **kwargs)
        return function(*args, **kwargs)

    return stand_in


def _replace_functions(functions: dict[Callable, Callable]) -> None:
    """Replace functions (keys) by others (values) in the global names of all loaded modules."""
    by_id = {id(old): new for old, new in functions.items()}  # not every global value is hashable
    for module in list(sys.modules.values()) if by_id else ():
        names = getattr(module, "__dict__", {})
        for name, value in list(names.items()):
            if id(value) in by_id:
                names[name] = by_id[id(value)]
