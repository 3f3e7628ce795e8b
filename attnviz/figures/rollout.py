"""Figures of what reaches what through all layers: rollout as a map, and one row of it beside the flow."""

from functools import partial

import numpy as np

from attnviz import tables, words
from attnviz.charts import panels
from attnviz.charts import rollout as chart
from attnviz.charts.rollout import Traced
from attnviz.charts.theme import theme
from attnviz.core.display import file_stem
from attnviz.figures.figure import Figure, drawn_by, edited, text_array, titled


def rollout(traced: Traced, *, selected: int | None = None, dark: bool = False, rev: int = 0) -> Figure:
    """How much of each token is in what stands at each position after a layer; see `charts.rollout`."""
    drawing, colors = partial(chart.drawing_of, traced, selected=selected, dark=dark), theme(dark)
    return Figure(
        name=_stem(traced, "rollout"),
        title=" · ".join(filter(None, (chart.title_of(traced), *chart.lines_of(traced)))),
        describe=lambda: words.reaches(traced.shares, _texts(traced)),
        draw=lambda: panels.picture(drawing(), colors).chart,
        show=lambda: panels.screen(drawing(rev=rev, edits=False), colors, "cell"),
        tabulate=lambda: tables.rollout_table(traced.shares, _texts(traced)),
        collect=lambda: {"rollout": traced.shares, "tokens": text_array(_texts(traced))},
    )


def row(traced: Traced, position: int, flow: np.ndarray | None = None, *, dark: bool = False) -> Figure:
    """How much of each token reaches one position, by rollout and, if it is given, by the largest flow.

    Args:
        flow: (n,) of `metrics.rollout.flow` through the same layers.
    """
    numbers = {"rollout": traced.shares[position]} | ({} if flow is None else {"flow": flow})
    picture = partial(chart.row_picture, traced, position, flow, dark=dark)
    return Figure(
        name=_stem(traced, f"reaches {position}"),
        title=titled(chart.row_title(traced, position), traced.record),
        describe=lambda: words.reached(traced.shares, _texts(traced), position),
        **drawn_by(picture),
        tabulate=lambda: tables.reached_table(numbers, _texts(traced)),
        collect=lambda: numbers | {"tokens": text_array(_texts(traced))},
    )


def _stem(traced: Traced, what: str) -> str:
    record, where = traced.record, f"{traced.found.kind} after layer {traced.layer}"
    text = " ".join(token.text for token in traced.found.tokens)
    return file_stem(record.source, where, what, text, end=edited(record.edits))


def _texts(traced: Traced) -> list[str]:
    return [token.text for token in traced.found.tokens]
