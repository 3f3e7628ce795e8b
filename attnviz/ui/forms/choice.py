"""Map, lines or text: the choice, what belongs to it, and what a click does."""

import streamlit as st

from attnviz import figures, views, words
from attnviz.charts.shade import shade_of
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures import Figure
from attnviz.figures.lines import token_in_words
from attnviz.sources.base import Source
from attnviz.ui import cache, looking, pictures
from attnviz.ui.forms.link import FORMS, LEAST, SIDES
from attnviz.ui.notes import in_words, label, quiet
from attnviz.views import View

KEYS = {"map": "head", "lines": "lines", "text": "text"}
"""What the picture of a form is called on the page."""

Cell = tuple[int, int] | None


def form() -> str:
    """How the head is shown."""
    return _segments("Shown as", FORMS, "as", _choose_form)


def _choose_form() -> None:
    st.session_state["as"] = st.session_state["as chosen"]


def controls(chosen: str, source: Source, site: Site, focus: int | str) -> None:
    """What can be chosen of this form alone."""
    if chosen == "map":
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="form"):
        if chosen == "lines":
            _of_lines(source, focus)
        else:
            label("Attention")
            _segments("Attention of the token", SIDES, "side", _choose_side, site)
            label("the token that you click")


def _of_lines(source: Source, focus: int | str) -> None:
    others = [head for head in range(source.num_heads) if head != focus]
    if others:
        label("Beside it, heads")
        st.session_state["also chosen"] = [head for head in st.session_state["also"] if head in others]
        behavior = {"key": "also chosen", "on_change": _choose_also, "label_visibility": "collapsed"}
        if len(others) < looking.MOST_PILLS:
            st.pills("Heads beside it", others, selection_mode="multi", wrap=True, **behavior)
        else:
            st.multiselect("Heads beside it", others, max_selections=MOST_BESIDE, width=300, **behavior)
    label("Weights from")
    st.session_state["least chosen"] = _from(st.session_state["least"])
    options = {"key": "least chosen", "on_change": _choose_least, "label_visibility": "collapsed", "width": 150}
    st.selectbox("Weights from which on there are lines", map(_from, LEAST), **options)
    if st.session_state["pins"]:
        st.button("let tokens go", on_click=_let_go, type="tertiary", icon=":material/close:", key="let go")


MOST_BESIDE = 15
"""So many heads can be drawn beside the one in focus."""


def _from(least: float | None) -> str:
    return "the strongest" if least is None else f"{least:g}"


def _choose_also() -> None:
    st.session_state["also"] = tuple(sorted(st.session_state["also chosen"]))


def _choose_least() -> None:
    st.session_state["least"] = {_from(least): least for least in LEAST}[st.session_state["least chosen"]]


def _let_go() -> None:
    st.session_state["pins"], st.session_state["cell"] = frozenset(), None


def _choose_side(site: Site) -> None:
    """The other side: of the same token, where rows and columns are the same tokens."""
    before, cell = _end(), st.session_state["cell"]
    st.session_state["side"] = st.session_state["side chosen"]
    if site.kind != "cross":
        picked = {(before, cell[0 if before == "query" else 1])} if cell else st.session_state["pins"]
        st.session_state["pins"] = frozenset((_end(), at) for end, at in picked if end == before)
        st.session_state["cell"] = None


def _end() -> str:
    """Which side of a cell the token of the text is of."""
    return "query" if st.session_state["side"] == "from" else "key"


def figure(
    form: str, record: Record, site: Site, focus: int | str, cell: Cell, source: Source, options: dict
) -> Figure:
    """The head as it was chosen to be shown."""
    shown = {"sentence": options["sentence"], "dark": options["dark"], "view": options["view"], "selected": cell}
    shown["rev"] = looking.rev("cell")
    if form == "lines":
        also = [head for head in st.session_state["also"] if head != focus and head < source.num_heads]
        asked = {"least": st.session_state["least"], "pins": st.session_state["pins"]}
        return cache.drawn(figures.lines, record, site, (focus, *also[:MOST_BESIDE]), **asked, **shown)
    if form == "text":
        asked = {"side": st.session_state["side"], "domain": options["domain"]}
        chosen = _token(record, site, cell, options["sentence"], options["view"])
        return cache.drawn(figures.text_strip, record, site, focus, chosen=chosen, **asked, **shown)
    shown |= {"domain": options["domain"], "row_sums": options["row_sums"]}
    return cache.drawn(figures.head, record, site, focus, **shown)


def _token(record: Record, site: Site, cell: Cell, sentence: int, view: View) -> int | None:
    """The token of the text: of the selected cell, else the first that is picked, else none, where it is seen."""
    side = 0 if _end() == "query" else 1
    picked = [cell[side]] if cell else [at for end, at in sorted(st.session_state["pins"]) if end == _end()]
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
        cell = st.session_state["cell"]
        if query >= 0 and key >= 0:
            st.session_state["cell"] = None if cell == (query, key) else (query, key)
        elif query >= 0 or key >= 0:
            pin = ("query", query) if query >= 0 else ("key", key)
            held = cell is not None and pin == ("query", cell[0])
            st.session_state["cell"] = None if held else cell
            st.session_state["pins"] = st.session_state["pins"] - {pin} if held else st.session_state["pins"] ^ {pin}


def _select_token(point: dict | None) -> None:
    """A token becomes the one whose attention is shown, from it or to it, as its text is of queries or of keys."""
    if point is None:
        _let_go()
    elif looking.counted(point, "cell"):
        query, key = int(point["query"]), int(point["key"])
        st.session_state["cell"] = None
        st.session_state["side"] = "from" if query >= 0 else "to"
        st.session_state["pins"] = frozenset({("query", query) if query >= 0 else ("key", key)})


def said(form: str, record: Record, site: Site, focus: int | str, cell: Cell, options: dict) -> None:
    """What is selected, in words, and how to select."""
    at = {"sentence": options["sentence"], "view": options["view"]}
    if form == "text":
        chosen = _token(record, site, cell, options["sentence"], options["view"])
        in_words(token_in_words(shade_of(record, site, focus, chosen=chosen, side=st.session_state["side"], **at)))
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


def _segments(title: str, options: tuple[str, ...], name: str, on_change, *args: object) -> str:
    """A choice that is kept in the session under a name."""
    st.session_state[f"{name} chosen"] = st.session_state[name]
    behavior = {"on_change": on_change, "args": args, "label_visibility": "collapsed"}
    return st.segmented_control(title, options, key=f"{name} chosen", required=True, **behavior) or options[0]
