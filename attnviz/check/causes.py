"""Cause of a difference between two runs, read from their attention calls: masks, positions, caches and windows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnviz.capturing import Capture
from attnviz.core.amounts import counted
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError
from attnviz.core.leaks import distance

PADDING = -1
"""Number of the text in a slot of padding."""
LAYERS = 10
"""Factor of the bound of outputs within which numbers of a layer are the same."""


@dataclass(frozen=True, eq=False)
class Ran:
    """Outputs and attention of one way to run texts, over all its calls of the model.

    Attributes:
        text: (B, S): the text that each slot of a row holds, or `PADDING`.
        place: (B, S): the position of its token in that text.
        output: (B, S, d).
        passes: for each call of the model, its first slot and its attention.
    """

    text: Tensor
    place: Tensor
    output: Tensor
    passes: tuple[tuple[int, Capture], ...]

    def rows(self, text: int) -> Iterator[tuple[int, Tensor]]:
        """Rows that hold a text, each with the slots of its tokens in their order."""
        for row in (self.text == text).any(1).nonzero().flatten().tolist():
            slots = (self.text[row] == text).nonzero().flatten()
            yield row, slots[self.place[row, slots].argsort()]

    def order(self, row: int, text: int) -> int:
        """Number of a text in a row, counted from 1."""
        return list(dict.fromkeys(self.text[row].tolist())).index(text) + 1


@dataclass(frozen=True)
class Cause:
    """A name of `ways.CAUSES`, the layer, a sentence without its subject, and a remedy."""

    name: str
    layer: int | None
    message: str
    fix: str = ""


@dataclass(frozen=True, eq=False)
class JoinedCall:
    """One attention call over all slots of a row, joined from all calls of the model.

    Attributes:
        may_attend, weights: (H, S, S), closed where no call has the cell.
        vectors: query, key and value of each slot, (S, numbers), where they are known.
        keys: for each call of the model, its first slot, the end of its slots, the first slot of its keys, the number
            of its keys, and whether it sees keys behind its last token, as of a buffer that is not full.
    """

    site: Site
    name: str
    may_attend: Tensor
    weights: Tensor
    vectors: dict[str, Tensor] = field(default_factory=dict)
    keys: list[tuple[int, int, int, int, bool]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.site} ({self.name})" if self.name else str(self.site)


def layers(ran: Ran, row: int) -> dict[Site, JoinedCall]:
    """The self-attention of one row; raises an AttnvizError if there is none, or of other positions."""
    size, joined = ran.text.shape[1], {}
    steps = [(start, step) for start, captured in ran.passes for step in captured.steps if step.site.kind != "cross"]
    for start, step in steps:
        heads, end, count = range(step.num_heads), start + step.shape[2], step.shape[3] - step.has_sink
        if end > size:
            raise AttnvizError(f"{step.site} has {counted(step.shape[2], 'query')} for {counted(size, 'token')}.")
        empty = torch.zeros(len(heads), size, size)
        call = joined.setdefault(step.site, JoinedCall(step.site, step.name, empty.bool(), empty))
        first = _first_key(call.vectors.get("key"), step.key[row], end, count)
        keys = slice(first, min(first + count, end))
        for whole, part in ((call.may_attend, step.may_attend), (call.weights, step.weights)):
            cells = torch.stack([part(head, sentence=row) for head in heads])
            whole[:, start:end, keys] = cells[..., : keys.stop - first].to(whole)
        for name in ("value",) if step.weights_only else ("query", "key", "value"):
            slots, own = slice(start, end) if name == "query" else keys, getattr(step, name)[row]
            flat = own.transpose(0, 1).flatten(1)[: slots.stop - slots.start]
            call.vectors.setdefault(name, torch.full((size, flat.shape[1]), torch.nan, dtype=flat.dtype))[slots] = flat
        beyond = any(bool(step.may_attend(head, sentence=row)[:, end:count].any()) for head in heads)
        call.keys.append((start, end, first, count, beyond))
    return joined


def _first_key(before: Tensor | None, key: Tensor, end: int, count: int) -> int:
    """The slot of the first key of a call: 0 if it has all keys, or those of a cache that is cut at its end; else the
    slots before its keys are the ones that a cache lost."""
    lost = end - count
    if lost <= 0 or before is None:
        return max(lost, 0)
    compared = ~before[:count].isnan().any(-1)
    is_cut = bool(compared.any()) and torch.equal(before[:count][compared], key.transpose(0, 1).flatten(1)[compared])
    return 0 if is_cut else lost


def cause(
    ran: Ran, row: int, slots: Tensor, reference: Ran, alone: Callable[[list[int]], Ran], ids: list[int], bound: float
) -> Cause:
    """Why the outputs of a text, in a row of a run, are not those of the text alone: by the first layer that differs.

    Args:
        slots: (n,), of the tokens of the text.
        alone: function that runs a text by itself.
        ids: of the text.
    """
    bound *= LAYERS
    try:
        here, there = layers(ran, row), layers(reference, 0)
    except AttnvizError as error:
        return Cause("other", None, f"gives other outputs, and its attention could not be read: {error}")
    for layer in here.values() if not bool(ran.output[row, slots].isfinite().all()) else ():
        if bool((empty := ~layer.may_attend.any(-1).all(0)).any()):
            what = f"gives NaN: query {first_of(empty)} of the row has no key left (first at {layer}), and NaN times a "
            fix = "Leave each row a key, also of padding, or set its output to 0."
            return Cause("mask", layer.site.layer, f"{what}weight of 0 is NaN", fix)
    for number, (site, expected) in enumerate(there.items()):
        if site not in here or here[site].weights.shape[0] != expected.weights.shape[0]:
            continue
        layer = here[site]
        if (of_masks := _mask_cause(ran, row, slots, layer, expected)) is not None:
            return of_masks
        moved = _moved(layer, expected, slots, bound)
        if not bool((changed := moved["weights"] | moved["value"]).any()):
            continue
        if not number and (positions := _position_cause(layer, moved, slots, ids, alone, bound, ran.text.shape[1])):
            return positions
        if not any(bool(moved[name].any()) for name in ("query", "key", "value") if name in moved):
            what = (
                f"has the same queries, keys and mask at {layer}, and other weights, first at token {first_of(changed)}"
            )
            fix = "Compare how this way makes scores with a text alone: its scale, softcap and bias by distance."
            return Cause("scores", site.layer, what, fix)
        what = f"has the same masks up to {layer}, whose input or scores differ first at token {first_of(changed)}"
        where = "between the attention calls before it" if number else "before it, such as its embedding"
        return Cause(
            "other", site.layer, what, f"Look for the difference {where}: a state, a position, a mean of texts."
        )
    what = "gives other outputs, and its attention is the same in every layer that could be read"
    return Cause("other", None, what, "Look for the difference behind the last attention call.")


def _mask_cause(ran: Ran, row: int, slots: Tensor, layer: JoinedCall, expected: JoinedCall) -> Cause | None:
    """The difference of the masks of one layer; None if they are the same."""
    number, is_open, wanted = layer.site.layer, layer.may_attend[:, slots].any(0), expected.may_attend.any(0)
    other = torch.ones(is_open.shape[1], dtype=torch.bool).index_fill(0, slots, False)
    if bool((outside := is_open & other).any()):
        return _outside_cause(ran, row, slots, layer, outside)
    for start, end, _, count, beyond in layer.keys:
        if beyond and not any(part[4] for part in expected.keys):
            what = f"sees slots of its cache that are not filled (first at {layer}, query {start}: "
            what += f"{counted(count, 'key')} after {counted(end, 'token')})"
            return Cause("cache", number, what, "Block the keys from the number of tokens read so far on.")
    inside = is_open[:, slots]
    if torch.equal(inside, wanted):
        return None
    if len(ran.passes) > 1 and bool(wanted.triu(1).any()):
        what = f"sees later tokens when it is run alone (first at {layer}), which no cache can hold"
        return Cause("mask", number, what, "Make the mask causal: query i sees the keys 0 to i.")
    if window := _window_cause(layer, inside, wanted):
        return window
    for name, mask, what, fix in _mistakes_with_a_cache(layer, slots, wanted) if len(ran.passes) > 1 else ():
        if torch.equal(inside, mask):
            return Cause(name, number, what, fix)
    query, key = (inside ^ wanted).nonzero()[0].tolist()
    verb, cells = "sees" if inside[query, key] else "does not see", counted(int((inside ^ wanted).sum()), "cell")
    what = f"has another mask than the text alone ({cells} differ; first at {layer}: query {query} {verb} key {key})"
    return Cause("mask", number, what, "Make the mask by the same rule as that of a text alone.")


def _outside_cause(ran: Ran, row: int, slots: Tensor, layer: JoinedCall, outside: Tensor) -> Cause:
    """The cause of cells (n, S) that are open to padding or to another text."""
    query, key = outside.nonzero()[0].tolist()
    other, whole = int(ran.text[row, key]), layer.may_attend.any(0)
    cells = counted(int((outside & (ran.text[row] == other)).sum()), "cell")
    where = f"({cells}; first at {layer}, query {int(slots[query])}, key {key} of the row)"
    if other == PADDING:
        fix = "Block the keys of padding in every layer: mask & (ids != pad)[:, None, None, :]."
        return Cause("mask", layer.site.layer, f"sees padding {where}", fix)
    what, later = f"sees document {ran.order(row, other)} {where}", ""
    if not bool(whole.triu(1).any()):
        later = ", and no later key"
        what += ": its mask is causal over the whole row" if torch.equal(whole, torch.ones_like(whole).tril()) else ""
    fix = f"Pass a mask that keeps documents apart: query and key of one document{later}."
    return Cause("mask", layer.site.layer, what, fix)


def _mistakes_with_a_cache(layer: JoinedCall, slots: Tensor, wanted: Tensor) -> Iterator[tuple[str, Tensor, str, str]]:
    """Causes of a wrong mask in calls with a cache: the name, the mask that each makes, a sentence and a remedy."""
    size = layer.may_attend.shape[1]
    new, old, corner, lost = (torch.zeros(size, size, dtype=torch.bool) for _ in range(4))
    later = [part for part in layer.keys if part[0]]
    for start, end, first, *_ in later:
        new[start:end, start:end], old[start:end, :start], lost[start:end, :first] = True, True, True
        corner[start:end, first:end] = torch.ones(end - start, end - first, dtype=torch.bool).tril()
    new, old, corner, lost = (cells[slots][:, slots] for cells in (new, old, corner, lost))
    start, end, _, count, _ = later[0]
    place, keys = f"first at {layer}, query {start}", counted(count, "key")
    what = f"does not see its new tokens behind the cache ({place}, key {start}): its mask ends with the "
    what += f"{counted(start, 'key')} of the cache"
    yield "cache", wanted & ~new, what, "Make the mask as long as the cache and the new tokens together."
    what = f"has lost keys of the cache (first at {layer}: {keys} after {counted(end, 'token')})"
    yield "cache", wanted & ~lost, what, "Keep the keys and values of all calls before, and append the new ones."
    what = f"sees the first keys of the cache in place of the last ({place}): its mask of "
    what += f"{counted(end - start, 'query')} and {keys} begins in the upper left corner"
    fix = "Align it lower right: query i of Q sees keys 0 to K - Q + i. is_causal=True begins at the upper left."
    yield "cache", torch.where(old.any(1, keepdim=True), corner, wanted), what, fix
    what = f"does not see the tokens of earlier calls ({place}, key {start - 1}): its mask hides what lies before the "
    yield "mask", wanted & ~old, f"{what}boundary", "Leave the keys of the cache open to each new token."


def _window_cause(layer: JoinedCall, inside: Tensor, wanted: Tensor) -> Cause | None:
    """The cause of masks that are windows of other widths, in the rows that differ."""
    rows, size = (inside ^ wanted).any(1), len(wanted)
    back = torch.arange(size)[:, None] - torch.arange(size)
    widths = [int(cells.sum(1).max()) for cells in (inside[rows], wanted)]
    here, there = ((back >= 0) & (back < width) for width in widths)
    if widths[0] < 2 or not torch.equal(inside[rows], here[rows]) or not torch.equal(wanted, there):
        return None
    is_dropped = bool((inside[rows].sum(1) == rows.nonzero().flatten() + 1).all())
    names = [f"a window of {counted(width, 'token')}" for width in widths]
    here, there = "no window" if is_dropped else names[0], "no window" if widths[1] == size else names[1]
    what = f"has {here} where the text alone has {there} (first at {layer}, query {first_of(rows)})"
    return Cause("window", layer.site.layer, what, "Use one window in both: query i sees the keys i - window + 1 to i.")


def first_of(places: Tensor) -> int:
    """The first place that is true."""
    return int(places.nonzero()[0])


def _moved(layer: JoinedCall, expected: JoinedCall, slots: Tensor, bound: float) -> dict[str, Tensor]:
    """Tokens of a text that differ in the weights, the query, the key and the value of a layer, (n,) each."""
    weights = layer.weights[:, slots][:, :, slots]
    moved = {"weights": ((weights - expected.weights).abs() > bound).any(-1).any(0)}
    for name in layer.vectors.keys() & expected.vectors.keys():
        moved[name] = distance(expected.vectors[name], layer.vectors[name][slots]) > bound
    return moved


def _position_cause(
    layer: JoinedCall,
    moved: dict[str, Tensor],
    slots: Tensor,
    ids: list[int],
    alone: Callable[[list[int]], Ran],
    bound: float,
    size: int,
) -> Cause | None:
    """The position at which the first layer takes a token to stand, if that is not its own.

    A query and a key of the first layer depend on the token and its position alone: a text of that token, over and
    over, has them for every position; it is longer than the row if the model reads as many tokens.
    """
    number, changed = layer.site.layer, [name for name in ("query", "key") if name in moved and bool(moved[name].any())]
    place, probe = min((first_of(moved[name]) for name in changed), default=0), None
    for length in (size + 1, len(slots)) if changed else ():
        try:
            probe = probe or layers(alone([ids[place]] * length), 0).get(layer.site)
        except AttnvizError:  # longer than the model reads
            continue
    for name in (name for name in changed if probe and moved[name][place]):
        vector = layer.vectors[name][slots[place]].expand_as(probe.vectors[name])
        near = (distance(probe.vectors[name], vector) <= bound).nonzero().flatten().tolist()
        if near and place not in near:
            what = f"takes token {place} to stand at position {near[0]} (first at {layer}, its {name})"
            return Cause("positions", number, what)
    return None
