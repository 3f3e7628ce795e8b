"""Cause of a difference between two runs, read from their attention calls: masks, positions, caches and windows."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.core.amounts import counted
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError
from attnviz.core.leaks import distance
from attnviz.same.ways import PADDING, Ran, Runner, alone

LAYERS = 10
"""Factor of the bound of outputs within which numbers of a layer are the same."""


@dataclass(frozen=True)
class Cause:
    """A name of `results.CAUSES`, the layer, a sentence without its subject, and a remedy."""

    name: str
    layer: int | None
    message: str
    fix: str


@dataclass(frozen=True, eq=False)
class JoinedCall:
    """One attention call over all slots of a row, joined from all calls of the model.

    Attributes:
        may_attend: (H, S, S), closed where no call has the cell.
        weights: (H, S, S).
        vectors: query, key and value of each slot, (S, numbers); query and key are None where only weights are known.
        keys: for each call of the model, its first slot, the end of its slots, the first slot of its keys, how many
            keys it has, and whether it sees keys behind its last token, as of a buffer that is not full.
        is_biased: whether a number is added to its scores.
    """

    site: Site
    name: str
    may_attend: Tensor
    weights: Tensor
    vectors: dict[str, Tensor]
    keys: tuple[tuple[int, int, int, int, bool], ...]
    is_biased: bool

    def __str__(self) -> str:
        return f"{self.site} ({self.name})" if self.name else str(self.site)


def layers(ran: Ran, row: int) -> dict[Site, JoinedCall]:
    """The self-attention of one row.

    Raises:
        AttnvizError: if no attention was seen, or it has other positions than the tokens.
    """
    size, parts = ran.text.shape[1], {}
    for start, captured in ran.passes:
        for step in captured.steps:
            if step.site.kind != "cross":
                parts.setdefault(step.site, []).append((start, step))
    joined = {}
    for site, steps in parts.items():
        heads = steps[0][1].num_heads
        is_open, weights = torch.zeros(heads, size, size, dtype=torch.bool), torch.zeros(heads, size, size)
        vectors: dict[str, Tensor] = {}
        keys = []
        for start, step in steps:
            end, count = start + step.shape[2], step.shape[3] - step.has_sink
            if end > size:
                raise AttnvizError(f"{step.site} has {counted(step.shape[2], 'query')} for {counted(size, 'token')}.")
            first = _first_key(vectors.get("key"), step.key[row], end, count)
            width = min(count, end - first)
            for head in range(heads):
                for whole, part in ((is_open, step.may_attend), (weights, step.weights)):
                    whole[head, start:end, first : first + width] = part(head, sentence=row)[:, :width]
            for name, own in (("query", step.query), ("key", step.key), ("value", step.value)):
                if step.weights_only and name != "value":
                    continue
                slots = slice(start, end) if name == "query" else slice(first, first + width)
                flat = own[row].transpose(0, 1).flatten(1)[: slots.stop - slots.start]
                vectors.setdefault(name, torch.full((size, flat.shape[1]), torch.nan, dtype=flat.dtype))[slots] = flat
            beyond = any(bool(step.may_attend(head, sentence=row)[:, end:count].any()) for head in range(heads))
            keys.append((start, end, first, count, beyond))
        is_biased = any(step.scoring.bias for _, step in steps)
        joined[site] = JoinedCall(site, steps[0][1].name, is_open, weights, vectors, tuple(keys), is_biased)
    return joined


def _first_key(before: Tensor | None, key: Tensor, end: int, count: int) -> int:
    """The slot of the first key of a call: 0 if it has all keys, or those of a cache that is cut at its end; else the
    slots before its keys are the ones that a cache lost."""
    lost = end - count
    if lost <= 0 or before is None:
        return max(lost, 0)
    first = key[:, 0].flatten()
    return 0 if torch.equal(before[0], first) and not torch.equal(before[lost], first) else lost


def cause(ran: Ran, row: int, slots: Tensor, reference: Ran, ids: Sequence[int], runner: Runner, bound: float) -> Cause:
    """Why the outputs of a text, in a row of a run, are not those of the text alone: by the first layer that differs.

    Args:
        slots: (n,), of the tokens of the text.
        ids: of the text.
    """
    bound *= LAYERS
    try:
        here, there = layers(ran, row), layers(reference, 0)
    except AttnvizError as error:
        return Cause("other", None, f"gives other outputs, and its attention could not be read: {error}", "")
    if not bool(ran.output[row, slots].isfinite().all()):
        for layer in here.values():
            if bool((empty := ~layer.may_attend.any(-1).all(0)).any()):
                what = (
                    f"gives NaN: query {_first(empty)} of the row has no key left (first at {layer}), and NaN times a "
                )
                what += "weight of 0 is NaN"
                fix = "Leave each row a key, also of padding, or set its output to 0."
                return Cause("mask", layer.site.layer, what, fix)
    for number, (site, expected) in enumerate(there.items()):
        if site not in here or here[site].weights.shape[0] != expected.weights.shape[0]:
            continue
        layer = here[site]
        if (of_masks := mask_cause(ran, row, slots, layer, expected)) is not None:
            return of_masks
        moved = _moved(layer, expected, slots, bound)
        if bool((changed := moved["weights"] | moved["value"]).any()):
            size = ran.text.shape[1] + 1
            positions = None if number else position_cause(layer, moved, slots, ids, runner, bound, size)
            what = f"has the same masks up to {layer}, whose input or scores differ first at token {_first(changed)}"
            where = "between the attention calls before it" if number else "before it, such as its embedding"
            fix = f"Look for the difference {where}: a state, a position, or a mean of texts."
            return positions or Cause("other", site.layer, what, fix)
    what = "gives other outputs, and its attention is the same in every layer that could be read"
    return Cause("other", None, what, "Look for the difference behind the last attention call.")


def mask_cause(ran: Ran, row: int, slots: Tensor, layer: JoinedCall, expected: JoinedCall) -> Cause | None:
    """The difference of the masks of one layer; None if they are the same."""
    is_open, wanted = layer.may_attend[:, slots].any(0), expected.may_attend.any(0)
    other = torch.ones(is_open.shape[1], dtype=torch.bool).index_fill(0, slots, False)
    if bool((outside := is_open & other).any()):
        return _outside_cause(ran, row, slots, layer, outside)
    for start, end, _, count, beyond in layer.keys:
        if beyond and not any(part[4] for part in expected.keys):
            what = f"sees slots of its cache that are not filled (first at {layer}, query {start}: "
            what += f"{counted(count, 'key')} after {counted(end, 'token')})"
            return Cause("cache", layer.site.layer, what, "Block the keys from the number of tokens read so far on.")
    inside = is_open[:, slots]
    if torch.equal(inside, wanted):
        return None
    known = _window_cause(layer, inside, wanted)
    known = known or (_cache_cause(layer, inside, wanted) if len(ran.passes) > 1 else None)
    if known is not None:
        return known
    query, key = (inside ^ wanted).nonzero()[0].tolist()
    verb = "sees" if inside[query, key] else "does not see"
    cells = counted(int((inside ^ wanted).sum()), "cell")
    what = f"has another mask than the text alone ({cells} differ; first at {layer}: query {query} {verb} key {key})"
    return Cause("mask", layer.site.layer, what, "Make the mask by the same rule as that of a text alone.")


def _outside_cause(ran: Ran, row: int, slots: Tensor, layer: JoinedCall, outside: Tensor) -> Cause:
    """The cause of cells (n, S) that are open to padding or to another text."""
    query, key = outside.nonzero()[0].tolist()
    other = int(ran.text[row, key])
    cells = int((outside & (ran.text[row] == other)).sum())
    where = f"({counted(cells, 'cell')}; first at {layer}, query {int(slots[query])}, key {key} of the row)"
    if other == PADDING:
        fix = "Block the keys of padding in every layer: mask & (ids != pad)[:, None, None, :]."
        return Cause("mask", layer.site.layer, f"sees padding {where}", fix)
    what = f"sees document {ran.order(row, other)} {where}"
    whole = layer.may_attend.any(0)
    if torch.equal(whole, torch.ones_like(whole).tril()):
        what += ": its mask is causal over the whole row"
    fix = "Pass a mask that keeps documents apart: query and key of one document, and no later key."
    return Cause("mask", layer.site.layer, what, fix)


def _cache_cause(layer: JoinedCall, inside: Tensor, wanted: Tensor) -> Cause | None:
    """The cause of another mask in the calls that have a cache."""
    later = [part for part in layer.keys if part[0]]
    missing, extra, number = wanted & ~inside, inside & ~wanted, layer.site.layer
    new, old, corner, lost = (torch.zeros_like(inside) for _ in range(4))
    for start, end, first, *_ in later:
        new[start:end, start:end], old[start:end, :start], lost[start:end, :first] = True, True, True
        corner[start:end, first:end] = torch.ones(end - start, end - first, dtype=torch.bool).tril()
    rows = old.any(1)
    if not rows.any() or bool((missing | extra)[~rows].any()):
        return None
    start, end, first, count, _ = later[0]
    if not extra.any() and torch.equal(missing, wanted & new):
        what = f"does not see its new tokens behind the cache (first at {layer}, query {start}, key {start}): its mask "
        what += f"ends with the {counted(start, 'key')} of the cache"
        return Cause("cache", number, what, "Make the mask as long as the cache and the new tokens together.")
    if lost.any() and not extra.any() and torch.equal(missing, wanted & lost):
        what = f"has lost keys of the cache (first at {layer}: {counted(count, 'key')} after {counted(end, 'token')})"
        return Cause("cache", number, what, "Keep the keys and values of all calls before, and append the new ones.")
    if torch.equal(inside[rows], corner[rows]):
        what = f"sees the first keys of the cache in place of the last (first at {layer}, query {start}): its mask of "
        what += f"{counted(end - start, 'query')} and {counted(count, 'key')} begins in the upper left corner"
        fix = "Align it lower right: query i of Q sees keys 0 to K - Q + i. is_causal=True begins at the upper left."
        return Cause("cache", number, what, fix)
    if not extra.any() and torch.equal(missing, wanted & old):
        what = f"does not see the tokens of earlier calls (first at {layer}, query {start}, key {start - 1}): its mask "
        what += "hides what lies before the boundary"
        return Cause("mask", number, what, "Leave the keys of the cache open to each new token.")
    return None


def _window_cause(layer: JoinedCall, inside: Tensor, wanted: Tensor) -> Cause | None:
    """The cause of masks that are windows of other widths, in the rows that differ."""
    rows, size = (inside ^ wanted).any(1), len(wanted)
    distance_back = torch.arange(size)[:, None] - torch.arange(size)
    widths = [int(cells.sum(1).max()) for cells in (inside[rows], wanted)]
    for cells, width, compared in ((inside, widths[0], rows), (wanted, widths[1], torch.ones_like(rows))):
        if not torch.equal(cells[compared], ((distance_back >= 0) & (distance_back < width))[compared]):
            return None
    if widths[0] < 2:  # each token sees itself alone
        return None
    query = _first(rows)
    is_dropped = bool((inside[rows].sum(1) == rows.nonzero().flatten() + 1).all())
    here = "no window" if is_dropped else f"a window of {counted(widths[0], 'token')}"
    there = "no window" if widths[1] == size else f"a window of {counted(widths[1], 'token')}"
    what = f"has {here} where the text alone has {there} (first at {layer}, query {query})"
    return Cause("window", layer.site.layer, what, "Use one window in both: query i sees the keys i - window + 1 to i.")


def _first(places: Tensor) -> int:
    """The first place that is true."""
    return int(places.nonzero()[0])


def _moved(layer: JoinedCall, expected: JoinedCall, slots: Tensor, bound: float) -> dict[str, Tensor]:
    """Which tokens of a text differ in the weights, the query, the key and the value of a layer, (n,) each."""
    weights = layer.weights[:, slots][:, :, slots]
    moved = {"weights": ((weights - expected.weights).abs() > bound).any(-1).any(0)}
    for name in ("query", "key", "value"):
        if name in layer.vectors and name in expected.vectors:
            moved[name] = distance(expected.vectors[name], layer.vectors[name][slots]) > bound
    return moved


def position_cause(
    layer: JoinedCall,
    moved: dict[str, Tensor],
    slots: Tensor,
    ids: Sequence[int],
    runner: Runner,
    bound: float,
    size: int,
) -> Cause | None:
    """The position at which the first layer takes a token to stand, if that is not its own.

    A query and a key of the first layer depend on the token and its position alone: a text of that token, over and
    over, has them for every position; it has `size` tokens if the model reads as many.
    """
    number, changed = layer.site.layer, [name for name in ("query", "key") if name in moved and bool(moved[name].any())]
    if not changed:
        if not layer.is_biased or "query" not in moved or bool(moved["value"].any()):
            return None
        what = f"has the same queries and keys at {layer}, and other scores by distance"
        what += f", first at token {_first(moved['weights'])}"
        return Cause("positions", number, what, "Compute the bias from the distance of the tokens of one text.")
    place, probe = min(_first(moved[name]) for name in changed), None
    for length in (size, len(slots)):
        try:
            probe = probe or layers(alone(runner, [ids[place]] * length), 0).get(layer.site)
        except AttnvizError:  # longer than the model reads
            continue
    for name in changed if probe else ():
        if moved[name][place]:
            vector = layer.vectors[name][slots[place]].expand_as(probe.vectors[name])
            near = (distance(probe.vectors[name], vector) <= bound).nonzero().flatten().tolist()
            if near and place not in near:
                what = f"takes token {place} to stand at position {near[0]} (first at {layer}, its {name})"
                return Cause("positions", number, what, "")
    return None
