"""Map, lines or text: the choice, what belongs to it, and what a click does."""

from collections.abc import Callable

import streamlit as st

from attnviz import figures, views, words
from attnviz.charts.shade import shade_of
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures import Figure
from attnviz.figures.lines import token_in_words
from attnviz.sources.base import Source
from attnviz.ui.heads.link import FORMS, LEAST, SIDES, decode_also, encode_also
from attnviz.ui.shared import cache, looking, pictures, state
from attnviz.ui.shared.looking import CELL, PINS
from attnviz.ui.shared.notes import in_words, label, quiet
from attnviz.ui.shared.state import Setting, State, control
from attnviz.views import View

FORM = state.choice("as", FORMS, FORMS[0])
ALSO = state.coded("also", (), encode_also, decode_also, of="model")
LEAST_DRAWN: Setting[float | None] = state.choice("least", {least: f"{least:g}" for least in LEAST if least})
SIDE = state.choice("side", SIDES, SIDES[0])

KEYS = {"map": "head", "lines": "lines", "text": "text"}
"""What the picture of a form is called on the page."""

Cell = tuple[int, int] | None


def form() -> str:
    """How the head is shown."""
    st.segmented_control("Shown as", FORMS, **control(FORM), required=True, label_visibility="collapsed")
    return state.get(FORM)


def controls(chosen: str, source: Source, site: Site, focus: int | str) -> None:
    """What can be chosen of this form alone."""
    if chosen == "map":
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="form"):
        if chosen == "lines":
            _of_lines(source, focus)
        else:
            label("Attention")
            options = {"required": True, "label_visibility": "collapsed", **control(SIDE, step=_other_side(site))}
            st.segmented_control("Attention of the token", SIDES, **options)
            label("the token that you click")


def _of_lines(source: Source, focus: int | str) -> None:
    others = [head for head in range(source.num_heads) if head != focus]
    if others:
        label("Beside it, heads")
        drawn = [head for head in state.get(ALSO) if head in others]
        behavior = {"label_visibility": "collapsed", **control(ALSO, drawn, read=lambda heads: tuple(sorted(heads)))}
        if len(others) < looking.MOST_PILLS:
            st.pills("Heads beside it", others, selection_mode="multi", wrap=True, **behavior)
        else:
            st.multiselect("Heads beside it", others, max_selections=MOST_BESIDE, width=300, **behavior)
    label("Weights from")
    options = {"format_func": _from, "label_visibility": "collapsed", "width": 150, **control(LEAST_DRAWN)}
    st.selectbox("Weights from which on there are lines", LEAST, **options)
    if state.get(PINS):
        options = {"type": "tertiary", "icon": ":material/close:", "key": "let go"}
        st.button("let tokens go", on_click=_let_go, **options)


MOST_BESIDE = 15
"""So many heads can be drawn beside the one in focus."""


def _from(least: float | None) -> str:
    return "the strongest" if least is None else f"{least:g}"


def _let_go() -> None:
    state.change(lambda now: now.without("text"))


def _other_side(site: Site) -> Callable[[State, str], State]:
    """The step to the other side: of the same token, where rows and columns are the same tokens."""

    def step(now: State, side: str) -> State:
        before, cell = _end(now), now[CELL]
        now = now.put(SIDE, side)
        if site.kind == "cross":
            return now
        picked = {(before, cell[0 if before == "query" else 1])} if cell else now[PINS]
        return now.put(CELL, None).put(PINS, frozenset((_end(now), at) for end, at in picked if end == before))

    return step


def _end(now: State) -> str:
    """Which side of a cell the token of the text is of."""
    return "query" if now[SIDE] == "from" else "key"


def figure(
    form: str, record: Record, site: Site, focus: int | str, cell: Cell, source: Source, options: dict
) -> Figure:
    """The head as it was chosen to be shown."""
    shown = {"sentence": options["sentence"], "dark": options["dark"], "view": options["view"], "selected": cell}
    shown["rev"] = looking.rev("cell")
    if form == "lines":
        also = [head for head in state.get(ALSO) if head != focus and head < source.num_heads]
        asked = {"least": state.get(LEAST_DRAWN), "pins": state.get(PINS)}
        return cache.drawn(figures.lines, record, site, (focus, *also[:MOST_BESIDE]), **asked, **shown)
    if form == "text":
        asked = {"side": state.get(SIDE), "domain": options["domain"]}
        chosen = _token(record, site, cell, options["sentence"], options["view"])
        return cache.drawn(figures.text_strip, record, site, focus, chosen=chosen, **asked, **shown)
    shown |= {"domain": options["domain"], "row_sums": options["row_sums"]}
    return cache.drawn(figures.head, record, site, focus, **shown)


def _token(record: Record, site: Site, cell: Cell, sentence: int, view: View) -> int | None:
    """The token of the text: of the selected cell, else the first that is picked, else none, where it is seen."""
    end = _end(state.now())
    side = 0 if end == "query" else 1
    picked = [cell[side]] if cell else [at for one, at in sorted(state.get(PINS)) if one == end]
    seen = views.see(record, site, sentence=sentence, view=view)
    part = (seen.queries, seen.keys)[side]
    return next((at for at in picked if part.at(at) is not None), None)


def select(form: str):
    """What a click on a form does; it is called with what was clicked, or with None on Escape."""
    return {"map": looking.select, "lines": _select_line, "text": _select_token}[form]


def _select_line(point: dict | None) -> None:
    """A line is selected or let go, a token picked or let go, a head of the legend left as it is."""
    if point is None:
        _let_go()
    elif looking.counted(point, "cell"):
        query, key = int(point["query"]), int(point["key"])
        cell, pins = state.get(CELL), state.get(PINS)
        if query >= 0 and key >= 0:
            state.put(CELL, None if cell == (query, key) else (query, key))
        elif query >= 0 or key >= 0:
            pin = ("query", query) if query >= 0 else ("key", key)
            held = cell is not None and pin == ("query", cell[0])
            state.put(CELL, None if held else cell)
            state.put(PINS, pins - {pin} if held else pins ^ {pin})


def _select_token(point: dict | None) -> None:
    """A token becomes the one whose attention is shown, from it or to it, as its text is of queries or of keys."""
    if point is None:
        _let_go()
    elif looking.counted(point, "cell"):
        query, key = int(point["query"]), int(point["key"])
        state.put(CELL, None)
        state.put(SIDE, "from" if query >= 0 else "to")
        state.put(PINS, frozenset({("query", query) if query >= 0 else ("key", key)}))


def said(form: str, record: Record, site: Site, focus: int | str, cell: Cell, options: dict) -> None:
    """What is selected, in words, and how to select."""
    at = {"sentence": options["sentence"], "view": options["view"]}
    if form == "text":
        chosen = _token(record, site, cell, options["sentence"], options["view"])
        in_words(token_in_words(shade_of(record, site, focus, chosen=chosen, side=state.get(SIDE), **at)))
        quiet("Click a token to see its attention; point at one to read its weight.")
        return
    if form == "map":
        pictures.cell_in_words(record, site, focus, cell, options["sentence"], options["view"])
        return
    said = words.strongest(record, site, focus, **at) if cell is None else words.cell(record, site, focus, *cell, **at)
    in_words(said)
    if cell is not None:
        quiet("Click the line again, or press Escape, to let it go.")
    else:
        quiet("Point at a token to see its lines alone, click it to pick it. Click a line to read it in words.")
