"""Bars of probabilities: before a change hollow and quiet, after it filled. All is drawn in pixels, as data."""

from functools import lru_cache

import altair as alt

from attnviz.charts import frame
from attnviz.charts.frame import Frame, box, words
from attnviz.charts.picture import Form, Picture
from attnviz.charts.theme import LINE, WORD_CHARACTER, Theme, config
from attnviz.core.amounts import percent

BEFORE, AFTER = "before the change", "after the change"

THICK, THIN = 12, 8
"""Pixels: a bar after a change, or of one run alone, and one before."""

PERCENT = 48
"""Pixels that a bar's number takes beside it."""

SWATCH = 18

NARROWEST = 330
"""Pixels in which titles and notes are broken if the bars are narrower."""


def bar(x: float, y: float, probability: float, length: float, colors: Theme, *, before: bool = False) -> Frame:
    """A bar around the line `y`, of `length` pixels for a probability of 1, and its number; NaN has no bar."""
    is_number = probability == probability
    end = x + (probability * length if is_number else 0)
    color = (colors.quiet if before else colors.text) if is_number else colors.warning
    return Frame(
        boxes=(_ground(x, y, end, colors, before),) if is_number else (),
        words=(words(end + 6, y, percent(probability), color),),
    )


def legend(x: float, top: float, texts: tuple[str, str], colors: Theme) -> Frame:
    """What the two kinds of bars are, before and after, in two lines."""
    drawn = Frame()
    for i, text in enumerate(texts):
        y = top + (i + 0.5) * (LINE + 2)
        drawn += Frame(
            boxes=(_ground(x, y, x + SWATCH, colors, i == 0),), words=(words(x + SWATCH + 8, y, text, colors.text),)
        )
    return drawn


def picture(drawn: Frame, colors: Theme) -> Picture:
    """A picture of nothing but a frame."""
    return Picture(_form(colors), frame.tables(drawn))


def word_width(text: str) -> float:
    return frame.text_width(text, WORD_CHARACTER)


def _ground(x: float, y: float, end: float, colors: Theme, before: bool) -> dict:
    half = (THIN if before else THICK) / 2
    if before:
        return box(x, y - half, end, y + half, stroke=colors.quiet)
    return box(x, y - half, end, y + half, fill=colors.ramp[5], width=0)


@lru_cache(maxsize=4)
def _form(colors: Theme) -> Form:
    chart = alt.layer(*frame.layers(), width=1, height=1, autosize="pad")
    return Form.of(chart.configure(**config(colors)))
