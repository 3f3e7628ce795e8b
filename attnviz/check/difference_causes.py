"""Find why a text gives other outputs in one way to run it: the first attention call that differs, and how."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

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


class KeySpan(NamedTuple):
    """Slots (columns) of the keys that one forward pass sees in an attention call."""

    start: int  # first slot of the pass
    end: int  # slot after the last of the pass
    first: int  # first slot of the keys
    count: int  # number of keys
    sees_later: bool  # whether keys after its last token are seen, such as empty slots of a buffer


@dataclass(frozen=True, eq=False)
class JoinedCall:
    """One attention call over all slots (columns) of a row, joined from all forward passes."""

    site: Site
    name: str
    may_attend: Tensor  # mask, (H, S, S); cells that no forward pass has are blocked
    weights: Tensor  # (H, S, S)
    vectors: dict[str, Tensor] = field(default_factory=dict)  # query, key, value of each slot, (S, numbers)
    spans: list[KeySpan] = field(default_factory=list)  # keys of each forward pass

    def __str__(self) -> str:
        return f"{self.site} ({self.name})" if self.name else str(self.site)


def layers(text_run: TextRun, row: int) -> dict[Site, JoinedCall]:
    """Join the self-attention calls of one row over all passes; raise AttnvizError if a pass reads more tokens."""
    size, joined = text_run.text.shape[1], {}
    all_steps = [(start, step) for start, captured in text_run.passes for step in captured.steps]
    for start, step in [(start, step) for start, step in all_steps if step.site.kind != "cross"]:
        heads, end, count = range(step.num_heads), start + step.shape[2], step.shape[3] - step.has_sink
        if end > size:
            raise AttnvizError(f"{step.site} has {counted(step.shape[2], 'query')} for {counted(size, 'token')}.")
        empty = torch.zeros(len(heads), size, size)
        call = joined.setdefault(step.site, JoinedCall(step.site, step.name, empty.bool(), empty))
        first, old_keys = max(0, end - count), call.vectors.get("key")
        if first and old_keys is not None:  # fewer keys than slots: a cache with the old first keys lost its last ones
            new_keys = step.key[row].transpose(0, 1).flatten(1)
            is_filled = ~old_keys[:count].isnan().any(-1)
            if bool(is_filled.any()) and torch.equal(old_keys[:count][is_filled], new_keys[:count][is_filled]):
                first = 0
        keys = slice(first, min(first + count, end))
        for joined_cells, compute in ((call.may_attend, step.may_attend), (call.weights, step.weights)):
            cells = torch.stack([compute(head, sentence=row) for head in heads])
            joined_cells[:, start:end, keys] = cells[..., : keys.stop - first].to(joined_cells)
        for name in ("value",) if step.weights_only else ("query", "key", "value"):
            slots = slice(start, end) if name == "query" else keys
            vectors = getattr(step, name)[row].transpose(0, 1).flatten(1)[: slots.stop - slots.start]
            unknown = torch.full((size, vectors.shape[1]), torch.nan, dtype=vectors.dtype)
            call.vectors.setdefault(name, unknown)[slots] = vectors
        sees_later = any(bool(step.may_attend(head, sentence=row)[:, end:count].any()) for head in heads)
        call.spans.append(KeySpan(start, end, first, count, sees_later))
    return joined


def cause(
    run: TextRun, row: int, slots: Tensor, alone: TextRun, ids: Tensor, rerun: Callable[[Tensor], TextRun], bound: float
) -> RunResult:
    """Find why the outputs of a text in a row differ from its run alone, at the first layer that differs. `slots` are
    the columns of its tokens in the row, and `ids` the token ids, (n,). `rerun` runs ids as one text. Vectors differ if
    their relative difference exceeds `bound`."""
    try:
        calls, calls_alone = layers(run, row), layers(alone, 0)
    except AttnvizError as error:
        return _cause("other unread", error=error)
    if not bool(run.output[row, slots].isfinite().all()):
        for call in calls.values():
            empty = ~call.may_attend.any(-1).all(0)
            if bool(empty.any()):
                return _cause("mask nan", call, query=first_true(empty))
    for number, (site, expected) in enumerate(calls_alone.items()):
        call = calls.get(site)
        if call is None or len(call.weights) != len(expected.weights):
            continue
        if mask_cause := next(_mask_causes(run, row, slots, call, expected), None):
            return mask_cause
        names = [name for name in ("query", "key", "value") if name in call.vectors and name in expected.vectors]
        differs = {name: distance(expected.vectors[name], call.vectors[name][slots]) > bound for name in names}
        weights = call.weights[:, slots][:, :, slots]
        weights_differ = ((weights - expected.weights).abs() > bound).any(-1).any(0)  # per query
        is_changed = differs["value"] | weights_differ
        if not bool(is_changed.any()):
            continue
        differing = [name for name in names if bool(differs[name].any())]
        if not differing:
            return _cause("scores", call, token=first_true(is_changed))
        is_first = number == 0  # in the first layer, a query or key depends on its token and position alone
        for name in [name for name in differing if name != "value" and is_first]:
            token = first_true(differs[name])
            with suppress(AttnvizError):  # the model may not read a text as long as the row
                repeated = rerun(ids[token].repeat(len(run.text[row])))
                vectors = layers(repeated, 0)[site].vectors[name]
                is_near = distance(vectors, call.vectors[name][slots[token]].expand_as(vectors)) <= bound
                if bool(is_near.any()) and first_true(is_near) != token:
                    return _cause("positions", call, token=token, position=first_true(is_near), name=name)
        before = "between the attention calls before it" if number else "before it, such as its embedding"
        return _cause("other", call, token=first_true(is_changed), before=before)
    return _cause("other behind")


def _cause(symptom: str, call: JoinedCall | None = None, **values: Any) -> RunResult:
    """Make the result for a symptom, a key of `SYMPTOMS`, at an attention call, with `values` in its sentences."""
    message, fix = SYMPTOMS[symptom].format(layer=call, **values), REMEDIES[symptom].format(layer=call, **values)
    return RunResult("", symptom.split()[0], message, fix, layer=call and call.site.layer)


def first_true(flags: Tensor) -> int:
    """Return the index of the first True in a boolean tensor (n,), which holds at least one."""
    return int(flags.nonzero()[0])


def _mask_causes(run: TextRun, row: int, slots: Tensor, call: JoinedCall, alone: JoinedCall) -> Iterator[RunResult]:
    """Compare the mask of a call with the mask of the same call for the text `alone`; yield the possible causes of a
    difference, the likeliest first, or nothing. `slots` are the columns of the text in the row, (n,)."""
    row_mask, expected, texts = call.may_attend.any(0), alone.may_attend.any(0), run.text[row]
    inside = row_mask[slots][:, slots]
    outside = row_mask[slots].index_fill(1, slots, False)  # open keys that are not of the text
    if bool(outside.any()):
        query, key = outside.nonzero()[0].tolist()
        other, numbers = int(texts[key]), list(dict.fromkeys(texts.tolist()))
        is_causal = torch.equal(row_mask, torch.ones_like(row_mask).tril())
        causal = ": its mask is causal over the whole row" if is_causal else ""
        cells = counted(int((outside & (texts == other)).sum()), "cell")
        values = {"slot": int(slots[query]), "key": key, "other": numbers.index(other) + 1, "causal": causal}
        yield _cause("mask padding" if other == PADDING else "mask document", call, cells=cells, **values)
    if not any(span.sees_later for span in alone.spans):
        for span in (span for span in call.spans if span.sees_later):
            keys, tokens = counted(span.count, "key"), counted(span.end, "token")
            yield _cause("cache slots", call, start=span.start, keys=keys, tokens=tokens)
    differs = inside ^ expected
    if not bool(differs.any()):
        return
    rows, (query, key) = differs.any(1), differs.nonzero()[0].tolist()
    width, width_alone = (int(cells.sum(1).max()) for cells in (inside[rows], expected))
    band, band_alone = (torch.ones_like(expected).tril().triu(1 - size) for size in (width, width_alone))
    if width > 1 and torch.equal(inside[rows], band[rows]) and torch.equal(expected, band_alone):
        sees_all = bool((inside[rows].sum(1) == rows.nonzero().flatten() + 1).all())
        here = "no window" if sees_all else f"a window of {counted(width, 'token')}"
        there = "no window" if width_alone == len(expected) else f"a window of {counted(width_alone, 'token')}"
        yield _cause("window", call, here=here, there=there, query=query)
    for span in call.spans if len(run.passes) > 1 else ():
        if span.start and span.start <= slots[query] < span.end:
            open_keys, is_new, is_corner = inside[query], slots >= span.start, slots <= slots[query] - span.start
            is_in_corner = bool(open_keys[is_corner][-1:].all()) and not bool((open_keys & ~is_corner).any())
            is_new_hidden = torch.equal(open_keys, expected[query] & ~is_new)
            symptoms = {"cache keys": span.first > 0, "cache new": is_new_hidden, "cache corner": is_in_corner}
            past, keys, tokens = counted(span.start, "key"), counted(span.count, "key"), counted(span.end, "token")
            queries = counted(span.end - span.start, "query")
            counts = {"past": past, "keys": keys, "tokens": tokens, "queries": queries}
            for symptom in (name for name, holds in symptoms.items() if holds):
                yield _cause(symptom, call, start=span.start, **counts)
    values = {"verb": "sees" if inside[query, key] else "does not see", "cells": counted(int(differs.sum()), "cell")}
    yield _cause("mask", call, query=query, key=key, **values)
