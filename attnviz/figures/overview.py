"""Figures of all heads of a model: their maps at a glance, and their numbers against each other."""

from collections.abc import Sequence
from functools import cache, partial

import pandas as pd

from attnviz.charts import overview as overview_chart
from attnviz.charts import scatter as scatter_chart
from attnviz.charts.overview import Head
from attnviz.core.display import file_stem
from attnviz.core.record import Record
from attnviz.figures.figure import Figure, drawn_by, edited, titled
from attnviz.metrics.heads import head_metrics


def overview(
    record: Record,
    *,
    order: Sequence[Head] | None = None,
    captions: Sequence[str] | None = None,
    sentence: int = 0,
    dark: bool = False,
    focused: Head | None = None,
    rev: int = 0,
) -> Figure:
    """Thumbnails of every head of a model; see `charts.overview`."""
    drawn = {"order": order, "captions": captions, "sentence": sentence, "dark": dark}
    picture = partial(overview_chart.picture, record, **drawn, focused=focused, rev=rev)
    on_screen = cache(partial(picture, edits=False))
    heads = tuple(order) if order is not None else tuple(_all(record))
    return Figure(
        name=file_stem(record.source, "every head", record.sentences[sentence].text, end=edited(record.edits)),
        title=titled(overview_chart.title_of(record), record),
        describe=lambda: _in_words(record, heads),
        draw=lambda: picture().chart,
        show=lambda: (on_screen().spec, None),
        tabulate=lambda: head_metrics(record, sentence).drop(columns="site"),
        collect=lambda: {
            name: column.to_numpy(dtype=float, na_value=float("nan"))
            for name, column in head_metrics(record, sentence).select_dtypes("number").items()
        },
    )


def scatter(
    record: Record,
    table: pd.DataFrame,
    x: str,
    y: str | None,
    *,
    titles: dict[str, str],
    dark: bool = False,
    focused: Head | None = None,
    rev: int = 0,
) -> Figure:
    """Every head by one number (stacked) or two; see `charts.scatter`."""
    columns = [x] if y is None else [x, y]
    picture = partial(scatter_chart.picture, record, table, x, y, titles=titles, dark=dark, focused=focused, rev=rev)
    said = f"Each of {len(table)} heads by {' and '.join(titles[name] for name in columns)}."
    missing = int(table[columns].isna().any(axis=1).sum())
    return Figure(
        name=file_stem(record.source, "heads by", " ".join(columns), end=edited(record.edits)),
        title=titled(scatter_chart.title_of(record, x, y, titles), record),
        describe=lambda: said + (f" {missing} heads have no such number." if missing else ""),
        **drawn_by(picture),
        tabulate=lambda: table[["kind", "layer", "head", *columns]],
        collect=lambda: {name: table[name].to_numpy(dtype=float, na_value=float("nan")) for name in columns},
    )


def _all(record: Record) -> list[Head]:
    return [(step.site, head) for step in record.steps for head in range(step.num_heads)]


def _in_words(record: Record, heads: tuple[Head, ...]) -> str:
    kinds: dict[str, int] = {}
    for site, _ in heads:
        kinds[site.kind] = kinds.get(site.kind, 0) + 1
    listed = ", ".join(f"{count} of {kind} attention" for kind, count in kinds.items()) or "none"
    return f"Maps of {len(heads)} heads: {listed}. Their numbers are in the table."
