"""Find why a text gives other outputs in one way to run it: the first attention call that differs, and how."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from attnviz.check.leaks import distance
from attnviz.check.ways_to_run import PADDING, TextRun
from attnviz.core.amounts import counted
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError

CAUSES = ("", "rounding", "mask", "positions", "cache", "window", "scores", "other", "not tried")
"""Causes of a `RunResult`: the first two mean equal outputs, the last means no outputs."""
SYMPTOMS = {
    "mask nan": "gives NaN: query {query} of the row has no key left (first at {layer}), and NaN times 0 is NaN",
    "mask padding": "sees padding ({cells}; first at {layer}, query {slot}, key {key} of the row)",
    "mask document": "sees document {other} ({cells}; first at {layer}, query {slot}, key {key} of the row){causal}",
    "mask": "has another mask than the text alone ({cells} differ; first at {layer}: query {query} {verb} key {key})",
    "cache slots": "sees slots of its cache that are empty (first at {layer}, query {start}: {keys} after {tokens})",
    "cache keys": "has lost keys of the cache (first at {layer}: {keys} after {tokens})",
    "cache new": "does not see its new tokens behind the cache (first at {layer}, query {start}, key {start}): its "
    "mask ends with the {past} of the cache",
    "cache corner": "sees the first keys of the cache in place of the last (first at {layer}, query {start}): its mask "
    "of {queries} and {keys} begins in the upper left corner",
    "window": "has {here} where the text alone has {there} (first at {layer}, query {query})",
    "positions": "treats token {token} as if it were at position {position} (first at {layer}, its {name})",
    "scores": "has the same queries, keys and mask at {layer}, and other weights, first at token {token}",
    "other": "has the same masks up to {layer}, whose input or scores differ first at token {token}",
    "other unread": "gives other outputs, and its attention could not be read: {error}",
    "other behind": "gives other outputs, and its attention is the same in every layer that could be read",
}
"""Message per symptom, without its subject; the first word of each name is one of `CAUSES`."""
REMEDIES = {
    "mask nan": "Leave each row a key, also rows of padding, or set its output to 0.",
    "mask padding": "Block the keys of padding in every layer: mask & (ids != pad)[:, None, None, :].",
    "mask document": "Pass a mask that keeps documents apart: query and key of one document.",
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


@dataclass(frozen=True)
class RunResult:
    """Comparison of a text run alone and in another way: with padding, beside other texts, or with a cache.

    Attributes:
        run: way to run the text: one of `attnviz.check.ways_to_run.RUNS`, or "padding" or "batch".
        cause: one of `CAUSES`; "" if no number differs at all.
        message: one or two sentences.
        fix: repair; "" if there is nothing to do.
        difference: largest change of an output, relative to its norm; 0 if the way was not tried.
        layer: layer of the first attention call that differs; None if no call differs, or none could be captured.
        position: position of the first token whose output differs, within its text, from 0.
        text: index of the first text that differs, from 0.
    """

    run: str
    cause: str
    message: str = ""
    fix: str = ""
    difference: float = 0.0
    layer: int | None = None
    position: int | None = None
    text: int | None = None

    @property
    def same(self) -> bool:
        """Whether all outputs are equal up to rounding; False if the way was not tried."""
        return self.cause in ("", "rounding")

    def to_json(self) -> dict[str, Any]:
        """Convert all fields for `json.dumps`; an infinite difference, from NaN, becomes None."""
        difference = self.difference if math.isfinite(self.difference) else None
        return asdict(self) | {"same": self.same, "difference": difference}


@dataclass(frozen=True, eq=False)
class JoinedCall:
    """One attention call over all slots of a row, joined from all forward passes.

    Attributes:
        may_attend, weights: mask and weights, (H, S, S); cells that no forward pass has are blocked.
        vectors: query, key and value of each slot, (S, numbers), if captured.
        keys: for each forward pass its first slot, the end of its slots, the first slot of its keys, the number of its
            keys, and whether it sees keys after its last token, such as empty slots of a buffer.
    """

    site: Site
    name: str
    may_attend: Tensor
    weights: Tensor
    vectors: dict[str, Tensor] = field(default_factory=dict)
    keys: list[tuple[int, int, int, int, bool]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.site} ({self.name})" if self.name else str(self.site)


def layers(ran: TextRun, row: int) -> dict[Site, JoinedCall]:
    """Join the self-attention of one row per site; raise AttnvizError if a forward pass reads more than the row has."""
    size, joined = ran.text.shape[1], {}
    steps = [(start, step) for start, captured in ran.passes for step in captured.steps if step.site.kind != "cross"]
    for start, step in steps:
        heads, end, count = range(step.num_heads), start + step.shape[2], step.shape[3] - step.has_sink
        if end > size:
            raise AttnvizError(f"{step.site} has {counted(step.shape[2], 'query')} for {counted(size, 'token')}.")
        empty = torch.zeros(len(heads), size, size)
        call = joined.setdefault(step.site, JoinedCall(step.site, step.name, empty.bool(), empty))
        first, old, new = max(0, end - count), call.vectors.get("key"), step.key[row].transpose(0, 1).flatten(1)
        if first and old is not None:  # fewer keys than slots: the cache lost its last keys if its first keys are equal
            filled = ~old[:count].isnan().any(-1)
            first = 0 if bool(filled.any()) and torch.equal(old[:count][filled], new[:count][filled]) else first
        keys = slice(first, min(first + count, end))
        for joined_cells, compute in ((call.may_attend, step.may_attend), (call.weights, step.weights)):
            cells = torch.stack([compute(head, sentence=row) for head in heads])
            joined_cells[:, start:end, keys] = cells[..., : keys.stop - first].to(joined_cells)
        for name in ("value",) if step.weights_only else ("query", "key", "value"):
            slots, vectors = slice(start, end) if name == "query" else keys, getattr(step, name)[row]
            flat = vectors.transpose(0, 1).flatten(1)[: slots.stop - slots.start]
            call.vectors.setdefault(name, torch.full((size, flat.shape[1]), torch.nan, dtype=flat.dtype))[slots] = flat
        sees_later = any(bool(step.may_attend(head, sentence=row)[:, end:count].any()) for head in heads)
        call.keys.append((start, end, first, count, sees_later))
    return joined


def cause(
    ran: TextRun, row: int, slots: Tensor, alone: TextRun, ids: Tensor, rerun: Callable[[Tensor], TextRun], bound: float
) -> RunResult:
    """Find why the outputs of a text in a row differ from the text alone, from the first layer that differs.

    Args:
        slots, ids: slots of the tokens of the text in the row, and their ids, (n,).
        alone: run of the text alone.
        rerun: function that runs ids as one text.
        bound: largest relative difference of vectors inside a layer that counts as rounding.
    """
    try:
        here, there = layers(ran, row), layers(alone, 0)
    except AttnvizError as error:
        return _cause("other unread", error=error)
    for call in here.values() if not bool(ran.output[row, slots].isfinite().all()) else ():
        if bool((empty := ~call.may_attend.any(-1).all(0)).any()):
            return _cause("mask nan", call, query=first_true(empty))
    for number, (site, expected) in enumerate(there.items()):
        call = here.get(site)
        if call is None or len(call.weights) != len(expected.weights):
            continue
        if of_mask := next(_mask_causes(ran, row, slots, call, expected), None):
            return of_mask
        names = [name for name in ("query", "key", "value") if name in call.vectors and name in expected.vectors]
        moved = {name: distance(expected.vectors[name], call.vectors[name][slots]) > bound for name in names}
        weights = ((call.weights[:, slots][:, :, slots] - expected.weights).abs() > bound).any(-1).any(0)
        if not bool((changed := weights | moved["value"]).any()):
            continue
        if not any(bool(part.any()) for part in moved.values()):
            return _cause("scores", call, token=first_true(changed))
        for name in (name for name in ("query", "key") if not number and name in moved and bool(moved[name].any())):
            token = first_true(moved[name])
            # in the first layer, a query or key depends on its token and position alone
            with suppress(AttnvizError):  # the model may not read a text as long as the row
                vectors = layers(rerun(ids[token].repeat(len(ran.text[row]))), 0)[site].vectors[name]
                near = distance(vectors, call.vectors[name][slots[token]].expand_as(vectors)) <= bound
                if bool(near.any()) and first_true(near) != token:
                    return _cause("positions", call, token=token, position=first_true(near), name=name)
        before = "between the attention calls before it" if number else "before it, such as its embedding"
        return _cause("other", call, token=first_true(changed), before=before)
    return _cause("other behind")


def _cause(symptom: str, call: JoinedCall | None = None, **values: Any) -> RunResult:
    """Make the result for a symptom at an attention call, with message and repair."""
    message, fix = (table[symptom].format(layer=call, **values) for table in (SYMPTOMS, REMEDIES))
    return RunResult("", symptom.split()[0], message, fix, layer=call and call.site.layer)


def first_true(places: Tensor) -> int:
    """Return the index of the first True."""
    return int(places.nonzero()[0])


def _mask_causes(ran: TextRun, row: int, slots: Tensor, call: JoinedCall, alone: JoinedCall) -> Iterator[RunResult]:
    """Yield causes for the difference of two masks at one call, the likeliest first; nothing if they are equal."""
    row_mask, expected = call.may_attend.any(0), alone.may_attend.any(0)
    outside, inside = row_mask[slots].index_fill(1, slots, False), row_mask[slots][:, slots]
    for query, key in outside.nonzero().tolist()[:1]:
        other, places = int(ran.text[row, key]), list(dict.fromkeys(ran.text[row].tolist()))
        is_causal = torch.equal(row_mask, torch.ones_like(row_mask).tril())
        causal = ": its mask is causal over the whole row" if is_causal else ""
        cells = counted(int((outside & (ran.text[row] == other)).sum()), "cell")
        values = {"slot": int(slots[query]), "key": key, "other": places.index(other) + 1, "causal": causal}
        yield _cause("mask padding" if other == PADDING else "mask document", call, cells=cells, **values)
    for start, end, _, count, sees_later in call.keys:
        if sees_later and not any(part[4] for part in alone.keys):
            yield _cause("cache slots", call, start=start, keys=counted(count, "key"), tokens=counted(end, "token"))
    differs, is_cached = inside ^ expected, len(ran.passes) > 1
    if not bool(differs.any()):
        return
    rows, (query, key) = differs.any(1), differs.nonzero()[0].tolist()
    widths = [int(cells.sum(1).max()) for cells in (inside[rows], expected)]
    bands = [torch.ones_like(expected).tril().triu(1 - width) for width in widths]
    if widths[0] > 1 and torch.equal(inside[rows], bands[0][rows]) and torch.equal(expected, bands[1]):
        unlimited = bool((inside[rows].sum(1) == rows.nonzero().flatten() + 1).all()), widths[1] == len(expected)
        windows = [f"a window of {counted(width, 'token')}" for width in widths]
        here, there = ("no window" if sees_all else name for sees_all, name in zip(unlimited, windows, strict=True))
        yield _cause("window", call, here=here, there=there, query=query)
    for start, end, first, count, _ in call.keys if is_cached else ():
        if start and start <= slots[query] < end:
            corner, keys_open, new = slots <= slots[query] - start, inside[query], slots >= start
            in_corner = bool(keys_open[corner][-1:].all()) and not bool((keys_open & ~corner).any())
            is_new_hidden = torch.equal(keys_open, expected[query] & ~new)
            symptoms = {"cache keys": first, "cache new": is_new_hidden, "cache corner": in_corner}
            for symptom in (name for name, holds in symptoms.items() if holds):
                past, keys, queries = counted(start, "key"), counted(count, "key"), counted(end - start, "query")
                values = {"past": past, "keys": keys, "queries": queries, "tokens": counted(end, "token")}
                yield _cause(symptom, call, start=start, **values)
    values = {"verb": "sees" if inside[query, key] else "does not see", "cells": counted(int(differs.sum()), "cell")}
    yield _cause("mask", call, query=query, key=key, **values)
