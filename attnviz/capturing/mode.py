"""The mode that watches a model: what attention is made of passes through it, and all else passes by."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnviz.capturing import sdpa
from attnviz.capturing.call import Call, kept
from attnviz.capturing.seen import Seen
from attnviz.capturing.where import Place, Places, Sites, kind
from attnviz.core.edits import Edits, Site
from attnviz.core.scoring import Scoring
from attnviz.core.tap import Tap, silence

ROUTES: dict[str, Callable[..., Any]] = {"scaled_dot_product_attention": sdpa.attend}
"""What is done instead of a function of torch, by its name."""


@contextmanager
def capture(model: nn.Module, edits: Edits = Edits(), *, heads: int | None = None) -> Iterator[Seen]:
    """See the attention of any PyTorch model, and edit it, while the model runs in its own code.

        with attnviz.capture(model, edits=Edits()) as seen:
            output = model(batch)
        record = seen.record(tokens=["The", "cat", "sat"])

    Without edits, outputs and gradients are those of the model alone, bit for bit. The model is not changed; what
    watches it is of this thread and gone after the block, also after an error. Run the model as always, also several
    times: the passes of a generation with a cache become one map.

    Args:
        model: any module; what is not in it is not seen.
        edits: what to change about the attention. Sites are numbered by kind in the order in which a pass calls them;
            `seen.sites` has them with the names of their modules.
        heads: how many heads each call has, where sentences and heads share one axis and the model does not say it.

    Yields:
        What was seen, complete after the block; see `Seen.record`.

    Raises:
        AttnvizError: if the model cannot be seen; after the block, if an edit reached nothing, with what there is.
    """
    mode = Mode(model, edits, heads)
    handles = model.register_forward_pre_hook(mode.begin), model.register_forward_hook(mode.end)
    try:
        with mode:
            yield mode.seen
    finally:
        for handle in handles:
            handle.remove()
    mode.seen.check()


class Mode(TorchFunctionMode):
    """Watches one model in one thread."""

    def __init__(self, model: nn.Module, edits: Edits, heads: int | None = None):
        super().__init__()
        self.edits, self.heads = edits, heads
        self.seen = Seen(type(model).__name__, edits)
        self._places, self._sites, self._thread = Places(model), Sites(), threading.get_ident()

    def __torch_function__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        route = ROUTES.get(getattr(func, "__name__", ""))
        if route is None:
            return func(*args, **kwargs or {})
        return route(self, *args, **kwargs or {})

    def begin(self, *_: object) -> None:
        """The model's forward begins."""
        if threading.get_ident() == self._thread:
            self._sites.begin()

    def end(self, model: nn.Module, given: object, output: Any) -> None:
        """The model's forward has ended."""
        if threading.get_ident() == self._thread:
            self.seen.output = output

    def place(self, tensors: tuple[Tensor, ...]) -> Place | None:
        """Where in the model a call is made now; None where it is not to be seen."""
        return self._places.now()

    def said_heads(self, place: Place, count: Callable[[nn.Module], set[int]]) -> set[int]:
        return count(place.module)

    def site(self, place: Place, is_causal: bool, same: bool | None = None) -> tuple[Site, int]:
        """The site of a call that is made now, and its pass."""
        return self._sites.site(place, kind(place, is_causal, same))

    def keep(self, call: Call) -> None:
        """Keep a copy of a call."""
        with torch.no_grad():
            copies = {
                field.name: kept(value)
                for field in fields(Call)
                if isinstance(value := getattr(call, field.name), Tensor)
            }
            self.seen.calls.append(replace(call, **copies))

    def touches(self, site: Site) -> bool:
        """Whether the edits change anything at a site."""
        edits = self.edits
        return self.touches_weights(site) or bool(edits.off(site)) or bool(edits.off_alone(site))

    def touches_weights(self, site: Site) -> bool:
        """Whether the edits change the weights at a site."""
        edits = self.edits
        return edits.at(site, Scoring()) != Scoring() or edits.mask_at(site.kind) is not None or not edits.own_mask

    def edited(self, call: Call, own: Callable[[], Tensor], dropout_p: float = 0.0) -> Tensor:
        """The output of a call with the edits, (B, H, Q, d_v); heads off alone leave what the others give as it is."""
        site, edits = call.site, self.edits
        if not self.touches_weights(site):
            return silence(own(), edits.off(site), edits.off_alone(site))
        query = call.query
        with torch.autocast(query.device.type, enabled=False), torch.device(query.device):
            tap = Tap(edits, keep=False)
            given = {"mask": call.mask, "scoring": call.scoring, "sinks": call.sinks, "dropout_p": dropout_p}
            return tap.attend(query, call.key, call.value, site=site, **given)
