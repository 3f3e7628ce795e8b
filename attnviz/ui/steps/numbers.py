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


def asks(at: Walk) -> None:
    """What the page answers: how the selected cell comes by its weight; where that is not known, how any does."""
    if at.source.read_only or at.knobs.in_words:
        heading(words.HOW_HERE)
        return
    query, key = _named(at)
    share = at.worked.weights[at.worked.keys.index(at.looked_at)]
    heading(words.HOW.format(query=query, share=in_cell(float(share)), key=key))


def in_numbers(at: Walk, stage: walk.Stage) -> None:
    """What a step makes, in the numbers of the selected cell or, where there are no cells, of the query's vector."""
    known, table = not (at.source.read_only or at.knobs.in_words), main(stage)
    reached = walk.KEYS.index(stage.key)
    if known and stage.key == "values":
        _mixed(at)
    elif table is not None and table.axes[0] == "query" and table.axes[1] != "key":
        first = ", ".join(texts_of(table.values[at.query - table.rows.start][:MOST_NUMBERS]))
        in_words(words.VECTOR.format(query=_named(at)[0], count=table.shape[1], numbers=first))
    elif known and reached >= walk.KEYS.index("products"):
        _of_cell(at, reached)


def _of_cell(at: Walk, reached: int) -> None:
    """What has been done to a cell up to a step, a line each: to the selected one, else to the query's largest."""
    found, (query, key) = at.worked, _named(at)
    steps = arithmetic(found, at.record.step(at.site), at.looked_at)
    lines = "\n".join(line for one, said in steps.items() if walk.KEYS.index(one) <= reached for line in said)
    lines = re.sub("([−÷=·→+]) ", "\\1\N{NO-BREAK SPACE}", lines)  # a sign stays with its number
    in_words(f"{words.CELL.format(query=query, key=key)}\n{lines}")


def _mixed(at: Walk) -> None:
    """What the first number of the output of a query is the sum of."""
    found, (query, key) = at.worked, _named(at)
    part, total = found.weighted_values[found.keys.index(at.looked_at), 0], found.output[0]
    part, rest, total = texts_of(torch.stack([part, total - part, total]))
    in_words(words.MIXED.format(query=query, key=key, part=part, rest=rest, total=total))


def _named(at: Walk) -> tuple[str, str]:
    """The query and the key that are looked at."""
    query, key = at.query, at.looked_at if not at.source.read_only else 0
    return quoted_token(at.tokens[0][query].text, query), quoted_token(at.tokens[1][key].text, key)


def texts_of(numbers: Tensor) -> list[str]:
    return [digits(number) for number in numbers.tolist()]


def in_full(at: Walk) -> dict[str, tuple[Figure, str]]:
    """The table of the chosen query, a row for each key, and folded the vectors behind it; gives what can be exported.

    Returns:
        Each figure and its key on the page, by its name; nothing of a model whose weights alone are known.
    """
    if at.source.read_only:
        return {}
    row, (queries, keys) = at.worked, at.tokens
    heading(words.SHARES.format(query=queries[at.query].text, position=at.query))
    if at.knobs.in_words:
        quiet(words.WITHOUT_CHANGES.format(changes=", ".join(at.knobs.in_words)))
    shares(at, row, keys)
    quiet(" · ".join(f"{name} {text}" for name, (text,) in totals_of(row)), words.SOFTMAX, row.digits)
    where = {"sentence": at.sentence, "key": at.looked_at, "dark": at.dark}
    drawn = {words.THIS_QUERY: (figures.row(at.record, at.site, at.head, row, **where), "row")}
    with pictures.folded(words.ELEMENTS, "elements") as is_open:
        if is_open:
            found = walk.neurons(at.record, at.site, at.head, at.query, sentence=at.sentence, keys=at.windows["keys"])
            quiet(words.SIGNS)
            stage = figures.neurons(found, len(keys), at.record.step(at.site).query.shape[-1])
            drawn[words.ELEMENTS] = _tables(at, stage, "neurons")
    with pictures.folded(words.VALUES, "weighted values") as is_open:
        if is_open:
            drawn[words.VALUES] = _tables(at, figures.values(row, len(keys)), "values")
            quiet(f"{words.INFLUENCE} {words.HEAD_OFF}" if row.is_off else words.INFLUENCE)
    return drawn


def shares(at: Walk, row: walk.Row, keys: tuple[Token, ...]) -> None:
    """Each key of a query with every number up to its weight."""
    columns: list[Column] = columns_of(row, at.record.step(at.site), keys)
    rows = [list(cells) for cells in zip(*(texts for _, texts in columns), strict=True)]
    numeric = tuple(range(1, len(columns)))
    table([name for name, _ in columns], rows, numbers=numeric, marked=row.keys.index(at.looked_at))
    if len(row.keys) < len(keys):
        quiet(words.KEYS_SHOWN.format(first=row.keys.start, last=row.keys.stop - 1, all=len(keys)))
    if row.state != "weights":
        quiet(words.FULLY_MASKED.format(policy=row.empty_rows) if row.state == "empty row" else words.NOT_NUMBERS)


def _tables(at: Walk, stage: walk.Stage, key: str) -> tuple[Figure, str]:
    figure = figures.stage(at.record, at.site, at.head, stage, stage.matrices, **at.drawn)
    pictures.picture(figure, key, select="cell", on_select=rail.select(at))
    return figure, key
