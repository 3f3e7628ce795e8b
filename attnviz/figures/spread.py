"""Why scores are divided by √d_k: how much the largest weight takes, with and without it, as d_k grows."""

from typing import Unpack

import pandas as pd

from attnviz.charts import axes, bars
from attnviz.charts.picture import Picture
from attnviz.charts.style import Style
from attnviz.core.amounts import digits
from attnviz.figures.figure import Drawn, Figure
from attnviz.walk import DotProducts

TITLE = "Largest weight of a row of random scores"
LENGTH, BESIDE = 300, 160
"""Pixels of a bar of 1, and of what stands beside it: names and numbers."""

LINES = ("16 keys; the numbers of q and k are independent, with mean 0 and variance 1",)


def spread(spreads: tuple[DotProducts, ...], *, chosen: int | None = None, **drawn: Unpack[Drawn]) -> Figure:
    """Two bars for each d_k: hollow without the scale, filled with it.

    Args:
        chosen: the d_k that is marked.
    """
    table = spread_table(spreads)
    said = (
        f"dₖ {one.d_k}: {digits(one.unscaled.largest)} as it is, {digits(one.scaled.largest)} scaled" for one in spreads
    )
    description = f"{TITLE}: {'; '.join(said)}."
    return Figure(
        name="why-the-scale",
        title=TITLE,
        style=Style(**drawn),
        draw=lambda style: drawing_of(spreads, chosen, style),
        describe=lambda: description,
        tabulate=lambda: table,
        collect=lambda: {name: table[name].to_numpy() for name in table},
    )


def drawing_of(spreads: tuple[DotProducts, ...], chosen: int | None, style: Style) -> Picture:
    """The bars; a screen says elsewhere what they are."""
    columns = (
        bars.Column([one.unscaled.largest for one in spreads], name="q·k as it is", hollow=True),
        bars.Column([one.scaled.largest for one in spreads], name="q·k / √dₖ"),
    )
    length = LENGTH if style.width is None else min(LENGTH, style.width - BESIDE)
    marks = {i: axes.CHOSEN for i, one in enumerate(spreads) if one.d_k == chosen}
    names, title = [f"dₖ = {one.d_k:,}" for one in spreads], "" if style.on_screen else TITLE
    return bars.picture(names, columns, title, LINES, style.colors, length=length, paired=True, marks=marks)


def spread_table(spreads: tuple[DotProducts, ...]) -> pd.DataFrame:
    """One row per d_k: the variances, and the mean measures of rows without and with the scale."""
    rows = [
        {"d_k": one.d_k, "variance": one.variance, "scaled_variance": one.scaled_variance}
        | {f"unscaled_{name}": value for name, value in vars(one.unscaled).items()}
        | {f"scaled_{name}": value for name, value in vars(one.scaled).items()}
        for one in spreads
    ]
    return pd.DataFrame(rows)
