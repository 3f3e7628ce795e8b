"""All heads on the text at hand, as maps or as a table, in an order that can be chosen, and the chosen head."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pandas as pd
import streamlit as st

from attnviz import figures
from attnviz.analysis.heads import THRESHOLDS
from attnviz.core.edits import KINDS, Site
from attnviz.core.record import Record
from attnviz.figures.overview import is_flat
from attnviz.sources import estimate
from attnviz.ui import cache
from attnviz.ui.overview import card, tables, words
from attnviz.ui.overview.numbers import (
    LAYER,
    SORT,
    TITLES,
    Numbers,
    all_numbers,
    effects_of,
    head_of,
    numbers,
    switched_off,
)
from attnviz.ui.shared import everything, look, pictures, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import Place, ViewContext
from attnviz.ui.shared.setting import choice, several
from attnviz.ui.shared.state import control
from attnviz.ui.shared.toolbar import Toolbar
from attnviz.ui.text import lead

MAPS, TABLE = words.FORMS
FORM = choice("form", words.FORMS, MAPS, "tab")
KIND = several("kinds", KINDS)
ROLES = tuple(rule.name for rule in THRESHOLDS)
ROLE = choice("role", ROLES)

select = look.clicks("every", lambda point: look.look_at(*head_of(point)))


class Order(NamedTuple):
    """The heads to show, in which order.

    Attributes:
        by: the number that orders them, or `LAYER`.
        heads: None for all, in the order of the model.
        captions: the number of each head, as text; None in the order of the model.
    """

    by: str = LAYER
    heads: tuple[Place, ...] | None = None
    captions: tuple[str, ...] | None = None


def form() -> None:
    control(st.segmented_control, words.FORM, FORM, words.FORMS, lead="")


def all_heads(bar: Toolbar) -> None:
    every = _table(bar) if state.get(FORM) == TABLE else _maps(bar)
    with bar.export:
        pictures.take_away(every[0], "every", more=partial(_more, bar.at, *every))


def _maps(bar: Toolbar) -> tuple[figures.Figure, Numbers]:
    """Every head as a map, beside what is known of the chosen one: maps first, where they need no number."""
    context, plain = bar.at, _is_plain()
    lead(words.EACH_MAP)
    under = plain and is_flat(context.record)
    with st.container(horizontal=not under, gap="medium", key=None if under else "heads-beside"):
        place, beside = st.container(width="content", key="every-map"), st.container(width="stretch", key="beside")
    if plain:
        _draw(context, place, Order())
    with beside:
        swept = switched_off(context)
        head_numbers = numbers(context)
    with bar.view:
        order = _order(context, head_numbers)
    figure = _figure(context, order) if plain else _draw(context, place, order)
    with beside:
        card.verdict(context, swept)
        card.of_head(context, head_numbers, swept)
    return figure, head_numbers


def _table(bar: Toolbar) -> tuple[figures.Figure, Numbers]:
    """Every head as a row of numbers."""
    swept = switched_off(bar.at)
    head_numbers = numbers(bar.at)
    with bar.view:
        order = _order(bar.at, head_numbers)
    if head_numbers.names:
        tables.heads(bar.at, head_numbers, order.by, order.heads, swept)
    return _figure(bar.at, order), head_numbers


def _is_plain() -> bool:
    """Whether all heads are shown in the order of the model, so that no number is needed before."""
    return state.get(SORT) in (LAYER, None) and not state.get(KIND) and not state.get(ROLE)


def _draw(context: ViewContext, place: st.delta_generator.DeltaGenerator, order: Order) -> figures.Figure:
    figure = _figure(context, order)
    with place:
        pictures.picture(figure, "every", select="head", on_select=select)
    return figure


def _figure(context: ViewContext, order: Order) -> figures.Figure:
    by = "" if order.captions is None else f"{TITLES[order.by][:1].lower()}{TITLES[order.by][1:]}"
    options = {
        "sentence": context.sentence,
        "dark": context.dark,
        "rev": look.rev("every"),
        "focused": (context.site, context.head),
    }
    options["cost"] = estimate.of_all_maps(context.record)
    return cache.rendered(
        figures.overview, context.record, order=order.heads, captions=order.captions, by=by, **options
    )


def _order(context: ViewContext, head_numbers: Numbers) -> Order:
    """Controls for the order, kinds and role of the heads to show."""
    names = (LAYER, *dict.fromkeys((*effects_of(context.record), *head_numbers.names)))
    by = state.one_of(SORT, names, LAYER)
    options = {"shown": by, "format_func": lambda name: words.ORDER_IS.format(number=_short(name)), "width": 210}
    control(st.selectbox, words.ORDER, SORT, names, lead="", **options)
    kinds, all_kinds = _kinds(head_numbers.table)
    role = _role(head_numbers.table[head_numbers.table["kind"].isin(kinds)])
    is_measured = by in head_numbers.names
    if not is_measured and not role and kinds == all_kinds:
        return Order()
    ordered = head_numbers.ordered(by, tuple(kinds), role)
    heads = tuple(head for head, _ in ordered)
    if not is_measured:
        return Order(LAYER, heads)
    return Order(by, heads, tuple("–" if value is None else card.number(by, value) for _, value in ordered))


def _kinds(table: pd.DataFrame) -> tuple[list[str], list[str]]:
    """The kinds of attention that are chosen, and all there are."""
    there = [kind for kind in KINDS if (table["kind"] == kind).any()]
    kinds = [kind for kind in there if kind in state.get(KIND)] or there
    if len(there) > 1:
        options = {"shown": kinds, "read": lambda chosen: () if len(chosen) == len(there) else tuple(chosen)}
        control(st.pills, words.KINDS, KIND, there, lead="", selection_mode="multi", **options)
    return kinds, there


def _role(table: pd.DataFrame) -> str | None:
    """The role that is chosen among those that one of these heads has."""
    there = {name for listed in table["role"] for name in listed.split(", ")}
    names = [name for name in ROLES if name in there]
    role = state.one_of(ROLE, names, None)
    if names:
        options = {"index": None, "placeholder": words.ANY_ROLE, "width": 140}
        control(st.selectbox, common.ROLE, ROLE, names, shown=role, lead="", **options)
    return role


def _short(name: str) -> str:
    """The name of a number where there is little room."""
    return words.OFF_IN_ORDER.get(name) or TITLES.get(name, name).partition(" (")[0]


def _more(context: ViewContext, every: figures.Figure, head_numbers: Numbers) -> None:
    make = partial(
        _page, pictures.lent((context.record, context.before), "page"), context.sentence, context.site, context.number
    )
    options = {"key": "save page every", "help": words.INTERACTIVE_MEANS}
    pictures.save(words.INTERACTIVE, make, f"{every.name}-page.html", "text/html", **options)
    all_numbers(head_numbers.table, every.name)
    everything.button(context, (every,))


def _page(runs: Callable[[], tuple[Record, Record | None]], sentence: int, site: Site, head: int) -> bytes:
    """Every head as one page, for readers without attnviz."""
    from attnviz.export.explore import explore

    record, before = runs()
    return explore(record, before=before, sentence=sentence, site=site, head=head).encode()
