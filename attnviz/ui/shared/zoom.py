"""A part of a large map at a time: a drag over it asks for one, and so does the wheel with Ctrl; crumbs lead back.

In a link the parts are ``0.511.300.811-20.51.300.331``: the first and the last query, the first and the last key, each
part within the one before.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from attnviz import analysis
from attnviz.analysis import views
from attnviz.charts.size import RECTANGLES
from attnviz.core.amounts import counted
from attnviz.core.display import visible_text
from attnviz.core.tokens import Token, occurrences
from attnviz.ui.shared import look, state, words
from attnviz.ui.shared.look import CELL, VIEW, Cell, ViewContext
from attnviz.ui.shared.setting import State, coded, each, reader, session_setting
from attnviz.ui.shared.state import control
from attnviz.ui.text import label, literal, quiet

Window = tuple[int, int, int, int]
"""The first and the last query, and the first and the last key."""

DEEPEST = 8
"""Parts within parts."""

MOST_PLACES = 6
"""Places of a phrase that are listed."""

AROUND = 24
"""Characters of the text that are shown before and after a place."""


def _text(window: Window) -> str:
    return ".".join(map(str, window))


def _window_of(match: Any) -> Window:
    top, bottom, left, right = (int(match[i]) for i in range(1, 5))
    return min(top, bottom), max(top, bottom), min(left, right), max(left, right)


def _lacks(sizes: tuple[int, int], window: Window) -> str:
    queries, keys = sizes
    there = window[1] < queries and window[3] < keys
    return "" if there else words.PICTURE_HAS.format(queries=queries, keys=keys)


_read = reader(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})\.(\d{1,6})", _window_of, "0.63.0.63", _text)

ZOOM = coded("zoom", (), lambda parts: "-".join(map(_text, parts)), each(_read, DEEPEST), "text", lacks=_lacks)
PHRASE = session_setting("phrase", "", of="text")


def part(context: ViewContext, view: views.View) -> dict[str, slice]:
    """The rows and columns that are seen; all where the view leaves nothing of them."""
    window = _window(context)
    if window is None:
        return {}
    top, bottom, left, right = window
    intervals = {"rows": slice(top, bottom + 1), "columns": slice(left, right + 1)}
    attention_view = views.see(context.record, context.site, sentence=context.sentence, view=view, **intervals)
    return intervals if len(attention_view.queries) and len(attention_view.keys) else {}


def framed(context: ViewContext) -> dict[str, Any]:
    """The same, as a picture of the whole map frames it."""
    return {"window": _window(context)}


def _window(context: ViewContext) -> Window | None:
    sizes = tuple(map(len, context.tokens))
    if state.drop_missing("text", sizes):
        st.rerun()
    parts = state.get(ZOOM)
    return parts[-1] if parts and not _lacks(sizes, parts[-1]) else None


def zoom_requested(point: dict) -> bool:
    """Take what a drag or the wheel asked for; whether it was new, and not an older one that the browser repeats."""
    if int(point.get("rev", -1)) != look.rev("cell"):
        return False
    _count("cell")
    parts = state.get(ZOOM)
    if point.get("out"):
        state.put(ZOOM, parts[:-1])
    else:
        window = tuple(int(point[end]) for end in ("top", "bottom", "left", "right"))
        state.put(ZOOM, (*parts, window)[-DEEPEST:] if window not in parts else parts)
    return True


def _count(what: str) -> None:
    state.put(look.REVS, state.get(look.REVS) | {what: look.rev(what) + 1})


def tokens_of(context: ViewContext, view: views.View, cell: Cell) -> None:
    """A button from a cell of sentences or parts to the map of its tokens."""
    attention_view = views.see(context.record, context.site, sentence=context.sentence, view=view)
    ends: list[int] = []
    for part, position in zip((attention_view.queries, attention_view.keys), cell, strict=True):
        if (index := part.index_of(position)) is None:
            return
        ends += [int(part.starts[index]), int(part.stops[index]) - 1]

    def step(now: State) -> State:
        tokens = replace(now[VIEW], **look.UNITS[words.TOKENS])
        return now.put(VIEW, tokens).put(CELL, None).put(ZOOM, (*now[ZOOM], tuple(ends))[-DEEPEST:])

    options = {"icon": ":material/zoom_in:", "type": "tertiary", "key": "tokens of cell"}
    st.button(words.TOKENS_OF, on_click=state.change, args=(step,), **options)


def _unit(context: ViewContext, window: Window, units: Sequence[str]) -> str | None:
    """The first of some units of which a window is one cell."""
    for unit in units:
        view = replace(state.get(VIEW), **look.UNITS[unit])
        sides = [views.groups(context.tokens[side], view, context.cut(side).text) for side in (0, 1)]
        ends = zip(sides, (window[:2], window[2:]), strict=True)
        if all((first, last + 1) in zip(part.starts, part.stops, strict=True) for part, (first, last) in ends):
            return unit
    return None


def crumbs(context: ViewContext, units: Sequence[str] = ()) -> None:
    """Position in a map that is zoomed into, and the ways back.

    Args:
        units: names of `look.UNITS`; from the tokens of a cell of these, a button leads back to it.
    """
    if not (window := _window(context)):
        return
    parts = state.get(ZOOM)
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        for depth in range(len(parts)):
            title = _named(parts[depth - 1]) if depth else words.WHOLE_MAP
            icon = None if depth else ":material/zoom_out_map:"
            st.button(literal(title), key=f"crumb {depth}", type="tertiary", icon=icon, on_click=_back, args=(depth,))
            label("›")
        label(_named(parts[-1]))
        view = state.get(VIEW)
        unit = _unit(context, window, units) if not (view.sentences or view.parts) else None
        if unit is not None:
            options = {"key": "back to units", "type": "tertiary", "icon": ":material/undo:"}
            st.button(words.BACK_TO.format(unit=unit), on_click=_back_to, args=(unit,), **options)


def _named(window: Window) -> str:
    top, bottom, left, right = window
    return words.PART.format(top=top, bottom=bottom, left=left, right=right)


def _back(depth: int) -> None:
    state.change(lambda now: now.put(ZOOM, now[ZOOM][:depth]))


def _back_to(unit: str) -> None:
    def step(now: State) -> State:
        view, (top, _, left, _) = replace(now[VIEW], **look.UNITS[unit]), now[ZOOM][-1]
        return now.put(VIEW, view).put(CELL, (top, left)).put(ZOOM, now[ZOOM][:-1])

    state.change(step)


def ways(context: ViewContext) -> None:
    """Ways into a large map: a step nearer, for fingers too, and to a phrase."""
    if max(map(len, context.tokens)) > RECTANGLES:
        _nearer(context)
        _find(context)


def _nearer(context: ViewContext) -> None:
    sizes = tuple(map(len, context.tokens))
    top, bottom, left, right = _window(context) or (0, sizes[0] - 1, 0, sizes[1] - 1)
    inside = context.cell and top <= context.cell[0] <= bottom and left <= context.cell[1] <= right
    middle = context.cell if inside else ((top + bottom) // 2, (left + right) // 2)
    ends = []
    for place, first, last in zip(middle, (top, left), (bottom, right), strict=True):
        half = max(RECTANGLES // 2, (last - first + 1) // 2)
        begin = max(first, min(place - half // 2, last + 1 - half))
        ends += [begin, min(last, begin + half - 1)]
    part = tuple(ends)
    options = {"disabled": part == (top, bottom, left, right), "on_click": _into, "args": (part,)}
    st.button(words.ZOOM_IN, icon=":material/zoom_in:", key="nearer", help=words.ZOOM_IN, **options)


def _into(part: Window) -> None:
    state.change(lambda now: now.put(ZOOM, (*now[ZOOM], part)[-DEEPEST:]))


def _find(context: ViewContext) -> None:
    """A menu that leads to the places of a token or a phrase; one that was chosen closes it."""
    menu = st.popover(
        words.FIND, icon=":material/search:", on_change="rerun", key=f"find {look.rev('find')}", help=words.FIND
    )
    if not menu.open:
        return
    with menu:
        phrase = control(st.text_input, words.PHRASE, PHRASE, max_chars=200)
        if not phrase.strip():
            quiet(words.TYPE_A_PHRASE)
            return
        for side in (0, 1):
            _listed(context, side, _places(context.cut(side).text, context.tokens[side], phrase))


def _listed(context: ViewContext, side: int, matches: list[tuple[int, str]]) -> None:
    places = counted(len(matches), words.PLACE) if matches else words.NOWHERE
    if len(matches) > MOST_PLACES:
        places = words.FIRST_PLACES.format(places=places, most=MOST_PLACES)
    st.caption((words.AS_KEY if side else words.AS_QUERY).format(places=places))
    with st.container(gap=None):
        for position, excerpt in matches[:MOST_PLACES]:
            options = {"on_click": _go, "args": (_strongest(context, side, position), tuple(map(len, context.tokens)))}
            st.button(f"{position} · {literal(excerpt)}", key=f"go {side} {position}", type="tertiary", **options)


def spans(text: str, tokens: tuple[Token, ...], phrase: str) -> list[tuple[int, int]]:
    """The first token of each place of a phrase, whatever its case, and the one after its last."""
    return [(first, stop) for first, stop, _ in _matches(text, tokens, phrase)] if phrase.strip() else []


def _matches(text: str, tokens: tuple[Token, ...], phrase: str) -> Iterator[tuple[int, int, re.Match]]:
    """The same, with what was found."""
    return occurrences(text, tokens, re.escape(phrase.strip()))


def _places(text: str, tokens: tuple[Token, ...], phrase: str) -> list[tuple[int, str]]:
    """The first token of each place of a phrase, with the text around it."""
    places = []
    for first, _, place in _matches(text, tokens, phrase):
        before, after = text[max(0, place.start() - AROUND) : place.start()], text[place.end() : place.end() + AROUND]
        if len(before) == AROUND:  # whole words
            before = before.partition(" ")[2]
        if len(after) == AROUND:
            after = after.rpartition(" ")[0]
        excerpt = " ".join(f"{before}{place[0]}{after}".split())
        places.append((first, visible_text(excerpt, 2 * AROUND + len(phrase)).replace("␣", " ")))
    return places


def _strongest(context: ViewContext, side: int, position: int) -> Cell:
    """The cell of a token's strongest weight: of its row, or of its column."""
    step, span = context.record.step(context.site), slice(position, position + 1)
    if side == 0:
        return position, int(analysis.strongest(step, context.head, sentence=context.sentence, rows=span)[1][0])
    return int(analysis.strongest(step, context.head, sentence=context.sentence, columns=span)[0].argmax()), position


def _go(cell: Cell, sizes: tuple[int, int]) -> None:
    """Select a cell, and see what is around it: as much as has a rectangle for each cell."""

    def step(now: State) -> State:
        ends = []
        for position, size in zip(cell, sizes, strict=True):
            first = max(0, min(position - RECTANGLES // 2, size - RECTANGLES))
            ends += [first, min(size, first + RECTANGLES) - 1]
        return now.put(CELL, cell).put(ZOOM, (tuple(ends),))

    state.change(step)
    _count("find")
