"""One mask as a grid: who may attend to whom, and which rule says no."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from attnviz.charts import axes, hatch
from attnviz.charts import cells as layers
from attnviz.charts.size import size_of
from attnviz.charts.theme import config, theme
from attnviz.core.display import shown
from attnviz.core.masks import Mask
from attnviz.core.tokens import Token

MAY_ATTEND = "may attend"


def mask_grid(
    mask: Mask,
    queries: Sequence[Token | str],
    keys: Sequence[Token | str] | None = None,
    *,
    predicted: Sequence[Token | str] | None = None,
    sentence: int = 0,
    dark: bool = False,
    selected: tuple[int, int] | None = None,
    rev: int = 0,
) -> alt.LayerChart:
    """Draw a mask over tokens: a dot where a query may attend to a key, strokes where a rule forbids it.

    A click selects a cell under the name "cell" with the fields query, key and rev.

    Args:
        queries: the input token of each row.
        keys: of each column; the queries if none are given.
        predicted: the token that each row predicts; it is written into the row's label.
        selected: the (query, key) whose cell is outlined.
    """
    colors = theme(dark)
    keys = queries if keys is None else keys
    size = size_of(len(queries), len(keys))
    reasons, blocked = mask.reasons(len(queries), len(keys), sentence=sentence)
    names = np.array(["", *reasons], dtype=object)
    codes = blocked.numpy().ravel()
    bands = _row_bands(queries, predicted), axes.bands(keys)
    row_title = axes.QUERY if predicted is None else "Query (looks) ▸ predicts"
    y, x = axes.token_axes(*bands, size, colors, (row_title, axes.KEY))
    data = layers.places(axes.bands(queries), bands[1], np.arange(len(queries)), np.arange(len(keys)), rev)
    data["query_band"] = np.repeat(np.array(bands[0], dtype=object), len(keys))
    data = data.join(pd.DataFrame({
        "open": codes == 0,
        "sign": np.where(codes == 0, MAY_ATTEND, names[codes]),
        "says": np.where(codes == 0, MAY_ATTEND, "blocked by " + names[codes]),
    }))
    meanings = {MAY_ATTEND: (hatch.DOT, colors.dot, 2.0)} | {
        reason: (shape, colors.hatch, 1.0) for reason, shape in zip(reasons, hatch.shapes(len(reasons)), strict=True)
    }
    parts = [
        layers.rectangles(data, y, x, alt.value(colors.open), "datum.open", colors),
        *layers.signs(data, y, x, meanings, size),
        *layers.outline(selected, data, y, x, size, colors),
    ]
    heading = axes.title(f"Mask: {mask}", [_explained(predicted)], axes.width_of(size, bands[0]))
    chart = alt.layer(*parts, title=heading, autosize="pad").properties(
        width=alt.Step(size.cell), height=alt.Step(size.cell)
    )
    return chart.configure(**config(colors))


def _row_bands(queries: Sequence[Token | str], predicted: Sequence[Token | str] | None) -> list[str]:
    bands = axes.bands(queries)
    if predicted is None:
        return bands
    texts = [token if isinstance(token, str) else token.text for token in predicted]
    return [f"{band} ▸ {shown(text, axes.LONGEST_LABEL)}" for band, text in zip(bands, texts, strict=True)]


def _explained(predicted: Sequence[Token | str] | None) -> str:
    if predicted is None:
        return "each row: what one token may look at"
    return "each row: having read up to its token, the model predicts the token after ▸"
