"""The app: six pages below a row with the model and the text; the link in the address holds all choices.

Large modules are imported in functions, so that the frame of a page appears at once.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from urllib.parse import parse_qsl, urlsplit

import streamlit as st

from attnviz.core import assets
from attnviz.core.errors import AttnvizError, TooLong

PAGES = ("Heads", "Overview", "Masks", "Steps", "Compare", "Learn")
"""Titles of the pages; each page is the module of that name in `attnviz.ui.pages`."""
FIRST = {"model": "story", "layer": "d1", "head": "0"}
"""Choices of a first visit, as parameters of a link."""
OPEN = "--open"
"""Argument of the app's script; the next argument is the page to open, with its choices."""


def app() -> None:
    """Draw the page that the address names.

    The row above the page keeps its text when another page is opened. The page itself is a fragment: a click on the
    page runs only the fragment again.
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
    """Return the page and the choices for an address without choices: those of the command line, else the defaults."""
    if sys.argv[1:2] != [OPEN]:
        return PAGES[0], FIRST
    target = urlsplit(sys.argv[2])
    title = target.path.strip("/").title()
    return title if title in PAGES else PAGES[0], dict(parse_qsl(target.query, keep_blank_values=True)) or FIRST


def go_to(title: str) -> None:
    """Open another page and keep all choices."""
    st.switch_page(_page(title))


def _page(title: str) -> st.Page:
    """Build the Streamlit page with this title."""
    return st.Page(_runner(title), title=title, url_path=title.lower(), default=title == PAGES[0])


def _runner(title: str) -> Callable[[], None]:
    """Return the function that draws the page with this title."""
    return lambda: body(title)


@st.fragment
def body(title: str) -> None:
    """Draw the page with this title, or switch to the page that a click opened; show an error as one sentence."""
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
