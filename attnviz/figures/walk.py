"""Figures of one attention call step by step."""

from collections.abc import Callable
from functools import partial

import pandas as pd
from torch import Tensor

from attnviz.charts import chain as chain_chart
from attnviz.charts import panels
from attnviz.charts import row as row_chart
from attnviz.charts import spread as spread_chart
from attnviz.charts import stage as stage_chart
from attnviz.charts.heatmap import subtitles_of
from attnviz.charts.panels import Panels
from attnviz.charts.stage import Tokens
from attnviz.charts.theme import theme
from attnviz.core.amounts import digits
from attnviz.core.display import file_stem, in_title, shown
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.core.tokens import Token
from attnviz.figures.figure import Figure, edited
from attnviz.figures.figure import titled as title_with_edits
from attnviz.walk import DotProducts, Matrix, Neurons, Part, Row, Stage


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

    drawn_tables = tuple(m for stage in stages if (m := chain_chart.main(stage)) is not None)
    return Figure(
        name=file_stem(record.source, site, f"head-{head}-steps", _text(record, sentence), end=edited(record.edits)),
        title=title_with_edits(what, record),
        describe=lambda: _chain_in_words(stages),
        **_drawn(drawing, "stage", dark),
        tabulate=lambda: table(drawn_tables, tokens),
        collect=lambda: {matrix.key: matrix.values.numpy() for matrix in drawn_tables},
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
    titled: bool = True,
    dark: bool = False,
    rev: int = 0,
) -> Figure:
    """Some tables of one stage, large; see `charts.stage`.

    Args:
        titled: whether a file says what it shows; a handout says it around the picture.
    """
    tokens = record.tokens(site, sentence=sentence)
    drawn = {"selected": selected, "dark": dark, "rev": rev}
    where = f"head {head} · {site} · {in_title(record.source)}"

    def drawing(*, edits: bool = titled) -> Panels:
        lines = (stage.text, where, *subtitles_of(record)) if edits else ()
        return stage_chart.drawing_of(stage, tokens, matrices, lines=lines, titled=edits, **drawn)

    what = f"head-{head}-{stage.key}"
    return Figure(
        name=file_stem(record.source, site, what, _text(record, sentence), end=edited(record.edits)),
        title=title_with_edits(f"{stage.title} · {where}", record),
        describe=lambda: f"{stage.title}: {stage.text}. {stage.missing or stage.changed}".strip(),
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


def row(
    record: Record, site: Site, head: int, worked: Row, *, sentence: int = 0, key: int | None = None, dark: bool = False
) -> Figure:
    """One query worked in full; see `charts.row`.

    Args:
        worked: what `walk.row` gave.
        key: the key that is marked.
    """
    step, (queries, keys) = record.step(site), record.tokens(site, sentence=sentence)
    token = shown(queries[worked.query].text)
    what = f"Query {worked.query} in full, {token} · head {head} · {site} · {in_title(record.source)}"
    draw = partial(row_chart.picture, worked, step, keys, title=what, selected=key, dark=dark)
    return Figure(
        name=file_stem(record.source, site, f"head-{head}-query-{worked.query}", end=edited(record.edits)),
        title=title_with_edits(what, record),
        describe=lambda: f"{what}. {row_in_words(worked)}",
        draw=lambda: draw(lines=tuple(subtitles_of(record))).chart,
        show=lambda: (draw().spec, None),
        tabulate=lambda: row_table(worked, keys),
        collect=lambda: (
            {"products": worked.products.numpy(), "weighted_values": worked.weighted_values.numpy()}
            | {"output": worked.output.numpy()}
        ),
    )


def row_in_words(worked: Row) -> str:
    """The sums of a row, and how exact it is."""
    said = (f"{name} {text}" for name, (text,) in row_chart.totals(worked))
    return f"Over all keys: {', '.join(said)}. {worked.digits}"


def row_table(worked: Row, keys: tuple[Token, ...]) -> pd.DataFrame:
    """One row per key: key, key_token and every number of `walk.Row`, exact."""
    names = ("sums", "scaled", "capped", "biased", "scores", "masked", "shifted", "exps", "weights", "recorded")
    table = pd.DataFrame({name: getattr(worked, name).double().numpy() for name in names})
    table.insert(0, "query", worked.query)
    table.insert(1, "key", list(worked.keys))
    table.insert(2, "key_token", [keys[i].text for i in worked.keys])
    table["blocked_by"] = list(worked.rules)
    return table


def products(worked: Row, key: int) -> Stage:
    """What makes one cell, as tables: the products of each dimension."""
    place = worked.keys.index(key)
    products = worked.products[place : place + 1]
    return _tables("products", "The products of one cell", "q · k = Σ q ∘ k", (_line("q ∘ k", "d_k", products),))


def values(worked: Row, num_keys: int) -> Stage:
    """Weighted values and their sum, as tables."""
    wide = worked.weighted_values.shape[1]
    each = Matrix(
        "weighted", "w ∘ V", ("key", "d_v"), (num_keys, wide), worked.keys, range(wide), worked.weighted_values
    )
    total = _line("o, their sum over all keys", "d_v", worked.output.unsqueeze(0))
    return _tables("weighted", "Weighted values", "o = Σ w v", (each, total))


def neurons(found: Neurons, num_keys: int, d_k: int) -> Stage:
    """Element by element, as tables: q, k and q ∘ k of one query against every key and dimension."""
    sizes = (num_keys, d_k)

    def of_keys(key: str, name: str, numbers: Tensor) -> Matrix:
        return Matrix(key, name, ("key", "d_k"), sizes, found.keys, found.dimensions, numbers)

    def column(key: str, name: str, numbers: Tensor) -> Matrix:
        return Matrix(key, name, ("1", "key"), (1, num_keys), range(1), found.keys, numbers.unsqueeze(0))

    query = Matrix("q", "q", ("1", "d_k"), (1, d_k), range(1), found.dimensions, found.query_vector.unsqueeze(0))
    matrices = (
        query,
        of_keys("k", "k", found.key_vectors),
        of_keys("qk", "q ∘ k", found.products),
        column("sums", "q · k, the sum of each row of q ∘ k", found.sums),
        column("weights", "weight", found.weights),
    )
    return _tables("neurons", "Element by element", "q · k = Σ q ∘ k", matrices)


def spread(spreads: tuple[DotProducts, ...], *, chosen: int | None = None, dark: bool = False) -> Figure:
    """Why scores are divided by √d_k; see `charts.spread`."""
    draw = partial(spread_chart.picture, spreads, chosen=chosen, dark=dark)
    table = spread_table(spreads)
    return Figure(
        name="why-the-scale",
        title=spread_chart.TITLE,
        describe=lambda: f"{spread_chart.TITLE}: " + "; ".join(map(_spread_in_words, spreads)) + ".",
        draw=lambda: draw().chart,
        show=lambda: (draw(titled=False).spec, None),
        tabulate=lambda: table,
        collect=lambda: {name: table[name].to_numpy() for name in table},
    )


def spread_table(spreads: tuple[DotProducts, ...]) -> pd.DataFrame:
    """One row per d_k: the variances, and the mean measures of rows without and with the scale."""
    rows = [
        {"d_k": one.d_k, "variance": one.variance, "scaled_variance": one.scaled_variance}
        | {f"unscaled_{name}": value for name, value in vars(one.unscaled).items()}
        | {f"scaled_{name}": value for name, value in vars(one.scaled).items()}
        for one in spreads
    ]
    return pd.DataFrame(rows)


def _spread_in_words(one: DotProducts) -> str:
    return f"d_k {one.d_k}: {digits(one.unscaled.largest)} as it is, {digits(one.scaled.largest)} scaled"


def _line(name: str, axis: str, numbers: Tensor) -> Matrix:
    wide = numbers.shape[1]
    return Matrix(name, name, ("1", axis), (1, wide), range(1), range(wide), numbers)


def _tables(key: str, title: str, text: str, matrices: tuple[Matrix, ...]) -> Stage:
    return Stage(key, title, (Part(text, False),), (), (), matrices)
