"""State of a capture: modules, kinds and edits of the attention calls of a running model."""

import threading
from collections.abc import Mapping
from dataclasses import fields, replace
from math import prod
from traceback import walk_stack
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from attnviz.capturing.axes import Lead, why_not_captured
from attnviz.capturing.call import Call, keys_in_cache, score_fields, used_keys
from attnviz.capturing.call_site import CallPlace, Places, Sites, kind, text_shapes
from attnviz.capturing.captured import Capture
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError
from attnviz.core.scoring import Scoring
from attnviz.core.tap import Tap, silence
from attnviz.core.windows import WindowGrid


class Tracker:
    """Keeps the attention calls of one model in one thread, and applies edits to them."""

    def __init__(self, model: nn.Module, edits: Edits, heads: int | None, sites: Mapping[Site, str]):
        self.edits, self.heads = edits, heads
        self.captured = Capture(type(model).__name__, edits)
        self.tracked = WeakTensorKeyDictionary()  # scores, queries and keys of the model: see `scores.carry`
        names = {site: "" if name == self.captured.name else name for site, name in sites.items()}
        self._places, self._sites, self._thread = Places(model), Sites(names), threading.get_ident()
        self.softmaxes: list[Any] = []  # each a `Softmax` whose weights may still be multiplied by values
        self._last: tuple[CallPlace, Call] | None = None  # the previous call
        self._latest: dict[Site, Call] = {}  # the last call of each site
        self._order_unknown: tuple[Call, Tensor] | None = None  # see `await_order`

    def place(self, tensors: tuple[Tensor, ...]) -> CallPlace | None:
        """Find the place of the current call in the model; None if the call cannot be captured. Raise AttnvizError for
        an edited call in `torch.utils.checkpoint`: the backward pass would run it without edits."""
        place = self._places.now()
        if place is None:
            return None
        if reason := why_not_captured(tensors):
            self.captured.notes.append(f"{self.name(place)} computes attention {reason}, which is not captured")
            return None
        if self.edits != type(self.edits)():
            files = {frame.f_code.co_filename for frame, _ in walk_stack(None)}
            if torch.utils.checkpoint.__file__ in files:
                problem = "is checkpointed, so the backward pass runs it again without the edits"
                raise AttnvizError(f"{self.name(place)} {problem}. Switch checkpointing off to edit it.")
        return place

    def name(self, place: CallPlace) -> str:
        """Name the module of a call; the model itself has the name of its class."""
        return place.name or self.captured.name

    def num_heads(self) -> set[int]:
        """Find the possible head counts of the running module: the user's `heads`, else counts in its attributes."""
        if self.heads is not None:
            return {self.heads}
        place = self._places.now()
        return set() if place is None else place.module_heads

    def lead(self, place: CallPlace, axes: tuple[int, ...]) -> Lead:
        """Determine which of the axes before (n, d) of a call hold sentences and heads; raise ShapeError if unclear."""
        return Lead.of(axes, self.heads, place.module_heads, place.batches)

    def begin_softmax(self, softmax: Any) -> None:
        """Remember a softmax until its weights are multiplied by values, and at most 7 older ones, to limit memory."""
        recent = [other for other in self.softmaxes if not other.is_met][-7:]
        for other in self.softmaxes:
            if other not in recent:
                other.forget()
        self.softmaxes = [*recent, softmax]
        self.captured.softmaxes.append(softmax)

    def find_softmax(self, tensor: Tensor) -> tuple[Any, tuple[int, ...]] | None:
        """Find the softmax whose weights a tensor holds, and its axis order; weights without values are tried first."""
        if not self.softmaxes or bool(tensor.detach().amin() < 0):
            return None
        candidates = sorted(self.softmaxes, key=lambda softmax: softmax.is_met)
        for is_exact in (True, False):
            for softmax in candidates:
                order = softmax.find(tensor, is_exact)
                if order is not None:
                    return softmax, order
        return None

    def await_order(self, call: Call | None, output: Tensor) -> None:
        """Remember an output whose first axis joins sentences and heads, (B·H, Q, d_v), for `check_order`."""
        self._order_unknown = None
        if output.dim() == 3 and call is not None and min(call.shape[:2]) > 1 and len(output) == prod(call.shape[:2]):
            self._order_unknown = call, output.detach().clone()

    def check_order(self, result: Any) -> None:
        """Refuse the call of `await_order` if `result` shows that its first axis has heads before sentences. A result
        that concatenates the heads of each token shows the order: head 1 of sentence 0 is at index 1 of the first axis
        if sentences come first, and at index B if heads come first."""
        call, output = self._order_unknown
        batch, heads, width = *call.shape[:2], output.shape[-1]
        if not isinstance(result, Tensor) or result.shape[-1:] != (heads * width,) or result.numel() != output.numel():
            return
        second_head = result.detach().reshape(-1, heads * width)[0, width : 2 * width]
        sentences_first = torch.allclose(second_head, output[1, 0], 1e-3, 1e-5)
        heads_first = torch.allclose(second_head, output[batch, 0], 1e-3, 1e-5)
        if heads_first and not sentences_first:
            name = call.name or "the model"
            call.refused = f"{name} joins heads before sentences in one axis: run it on one sentence at a time"
        if sentences_first or heads_first:
            self._order_unknown = None

    def call(self, place: CallPlace, is_causal: bool, **fields: Any) -> Call:
        """Create the `Call` with these `fields` (tensors and scoring); `is_causal`: whether its mask is causal."""
        heads, queries, keys = *fields["query"].shape[1:3], fields["key"].shape[2]
        if self._is_in_loop(place, fields):
            self._sites.begin()
        has_one_query = "weights_only" in fields and queries == 1 < keys  # of a recurrent decoder, or learned
        call_kind = "cross" if has_one_query else kind(place, queries, keys, is_causal)
        site, name, head, passed = self._sites.site(place, call_kind, heads)
        call = _with_windows(Call(site, name, passed, **fields, head=head, line=place.line), place)
        if passed and site.kind == "decoder":
            call.offset = max(0, used_keys(call) - call.shape[2])
        edits = self.edits_of(call)
        is_edited = touches_weights(edits, site) or bool(edits.off(site) or any(edits.off_alone(site)))
        return replace(call, is_edited=is_edited)

    def _is_in_loop(self, place: CallPlace, fields: dict[str, Any]) -> bool:
        """Whether a call continues an earlier call of the same forward pass: the model generates in its own loop."""
        before = self._latest.get(self._sites.first(place))
        is_same_method = self._last is not None and self._last[0].frame is place.frame
        if before is None or is_same_method:
            return False
        after = replace(before, **fields)
        is_recurrent_step = before.weights_only and after.shape[2] == 1
        return (before.site.kind != "cross" or is_recurrent_step) and keys_in_cache(before, after) is not None

    def edits_of(self, call: Call) -> Edits:
        """Adapt the edits to one call: shift the mask by the cached keys; for a call of one head, keep edits of it."""
        edits, site = call.in_windows(self.edits), call.site
        if call.offset and edits.mask is not None:
            edits = replace(edits, mask=edits.mask.shifted(call.offset))
        if call.head is None:
            return edits
        heads_off = frozenset({(site, 0)} if call.head in edits.off(site) else ())
        each_off = tuple(frozenset({(site, 0)} if call.head in heads else ()) for heads in edits.off_alone(site))
        return replace(edits, heads_off=heads_off, **({"each_off": each_off} if each_off else {}))

    def keep(self, call: Call, place: CallPlace) -> Call:
        """Keep a copy of a call, safe from later in-place operations of the model."""
        values = {field.name: getattr(call, field.name) for field in fields(Call)}
        copies = {name: value.detach().clone() for name, value in values.items() if isinstance(value, Tensor)}
        bias = tuple(tensor.detach().clone() for tensor in call.scoring.bias)
        copy = replace(call, **copies, scoring=replace(call.scoring, bias=bias))
        self._refuse_parts(copy, place)
        self._last, self._latest[copy.site] = (place, copy), copy
        self.captured.calls.append(copy)
        return copy

    def _refuse_parts(self, call: Call, place: CallPlace) -> None:
        """Refuse a call that attends to only a part of the input of its module: windows that are on the axis of heads,
        or one of several calls that a method makes for pieces of the input."""
        (batch, heads, queries, _), name = call.shape, call.name or "the model"
        if heads not in {1, *self.num_heads()}:  # the axis of heads may hold windows
            for sentences, length in text_shapes(place.frame):
                if queries < length and length % queries == 0 and batch * heads * queries == sentences * length:
                    problem = f"attends within windows of {queries} of its {length} positions, not over all"
                    call.refused = f"{name} {problem}"
        last_place, last_call = self._last or (place, None)
        if last_call is None or last_call.passed != call.passed or call.weights_only:
            return
        frames = [(place.frame, last_place.frame)]
        if place.above and last_place.above and place.module is last_place.module:
            frames.append((place.above[1], last_place.above[1]))
        common = [frame for frame, last_frame in frames if frame is last_frame]  # of a method that makes both calls
        shapes = text_shapes(common[0]) if common else ()
        if shapes and not any(queries in sizes and batch * queries >= prod(sizes) for sizes in shapes):
            for piece in (call, last_call):
                piece.refused = f"{piece.name or 'the model'} computes attention in pieces, not as one map"

    def edited_output(self, call: Call, original: Tensor, dropout_p: float) -> Tensor:
        """Compute the output of a call with the edits, (B, H, Q, d_v), from the `original` output of the model. If the
        edits only switch heads off, the outputs of all other heads stay bitwise the same."""
        site, edits = call.site, self.edits_of(call)
        if not touches_weights(edits, site):
            return silence(original, edits.off(site), edits.off_alone(site))
        with torch.autocast(call.query.device.type, enabled=False), torch.device(call.query.device):
            tap = Tap(edits, keep=False)
            return tap.attend(**call.attend_arguments(), value=call.value, site=site, dropout_p=dropout_p)

    def edited_weights(self, call: Call, original: Tensor, scores: Tensor | None) -> Tensor:
        """Compute the weights of a call with the edits, (B, H, Q, K); `original` are the weights of the model. They are
        computed from `scores`, the scores of the model, if given, or from queries and keys if the edits need these.
        Raise AttnvizError if the edits need queries and keys, but only the weights are known."""
        site, edits = call.site, self.edits_of(call)
        if not touches_weights(edits, site):
            return silence(original, edits.off(site), edits.off_alone(site))
        scoring = edits.at(site, Scoring())
        needs_products = scoring.scale is not None or scoring.softcap is not None or not edits.own_mask
        if call.weights_only and needs_products:
            problem = "only the weights are known, so scale, softcap and the built-in mask cannot be changed"
            raise AttnvizError(f"At {site} ({call.name or 'the model'}) {problem}.")
        with torch.autocast(original.device.type, enabled=False), torch.device(original.device):
            computed = call.attend_arguments()
            if scores is not None and not needs_products:
                computed = score_fields(scores, call.mask, call.scoring.empty_rows)
            return Tap(edits, keep=False).weights(**computed, site=site)


def touches_weights(edits: Edits, site: Site) -> bool:
    """Whether edits change the weights at a site."""
    return edits.at(site, Scoring()) != Scoring() or edits.mask_at(site.kind) is not None or not edits.own_mask


def _with_windows(call: Call, place: CallPlace) -> Call:
    """Add windows to a call with window attention, and split its bias into mask and bias; other calls stay as is."""
    batch, _, queries, keys = call.shape
    grid = _window_grid(place.frame) if queries == keys and not call.weights_only else None
    if grid is None or grid.size**2 != queries or batch % grid.count or not isinstance(call.mask, Tensor | None):
        return call
    masks = grid.split_mask(call.mask, sum(call.scoring.bias) if call.scoring.bias else None, batch)
    if masks is None:
        return call
    mask, bias = masks
    scoring = replace(call.scoring, bias=(bias,) if bool(bias.any()) else ())
    return replace(call, windows=grid, mask=None if bool(mask.all()) else mask, scoring=scoring)


def _window_grid(frame: FrameType) -> WindowGrid | None:
    """Read the windows of the running block: rows and columns of patches, size and shift; None if it has no windows."""
    for outer_frame, _ in walk_stack(frame):
        block, sides = outer_frame.f_locals.get("self"), outer_frame.f_locals.get("input_dimensions") or ()
        numbers = [*sides, getattr(block, "window_size", None), getattr(block, "shift_size", None)]
        if len(numbers) == 4 and all(type(number) is int for number in numbers):
            return WindowGrid(*numbers)
    return None
