"""Why scores are divided by √d_k: how much the largest weight takes, with and without it, as d_k grows."""

from attnviz.charts import bars, frame
from attnviz.charts.frame import Frame, box, words
from attnviz.charts.picture import Picture
from attnviz.charts.theme import LINE, theme
from attnviz.walk import Spread

STEP, LENGTH, LEFT = 42, 300, 90
"""Pixels: from one d_k to the next, a bar of weight 1, and the room of what stands before the bars."""

TITLE = "Largest weight of a row of random scores"
LINES = ("16 keys; the numbers of q and k are independent, with mean 0 and variance 1",)


def picture(
    spreads: tuple[Spread, ...], *, chosen: int | None = None, titled: bool = True, dark: bool = False
) -> Picture:
    """Two bars for each d_k: hollow without the scale, filled with it.

    Args:
        chosen: the d_k that is marked.
    """
    colors, drawn = theme(dark), Frame()
    for i, spread in enumerate(spreads):
        y = i * STEP + STEP / 2
        color = colors.accent if spread.d_k == chosen else colors.text
        drawn += Frame(words=(words(0, y, f"d_k = {spread.d_k:,}", color),))
        drawn += bars.bar(LEFT, y - 9, spread.unscaled.largest, LENGTH, colors, before=True)
        drawn += bars.bar(LEFT, y + 6, spread.scaled.largest, LENGTH, colors)
        if spread.d_k == chosen:
            drawn += Frame(boxes=(box(-10, y - STEP / 2 + 2, -6, y + STEP / 2 - 2, fill=colors.accent, width=0),))
    drawn += bars.legend(LEFT, len(spreads) * STEP + 8, ("q·k as it is", "q·k / √d_k"), colors)
    if titled:
        drawn += frame.heading(TITLE, LINES, left=-10, top=-LINE / 2, width=LEFT + LENGTH + 60, colors=colors)
    return bars.picture(drawn, colors)
