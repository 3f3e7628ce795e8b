"""One query worked in full, as a table that is a picture: a row per key, a column per step, a bar per weight."""

from attnviz.charts import bars, frame
from attnviz.charts.digits import digits
from attnviz.charts.frame import Frame, box, text_width, words
from attnviz.charts.picture import Picture
from attnviz.charts.theme import LINE, Theme, theme
from attnviz.core.display import shown
from attnviz.core.record import Step
from attnviz.core.tokens import Token
from attnviz.walk import Row

STEP, GAP, LENGTH = 22, 22, 120
"""Pixels: from row to row, between columns, and a bar of weight 1."""

Column = tuple[str, list[str]]
"""What it is called, and a text for each key."""


def columns(row: Row, step: Step, keys: tuple[Token, ...]) -> list[Column]:
    """Every step of a row that this call has, with its numbers as they are shown.

    Args:
        row: what `walk.row` gave.
        step: the call, which says what it has.
        keys: the tokens of all keys.
    """
    found: list[Column] = [
        ("key", [f"{shown(keys[i].text)} ({i})" for i in row.keys]),
        ("q · k", _texts(row.sums)),
        (f"· {step.scoring.scale:.4g}", _texts(row.scaled)),
    ]
    found += [("softcap", _texts(row.capped))] if step.scoring.softcap is not None else []
    found += [("+ bias", _texts(row.biased))] if step.scoring.bias else []
    found += [(f"/ {step.scoring.temperature:g}", _texts(row.scores))] if step.scoring.temperature != 1 else []
    if step.mask is not None:
        blocked = [f"{digits(value)}  {rule}".strip() for value, rule in zip(row.masked, row.rules, strict=True)]
        found.append(("mask", blocked))
    found.append(("− max", _texts(row.shifted)))
    return [*found, ("exp", _texts(row.exps)), ("weight", _texts(row.weights))]


def totals(row: Row) -> list[Column]:
    """What belongs to the whole row: the maximum, the sum of the exps, the sum of the weights, over all keys."""
    numbers = {"largest score": row.maximum, "sum of exp": row.sum_exps, "sum of weights": row.row_sum}
    return [(name, [digits(value)]) for name, value in numbers.items()]


def _texts(values) -> list[str]:
    return [digits(value) for value in values.tolist()]


def picture(
    row: Row,
    step: Step,
    keys: tuple[Token, ...],
    *,
    title: str,
    lines: tuple[str, ...] = (),
    selected: int | None = None,
    dark: bool = False,
) -> Picture:
    """The row as a picture.

    Args:
        selected: the key that is marked.
    """
    colors = theme(dark)
    drawn, x = Frame(), 0.0
    for name, texts in columns(row, step, keys):
        part, width = _column(name, texts, x, colors)
        drawn, x = drawn + part, x + width + GAP
    for i, weight in enumerate(row.weights.tolist()):
        if weight == weight:
            y = (i + 0.5) * STEP
            drawn += Frame(boxes=(box(x, y - 6, x + weight * LENGTH, y + 6, fill=colors.ramp[5], width=0),))
    x += LENGTH
    if selected in row.keys:
        y = (selected - row.keys.start) * STEP
        drawn += Frame(boxes=(box(-6, y, x, y + STEP, stroke=colors.accent, width=1.5),))
    bottom = len(row.keys) * STEP + 8
    for name, (text,) in totals(row):
        drawn += Frame(words=(words(0, bottom + LINE / 2, f"{name} {text}", colors.text),))
        bottom += LINE
    drawn += frame.heading(title, lines, left=0, top=-LINE - 12, width=x, colors=colors)
    return bars.picture(drawn, colors)


def _column(name: str, texts: list[str], x: float, colors: Theme) -> tuple[Frame, float]:
    width = max([text_width(text) for text in texts] + [bars.word_width(name)])
    below = tuple(words(x, (i + 0.5) * STEP, text, colors.text) for i, text in enumerate(texts))
    return Frame(words=(words(x, -0.5 * LINE, name, colors.quiet),), tokens=below), width
