"""Figures of one attention call step by step."""

from collections.abc import Callable
from functools import partial

import pandas as pd

from attnviz.charts import chain as chain_chart
from attnviz.charts import panels
from attnviz.charts import stage as stage_chart
from attnviz.charts.heatmap import subtitles_of
from attnviz.charts.panels import Panels
from attnviz.charts.stage import Tokens
from attnviz.charts.theme import theme
from attnviz.core.display import file_stem, in_title
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.figure import Figure, edited, titled
from attnviz.walk import Matrix, Stage


def chain(
    record: Record,
    site: Site,
    head: int,
    stages: tuple[Stage, ...],
    *,
    sentence: int = 0,
    current: str = "",
    selected: tuple[int, int] = (-1, -1),
    dark: bool = False,
    rev: int = 0,
) -> Figure:
    """All stages of a call as thumbnails; see `charts.chain`.

    Args:
        stages: what `walk.chain` gave.
        selected: the (query, key) that is outlined in each; -1 for none.
    """
    tokens = record.tokens(site, sentence=sentence)
    what = f"Step by step · head {head} · {site} · {in_title(record.source)}"
    drawn = {"selected": selected, "dark": dark, "rev": rev}

    def drawing(*, edits: bool = True) -> Panels:
        said = {"title": what, "lines": tuple(subtitles_of(record))} if edits else {"current": current}
        return chain_chart.drawing_of(stages, tokens, **drawn, **said)

    shown = tuple(m for stage in stages if (m := chain_chart.main(stage)) is not None)
    return Figure(
        name=file_stem(record.source, site, f"head-{head}-steps", _text(record, sentence), end=edited(record.edits)),
        title=titled(what, record),
        describe=lambda: _chain_in_words(stages),
        **_drawn(drawing, "stage", dark),
        tabulate=lambda: table(shown, tokens),
        collect=lambda: {matrix.key: matrix.values.numpy() for matrix in shown},
    )


def stage(
    record: Record,
    site: Site,
    head: int,
    stage: Stage,
    matrices: tuple[Matrix, ...],
    *,
    sentence: int = 0,
    selected: tuple[int, int] = (-1, -1),
    dark: bool = False,
    rev: int = 0,
) -> Figure:
    """Some tables of one stage, large; see `charts.stage`."""
    tokens = record.tokens(site, sentence=sentence)
    drawn = {"selected": selected, "dark": dark, "rev": rev}
    where = f"head {head} · {site} · {in_title(record.source)}"

    def drawing(*, edits: bool = True) -> Panels:
        lines = (stage.text, where, *subtitles_of(record)) if edits else ()
        return stage_chart.drawing_of(stage, tokens, matrices, lines=lines, titled=edits, **drawn)

    what = f"head-{head}-{stage.key}"
    return Figure(
        name=file_stem(record.source, site, what, _text(record, sentence), end=edited(record.edits)),
        title=titled(f"{stage.title} · {where}", record),
        describe=lambda: f"{stage.title}: {stage.text}. {stage.missing or stage.changed}",
        **_drawn(drawing, "cell", dark),
        tabulate=lambda: table(matrices, tokens),
        collect=lambda: {matrix.key: matrix.values.numpy() for matrix in matrices},
    )


def _drawn(drawing: Callable[..., Panels], select: str, dark: bool) -> dict[str, Callable]:
    """What draws panels, for `Figure`. On the screen titles and edits stand beside the picture, not on it."""
    colors = theme(dark)
    return {
        "draw": lambda: panels.picture(drawing(), colors).chart,
        "show": lambda: panels.screen(drawing(edits=False), colors, select),
    }


def table(matrices: tuple[Matrix, ...], tokens: Tokens) -> pd.DataFrame:
    """One row per number: of one table of queries and keys query, query_token, key, key_token, value; else also table.

    The axes of other tables are called row and column, with the tokens that they stand for.
    """
    parts = [_tidy(matrix, tokens) for matrix in matrices]
    if len(parts) == 1 and set(matrices[0].axes) == {"query", "key"}:
        names = {"row": "query", "row_token": "query_token", "column": "key", "column_token": "key_token"}
        return parts[0].drop(columns="table").rename(columns=names)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["table", "row", "column", "value"])


def _tidy(matrix: Matrix, tokens: Tokens) -> pd.DataFrame:
    texts = dict(zip(("query", "key"), ([token.text for token in part] for part in tokens), strict=True))
    rows, columns = matrix.rows, matrix.columns
    name = partial(_name, texts)
    return pd.DataFrame(
        {
            "table": matrix.name,
            "row": [i for i in rows for _ in columns],
            "row_token": [name(matrix.axes[0], i) for i in rows for _ in columns],
            "column": [j for _ in rows for j in columns],
            "column_token": [name(matrix.axes[1], j) for _ in rows for j in columns],
            "value": matrix.values.double().flatten().numpy(),
        }
    )


def _name(texts: dict[str, list[str]], axis: str, position: int) -> str:
    return texts[axis][position] if axis in texts else ""


def _chain_in_words(stages: tuple[Stage, ...]) -> str:
    said = (f"{i}. {stage.title}: {stage.missing or stage.changed}" for i, stage in enumerate(stages, 1))
    return " ".join(said)


def _text(record: Record, sentence: int) -> str:
    return record.sentences[sentence].text
