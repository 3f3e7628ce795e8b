"""Why scores are divided by √d_k: how much the largest weight takes, with and without it, as d_k grows."""

from attnviz.charts import axes, bars
from attnviz.charts.picture import Picture
from attnviz.charts.theme import theme
from attnviz.walk import DotProducts

TITLE = "Largest weight of a row of random scores"
LINES = ("16 keys; the numbers of q and k are independent, with mean 0 and variance 1",)


def picture(
    spreads: tuple[DotProducts, ...], *, chosen: int | None = None, titled: bool = True, dark: bool = False
) -> Picture:
    """Two bars for each d_k: hollow without the scale, filled with it.

    Args:
        chosen: the d_k that is marked.
    """
    columns = (
        bars.Column([spread.unscaled.largest for spread in spreads], name="q·k as it is", hollow=True),
        bars.Column([spread.scaled.largest for spread in spreads], name="q·k / √d_k"),
    )
    marks = {i: axes.CHOSEN for i, spread in enumerate(spreads) if spread.d_k == chosen}
    names, title = [f"d_k = {spread.d_k:,}" for spread in spreads], TITLE if titled else ""
    return bars.picture(names, columns, title, LINES, theme(dark), length=300, paired=True, marks=marks)
