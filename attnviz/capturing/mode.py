"""The mode that watches a model: what attention is made of passes through it, and all else passes by."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnviz.capturing import flex, kernels, mha, products, refusing, sdpa
from attnviz.capturing.consume import multiply, total
from attnviz.capturing.layout import Scores
from attnviz.capturing.replacing import replaced
from attnviz.capturing.scores import STARTS, carry, join
from attnviz.capturing.seen import Capture
from attnviz.capturing.softmax import SOFTMAXES, softmax
from attnviz.capturing.watched import Watched
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.taking import NOT_TAKEN

ROUTES: dict[str, Callable[..., Any]] = {
    "scaled_dot_product_attention": sdpa.attend,
    "multi_head_attention_forward": mha.attend,
}
"""Replacements of functions of torch, by name."""
OUTPUTS = frozenset({*ROUTES, "flex_attention", *kernels.NAMES, *kernels.OPERATORS})
"""Functions that give the output of attention."""
PARTS = dict.fromkeys(products.NAMES, multiply) | dict.fromkeys(SOFTMAXES, softmax)
PARTS |= {"sum": total, "flex_attention": flex.attend}
PARTS |= dict.fromkeys(kernels.NAMES, kernels.attend) | dict.fromkeys(kernels.OPERATORS, kernels.pass_by)
"""Replacements of functions that are parts of attention; these are given the function, too."""

BEFORE_DROPOUT = "The model was in training: the weights are those before dropout, and the output is not"
"""Finding about a model whose weights are changed at random between the softmax and the values."""


@contextmanager
def capture(
    model: nn.Module, edits: Edits = Edits(), *, heads: int | None = None, sites: Mapping[Site, str] | None = None
) -> Iterator[Capture]:
    """See the attention of any PyTorch model, and edit it, while the model runs in its own code.

        with attnviz.capture(model, edits=Edits()) as seen:
            output = model(batch)
        record = seen.record(tokens=["The", "cat", "sat"])

    Without edits, outputs and gradients are those of the model alone, bit for bit; only where PyTorch fuses a layer of
    `nn.Transformer` or a lone `nn.MultiheadAttention`, in evaluation without gradients, last bits differ. The model is
    not changed; what watches it is of this thread and gone after the block, also after an error. Run the model as
    always, also several times: the passes of a generation with a cache become one map.

    Args:
        model: any module; what is not in it is not seen.
        edits: what to change about the attention. Sites are numbered by kind in the order in which a pass calls them;
            `seen.sites` has them with the names of their modules.
        heads: how many heads each call has, where sentences and heads share one axis and the model does not say it.
        sites: `seen.sites` of an earlier run, whose kinds and numbers hold: one word alone tells nothing of a mask.

    Yields:
        What was seen, complete after the block; see `Seen.record`.

    Raises:
        AttnvizError: if the model cannot be seen; after the block, if an edit reached nothing, with what there is.
    """
    refusing.check(model)
    if edits.taken:
        raise InputError(NOT_TAKEN)
    mode = Mode(model, edits, heads, sites or {})
    handles = [model.register_forward_pre_hook(mode.begin)]
    encoders = [module for module in model.modules() if isinstance(module, nn.TransformerEncoder)]
    handles += [encoder.register_forward_hook(mode.fill, with_kwargs=True) for encoder in encoders]
    handles.append(model.register_forward_hook(mode.end))
    try:
        with refusing.uncompiled(), replaced(), mode:
            yield mode.captured
    finally:
        for handle in handles:
            handle.remove()
    if mode.captured.calls and any(map(_drops, model.modules())):
        mode.captured.findings.append(BEFORE_DROPOUT)
    mode.captured.check()


def _drops(module: nn.Module) -> bool:
    """Whether a module sets numbers to zero at random now."""
    return module.training and isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0


class Mode(Watched, TorchFunctionMode):
    """Watches one model in one thread."""

    def __init__(self, *watched: Any):
        TorchFunctionMode.__init__(self)
        Watched.__init__(self, *watched)

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
            if name != "__get__" and (self.tracked or name in STARTS):
                result = (join if name in ("cat", "concat") else carry)(self, name, args, kwargs, result)
        self.captured.called(name)
        if name not in OUTPUTS and (name not in PARTS or not self.origins.has(result)):
            self.origins.follow(name, args, kwargs, result, self._lost(name, args, result))
        return result

    def _lost(self, name: str, args: tuple, result: Any) -> str:
        """The name of a function that was given scores and gave something that is not followed."""
        is_lost = isinstance(result, Tensor) and result.is_floating_point() and self.tracked.get(result) is None
        return name if is_lost and any(isinstance(self.tracked.get(argument), Scores) for argument in args) else ""
