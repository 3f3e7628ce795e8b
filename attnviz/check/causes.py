"""Cause of a difference between two runs, read from their attention calls: masks, positions, caches and windows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing import Capture
from attnviz.check.moves import RunResult
from attnviz.core.amounts import counted
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError
from attnviz.core.leaks import distance

PADDING = -1
"""Number of the text in a slot of padding."""
LAYERS = 10
"""Factor of the bound of outputs within which numbers of a layer are the same."""
SYMPTOMS = {
    "mask nan": "gives NaN: query {query} of the row has no key left (first at {layer}), and NaN times 0 is NaN",
    "mask padding": "sees padding ({cells}; first at {layer}, query {slot}, key {key} of the row)",
    "mask document": "sees document {other} ({cells}; first at {layer}, query {slot}, key {key} of the row){causal}",
    "mask later": "sees later tokens when it is run alone (first at {layer}), which no cache can hold",
    "mask boundary": "does not see the tokens of earlier calls (first at {layer}, query {start}, key {last})",
    "mask": "has another mask than the text alone ({cells} differ; first at {layer}: query {query} {verb} key {key})",
    "cache slots": "sees slots of its cache that are empty (first at {layer}, query {start}: {keys} after {tokens})",
    "cache keys": "has lost keys of the cache (first at {layer}: {keys} after {tokens})",
    "cache new": "does not see its new tokens behind the cache (first at {layer}, query {start}, key {start}): its "
    "mask ends with the {past} of the cache",
    "cache corner": "sees the first keys of the cache in place of the last (first at {layer}, query {start}): its mask "
    "of {queries} and {keys} begins in the upper left corner",
    "window": "has {here} where the text alone has {there} (first at {layer}, query {row})",
    "positions": "takes token {token} to stand at position {position} (first at {layer}, its {name})",
    "scores": "has the same queries, keys and mask at {layer}, and other weights, first at token {token}",
    "other": "has the same masks up to {layer}, whose input or scores differ first at token {token}",
    "other unread": "gives other outputs, and its attention could not be read: {error}",
    "other behind": "gives other outputs, and its attention is the same in every layer that could be read",
}
"""Sentences without their subject; the first word of a name is one of `ways.CAUSES`."""
REMEDIES = {
    "mask nan": "Leave each row a key, also of padding, or set its output to 0.",
    "mask padding": "Block the keys of padding in every layer: mask & (ids != pad)[:, None, None, :].",
    "mask document": "Pass a mask that keeps documents apart: query and key of one document.",
    "mask later": "Make the mask causal: query i sees the keys 0 to i.",
    "mask boundary": "Leave the keys of the cache open to each new token.",
    "mask": "Make the mask by the same rule as that of a text alone.",
    "cache slots": "Block the keys from the number of tokens read so far on.",
    "cache keys": "Keep the keys and values of all calls before, and append the new ones.",
    "cache new": "Make the mask as long as the cache and the new tokens together.",
    "cache corner": "Align it lower right: query i of Q sees keys 0 to K - Q + i, not as is_causal=True does.",
    "window": "Use one window in both: query i sees the keys i - window + 1 to i.",
    "positions": "Count positions from the first token of each text; without position_ids, pad on the right.",
    "scores": "Compare how this way makes scores with a text alone: its scale, softcap and bias by distance.",
    "other": "Look for the difference {before}: a state, a position, a mean of texts.",
    "other unread": "",
    "other behind": "Look for the difference behind the last attention call.",
}


@dataclass(frozen=True, eq=False)
class Ran:
    """Outputs and attention of one way to run texts, over all its calls of the model.

    Attributes:
        text: (B, S): the text that each slot of a row holds, or `PADDING`.
        output: (B, S, d).
        passes: for each call of the model, its first slot and its attention.
    """

    text: Tensor
    output: Tensor
    passes: tuple[tuple[int, Capture], ...]

    def rows(self, text: int) -> Iterator[tuple[int, Tensor]]:
        """Rows that hold a text, each with the slots of its tokens."""
        for row in (self.text == text).any(1).nonzero().flatten().tolist():
            yield row, (self.text[row] == text).nonzero().flatten()

    def order(self, row: int, text: int) -> int:
        """Place of a text among those of its row, counted from 1."""
        return list(dict.fromkeys(self.text[row].tolist())).index(text) + 1


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
    ran: Ran, row: int, slots: Tensor, reference: Ran, repeated: Callable[[int, int], Ran], bound: float
) -> RunResult:
    """Why the outputs of a text, in a row of a run, are not those of the text alone: by the first layer that differs.

    Args:
        slots: (n,), of the tokens of the text.
        repeated: function that runs a text of one of its tokens, over and over, in a length.
    """
    bound *= LAYERS
    try:
        here, there = layers(ran, row), layers(reference, 0)
    except AttnvizError as error:
        return _result("other unread", error=error)
    for call in here.values() if not bool(ran.output[row, slots].isfinite().all()) else ():
        if bool((empty := ~call.may_attend.any(-1).all(0)).any()):
            return _result("mask nan", call, query=_first(empty))
    for number, (site, expected) in enumerate(there.items()):
        call = here.get(site)
        if call is None or call.weights.shape[0] != expected.weights.shape[0]:
            continue
        if of_mask := next(_of_mask(ran, row, slots, call, expected), None):
            return of_mask
        weights = call.weights[:, slots][:, :, slots]
        moved = {"weights": ((weights - expected.weights).abs() > bound).any(-1).any(0)}
        for name in call.vectors.keys() & expected.vectors.keys():
            moved[name] = distance(expected.vectors[name], call.vectors[name][slots]) > bound
        if not bool((changed := moved["weights"] | moved["value"]).any()):
            continue
        if not any(bool(part.any()) for name, part in moved.items() if name != "weights"):
            return _result("scores", call, token=_first(changed))
        for name in ("query", "key") if not number else ():
            if name in moved and bool(moved[name].any()):
                token = _first(moved[name])
                position = _position(call, name, call.vectors[name][slots[token]], partial(repeated, token), bound)
                if position not in (None, token):
                    return _result("positions", call, token=token, position=position, name=name)
        before = "between the attention calls before it" if number else "before it, such as its embedding"
        return _result("other", call, token=_first(changed), before=before)
    return _result("other behind")


def _result(symptom: str, call: JoinedCall | None = None, **values: Any) -> RunResult:
    """The cause that a symptom shows, at an attention call."""
    message, fix = (table[symptom].format(layer=call, **values) for table in (SYMPTOMS, REMEDIES))
    return RunResult("", False, symptom.split()[0], call and call.site.layer, message=message, fix=fix)


def _of_mask(ran: Ran, row: int, slots: Tensor, call: JoinedCall, expected: JoinedCall) -> Iterator[RunResult]:
    """Causes of other masks at one call, the likeliest first; none if they are the same."""
    is_open, wanted, size = call.may_attend[:, slots].any(0), expected.may_attend.any(0), ran.text.shape[1]
    outside = is_open & torch.ones(size, dtype=torch.bool).index_fill(0, slots, False)
    for query, key in outside.nonzero().tolist()[:1]:
        other, whole = int(ran.text[row, key]), call.may_attend.any(0)
        causal = (
            ": its mask is causal over the whole row" if torch.equal(whole, whole.new_ones(size, size).tril()) else ""
        )
        cells = counted(int((outside & (ran.text[row] == other)).sum()), "cell")
        values = {"cells": cells, "slot": int(slots[query]), "key": key, "other": ran.order(row, other)}
        yield _result("mask padding" if other == PADDING else "mask document", call, causal=causal, **values)
    for start, end, _, count, beyond in call.keys:
        if beyond and not any(part[4] for part in expected.keys):
            yield _result("cache slots", call, start=start, keys=counted(count, "key"), tokens=counted(end, "token"))
    inside, is_cached = is_open[:, slots], len(ran.passes) > 1
    if not bool((differs := inside ^ wanted).any()):
        return
    if is_cached and bool(wanted.triu(1).any()):
        yield _result("mask later", call)
    rows = differs.any(1)
    widths = [int(cells.sum(1).max()) for cells in (inside[rows], wanted)]
    bands = [torch.ones_like(wanted).tril().triu(1 - width) for width in widths]
    if widths[0] > 1 and torch.equal(inside[rows], bands[0][rows]) and torch.equal(wanted, bands[1]):
        is_whole = (bool((inside[rows].sum(1) == rows.nonzero().flatten() + 1).all()), widths[1] == len(wanted))
        names = [f"a window of {counted(width, 'token')}" for width in widths]
        here, there = ("no window" if whole else name for whole, name in zip(is_whole, names, strict=True))
        yield _result("window", call, here=here, there=there, row=_first(rows))
    query, key = differs.nonzero()[0].tolist()
    for start, end, first, count, _ in call.keys if is_cached else ():
        if start and start <= slots[query] < end:
            values = {"start": start, "last": start - 1, "past": counted(start, "key"), "keys": counted(count, "key")}
            values["tokens"], values["queries"] = counted(end, "token"), counted(end - start, "query")
            corner = slots <= slots[query] - start
            symptom = "cache keys" if first else _of_cache(inside[query], wanted[query], slots >= start, corner)
            if symptom:
                yield _result(symptom, call, **values)
    values = {"verb": "sees" if inside[query, key] else "does not see", "cells": counted(int(differs.sum()), "cell")}
    yield _result("mask", call, query=query, key=key, **values)


def _of_cache(inside: Tensor, wanted: Tensor, new: Tensor, corner: Tensor) -> str:
    """Symptom of the first row that differs, (n,), in a call with a cache; "" if it has none.

    Args:
        new: tokens that the cache does not hold.
        corner: tokens up to the query where a mask begins in the upper left corner.
    """
    if torch.equal(inside, wanted & ~new):
        return "cache new"
    if torch.equal(inside, wanted & new):
        return "mask boundary"
    return "" if bool((inside & ~corner).any()) or not bool(inside[corner][-1:].all()) else "cache corner"


def _first(places: Tensor) -> int:
    """The first place that is true."""
    return int(places.nonzero()[0])


def _position(call: JoinedCall, name: str, vector: Tensor, repeated: Callable[[int], Ran], bound: float) -> int | None:
    """The position at which the first layer takes a token to stand, by its query or key; None if it has no such.

    Both depend on the token and its position alone: a text of that token, over and over, has them for every position;
    it is longer than the row if the model reads as many tokens.
    """
    size = call.may_attend.shape[1]
    for length in (size + 1, size):
        try:
            vectors = layers(repeated(length), 0)[call.site].vectors[name]
        except (AttnvizError, KeyError):  # longer than the model reads
            continue
        near = distance(vectors, vector.expand_as(vectors)) <= bound
        return _first(near) if bool(near.any()) else None
    return None
