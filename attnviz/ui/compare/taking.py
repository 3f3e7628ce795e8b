"""Take from B: a part of the run of B's text put into that of A, and how much of the way each head carries."""

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from attnviz import figures
from attnviz.analysis.contributions import Carried
from attnviz.core import progress
from attnviz.core.amounts import counted
from attnviz.core.display import visible_text
from attnviz.core.edits import Site, Take
from attnviz.core.errors import AttnvizError, InputError, TooLong
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.core.tokens import Token
from attnviz.sources.base import Source
from attnviz.studies import patching
from attnviz.ui import budget, cache, cores, runs
from attnviz.ui.compare import words
from attnviz.ui.overview.numbers import is_requested
from attnviz.ui.shared import edits, look, pictures, says, state
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.shared.setting import Setting, choice, session_setting
from attnviz.ui.shared.state import control
from attnviz.ui.text import in_words, note, quiet

SCOPE = choice("take-of", tuple(words.SCOPES), "head", "tab")
PART = choice("take-part", tuple(words.PARTS), "output", "tab")
WHERE = choice("take-at", ("all", "one"), "all", "tab")
START: Setting[int | None] = session_setting("take from", None, "text")
REQUESTED: Setting[tuple | None] = session_setting("carried by heads", None)
"""Run, text and part of the map that was asked for."""


def other_text(a: ViewContext, b: object) -> str:
    """B's text, where something can be taken from it: another text, which A's model reads; else ""."""
    if not isinstance(b, ViewContext) or a.source.read_only or a.source.untaken or len(a.request.texts) > 1:
        return ""
    is_other = b.source == a.source and b.record.sentences != a.record.sentences
    return b.request.texts[0] if is_other else ""


def row(a: ViewContext, b: ViewContext) -> None:
    """Controls of what to take, a button that puts it into A's edits, and what A predicts without and with it."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="take"):
        scope = _choose(words.SCOPE_TITLE, SCOPE, words.SCOPES, lead=words.TAKE_FROM_B, width=150)
        part = "stream"
        if scope != "input":
            part = _choose(words.PART_TITLE, PART, words.PARTS, lead="", width=220)
        head = a.head if scope == "head" and isinstance(a.head, int) else None
        try:
            places = _places(a, b, part)
            take = Take(other_text(a, b), part, a.site, head, *places)
        except InputError as error:
            quiet(str(error))
        else:
            options = {"disabled": take in a.edits.taken, "key": "take from b", "icon": ":material/move_down:"}
            st.button(words.TAKE, on_click=state.change, args=(edits.with_take, take), **options)
    if a.edits.taken:
        _before_and_after(a)


def _places(a: ViewContext, b: ViewContext, part: str) -> tuple[int, ...]:
    """The positions in A and in B; none where all are taken."""
    mine = _read(a.record, a.site, a.sentence, part)
    theirs = _read(b.record, a.site, 0, part)
    if len(mine) == len(theirs):
        names = {"all": words.ALL_POSITIONS, "one": words.ONE_POSITION}
        if _choose(words.WHERE_TITLE, WHERE, names, lead="", width=150) == "all":
            return ()
    elif part == "pattern":
        raise InputError(words.NO_PATTERN.format(a=counted(len(mine), "token"), b=len(theirs)))
    else:
        quiet(words.OTHER_COUNT.format(a=counted(len(mine), "token"), b=len(theirs)))
    at = look.query(words.POSITION_A, mine, a.cell if part != "values" else None)
    if part == "pattern":
        return (at,)
    start = state.get(START)
    start = min(at, len(theirs) - 1) if start is None or start >= len(theirs) else start
    names = [f"{i} · {visible_text(token.text)}" for i, token in enumerate(theirs)]
    behavior = {"shown": start, "lead": words.POSITION_B, "format_func": names.__getitem__, "width": 150}
    control(st.selectbox, words.POSITION_B, START, range(len(theirs)), **behavior)
    return (at,) if start == at else (at, start)


def _read(record: Record, site: Site, sentence: int, part: str) -> tuple[Token, ...]:
    """The tokens whose positions are counted."""
    text = record.texts(site, sentence=sentence)[part in ("pattern", "values")]
    return text.tokens[: text.length]


def _choose(title: str, setting: Setting[str], names: Mapping[str, str], **behavior: object) -> str:
    chosen = state.get(setting)
    control(st.selectbox, title, setting, [*names], shown=chosen, format_func=names.__getitem__, **behavior)
    return chosen


def _before_and_after(a: ViewContext) -> None:
    before = cache.record(a.source, _untaken(a.request))
    position = look.asked_at(a.record, a.site, a.cell, a.sentence)
    for name, mine, other in ((words.BEFORE, before, a.record), (words.AFTER, a.record, before)):
        says.show_run(name, mine, other, position, (a.sentence, a.sentence), (position, position))


def _untaken(request: Request) -> Request:
    return replace(request, edits=replace(request.edits, taken=()))


def each_head(a: ViewContext, text: str) -> None:
    """Folded: how much of the way from A to B each head carries alone."""
    if a.record.prediction is None:
        return
    with pictures.folded(words.CARRIED, key="carried") as is_open:
        if is_open:
            with runs.beside():
                try:
                    _map(a, text)
                except TooLong:
                    raise
                except AttnvizError as error:
                    note(str(error), "notice")


def _map(a: ViewContext, text: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="carried-part"):
        part = _choose(words.PART_TITLE, PART, words.PARTS, lead=words.PART_TITLE, at="map", width=220)
    count = sum(step.num_heads for step in a.record.steps)
    position = look.asked_at(a.record, a.site, a.cell, a.sentence)
    run = a.source, _untaken(a.request)
    cost = budget.of_runs(count + 2, a.source, a.record.sentences, run[-1].edits)
    key, button = (*run, text, part, position), {"key": "each from b", "icon": ":material/move_down:"}
    if not is_requested(REQUESTED, key, cost, words.MEASURE_EACH_HEAD, **button):
        return
    carried = cache.worked(_carried, *run, text, part, position, count, cost=cost, unit=words.HEADS)
    figure = figures.carried(cache.record(*run), carried, focused=(a.site, a.head), rev=look.rev("carried"), **a.styled)
    in_words(carried.in_words())
    pictures.picture(figure, "carried", select="head", on_select=look.clicks("carried", _show))
    quiet(words.CARRIED_IS)
    pictures.take_away(figure, "carried")
    pictures.numbers(figure, "carried")


def _show(point: Mapping[str, object]) -> None:
    look.look_at(Site(point["kind"], int(point["layer"])), int(point["head"]))


def _carried(source: Source, request: Request, text: str, part: str, position: int, count: int) -> Carried:
    with progress.counted(count) as report, cores.used_by(source):
        sentences, how = cache.sentences(source, request), {"targets": cache.targets(source, request), "report": report}
        return patching.carried(source, sentences, text, request.edits, part, position=position, **how)
