"""The numbers of the selected cell and of its query: a line at each step, and one table under the steps."""

import re

import torch
from torch import Tensor

from attnviz import figures, walk
from attnviz.core.amounts import digits, in_cell
from attnviz.core.tokens import Token
from attnviz.figures import Figure
from attnviz.figures.chain import main
from attnviz.figures.row import Column, arithmetic
from attnviz.figures.row import columns as columns_of
from attnviz.figures.row import totals as totals_of
from attnviz.ui.shared import pictures
from attnviz.ui.shared.text import heading, in_words, quiet
from attnviz.ui.steps import rail, words
from attnviz.ui.steps.walked import Walk, table
from attnviz.words import quoted_token

MOST_NUMBERS = 3
"""Numbers of a vector that are said."""


def asks(context: Walk) -> None:
    """Question of the page: how the selected cell gets its weight; where that is unknown, how any cell does."""
    if context.source.read_only or context.knobs.in_words:
        heading(words.HOW_HERE)
        return
    query, key = _named(context)
    share = context.worked.weights[context.worked.keys.index(context.looked_at)]
    heading(words.HOW.format(query=query, share=in_cell(float(share)), key=key))


def in_numbers(context: Walk, stage: walk.Stage) -> None:
    """Result of a step, in the numbers of the selected cell or, where there are no cells, of the query's vector."""
    has_numbers, table = not (context.source.read_only or context.knobs.in_words), main(stage)
    reached = walk.KEYS.index(stage.key)
    if has_numbers and stage.key == "values":
        _mixed(context)
    elif table is not None and table.axes[0] == "query" and table.axes[1] != "key":
        first = ", ".join(texts_of(table.values[context.query - table.rows.start][:MOST_NUMBERS]))
        in_words(words.VECTOR.format(query=_named(context)[0], count=table.shape[1], numbers=first))
    elif has_numbers and reached >= walk.KEYS.index("products"):
        _of_cell(context, reached)


def _of_cell(context: Walk, reached: int) -> None:
    """Arithmetic of a cell up to a step, a line each: of the selected one, else of the query's largest."""
    row, (query, key) = context.worked, _named(context)
    steps = arithmetic(row, context.record.step(context.site), context.looked_at)
    lines = "\n".join(
        line for stage_key, texts in steps.items() if walk.KEYS.index(stage_key) <= reached for line in texts
    )
    lines = re.sub("([−÷=·→+]) ", "\\1\N{NO-BREAK SPACE}", lines)  # a sign stays with its number
    in_words(f"{words.CELL.format(query=query, key=key)}\n{lines}")


def _mixed(context: Walk) -> None:
    """Terms of the first number of the output of a query."""
    row, (query, key) = context.worked, _named(context)
    part, total = row.weighted_values[row.keys.index(context.looked_at), 0], row.output[0]
    part, rest, total = texts_of(torch.stack([part, total - part, total]))
    in_words(words.MIXED.format(query=query, key=key, part=part, rest=rest, total=total))


def _named(context: Walk) -> tuple[str, str]:
    """The query and the key that are looked at."""
    query, key = context.query, context.looked_at if not context.source.read_only else 0
    return quoted_token(context.tokens[0][query].text, query), quoted_token(context.tokens[1][key].text, key)


def texts_of(numbers: Tensor) -> list[str]:
    return [digits(number) for number in numbers.tolist()]


def in_full(context: Walk) -> dict[str, tuple[Figure, str]]:
    """The table of the chosen query, a row for each key, and folded the vectors behind it; gives what can be exported.

    Returns:
        Each figure and its key on the page, by its name; nothing of a model whose weights alone are known.
    """
    if context.source.read_only:
        return {}
    row, (queries, keys) = context.worked, context.tokens
    heading(words.SHARES.format(query=queries[context.query].text, position=context.query))
    if context.knobs.in_words:
        quiet(words.WITHOUT_CHANGES.format(changes=", ".join(context.knobs.in_words)))
    shares(context, row, keys)
    quiet(" · ".join(f"{name} {text}" for name, (text,) in totals_of(row)), words.SOFTMAX, row.digits)
    where = {"sentence": context.sentence, "key": context.looked_at, "dark": context.dark}
    exports = {words.THIS_QUERY: (figures.row(context.record, context.site, context.head, row, **where), "row")}
    with pictures.folded(words.ELEMENTS, "elements") as is_open:
        if is_open:
            neurons = walk.neurons(
                context.record,
                context.site,
                context.head,
                context.query,
                sentence=context.sentence,
                keys=context.windows["keys"],
            )
            quiet(words.SIGNS)
            stage = figures.neurons(neurons, len(keys), context.record.step(context.site).query.shape[-1])
            exports[words.ELEMENTS] = _tables(context, stage, "neurons")
    with pictures.folded(words.VALUES, "weighted values") as is_open:
        if is_open:
            exports[words.VALUES] = _tables(context, figures.values(row, len(keys)), "values")
            quiet(f"{words.INFLUENCE} {words.HEAD_OFF}" if row.is_off else words.INFLUENCE)
    return exports


def shares(context: Walk, row: walk.Row, keys: tuple[Token, ...]) -> None:
    """Each key of a query with every number up to its weight."""
    columns: list[Column] = columns_of(row, context.record.step(context.site), keys)
    rows = [list(cells) for cells in zip(*(texts for _, texts in columns), strict=True)]
    numeric = tuple(range(1, len(columns)))
    table([name for name, _ in columns], rows, numbers=numeric, marked=row.keys.index(context.looked_at))
    if len(row.keys) < len(keys):
        quiet(words.KEYS_SHOWN.format(first=row.keys.start, last=row.keys.stop - 1, all=len(keys)))
    if row.state != "weights":
        quiet(words.FULLY_MASKED.format(policy=row.empty_rows) if row.state == "empty row" else words.NOT_NUMBERS)


def _tables(context: Walk, stage: walk.Stage, key: str) -> tuple[Figure, str]:
    figure = figures.stage(context.record, context.site, context.head, stage, stage.matrices, **context.drawn)
    pictures.picture(figure, key, select="cell", on_select=rail.select(context))
    return figure, key
