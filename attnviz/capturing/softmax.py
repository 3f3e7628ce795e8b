"""The softmax, which makes weights of scores: the terms carried to it are checked against the scores themselves.

What a model adds may be carried as a term; what it masks is read off the scores. Together they must give the scores
back: else only the weights are known.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing.call import BLOCKED, Call
from attnviz.capturing.checking import Sample
from attnviz.capturing.layout import Loose, Scores, Softmax, TracedWeights
from attnviz.capturing.shapes import axis_of_heads, folded, folded_mask, split
from attnviz.capturing.watched import Watched
from attnviz.capturing.where import CallPlace, causal
from attnviz.core.scoring import HALVES, Scoring

SAMPLED = ("gumbel_softmax",)
"""Functions that add random numbers to their scores."""
SOFTMAXES = ("softmax", "_softmax", "special_softmax", *SAMPLED)
"""Names of the softmax."""
ROUNDING, ROUNDING_OF_HALVES = 256, 8
"""Times the resolution of a number type by which a model's scores and their recomputation may differ: many roundings
of long sums, or few of numbers that are rounded once each."""


@dataclass(frozen=True, eq=False)
class Solved:
    """Parts of scores besides products, shaped to broadcast to (*lead, Q, K), or (*lead, Q, 1) for the sink."""

    mask: Tensor | None
    bias: Tensor | None
    empty_rows: str
    sink: Tensor | None


def softmax(mode: Watched, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """The result of a softmax; with the edits, if it is one of scores."""
    weights = func(*args, **kwargs)
    scores = args[0] if args else next(iter(kwargs.values()))
    rest = [argument for argument in args[1:] if type(argument) is int]
    default = -1 if func.__name__ in SAMPLED else None
    dim = kwargs.get("dim", rest[0] if rest else default)
    return weights if dim is None or weights.dim() < 2 else weighed(mode, scores, weights, dim, func.__name__)


def weighed(mode: Watched, scores: Tensor, weights: Tensor, dim: int, name: str = "softmax") -> Tensor:
    """The weights that scores became along one axis; with the edits, if the scores are known."""
    place, layout, axis = mode.place((scores,)), mode.tracked.get(scores), dim % weights.dim()
    if place is None:
        return weights
    mode.captured.awaited.pop(place.name or mode.captured.name, None)
    facing = layout.facing(axis) if isinstance(layout, Scores) else None
    heads = mode.heads_of(place)
    facing = facing and facing.with_heads(heads)
    facing = facing and facing.with_last(axis_of_heads(facing.lead, heads))
    solved = facing and name not in SAMPLED and solve(facing, scores)
    if solved:
        return _weighed(mode, place, facing, solved, weights, scores.dtype)
    if facing:
        mode.tracked.put(weights, TracedWeights(lead=facing.lead, axes=facing.axes, has_sink=facing.has_sink))
        return weights
    lost = mode.origins.of(scores).lost
    of_product = bool(lost) or layout is not None
    if not of_product and any(size > 1 for size in weights.shape[axis + 1 :]):
        return weights  # of features, as in linear attention
    softmax = Softmax(place.name or mode.captured.name, tuple(weights.shape), lost, of_product)
    mode.captured.softmaxes.append(softmax)
    mode.tracked.put(weights, Loose(axis, softmax))
    return weights


def _weighed(
    mode: Watched, place: CallPlace, layout: Scores, solved: Solved, weights: Tensor, scores: torch.dtype
) -> Tensor:
    """Weights whose scores are known: the call is kept, and the edits act."""
    lead = layout.lead
    sizes = split(lead, mode.heads, place.said_heads, place.batches)
    q, k = (folded(side, lead, sizes) for side in (layout.query, layout.key))
    mask, bias, sinks = (
        tensor if tensor is None else folded_mask(tensor, lead, sizes)
        for tensor in (solved.mask, solved.bias, solved.sink)
    )
    if sinks is not None:
        sinks = sinks.expand(*sizes, *sinks.shape[-2:])
    cap = {} if layout.outer is None else {"softcap": layout.outer}
    scale = layout.scale * (layout.outer or 1.0)
    scoring = Scoring(scale=scale, bias=bias, empty_rows=solved.empty_rows, **cap)
    parts = {"query": q, "key": k, "value": None, "mask": mask, "scoring": scoring, "sinks": sinks}
    call = mode.call(place, "scores", causal(mask), layout.same, **parts)
    stored = mode.keep(call, place)
    stored.refuse_heads_first(layout.heads_first)
    if call.is_edited:
        weights = _edited(mode, call, layout, weights)
    own = layout.canonical(weights)
    stored.samples = (Sample.of(own.reshape(*sizes, *own.shape[-2:]), layout.dtype, scores),)
    mode.tracked.put(weights, TracedWeights(lead=lead, axes=layout.axes, call=stored, has_sink=layout.has_sink))
    return weights


def _edited(mode: Watched, call: Call, layout: Scores, weights: Tensor) -> Tensor:
    """The weights with the edits, in the axes and the type of the model's own."""
    own = layout.canonical(weights)
    changed = mode.edited_weights(call, own.reshape(*call.query.shape[:2], *own.shape[-2:]))
    return layout.back(changed.reshape(own.shape)).to(weights.dtype)


def solve(layout: Scores, scores: Tensor) -> Solved | None:
    """Mask, bias and sink that make scores of products; None if they are not all known."""
    bias = _sum(layout.terms)
    with torch.no_grad(), torch.autocast(scores.device.type, enabled=False):
        canonical, sink = layout.canonical(scores.detach()), None
        within = _within(layout.dtype, canonical.dtype)
        canonical, products = (
            tensor.float() if tensor.dtype in HALVES else tensor for tensor in (canonical, layout.products())
        )
        if layout.has_sink:
            canonical, sink = canonical[..., :-1], canonical[..., -1:]
        rest = canonical - products
        blocked = rest < BLOCKED
        is_masked = bool(blocked.any())
        if bias is not None:
            rest = rest - bias
        if is_masked:
            rest = rest.masked_fill_(blocked, 0)
        within *= 1 + float(products.abs().max()) + (0.0 if bias is None else _size(bias))
        shift = None if bool((rest.abs() <= within).all()) else _shift(rest, blocked, within)
        if shift is not None and not bool(((rest - shift).masked_fill(blocked, 0).abs() <= within).all()):
            return None
        empty_rows = _empty(blocked, canonical) if is_masked else "zero"
        if empty_rows is None:
            return None
        sink = sink if sink is None or shift is None else sink - shift
    if bias is not None:
        bias = bias.masked_fill(bias < BLOCKED, 0)
        bias = bias if bool(bias.any()) else None
    return Solved(_compact(~blocked) if is_masked else None, bias, empty_rows, sink)


def _within(*dtypes: torch.dtype) -> float:
    """How much scores of the size 1 may differ, of the coarsest of some types of numbers."""
    return max(torch.finfo(dtype).eps * (ROUNDING_OF_HALVES if dtype in HALVES else ROUNDING) for dtype in dtypes)


def _sum(terms: tuple[tuple[Tensor, float], ...]) -> Tensor | None:
    """The terms together; what is the same for all keys of a query is none, as the softmax does not see it."""
    total = None
    for term, factor in terms:
        if term.shape[-1] == 1:
            continue
        term = term.float() if term.dtype in HALVES or not term.is_floating_point() else term
        term = term if factor == 1 else term * factor
        total = term if total is None else total + term
    return total


def _size(bias: Tensor) -> float:
    """The largest number of a bias that masks nothing."""
    return float(bias.masked_fill(bias < BLOCKED, 0).abs().max())


def _shift(rest: Tensor, blocked: Tensor, within: float) -> Tensor:
    """Constant added to all open scores of a row, (*lead, Q, 1): the softmax does not see it."""
    highest = rest.masked_fill(blocked, -torch.inf).amax(-1, keepdim=True)
    return highest.where(highest > -torch.inf, 0.0)


def _empty(blocked: Tensor, scores: Tensor) -> str | None:
    """Policy of the model for rows without an open key; None if it has no name.

    Keys that are masked twice, by numbers whose sum is -inf, it leaves out; here they count as the others.
    """
    rows = blocked.all(-1)
    if not bool(rows.any()):
        return "zero"
    masked = scores[rows]
    if bool((masked == -torch.inf).all()):
        return "nan"
    same = (masked == masked.amax(-1, keepdim=True)) | (masked == -torch.inf)
    return "uniform" if bool(same.all()) else None


def _compact(mask: Tensor) -> Tensor:
    """A mask without the axes along which it is the same."""
    for axis in range(mask.dim() - 2):
        first = mask.narrow(axis, 0, 1)
        if mask.shape[axis] > 1 and bool((mask == first).all()):
            mask = first
    return mask
