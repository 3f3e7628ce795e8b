"""What stands under the stages, in tabs. Each is a function of a `Walk`, and runs when its tab is open."""

import re
from collections.abc import Callable
from functools import partial

import streamlit as st
import torch
from torch import Tensor

from attnviz import figures, walk
from attnviz.core.amounts import digits, in_cell, short
from attnviz.core.tokens import Token
from attnviz.figures import Figure
from attnviz.figures.chain import main
from attnviz.figures.row import Column, arithmetic
from attnviz.figures.row import columns as columns_of
from attnviz.figures.row import totals as totals_of
from attnviz.ui.shared import cache, pictures, state
from attnviz.ui.shared.setting import choice
from attnviz.ui.shared.state import control, tabs
from attnviz.ui.shared.text import heading, in_words, large, quiet, verdict
from attnviz.ui.steps import numbers, order, rail, words
from attnviz.ui.steps.walked import Walk, elsewhere, table
from attnviz.words import quoted_token

D_KS = (1, 4, 16, 64, 256, 1024)
D_K = tuple(2**i for i in range(11))
PART = choice("part", words.TABS, next(iter(words.TABS)), "tab")
DK = choice("dk", {one: str(one) for one in D_K})

ROUNDED = 1e-5
"""How far numbers may differ for which it is said that rounding alone is between them: of those near 1."""

MOST_NUMBERS = 3
"""Numbers of a vector that are said."""

USUAL = 64
"""The d_k to begin with where that of the model is not known."""


def parts(at: Walk) -> Figure | None:
    """All tabs, and what is in the open one; gives its figure, if it can be saved."""

    def tab(draw: Callable[[Walk], Figure | None]) -> Callable[[], Figure | None]:
        if at.source.read_only and draw not in (scale, order.order):
            return partial(elsewhere, at.source.read_only)
        return partial(_tall, draw, at)

    heading(words.CLOSER)
    return tabs(
        PART, dict(zip(words.TABS, map(tab, (row, neurons, scale, order.order, numbers.edit, checks)), strict=True))
    )


def _tall(draw: Callable[[Walk], Figure | None], at: Walk) -> Figure | None:
    """What a tab has, as high as the window: so that a link can open it under the toolbar, and no other tab jumps."""
    with st.container(key="closer"):
        return draw(at)


def asks(at: Walk) -> None:
    """What the page answers: how the selected cell comes by its weight; where that is not known, how any does."""
    if at.source.read_only or at.knobs.in_words:
        heading(words.HOW_HERE)
        return
    query, key = _named(at)
    heading(words.HOW.format(query=query, share=in_cell(_share(at)), key=key))


def _share(at: Walk) -> float:
    """The weight of the key that is looked at."""
    return float(at.worked.weights[at.worked.keys.index(at.looked_at)])


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
    if reached < walk.KEYS.index("softmax"):
        said = words.CELL.format(query=query, key=key)
    else:
        said = words.GIVES.format(query=query, share=digits(_share(at)), key=key)
    in_words(f"{said}\n{lines}")


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


def row(at: Walk) -> Figure:
    """One query worked in full; gives its figure."""
    found, key, (queries, keys) = at.worked, at.looked_at, at.tokens
    figure = figures.row(at.record, at.site, at.head, found, sentence=at.sentence, key=key, dark=at.dark)
    with st.container():
        large(words.SHARES.format(query=queries[at.query].text, position=at.query))
        if at.knobs.in_words:
            quiet(words.WITHOUT_CHANGES.format(changes=", ".join(at.knobs.in_words)))
    with st.container(horizontal=True, gap="large"):
        with st.container(width=600):
            shares(at, found, keys, key)
        with st.container(width="stretch"):
            _worked(found)
            _vectors(at, found, keys, key)
    return figure


def shares(at: Walk, found: walk.Row, keys: tuple[Token, ...], key: int) -> None:
    """Each key of a query with every number up to its weight."""
    head, rows = worked_table(at, found)
    table(head, rows, numbers=tuple(range(1, len(head))), marked=found.keys.index(key))
    if len(found.keys) < len(keys):
        quiet(words.KEYS_SHOWN.format(first=found.keys.start, last=found.keys.stop - 1, all=len(keys)))
    if found.state != "weights":
        quiet(words.FULLY_MASKED.format(policy=found.empty_rows) if found.state == "empty row" else words.NOT_NUMBERS)


def _worked(found: walk.Row) -> None:
    """What the row adds up to, and how it was worked."""
    table(*totals(found), numbers=(0, 1, 2))
    quiet(words.SOFTMAX, found.digits)


def _vectors(at: Walk, found: walk.Row, keys: tuple[Token, ...], key: int) -> None:
    """The two vectors behind the numbers: what a score is the sum of, and what the weights add up to."""
    with pictures.folded(words.PRODUCTS.format(query=at.query, key=key), "cell products") as is_open:
        if is_open:
            _table_of(at, figures.products(found, key), "products")
            large(words.PRODUCTS_SUM.format(total=digits(found.sums[found.keys.index(key)])))
    with pictures.folded(words.VALUES, "weighted values") as is_open:
        if is_open:
            _table_of(at, figures.values(found, len(keys)), "values")
            quiet(f"{words.INFLUENCE} {words.HEAD_OFF}" if found.is_off else words.INFLUENCE)


def worked_table(at: Walk, found: walk.Row) -> tuple[list[str], list[list[str]]]:
    """The keys of a query, one row each: head and rows."""
    return _rows(columns_of(found, at.record.step(at.site), at.tokens[1]))


def _rows(columns: list[Column]) -> tuple[list[str], list[list[str]]]:
    return [name for name, _ in columns], [list(cells) for cells in zip(*(texts for _, texts in columns), strict=True)]


def totals(found: walk.Row) -> tuple[list[str], list[list[str]]]:
    totals = totals_of(found)
    return [name for name, _ in totals], [[texts[0] for _, texts in totals]]


def _table_of(at: Walk, stage: walk.Stage, key: str) -> None:
    figure = figures.stage(at.record, at.site, at.head, stage, stage.matrices, **at.drawn)
    pictures.show(figure, key, select="cell", on_select=rail.select(at))


def neurons(at: Walk) -> None:
    """q, k and q∘k for the chosen query, every key and every dimension."""
    keys = at.windows["keys"]
    found = walk.neurons(at.record, at.site, at.head, at.query, sentence=at.sentence, keys=keys)
    d_k = at.record.step(at.site).query.shape[-1]
    stage = figures.neurons(found, len(at.tokens[1]), d_k)
    large(words.BY_DIMENSION.format(query=at.tokens[0][at.query].text, position=at.query))
    quiet(words.SIGNS)
    _table_of(at, stage, "neurons")


def scale(at: Walk) -> None:
    """Why scores are divided by √d_k."""
    lead, _, rest = words.WHY_SCALE.partition(". ")
    large(f"{lead}.")
    with st.container(horizontal=True, gap="large"):
        with st.container(width=560):
            d_k = dot_products(at)
            quiet(rest)
        with st.container(width="stretch"):
            pictures.show(largest_weights(at, d_k), "spread", table=True)
            if not at.source.read_only:
                quiet(words.CLONES)


def dot_products(at: Walk) -> int:
    """What random queries and keys of a chosen d_k give, with the scale and without it; gives that d_k."""
    own = None if at.source.read_only else at.record.step(at.site).query.shape[-1]
    d_k = state.get(DK) or min(D_K, key=lambda one: abs(one - (own or USUAL)))
    control(st.select_slider, words.WIDTH_HERE.format(own=own) if own else words.WIDTH, DK, D_K, shown=d_k)
    found = spreads((d_k,))[0]
    rows = [
        [words.VARIANCE, digits(found.variance), digits(found.scaled_variance)],
        [words.LARGEST, digits(found.unscaled.largest), digits(found.scaled.largest)],
        [words.ENTROPY, digits(found.unscaled.entropy), digits(found.scaled.entropy)],
        [words.GRADIENT, digits(found.unscaled.gradient), digits(found.scaled.gradient)],
    ]
    table([words.RANDOM_QUERIES.format(d_k=d_k), words.UNSCALED, words.SCALED], rows, numbers=(1, 2))
    quiet(words.IN_THEORY.format(d_k=d_k))
    return d_k


def largest_weights(at: Walk, d_k: int) -> Figure:
    """Say what is drawn, and give it: the largest weight at several d_k, of which one is marked."""
    quiet(words.LARGEST_OF_ROW)
    return figures.spread(spreads(tuple(sorted({*D_KS, d_k}))), chosen=d_k, **at.styled)


_spread = cache.kept(walk.dot_product_variance)


def spreads(d_ks: tuple[int, ...]) -> tuple[walk.DotProducts, ...]:
    """What was measured of each d_k."""
    return tuple(_spread((d_k,))[0] for d_k in d_ks)


def checks(at: Walk) -> None:
    """The numbers of this page beside PyTorch's; what the call costs."""
    with st.container(horizontal=True, gap="large"):
        with st.container(width=560):
            heading(words.CHECK)
            found = walk.check(at.record, at.origins, at.site, sentence=at.sentence, **at.windows)
            both = found.function, found.module
            apart = [n for one in both for n in (one.output, one.weights) if n is not None]
            if apart and all(n <= ROUNDED for n in apart):
                verdict(words.SAME_AS_PYTORCH, "right")
            for against in both:
                in_words(against.says)
            quiet(words.CHECK_MEANS)
        with st.container(width="stretch"):
            heading(words.COST)
            table(words.COST_HEAD, costs(at), numbers=(0, 1, 2, 3))
            quiet(words.COST_MEANS)


def costs(at: Walk) -> list[list[str]]:
    """The cost now and at other lengths, one row each."""
    return [
        [
            f"{one.queries:,}" if one.queries == one.keys else f"{one.queries:,} × {one.keys:,}",
            *(
                f"{number:,.0f}" if number < 999_500 else short(number)
                for number in (one.cost.full.flops_scores, one.cost.full.flops_output)
            ),
            short(one.cost.full.bytes_scores, "B"),
        ]
        for one in walk.growth(at.record, at.site)
    ]
