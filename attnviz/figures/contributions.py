"""Numbers of heads, layers x heads: contributions to a logit, effects of patching, and composition of heads."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from attnviz.analysis.circuits import Circuits
from attnviz.analysis.contributions import Carried, Contributions
from attnviz.analysis.contributions import contributions as contributions_of
from attnviz.analysis.predictions import token_at
from attnviz.analysis.sentences import in_quotes, quoted_token
from attnviz.charts.axes import Size
from attnviz.charts.bars import Bars, Column
from attnviz.charts.grid import READABLE
from attnviz.charts.marks import scale_of
from attnviz.core.amounts import counted, digits, remainder
from attnviz.core.display import file_stem, in_title
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.figures.base import FigureFacts, figure, text_array, text_in_line
from attnviz.figures.forms import HEAD, BarChart, HeadNumbers, Map, numbers_in_cells, text_side

WIDE, LARGEST, SMALLEST, ROOM, MOST_CELLS = 520, 36, 3, 30, 4096
"""Map of composition: its maximum width, largest and smallest cell and room for a label, all in pixels; and the maximum
number of cells that are drawn as rectangles."""
ADDS, FALLS, WAY = "adds directly", "falls when off", "part of the way from A to B"
LESS = "color: how much the logit falls when the head is off; less than the head adds where other parts make up for it"
READS = {"q": "queries", "k": "keys", "v": "values"}
"""Inputs of a later head, by the kind of composition."""


@figure
def contributions(
    record: Record,
    token: str | int | None = None,
    position: int = -1,
    *,
    minus: str | int | None = None,
    sentence: int = 0,
    falls: pd.DataFrame | None = None,
    **style: Any,
) -> HeadNumbers:
    """Draw the direct contribution of each head to the logit of a word, for a run with `stream=True`.

    Args:
        token, position, minus, sentence: see `attnviz.analysis.contributions`.
        falls: table from `attnviz.studies.ablation.logit_falls` for the same word and position, to show how much the
            logit falls when each head is switched off; None to show the contributions.

    Raises:
        InputError: if there is no such word or position, or the record has no stream.
    """
    logit = contributions_of(record, token, position, minus=minus, sentence=sentence)
    run = {"record": record, "sentence": sentence}
    if falls is None:
        facts = _word_facts(record, logit, "contributions", "What each head adds", "Added by each head to")
        numbers = logit.heads[[*HEAD, "contribution"]]
        return HeadNumbers(facts=facts, numbers=numbers, measure=ADDS, **run, **style)
    table = logit.with_falls(falls).query("part == 'head'").drop(columns="part")
    table = table.sort_values("contribution", ascending=False, kind="stable", ignore_index=True)
    changes = {"lines": [LESS], "table": table, "words": partial(logit.in_words, falls)}
    facts = _word_facts(record, logit, "replaced", "Each head switched off", "Heads switched off, for", **changes)
    numbers = table[[*HEAD, "contribution", "fall"]]
    return HeadNumbers(facts=facts, numbers=numbers, measure=FALLS, also=ADDS, **run, **style)


@figure
def contribution_parts(
    record: Record,
    token: str | int | None = None,
    position: int = -1,
    *,
    minus: str | int | None = None,
    sentence: int = 0,
    **style: Any,
) -> BarChart:
    """Draw the contribution of each part of the model to the logit of a word as a waterfall; the last bar is the sum.

    Args:
        token, position, minus, sentence: see `attnviz.analysis.contributions`.

    Raises:
        InputError: if there is no such word or position, or the record has no stream.
    """
    logit = contributions_of(record, token, position, minus=minus, sentence=sentence)
    parts = logit.summary
    contributions = parts["contribution"].to_numpy()
    total, ends = contributions.sum(), np.cumsum(contributions).tolist()
    begins = [0.0, *ends[:-1]]  # each bar begins where the bar before it ends
    logit_text = f"{'logit' if logit.minus is None else 'difference of both logits'} {digits(logit.logit)}"
    texts = [digits(number) for number in [*contributions, total]]
    bars = Bars(
        lines=[f"sum {digits(total)}; {logit_text}; residual {remainder(logit.residual, logit.logit)}"],
        names=[*parts["part"], "sum"],
        columns=[Column(texts, [*ends, total], begins=[*begins, 0.0])],
        length=140,
        chosen=[len(contributions)],
    )
    facts = _word_facts(record, logit, "parts", "All parts", "Parts of")
    return BarChart(facts=facts, bars=bars, record=record, sentence=sentence, **style)


def _word_facts(
    record: Record, logit: Contributions, file: str, on_page: str, beginning: str, **facts: Any
) -> FigureFacts:
    """Build the facts of a figure about a word's logit, titled `on_page`, or in a file `beginning` and the word."""
    token = token_at(record, logit.position, sentence=logit.sentence)
    where = f"after {quoted_token(token, logit.position)} · {in_title(record.source)}"
    words = f"{logit.token} minus {logit.minus}" if logit.minus else logit.token
    facts = {"table": logit.table, "words": logit.in_words} | facts
    heading, subject = f"{beginning} {logit.quoted_words} {where}", (f"{file} {logit.position} {words}",)
    return FigureFacts(heading=heading, on_page=on_page, origin="text", subject=subject, **facts)


@figure
def carried(record: Record, carried: Carried, **style: Any) -> HeadNumbers:
    """Draw the effect of patching each head from text B into text A, as a share of the change from A (0) to B (1).

    Args:
        record: run of text A.
        carried: result from `attnviz.studies.ablation.carried`.
    """
    words = " − ".join(map(in_quotes, carried.words))
    named = [f"{name}: {text_in_line(text)}" for name, text in zip("AB", carried.texts, strict=True)]
    facts = FigureFacts(
        what=f"Carried by each head's {carried.part}",
        more=[*named, f"logit of {words} after position {carried.position}"],
        origin="file",  # a page shows the origin of the weights beside the picture
        subject=(f"{carried.part} from", carried.texts[1]),
        table=carried.table,
        words=carried.in_words,
    )
    numbers = carried.table[[*HEAD, "carried"]]
    return HeadNumbers(facts=facts, numbers=numbers, measure=WAY, record=record, **style)


@figure
def composition(circuits: Circuits, kind: str = "k", *, model: str = "", **style: Any) -> Map:
    """Map composition scores: a row for each earlier head, a column for each later head.

    Args:
        kind: "q", "k" or "v".
        model: name of the model.

    Raises:
        InputError: if there is no such kind, or all heads are in one layer.
    """
    matrix, pairs = circuits.matrix(kind), circuits.composition
    if not len(pairs):
        raise InputError("All heads are in one layer, so no head can read the output of another head.")
    table = circuits.heads[[*HEAD]].itertuples(index=False, name=None)
    heads = [(Site(stack, layer), head) for stack, layer, head in table]
    largest = [
        f"{row.layer}.{row.head} to {row.later_layer}.{row.later_head}, {digits(getattr(row, kind))}"
        for row in pairs.dropna(subset=kind).nlargest(3, kind).itertuples()
    ]
    facts = FigureFacts(
        heading=f"{kind.upper()}-composition{f' · {in_title(model)}' if model else ''}",
        lines=[f"Rows: earlier heads that write. Columns: later heads whose {READS[kind]} read it."],
        name=file_stem(model, f"{kind}-composition"),
        table=pairs,
        words=f"Largest {kind.upper()}-composition of {counted(len(pairs), 'pair')}: {'; '.join(largest)}.",
        arrays={"composition": matrix, "heads": text_array([site.brief(head) for site, head in heads])},
    )
    rows = [(site, head) for site, head in heads if site.layer < pairs["later_layer"].max()]
    columns = [(site, head) for site, head in heads if site.layer > pairs["layer"].min()]
    values = np.nan_to_num(matrix[np.ix_([*map(heads.index, rows)], [*map(heads.index, columns)])])
    cell = float(np.clip(WIDE // max(values.shape), SMALLEST, LARGEST))
    heads_per_layer = sum(site == heads[0][0] for site, _ in heads)
    # a label for every head, or for the first head of every layer, every second layer, every fourth, ...
    steps = [1, *(heads_per_layer * 2**power for power in range(12))]
    step = next((step for step in steps if step * cell >= ROOM), 1)
    size = Size("rectangles" if values.size <= MOST_CELLS else "pixels", cell, *values.shape, every=step)
    squares = numbers_in_cells(values, scale_of("composition score", values), written=size.cell >= READABLE[0])
    return Map(
        facts=facts,
        rows=text_side("earlier head", "query", *_head_texts(rows)),
        columns=text_side("later head", "key", *_head_texts(columns)),
        size=size,
        squares=squares,
        **style,
    )


def _head_texts(heads: Sequence[tuple[Site, int]]) -> tuple[list[str], list[str]]:
    """Return the labels of heads on an axis, and their names in tooltips."""
    return [site.short(head) for site, head in heads], [site.brief(head) for site, head in heads]
