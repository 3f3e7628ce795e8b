"""The numbers of the selected cell and of its query: a line at each step, and one table under the steps."""

import re

import torch
from torch import Tensor

from attnviz import figures
from attnviz.analysis.sentences import quoted_token
from attnviz.analysis.steps import KEYS, Row, Stage
from attnviz.core.amounts import digits, in_cell
from attnviz.core.record import Step
from attnviz.figures import Figure
from attnviz.figures.steps import main, scale_text
from attnviz.ui.shared import pictures
from attnviz.ui.steps import rail, words
from attnviz.ui.steps.view import StepsView, table
from attnviz.ui.text import heading, in_words, quiet

MOST_NUMBERS = 3
"""Numbers of a vector that are said."""


def asks(context: StepsView) -> None:
    """Question of the page: how the selected cell gets its weight; where that is unknown, how any cell does."""
    if context.source.read_only:
        heading(words.HOW_HERE)
        return
    query, key = _named(context)
    share = context.row.weights[context.row.keys.index(context.looked_at)]
    heading(words.HOW.format(query=query, share=in_cell(float(share)), key=key))


def in_numbers(context: StepsView, stage: Stage) -> None:
    """Result of a step, in the numbers of the selected cell or, where there are no cells, of the query's vector."""
    has_numbers, matrix = not context.source.read_only, main(stage)
    if has_numbers and stage.key == "values":
        _mixed(context)
    elif matrix is not None and matrix.axes[0] == "query" and matrix.axes[1] != "key":
        first = ", ".join(texts_of(matrix.values[context.query - matrix.rows.start][:MOST_NUMBERS]))
        in_words(words.VECTOR.format(query=_named(context)[0], count=matrix.shape[1], numbers=first))
    elif has_numbers and KEYS.index(stage.key) >= KEYS.index("products"):
        _of_cell(context, stage)


def _of_cell(context: StepsView, stage: Stage) -> None:
    """Arithmetic of a cell up to a step, a line each: of the selected one, else of the query's largest."""
    query, key = _named(context)
    steps = arithmetic(context.row, context.record.step(context.site), context.looked_at)
    reached = KEYS[: KEYS.index(stage.key) + 1]
    lines = "\n".join(line for stage_key, texts in steps.items() if stage_key in reached for line in texts)
    lines = re.sub("([−÷=·→+]) ", "\\1\N{NO-BREAK SPACE}", lines)  # a sign stays with its number
    in_words(f"{words.CELL.format(query=query, key=key)}\n{lines}")


def arithmetic(row: Row, step: Step, key: int) -> dict[str, list[str]]:
    """Lines from the product of one key to its weight, by the key of the stage: an arrow gives the next number.

    A stage before the softmax that leaves the number as it is has no line.
    """
    index, scoring, lines = row.keys.index(key), step.scoring, {}
    added = float(row.biased[index] - row.capped[index])
    steps = {
        "scale": (scale_text(step), row.scaled),
        "softcap": (f"softcap {scoring.softcap or 0:g}", row.capped),
        "bias": (f"{'−' if added < 0 else '+'} bias {digits(abs(added))}", row.biased),
        "temperature": (f"÷ {scoring.temperature:g} (temperature)", row.scores),
    }
    now, numbers = digits(row.sums[index]), row.products[index].tolist()
    terms = [f"{'−' if number < 0 else '+'} {digits(abs(number))}" for number in numbers[1:3]]
    terms += ["+ …"] if len(numbers) > 3 else []
    lines["products"] = [f"q · k = {' '.join([digits(numbers[0]), *terms])} = {now}"]
    for stage, (change, after) in steps.items():
        before, now = now, digits(after[index])
        if now != before:
            lines[stage] = [f"{change} → {now}"]
    if row.rules[index]:
        lines["mask"] = [f"{row.rules[index]} blocks it → −∞"]
    weight = digits(row.weights[index])
    if row.state == "empty row":
        return lines | {"softmax": [f"no key is left in this row, so its weight is {weight}"]}
    shifted = f"− row's largest ({digits(row.maximum)}) → {digits(row.shifted[index])}"
    share = f"÷ row's sum ({digits(row.sum_exps)}) → {weight}"
    return lines | {"softmax": [shifted, f"exp → {digits(row.exps[index])}", share]}


def _mixed(context: StepsView) -> None:
    """Terms of the first number of the output of a query."""
    row, (query, key) = context.row, _named(context)
    part, total = row.weighted_values[row.keys.index(context.looked_at), 0], row.output[0]
    part, rest, total = texts_of(torch.stack([part, total - part, total]))
    in_words(words.MIXED.format(query=query, key=key, part=part, rest=rest, total=total))


def _named(context: StepsView) -> tuple[str, str]:
    """The query and the key that are looked at."""
    query, key = context.query, context.looked_at if not context.source.read_only else 0
    return quoted_token(context.tokens[0][query].text, query), quoted_token(context.tokens[1][key].text, key)


def texts_of(numbers: Tensor) -> list[str]:
    return [digits(number) for number in numbers.tolist()]


def in_full(context: StepsView) -> dict[str, tuple[Figure, str]]:
    """The table of the chosen query, a row for each key, and folded the vectors behind it; gives what can be exported.

    Returns:
        Each figure and its key on the page, by its name; nothing of a model whose weights alone are known.
    """
    if context.source.read_only:
        return {}
    row, step, (queries, keys) = context.row, context.record.step(context.site), context.tokens
    heading(words.SHARES.format(query=queries[context.query].text, position=context.query))
    stage = figures.row(row, step)
    shares(context, stage)
    quiet(stage.changed, words.SOFTMAX, row.digits)
    exports = {words.THIS_QUERY: (_figure(context, stage), "row")}
    with pictures.folded(words.ELEMENTS, "elements") as is_open:
        if is_open:
            quiet(words.SIGNS)
            exports[words.ELEMENTS] = _tables(context, figures.neurons(row, len(keys)), "neurons")
    with pictures.folded(words.VALUES, "weighted values") as is_open:
        if is_open:
            exports[words.VALUES] = _tables(context, figures.values(row, len(keys)), "values")
            is_off = step.is_off(context.head, sentence=context.sentence)
            quiet(f"{words.INFLUENCE} {words.HEAD_OFF}" if is_off else words.INFLUENCE)
    return exports


def shares(context: StepsView, stage: Stage) -> None:
    """Each key of a query with every number up to its weight."""
    row, keys = context.row, context.tokens[1]
    columns = {matrix.name: texts_of(matrix.values[:, 0]) for matrix in stage.matrices}
    if "mask" in columns:
        blocked = zip(columns["mask"], row.rules, strict=True)
        columns["mask"] = [f"{text}  {rule}".strip() for text, rule in blocked]
    names = [f"{keys[i].text} ({i})" for i in row.keys]
    rows = [list(cells) for cells in zip(names, *columns.values(), strict=True)]
    marked = row.keys.index(context.looked_at)
    table(["key", *columns], rows, numbers=tuple(range(1, len(columns) + 1)), marked=marked)
    if len(row.keys) < len(keys):
        quiet(words.KEYS_SHOWN.format(first=row.keys.start, last=row.keys.stop - 1, all=len(keys)))
    if row.state == "nan":
        quiet(words.NOT_NUMBERS)
    elif row.state == "empty row":
        quiet(words.FULLY_MASKED.format(policy=context.edits.empty_rows))


def _figure(context: StepsView, stage: Stage) -> Figure:
    return figures.stage(context.record, context.site, context.head, stage, stage.matrices, **context.drawn)


def _tables(context: StepsView, stage: Stage, key: str) -> tuple[Figure, str]:
    figure = _figure(context, stage)
    pictures.picture(figure, key, select="cell", on_select=rail.select(context))
    return figure, key
