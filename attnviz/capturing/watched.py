"""Attention calls of a running model: the module that makes each, its kind, and the edits that act in it."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.capturing import padding, refusing
from attnviz.capturing.call import Call, detached_copy
from attnviz.capturing.joining import goes_on, used_keys
from attnviz.capturing.layout import Tracked
from attnviz.capturing.origins import TextOrigins
from attnviz.capturing.seen import Capture
from attnviz.capturing.where import CallPlace, Places, Sites, kind, positions
from attnviz.capturing.windows import in_windows
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError
from attnviz.core.scoring import Scoring
from attnviz.core.tap import Tap, silence


class Watched:
    """State of one model while it runs in one thread, and the edits of its calls."""

    def __init__(self, model: nn.Module, edits: Edits, heads: int | None, sites: Mapping[Site, str]):
        self.edits, self.heads = edits, heads
        self.captured = Capture(type(model).__name__, edits)
        self.tracked = Tracked()
        names = {site: "" if name == self.captured.name else name for site, name in sites.items()}
        self._places, self._sites, self._thread = Places(model), Sites(names), threading.get_ident()
        self.origins = TextOrigins(model, self._places.is_given)
        self._last: tuple[CallPlace, Call] | None = None
        self._past: dict[tuple[Site, int | None], int] = {}
        self._latest: dict[Site, Call] = {}
        self._offset = 0

    def begin(self, *_: object) -> None:
        """The model's forward begins."""
        if threading.get_ident() == self._thread:
            self._sites.begin()

    def end(self, model: nn.Module, inputs: object, output: Any) -> None:
        """The model's forward has ended."""
        if threading.get_ident() == self._thread:
            self.captured.output = output

    def fill(self, encoder: nn.TransformerEncoder, args: tuple, kwargs: dict[str, Any], output: Tensor) -> Tensor:
        """An encoder's forward has ended: at padding it gives what it gives without a capture."""
        is_here = threading.get_ident() == self._thread
        return padding.fill(encoder, args, kwargs, output) if is_here else output

    def place(self, tensors: tuple[Tensor, ...]) -> CallPlace | None:
        """Place in the model of the current call; None where it is not to be seen.

        Raises:
            AttnvizError: if edits would reach only one of the two runs of a checkpoint, so that gradients were wrong.
        """
        place = self._places.now()
        why_not = place and refusing.why_not(tensors)
        if why_not:
            return self.captured.note(
                f"{place.name or self.captured.name} computes attention {why_not}, which is not seen"
            )
        if place is not None and place.in_checkpoint and self.edits != type(self.edits)():
            what = "runs in a checkpoint, which runs it again, unedited, for the gradients"
            raise AttnvizError(f"{place.name or self.captured.name} {what}. Edit it without checkpoints.")
        return place

    def heads_of(self, place: CallPlace) -> set[int]:
        """How many heads a call may have: as the person says, else as the module says."""
        return place.said_heads if self.heads is None else {self.heads}

    def call(self, place: CallPlace, route: str, is_causal: bool, same: bool | None, **parts: Any) -> Call:
        """The call that is made now; `parts` are the fields of `Call`. For `same` and `is_causal` see `kind`."""
        tensor = parts["query"] if parts["query"] is not None else parts["weights"]
        if self._is_in_loop(place, parts):
            self._sites.begin(in_loop=True)
        site, name, head, passed = self._sites.site(place, kind(place, is_causal, same), tensor.shape[1])
        call = in_windows(Call(site, name, route, passed, **parts, head=head), place)
        if passed and site.kind != "cross":
            queries, keys = call.shape[2:]
            past = self._past.get((site, head), 0)
            self._offset = past if queries < keys and past + queries <= used_keys(call) else 0
        elif not passed:
            self._offset = 0
        self._past[site, head] = self._offset + call.shape[2]
        call = replace(call, offset=0 if site.kind == "encoder" else self._offset)
        return replace(call, is_edited=self.touches(call))

    def _is_in_loop(self, place: CallPlace, parts: dict[str, Any]) -> bool:
        """Whether a call goes on from an earlier one of the same pass: the model writes in a loop of its own."""
        before = self._latest.get(self._sites.first(place))
        if before is None or (self._last is not None and self._last[0].call is place.call):
            return False
        after = replace(before, **parts)
        is_step = before.weights is not None and after.shape[2] == 1  # of a recurrent decoder
        return (before.site.kind != "cross" or is_step) and goes_on(before, after) is not None

    def edits_of(self, call: Call) -> Edits:
        """The edits as they act in one call: its queries may stand behind others, and its head be one of several."""
        edits, site = call.in_windows(self.edits), call.site
        if call.offset and edits.mask is not None:
            edits = replace(edits, mask=edits.mask.shifted(call.offset))
        if call.head is None:
            return edits
        off = [edits.off(site), *edits.off_alone(site)]
        here, *alone = (frozenset({(site, 0)} if call.head in heads else ()) for heads in off)
        return replace(edits, heads_off=here, **({"each_off": tuple(alone)} if alone else {}))

    def keep(self, call: Call, place: CallPlace) -> Call:
        """Keep a copy of a call."""
        copies = {
            field.name: detached_copy(value)
            for field in fields(Call)
            if isinstance(value := getattr(call, field.name), Tensor)
        }
        scoring = replace(call.scoring, bias=tuple(map(detached_copy, call.scoring.bias)))
        copy = replace(call, **copies, scoring=scoring)
        self._share(copy)
        self._refuse_windows(copy, place)
        self._refuse_pieces(copy, place)
        self.captured.calls.append(copy)
        self._latest[copy.site] = copy
        return copy

    def _share(self, call: Call) -> None:
        """Layers often have one mask and one bias: it is kept once."""
        last = self._last and self._last[1]
        if last is None:
            return
        if _alike(call.mask, last.mask):
            call.mask = last.mask
        bias, before = call.scoring.bias, last.scoring.bias
        if bias and len(bias) == len(before) and all(map(_alike, bias, before)):
            call.scoring = replace(call.scoring, bias=before)

    def _refuse_windows(self, call: Call, place: CallPlace) -> None:
        """Windows that stand where heads would: together they have as many queries as there are positions."""
        batch, heads, queries, _ = call.shape
        if heads == 1 or heads in self.heads_of(place):
            return
        for sentences, size in positions(place.frame):
            if queries < size and size % queries == 0 and batch * heads * queries == sentences * size:
                what = f"attends within windows of {queries} of its {size} positions, which are no whole map"
                call.refused = f"{call.name or 'the model'} {what}"

    def _refuse_pieces(self, call: Call, place: CallPlace) -> None:
        """Several calls for parts of what one module was given are pieces of one attention, and no map of it."""
        last, self._last = self._last, (place, call)
        if last is None or last[1].passed != call.passed:
            return
        frames = ((place.frame, last[0].frame), (place.above and place.above[1], last[0].above and last[0].above[1]))
        same = next((frame for frame, other in frames if frame is other and frame is not None), None)
        if same is None or (same is not place.frame and place.module is not last[0].module):
            return
        whole, (batch, _, queries, _) = positions(same), call.shape
        if whole and not any(queries in sizes and batch * queries >= prod(sizes) for sizes in whole):
            for piece in (call, last[1]):
                piece.refused = f"{piece.name or 'the model'} computes attention in pieces, which are no whole map"

    def touches(self, call: Call) -> bool:
        """Whether the edits change anything in a call."""
        edits = self.edits_of(call)
        return touches_weights(edits, call.site) or bool(edits.off(call.site) or any(edits.off_alone(call.site)))

    def edited(self, call: Call, own: Callable[[], Tensor], dropout_p: float = 0.0) -> Tensor:
        """The output of a call with the edits, (B, H, Q, d_v); heads off alone leave what the others give as it is."""
        site, edits = call.site, self.edits_of(call)
        if not touches_weights(edits, site):
            return silence(own(), edits.off(site), edits.off_alone(site))
        with torch.autocast(call.query.device.type, enabled=False), torch.device(call.query.device):
            tap = Tap(edits, keep=False)
            return tap.attend(**call.computed_from(), value=call.value, site=site, dropout_p=dropout_p)

    def edited_weights(self, call: Call, own: Tensor) -> Tensor:
        """The weights of a call with the edits, (B, H, Q, K); those that the model computed if heads are off alone.

        Raises:
            AttnvizError: if the edits need scores, and only weights are known.
        """
        site, edits = call.site, self.edits_of(call)
        if not touches_weights(edits, site):
            return silence(own, edits.off(site), edits.off_alone(site))
        if call.weights is not None and not (edits.scale is None and edits.softcap is None and edits.own_mask):
            what = "only the weights are known, so scale, softcap and the built-in mask cannot be changed"
            raise AttnvizError(f"At {site} ({call.name}) {what}.")
        with torch.autocast(own.device.type, enabled=False), torch.device(own.device):
            return Tap(edits, keep=False).weights(**call.computed_from(), site=site)


def _alike(first: object, second: object) -> bool:
    """Whether two tensors are the same numbers in the same form."""
    if not (isinstance(first, Tensor) and isinstance(second, Tensor)):
        return False
    form = [(each.shape, each.dtype, each.device) for each in (first, second)]
    return form[0] == form[1] and torch.equal(first, second)


def touches_weights(edits: Edits, site: Site) -> bool:
    """Whether edits change the weights at a site."""
    return edits.at(site, Scoring()) != Scoring() or edits.mask_at(site.kind) is not None or not edits.own_mask
