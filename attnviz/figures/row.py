"""One query worked in full, as a table that is a picture: a row per key, a column per step, a bar per weight."""

import math
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz.charts import bars
from attnviz.core.amounts import digits
from attnviz.core.display import file_stem, in_title, visible_text
from attnviz.core.edits import Site
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Token
from attnviz.figures.base import BarFigure
from attnviz.figures.figure import edited, subtitles, titled
from attnviz.walk import Row

FEW = 3
"""Numbers of a long sum that are written."""

Column = tuple[str, list[str]]
"""A name, and a text for each key."""


@dataclass(frozen=True, eq=False)
class QueryRow(BarFigure):
    """One query worked in full.

    Attributes:
        worked: what `walk.row` gave.
        key: the key that is marked.
    """

    record: Record
    site: Site
    head: int
    worked: Row
    _: KW_ONLY
    sentence: int = 0
    key: int | None = None

    @cached_property
    def name(self) -> str:
        what = f"head-{self.head}-query-{self.worked.query}"
        return file_stem(self.record.source, self.site, what, end=edited(self.record.edits))

    @cached_property
    def title(self) -> str:
        return titled(self._heading, self.record)

    @cached_property
    def description(self) -> str:
        return f"{self._heading}. Over all keys: {self._totals}. {self.worked.digits}"

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per key: key, key_token and every number of `walk.Row`, exact."""
        row, keys = self.worked, self._tokens[1]
        names = ("sums", "scaled", "capped", "biased", "scores", "masked", "shifted", "exps", "weights", "recorded")
        table = pd.DataFrame({name: getattr(row, name).double().numpy() for name in names})
        table.insert(0, "query", row.query)
        table.insert(1, "key", list(row.keys))
        table.insert(2, "key_token", [keys[i].text for i in row.keys])
        table["blocked_by"] = list(row.rules)
        return table

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self.worked, name).numpy() for name in ("products", "weighted_values", "output")}

    @cached_property
    def bars(self) -> bars.Bars:
        row = self.worked
        (_, names), *steps, (weight, texts) = columns(row, self.record.step(self.site), self._tokens[1])
        return bars.Bars(
            title=self._heading,
            lines=[*subtitles(self.record, self), f"over all keys: {self._totals}"],
            names=names,
            columns=[
                *(bars.Column(numbers, name=name) for name, numbers in steps),
                bars.Column(texts, row.weights.tolist(), name=weight, longest=1.0),
            ],
            style=self.style,
            length=120,
            chosen=[i for i, key in enumerate(row.keys) if key == self.key],
        )

    @property
    def _heading(self) -> str:
        row = self.worked
        token = visible_text(self._tokens[0][row.query].text)
        return f"Query {row.query} in full, {token} · {self.site.head(self.head)} · {in_title(self.record.source)}"

    @property
    def _tokens(self) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        return self.record.tokens(self.site, sentence=self.sentence)

    @property
    def _totals(self) -> str:
        return ", ".join(f"{name} {text}" for name, (text,) in totals(self.worked))


def columns(row: Row, step: Step, keys: tuple[Token, ...]) -> list[Column]:
    """Every step of a row that this call has, with its numbers as they are shown.

    Args:
        row: what `walk.row` gave.
        step: the call, which says what it has.
        keys: the tokens of all keys.
    """
    table_columns: list[Column] = [
        ("key", [f"{visible_text(keys[i].text)} ({i})" for i in row.keys]),
        ("q · k", _texts(row.sums)),
        (_scale(step), _texts(row.scaled)),
    ]
    table_columns += [("softcap", _texts(row.capped))] if step.scoring.softcap is not None else []
    table_columns += [("+ bias", _texts(row.biased))] if step.scoring.bias else []
    table_columns += [(f"/ {step.scoring.temperature:g}", _texts(row.scores))] if step.scoring.temperature != 1 else []
    if step.mask is not None:
        blocked = [f"{digits(value)}  {rule}".strip() for value, rule in zip(row.masked, row.rules, strict=True)]
        table_columns.append(("mask", blocked))
    table_columns.append(("− max", _texts(row.shifted)))
    return [*table_columns, ("exp", _texts(row.exps)), ("weight", _texts(row.weights))]


def arithmetic(row: Row, step: Step, key: int) -> dict[str, list[str]]:
    """From the product of one key to its weight, by the key of the stage: each step is done to the number before.

    An arrow gives the next number. A stage before the softmax that leaves it as it is goes unsaid.
    """
    index = row.keys.index(key)
    value = {name: digits(getattr(row, name)[index]) for name in ("sums", "scaled", "capped", "biased", "scores")}
    steps = {"scale": (_scale(step), value["scaled"])}
    if step.scoring.softcap is not None:
        steps["softcap"] = (f"softcap {step.scoring.softcap:g}", value["capped"])
    if step.scoring.bias:
        steps["bias"] = (_bias(float(row.biased[index] - row.capped[index])), value["biased"])
    steps["temperature"] = (f"÷ {step.scoring.temperature:g} (temperature)", value["scores"])
    lines, now = {"products": [f"q · k = {_added(row.products[index].tolist())} = {value['sums']}"]}, value["sums"]
    for stage, (what, number) in steps.items():
        if number != now:
            lines[stage] = [f"{what} → {number}"]
        now = number
    if row.rules[index]:
        lines["mask"] = [f"{row.rules[index]} blocks it → {digits(-math.inf)}"]
    if row.state == "empty row":
        return lines | {"softmax": [f"no key is left in this row, so its weight is {digits(row.weights[index])}"]}
    shifted = f"− row's largest ({digits(row.maximum)}) → {digits(row.shifted[index])}"
    share = f"÷ row's sum ({digits(row.sum_exps)}) → {digits(row.weights[index])}"
    return lines | {"softmax": [shifted, f"exp → {digits(row.exps[index])}", share]}


def _added(numbers: list[float]) -> str:
    """A sum as it is written, of many numbers the first: "0.5000 − 0.2500 + …"."""
    first, *more = numbers[:FEW]
    signed = "".join(f" {'−' if number < 0 else '+'} {digits(abs(number))}" for number in more)
    return f"{digits(first)}{signed}{' + …' if len(numbers) > FEW else ''}"


def _bias(number: float) -> str:
    return f"{'−' if number < 0 else '+'} bias {digits(abs(number))}"


def _scale(step: Step) -> str:
    """Factor of q · k; 1/√d_k is written so."""
    scale, d_k = step.scoring.scale, step.query.shape[-1]
    return f"÷ √{d_k}" if math.isclose(scale * scale * d_k, 1) else f"· {scale:.4g}"


def totals(row: Row) -> list[Column]:
    """Numbers of the whole row: the maximum, the sum of the exps, the sum of the weights, over all keys."""
    numbers = {"largest score": row.maximum, "sum of exp": row.sum_exps, "sum of weights": row.row_sum}
    return [(name, [digits(value)]) for name, value in numbers.items()]


def _texts(values) -> list[str]:
    return [digits(value) for value in values.tolist()]
