"""The app: six pages around one row that says what is looked at, and one link that holds all of it.

It imports nothing heavy of its own, so that the frame of a page is there at once.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from urllib.parse import parse_qsl, urlsplit

import streamlit as st

from attnviz.core import assets
from attnviz.core.errors import AttnvizError, TooLong

PAGES = ("Heads", "Overview", "Masks", "Steps", "Compare", "Learn")
"""Titles of the pages; each is the module of its name in `attnviz.ui.pages`."""
FIRST = {"model": "story", "layer": "d1", "head": "0"}
"""The address that a first visit opens."""
OPEN = "--open"
"""Argument of the app's script; what follows it is the page to open, with its choices."""


def app() -> None:
    """Draw the page that the address names.

    What is typed above a page stays when another page is opened. The page itself is a fragment: a click on it runs it
    again alone.
    """
    st.set_page_config("attnviz", page_icon=str(assets.path("icon.png")), layout="wide")
    st.logo(str(assets.path("logo.svg")), size="large")
    page = st.navigation([*map(_page, PAGES)], position="top")
    above(page.title)
    page.run()


def above(title: str) -> None:
    """Draw the row of the model and the text above a page."""
    from attnviz.ui import inputs, request, runs
    from attnviz.ui.text import SCRIPTS, STYLE

    with st.container(key="styles"):
        st.html(STYLE)
        if SCRIPTS:
            st.html("".join(f"<script>{script}</script>" for script in SCRIPTS), unsafe_allow_javascript=True)
    opening, first = _opening()
    if request.arrive(first) and title == PAGES[0] != opening:
        go_to(opening)
    if title != "Learn":
        request.leave_course()
    with runs.place("row"):
        st.session_state["chosen"] = inputs.row(visible=title != "Learn")


def _opening() -> tuple[str, dict[str, str]]:
    """The page and the address that a visit of the bare address opens: those that the shell was told, if any."""
    if sys.argv[1:2] != [OPEN]:
        return PAGES[0], FIRST
    target = urlsplit(sys.argv[2])
    title = target.path.strip("/").title()
    return title if title in PAGES else PAGES[0], dict(parse_qsl(target.query, keep_blank_values=True)) or FIRST


def go_to(title: str) -> None:
    """Open another page with all that is chosen."""
    st.switch_page(_page(title))


def _page(title: str) -> st.Page:
    """A page by its title."""
    return st.Page(_runner(title), title=title, url_path=title.lower(), default=title == PAGES[0])


def _runner(title: str) -> Callable[[], None]:
    """The function that draws a page."""
    return lambda: body(title)


@st.fragment
def body(title: str) -> None:
    """A page by its title, or the one that a click has asked for; an error ends it with one sentence."""
    page = import_module(f"attnviz.ui.pages.{title.lower()}").page
    from attnviz.ui import cache, inputs, request, runs
    from attnviz.ui.text import note

    if other := request.session().memory.pop("open", ""):
        go_to(other)
    request.turn_to(title)
    chosen = st.session_state["chosen"]
    if chosen is not None:
        try:
            with runs.place("page"):
                page(*chosen)
        except runs.Waiting as waiting:
            runs.show(waiting.job)
        except TooLong as error:
            inputs.offer_shorter(error, *chosen)
        except AttnvizError as error:
            note(str(error))
    cache.forget_the_dead()
    request.write_address()
