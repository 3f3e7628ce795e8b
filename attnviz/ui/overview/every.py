"""All heads as maps, in an order that can be chosen, beside the numbers of the chosen one."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz import figures
from attnviz.core.edits import KINDS, Site
from attnviz.core.record import Record
from attnviz.figures.overview import is_flat
from attnviz.metrics.roles import THRESHOLDS
from attnviz.sources import estimate
from attnviz.ui.overview import words
from attnviz.ui.overview.card import number
from attnviz.ui.overview.numbers import LAYER, SORT, TITLES, Numbers, all_numbers, head_of, numbers
from attnviz.ui.shared import cache, everything, look, pictures, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import Look, Place
from attnviz.ui.shared.setting import Setting, choice, kept, several
from attnviz.ui.shared.state import control
from attnviz.ui.shared.toolbar import Bar

KIND = several("kinds", KINDS)
ROLES = tuple(rule.name for rule in THRESHOLDS)
ROLE = choice("role", ROLES)
PAINTED: Setting[tuple] = kept("painted every", ())
"""The run of which all heads were painted last."""

PAINTING = 0.08
"""Seconds that a browser takes to paint 144 heads."""

Order = tuple[Place, ...] | None
"""The heads that are shown; None for all of them in the order of the model."""

UNDER = """<style>@media (min-width: 1001px) {.st-key-picture-every .marks {max-width: 100%; height: auto;}
.st-key-beside {display: grid; grid-template-columns: 1fr 1fr; gap: .75rem 2.5rem; align-items: start;}
.st-key-beside > .stElementContainer:has(.facts) {grid-column: 2; grid-row: 1 / span 9;}}</style>"""
"""What is said of a head, in two columns under maps that are as wide as the page."""
BESIDE = """<style>@media (min-width: 1001px) {[data-testid="stLayoutWrapper"]:has(> .st-key-beside) {
position: sticky; top: calc(3.75rem + max(48px, var(--row-one, 0px)) + 52px); align-self: flex-start;}}</style>"""
"""Beside maps that go on below the screen it stays in view."""

select = look.clicks("every", lambda point: look.look_at(*head_of(point)))


def panel(bar: Bar, beside: Callable[[Look, Numbers], None], among: tuple[str, ...] = ()) -> None:
    """All heads as maps beside their numbers: first the maps, where they need no number.

    Args:
        beside: draws what stands beside the maps.
        among: the numbers to order the heads by; all, and the order of the model, if none are given.
    """
    at, plain = bar.at, not among and _asks_for_no_number(bar.at)
    under = plain and is_flat(at.record)
    with st.container(horizontal=not under, gap="medium"):
        st.html(UNDER if under else BESIDE)
        place, right = st.container(width="content"), st.container(width="stretch", key="beside")
    if plain:
        _draw(at, place, None, None, "")
        _let_paint(at.run)
    with right:
        known = numbers(at)
    with bar.view:
        order = ordered(known, among)
    every = _figure(at, *order) if plain else _draw(at, place, *order)
    with bar.export:
        pictures.take_away(every, "every", more=partial(_more, at, every, known))
    with right:
        beside(at, known)


def _more(at: Look, every: figures.Figure, known: Numbers) -> None:
    _page_button(at, every.name)
    all_numbers(known.table, every.name)
    everything.button(at, (every,))


def _page_button(at: Look, name: str) -> None:
    """Every head as one page, for readers without attnviz."""
    made = partial(_page, pictures.lent((at.record, at.before), "page"), at.sentence, at.site, at.number)
    options = {"key": "save page every", "help": words.INTERACTIVE_MEANS}
    pictures.save(words.INTERACTIVE, made, f"{name}-page.html", "text/html", **options)


def _page(runs: Callable[[], tuple[Record, Record | None]], sentence: int, site: Site, head: int) -> bytes:
    from attnviz.export.explore import explore

    record, before = runs()
    return explore(record, before=before, sentence=sentence, site=site, head=head).encode()


def _figure(at: Look, order: Order, captions: tuple[str, ...] | None, by: str) -> figures.Figure:
    drawn = {"sentence": at.sentence, "dark": at.dark, "rev": look.rev("every"), "focused": (at.site, at.head)}
    drawn |= {"cost": estimate.of_all_maps(at.record)}
    return cache.drawn(figures.overview, at.record, order=order, captions=captions, by=by, **drawn)


def _draw(at: Look, place: DeltaGenerator, *order: Any) -> figures.Figure:
    figure = _figure(at, *order)
    with place:
        pictures.picture(figure, "every", select="head", on_select=select)
    return figure


def _let_paint(run: tuple) -> None:
    """Leave the processor to the browser for a moment, where something new is to be painted.

    As a rule both are on one machine. On two cores a picture takes twice as long beside the sums that come next.
    """
    if state.get(PAINTED) != run:
        state.put(PAINTED, run)
        time.sleep(PAINTING)


def _asks_for_no_number(at: Look) -> bool:
    """Whether all heads are shown in the order of the model."""
    by, kinds, role = (state.get(setting) for setting in (SORT, KIND, ROLE))
    return (
        by in (LAYER, None) and not role and (not kinds or len(kinds) == len({site.kind for site in at.record.sites}))
    )


def _short(name: str) -> str:
    """What a number is called where there is little room."""
    return words.OFF_SHORT.get(name) or TITLES.get(name, name).partition(" (")[0]


def ordered(
    known: Numbers, among: tuple[str, ...] = (), opening: str | None = None
) -> tuple[Order, tuple[str, ...] | None, str]:
    """The heads to show, in which order, their numbers, and what these are; `opening` is the order nobody chose."""
    numbers = among or (LAYER, *known.names)
    by = state.one_of(SORT, numbers, opening or numbers[0])
    options = {"shown": by, "format_func": lambda name: words.ORDER_IS.format(number=_short(name)), "width": 225}
    control(st.selectbox, words.ORDER, SORT, numbers, lead="", **options)
    there = [kind for kind in KINDS if (known.table["kind"] == kind).any()]
    kinds = [kind for kind in there if kind in state.get(KIND)] or there
    if len(there) > 1:
        options = {"shown": kinds, "read": lambda chosen: () if len(chosen) == len(there) else tuple(chosen)}
        control(st.pills, words.KINDS, KIND, there, lead="", selection_mode="multi", **options)
    shown = {name for listed in known.table["role"] for name in listed.split(", ")}
    names = [name for name in ROLES if name in shown]
    role = state.one_of(ROLE, names, None)
    if names:
        options = {"index": None, "placeholder": words.ANY_ROLE, "width": 150}
        control(st.selectbox, common.ROLE, ROLE, names, shown=role, lead="", **options)
    if by == LAYER and not role and len(kinds) == len(there):
        return None, None, ""
    found = known.ordered(by, tuple(kinds), role)
    captions = tuple("–" if value is None else number(by, value) for _, value in found) if by != LAYER else None
    by = "" if captions is None else f"{TITLES[by][:1].lower()}{TITLES[by][1:]}"
    return tuple(head for head, _ in found), captions, by
