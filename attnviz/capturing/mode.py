"""The function mode that intercepts the torch functions of attention while a model runs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnviz.capturing import conditions, kernels
from attnviz.capturing.axes import PRODUCTS
from attnviz.capturing.scores import INSTEAD, Scores, carry
from attnviz.capturing.seen import Capture
from attnviz.capturing.softmax import DROPOUTS, LOGS, SOFTMAXES, dropout, multiply, softmax
from attnviz.capturing.watched import Watched
from attnviz.core.edits import NOT_TAKEN, Edits, Site
from attnviz.core.errors import AttnvizError, InputError

ROUTES: dict[str, Callable[..., Any]] = {
    "scaled_dot_product_attention": kernels.scaled_dot_product,
    "multi_head_attention_forward": kernels.multi_head,
}
"""Replacements of torch functions, by name."""
PARTS = dict.fromkeys(PRODUCTS, multiply) | dict.fromkeys(SOFTMAXES + LOGS, softmax)
PARTS |= dict.fromkeys(kernels.NAMES, kernels.attend) | dict.fromkeys(DROPOUTS, dropout)
"""Replacements of functions that are parts of attention; their second argument is the original function."""
UNREAD = frozenset({*ROUTES, *PARTS} - {*DROPOUTS})
"""Functions whose results need no tracking by `carry`."""


@contextmanager
def capture(
    model: nn.Module, edits: Edits = Edits(), *, heads: int | None = None, sites: Mapping[Site, str] | None = None
) -> Iterator[Capture]:
    """Capture the attention of any PyTorch model, and edit it, while the model runs its own code.

        with attnviz.capture(model, edits=Edits()) as seen:
            output = model(batch)
        record = seen.record(tokens=["The", "cat", "sat"])

    Without edits, outputs and gradients are bitwise identical to those without a capture, except for last bits where
    PyTorch fuses a layer of `nn.Transformer` or a single `nn.MultiheadAttention` (evaluation without gradients). The
    model is not changed; the capture acts in this thread only, and ends with the block, also after an error. Run the
    model as usual, also several times: the passes of a generation with a cache become one map.

    Args:
        model: any module; attention outside of it is not captured.
        edits: changes to the attention. Sites are numbered by kind in the order of the calls in a forward pass;
            `seen.sites` lists them with the names of their modules.
        heads: number of heads per call, if sentences and heads share one axis and the model has no attribute for it.
        sites: `seen.sites` of an earlier run, for the same numbering: a single token shows no causal mask.

    Yields:
        The captured attention, complete after the block; see `Capture.record`.

    Raises:
        AttnvizError: if the model cannot be captured; after the block, if an edit had no effect, with the sites.
    """
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):  # TorchScript runs without Python
            what = f"{name or 'The model'} is TorchScript, whose attention cannot be captured"
            raise AttnvizError(f"{what}. Capture the module that it was made of.")
    if edits.taken:
        raise InputError(NOT_TAKEN)
    mode = Mode(model, edits, heads, sites or {})
    encoders = [module for module in model.modules() if isinstance(module, nn.TransformerEncoder)]
    handles = [encoder.register_forward_hook(mode.fill, with_kwargs=True) for encoder in encoders]
    handles += [model.register_forward_pre_hook(mode.begin), model.register_forward_hook(mode.end)]
    try:
        with conditions.all_visible(), mode:
            yield mode.captured
    finally:
        for handle in handles:
            handle.remove()
        for pending in mode.softmaxes:
            pending.forget()
    dropouts = [module for module in model.modules() if isinstance(module, nn.modules.dropout._DropoutNd)]
    if mode.captured.calls and any(module.training and module.p for module in dropouts):
        what = "the weights are those before dropout, and the output is not"
        mode.captured.findings.append(f"The model was in training: {what}")
    mode.captured.check()


class Mode(Watched, TorchFunctionMode):
    """Intercepts torch functions of one model in one thread."""

    def __torch_function__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name, kwargs = getattr(func, "__name__", "").partition(".")[0], kwargs or {}
        if name in ROUTES:
            result = ROUTES[name](self, *args, **kwargs)
        elif name in PARTS:
            result = PARTS[name](self, func, args, kwargs)
        else:
            result = func(*args, **kwargs)
        if self._unsorted is not None:
            self.check_order(result)
        is_instead = name in INSTEAD and args and isinstance(args[0], Tensor)
        if is_instead and isinstance(self.tracked.get(args[0]), Scores) and (place := self.place(args[:1])):
            what = f"{self.name(place)} applies {name}() to products of queries and keys instead of a softmax"
            self.captured.awaited[self.name(place)] = what
        if isinstance(result, Tensor) and name not in UNREAD:
            carry(self.tracked, func, name, args, kwargs, result)
        return result
