"""The layers a map of cells is made of: rectangles, signs on them, an image instead of them, an outline above them."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from attnviz.charts import hatch
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.size import Size
from attnviz.charts.theme import Theme
from attnviz.core.display import shown

NOT_A_NUMBER = "NaN: not a number"

TOOLTIP = (("query_name", QUERY), ("key_name", KEY), ("weight_text", "weight"), ("score_text", "score"), ("says", "cell"))
"""Fields and names of what hovering over a cell shows; names are fixed, because some names make a viewer fetch things."""


def cell_at(fields: Sequence[str] = ("query", "key", "rev"), name: str = "cell") -> alt.Parameter:
    """A click on a cell. `rev` is a counter in the data: raised after each click, it lets the same cell be clicked again."""
    return alt.selection_point(
        name=name, fields=list(fields), on="click", toggle=False, clear="window:keydown[event.key === 'Escape']"
    )


def places(queries: Sequence[str], keys: Sequence[str], q: np.ndarray, k: np.ndarray, rev: int) -> pd.DataFrame:
    """One row per cell, row by row: where it is and what its row and column are called.

    Args:
        queries, keys: band keys of the rows and columns.
        q, k: positions of the rows and columns in the text.
    """
    row, column = (index.ravel() for index in np.meshgrid(np.arange(len(queries)), np.arange(len(keys)), indexing="ij"))
    names = [
        np.array([f"{band[5:]} ({i})" for band, i in zip(bands, positions.tolist(), strict=True)], dtype=object)
        for bands, positions in ((queries, q), (keys, k))
    ]
    return pd.DataFrame({
        "query_band": np.array(queries, dtype=object)[row],
        "key_band": np.array(keys, dtype=object)[column],
        "query": q[row],
        "key": k[column],
        "rev": rev,
        "query_name": names[0][row],
        "key_name": names[1][column],
    })


def rectangles(data: pd.DataFrame, y: alt.Y, x: alt.X, color: alt.Color, test: str, colors: Theme) -> alt.Chart:
    """A rectangle per cell: colored where the constant expression `test` holds, else the quiet ground of a blocked cell."""
    tooltip = [alt.Tooltip(f"{field}:N", title=name) for field, name in TOOLTIP if field in data]
    return (
        alt.Chart(data)
        .mark_rect(stroke=colors.background, strokeWidth=1, cursor="pointer")
        .encode(y=y, x=x, color=alt.when(test).then(color).otherwise(alt.value(colors.blocked)), tooltip=tooltip)
        .add_params(cell_at())
    )


def signs(data: pd.DataFrame, y: alt.Y, x: alt.X, meanings: dict[str, tuple[str, str, float]], size: Size) -> list[alt.Chart]:
    """A shape on each cell whose `sign` is not empty, and the legend that says in words what it means.

    Args:
        meanings: words -> SVG path, color and stroke width.
    """
    if not meanings:
        return []  # A legend without entries has no size, and blanks the picture.
    domain = list(meanings)
    shape, stroke, width = zip(*meanings.values(), strict=True)
    legend = alt.Legend(title=None, symbolSize=256, symbolFillColor="transparent", columns=1 if len(domain) > 2 else 2)
    # The shapes are paths to stroke, never to fill; a point as large as its cell carries them.
    layer = (
        alt.Chart(data)
        .transform_filter("datum.sign !== ''")
        .mark_point(size=(size.cell - 1) ** 2, filled=False, fillOpacity=0, opacity=1, aria=False, tooltip=None)
        .encode(
            y=y,
            x=x,
            shape=alt.Shape("sign:N", scale=alt.Scale(domain=domain, range=list(shape)), legend=legend),
            stroke=alt.Stroke("sign:N", scale=alt.Scale(domain=domain, range=list(stroke)), legend=legend),
            strokeWidth=alt.StrokeWidth("sign:N", scale=alt.Scale(domain=domain, range=list(width)), legend=legend),
        )
    )
    return [layer]


def image(uri: str, queries: Sequence[str], keys: Sequence[str], y: alt.Y, x: alt.X, size: Size, words: str) -> list[alt.Chart]:
    """One image in place of all cells, and two invisible layers that carry the bands of the axes."""
    empty = {"opacity": 0, "aria": False, "tooltip": None}
    bands = [
        alt.Chart(pd.DataFrame({"query_band": queries})).mark_tick(**empty).encode(y=y),
        alt.Chart(pd.DataFrame({"key_band": keys})).mark_tick(**empty).encode(x=x),
    ]
    picture = (
        alt.Chart(pd.DataFrame({"image": [uri]}))
        .mark_image(width=size.width, height=size.height, smooth=False, aspect=False, description=words)
        .encode(x=alt.value(size.width / 2), y=alt.value(size.height / 2), url="image:N")
    )
    return [*bands, picture]


def outline(selected: tuple[int, int] | None, data: pd.DataFrame, y: alt.Y, x: alt.X, size: Size, colors: Theme) -> list[alt.Chart]:
    """A frame around one cell, and quiet lines from it to its two labels; nothing if no cell is selected."""
    chosen = data.iloc[:0]
    if selected is not None:
        chosen = data[(data["query"] == selected[0]) & (data["key"] == selected[1])]
    chosen = chosen[["query_band", "key_band"]]
    plain = {"aria": False, "tooltip": None}
    line = {"stroke": colors.accent, "strokeWidth": 1, "strokeOpacity": 0.7, **plain}
    base = alt.Chart(chosen)
    return [
        base.mark_rule(**line).encode(y=y, x=alt.X("key_band:N", bandPosition=0), x2=alt.value(0)),
        base.mark_rule(**line).encode(x=x, y=alt.Y("query_band:N", bandPosition=0), y2=alt.value(0)),
        base.mark_rect(filled=False, stroke=colors.accent, strokeWidth=2.5, **plain).encode(y=y, x=x),
    ]
