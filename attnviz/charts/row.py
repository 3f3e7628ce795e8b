"""One query worked in full, as a table that is a picture: a row per key, a column per step, a bar per weight."""

from attnviz.charts import axes, bars
from attnviz.charts.picture import Picture
from attnviz.charts.theme import theme
from attnviz.core.amounts import digits
from attnviz.core.display import shown
from attnviz.core.record import Step
from attnviz.core.tokens import Token
from attnviz.walk import Row

LENGTH = 120
"""Pixels of a bar of weight 1."""

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
    (_, names), *found = columns(row, step, keys)
    drawn = [bars.Column(texts=texts, name=name, color=colors.text) for name, texts in found[:-1]]
    drawn += [bars.Column(row.weights.tolist(), found[-1][1], name=found[-1][0])]
    below = [f"{name} {text}" for name, (text,) in totals(row)]
    marks = {} if selected not in row.keys else {row.keys.index(selected): axes.CHOSEN}
    return bars.picture(names, drawn, title, lines, colors, length=LENGTH, marks=marks, below=below)
