"""One query worked in full, as a table that is a picture: a row per key, a column per step, a bar per weight."""

import math
from typing import Unpack

import pandas as pd

from attnviz.charts import axes, bars
from attnviz.charts.picture import Picture
from attnviz.charts.style import Style
from attnviz.core.amounts import digits
from attnviz.core.display import file_stem, in_title, shown
from attnviz.core.edits import Site
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Token
from attnviz.figures.figure import Drawn, Figure, edited, subtitles, titled
from attnviz.walk import Row

LENGTH = 120
"""Pixels of a bar of weight 1."""

FEW = 3
"""Numbers of a long sum that are written."""

Column = tuple[str, list[str]]
"""What it is called, and a text for each key."""


def row(
    record: Record,
    site: Site,
    head: int,
    worked: Row,
    *,
    sentence: int = 0,
    key: int | None = None,
    **drawn: Unpack[Drawn],
) -> Figure:
    """One query worked in full.

    Args:
        worked: what `walk.row` gave.
        key: the key that is marked.
    """
    step, (queries, keys) = record.step(site), record.tokens(site, sentence=sentence)
    token = shown(queries[worked.query].text)
    what = f"Query {worked.query} in full, {token} · {site.head(head)} · {in_title(record.source)}"
    said = (f"{name} {text}" for name, (text,) in totals(worked))
    description = f"{what}. Over all keys: {', '.join(said)}. {worked.digits}"

    def drawing(style: Style) -> Picture:
        lines = [] if style.on_screen else subtitles(record)
        return drawing_of(worked, columns(worked, step, keys), key, what, lines, style)

    return Figure(
        name=file_stem(record.source, site, f"head-{head}-query-{worked.query}", end=edited(record.edits)),
        title=titled(what, record),
        style=Style(**drawn),
        draw=drawing,
        describe=lambda: description,
        tabulate=lambda: row_table(worked, keys),
        collect=lambda: {name: getattr(worked, name).numpy() for name in ("products", "weighted_values", "output")},
    )


def drawing_of(row: Row, every: list[Column], key: int | None, title: str, lines: list[str], style: Style) -> Picture:
    """The row as a picture."""
    (_, names), *steps, (weight, texts) = every
    drawn = [bars.Column(texts=texts, name=name, color=style.colors.text) for name, texts in steps]
    drawn += [bars.Column(row.weights.tolist(), texts, name=weight)]
    below = [f"{name} {text}" for name, (text,) in totals(row)]
    marks = {} if key not in row.keys else {row.keys.index(key): axes.CHOSEN}
    return bars.picture(names, drawn, title, lines, style.colors, length=LENGTH, marks=marks, below=below)


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
        (_scale(step), _texts(row.scaled)),
    ]
    found += [("softcap", _texts(row.capped))] if step.scoring.softcap is not None else []
    found += [("+ bias", _texts(row.biased))] if step.scoring.bias else []
    found += [(f"/ {step.scoring.temperature:g}", _texts(row.scores))] if step.scoring.temperature != 1 else []
    if step.mask is not None:
        blocked = [f"{digits(value)}  {rule}".strip() for value, rule in zip(row.masked, row.rules, strict=True)]
        found.append(("mask", blocked))
    found.append(("− max", _texts(row.shifted)))
    return [*found, ("exp", _texts(row.exps)), ("weight", _texts(row.weights))]


def arithmetic(row: Row, step: Step, key: int) -> dict[str, list[str]]:
    """From the product of one key to its weight, by the key of the stage: each step is done to the number before.

    An arrow gives the next number. A stage before the softmax that leaves it as it is goes unsaid.
    """
    at = row.keys.index(key)
    value = {name: digits(getattr(row, name)[at]) for name in ("sums", "scaled", "capped", "biased", "scores")}
    steps = {"scale": (_scale(step), value["scaled"])}
    if step.scoring.softcap is not None:
        steps["softcap"] = (f"softcap {step.scoring.softcap:g}", value["capped"])
    if step.scoring.bias:
        steps["bias"] = (_bias(float(row.biased[at] - row.capped[at])), value["biased"])
    steps["temperature"] = (f"÷ {step.scoring.temperature:g} (temperature)", value["scores"])
    made, now = {"products": [f"q · k = {_added(row.products[at].tolist())} = {value['sums']}"]}, value["sums"]
    for stage, (what, number) in steps.items():
        made |= {stage: [f"{what} → {number}"]} if number != now else {}
        now = number
    made |= {"mask": [f"{row.rules[at]} blocks it → {digits(-math.inf)}"]} if row.rules[at] else {}
    if row.state == "empty row":
        return made | {"softmax": [f"no key is left in this row, so its weight is {digits(row.weights[at])}"]}
    shifted = f"− row's largest ({digits(row.maximum)}) → {digits(row.shifted[at])}"
    share = f"÷ row's sum ({digits(row.sum_exps)}) → {digits(row.weights[at])}"
    return made | {"softmax": [shifted, f"exp → {digits(row.exps[at])}", share]}


def _added(numbers: list[float]) -> str:
    """A sum as it is written, of many numbers the first: "0.5000 − 0.2500 + …"."""
    first, *more = numbers[:FEW]
    signed = "".join(f" {'−' if number < 0 else '+'} {digits(abs(number))}" for number in more)
    return f"{digits(first)}{signed}{' + …' if len(numbers) > FEW else ''}"


def _bias(number: float) -> str:
    return f"{'−' if number < 0 else '+'} bias {digits(abs(number))}"


def _scale(step: Step) -> str:
    """What q · k is multiplied by; where that is 1/√d_k, so written."""
    scale, d_k = step.scoring.scale, step.query.shape[-1]
    return f"÷ √{d_k}" if math.isclose(scale * scale * d_k, 1) else f"· {scale:.4g}"


def totals(row: Row) -> list[Column]:
    """What belongs to the whole row: the maximum, the sum of the exps, the sum of the weights, over all keys."""
    numbers = {"largest score": row.maximum, "sum of exp": row.sum_exps, "sum of weights": row.row_sum}
    return [(name, [digits(value)]) for name, value in numbers.items()]


def _texts(values) -> list[str]:
    return [digits(value) for value in values.tolist()]


def row_table(worked: Row, keys: tuple[Token, ...]) -> pd.DataFrame:
    """One row per key: key, key_token and every number of `walk.Row`, exact."""
    names = ("sums", "scaled", "capped", "biased", "scores", "masked", "shifted", "exps", "weights", "recorded")
    table = pd.DataFrame({name: getattr(worked, name).double().numpy() for name in names})
    table.insert(0, "query", worked.query)
    table.insert(1, "key", list(worked.keys))
    table.insert(2, "key_token", [keys[i].text for i in worked.keys])
    table["blocked_by"] = list(worked.rules)
    return table
