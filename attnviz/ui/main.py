"""The app: six pages below a row with the model and the text; the link in the address holds all choices.

Large modules are imported in functions, so that the frame of a page appears at once.
"""

import sys
from importlib import import_module
from urllib.parse import parse_qsl, urlsplit

import streamlit as st

from attnviz.core import assets
from attnviz.core.errors import AttnvizError, TooLong

PAGES = ("Heads", "Overview", "Masks", "Steps", "Compare", "Learn")
"""Titles of the pages; each page is the module of that name in `attnviz.ui.pages`."""
FIRST = {"model": "story", "layer": "d1", "head": "0"}
"""URL parameters of the choices for a URL without parameters."""
OPEN = "--open"
"""Flag in the arguments of the app's script; the next argument is the page to open, as "/masks?model=story"."""


def app() -> None:
    """Draw the page that the URL names.

    The row above the page keeps its text when another page is opened. The page itself is a fragment: a click on the
    page runs only the fragment again.
    """
    st.set_page_config("attnviz", page_icon=str(assets.path("icon.png")), layout="wide")
    st.logo(str(assets.path("logo.svg")), size="large")
    page = st.navigation([*map(_page, PAGES)], position="top")
    row_above(page.title)
    page.run()


def row_above(title: str) -> None:
    """Draw the row with model and text above the page with this title (no row on Learn), and store both for `body`."""
    from attnviz.ui import inputs, request, runs
    from attnviz.ui.text import SCRIPTS, STYLE

    with st.container(key="styles"):
        st.html(STYLE)
        if SCRIPTS:
            st.html("".join(f"<script>{script}</script>" for script in SCRIPTS), unsafe_allow_javascript=True)
    start_page, start_choices = _start()
    used_start_choices = request.read_address(start_choices)
    if used_start_choices and title == PAGES[0] and start_page != title:
        go_to(start_page)
    if title != "Learn":
        request.leave_course()
    with runs.place("row"):
        st.session_state["model and request"] = inputs.row(visible=title != "Learn")


def _start() -> tuple[str, dict[str, str]]:
    """Return the first page's title and URL parameters: those after `OPEN` on the command line, else the defaults."""
    if sys.argv[1:2] != [OPEN]:
        return PAGES[0], FIRST
    address = urlsplit(sys.argv[2])
    title = address.path.strip("/").title()
    parameters = dict(parse_qsl(address.query, keep_blank_values=True))
    return title if title in PAGES else PAGES[0], parameters or FIRST


def go_to(title: str) -> None:
    """Open another page and keep all choices."""
    st.switch_page(_page(title))


def _page(title: str) -> st.Page:
    """Build the Streamlit page with this title."""

    def draw() -> None:
        body(title)

    return st.Page(draw, title=title, url_path=title.lower(), default=title == PAGES[0])


@st.fragment
def body(title: str) -> None:
    """Draw the page with this title, or the progress of a run, or the message of an error; nothing without a model."""
    page = import_module(f"attnviz.ui.pages.{title.lower()}").page
    from attnviz.ui import cache, inputs, request, runs
    from attnviz.ui.text import note

    if opened_page := request.session().memory.pop("open", ""):
        go_to(opened_page)
    request.set_page(title)
    if (model_and_request := st.session_state["model and request"]) is not None:
        source, wanted = model_and_request
        try:
            with runs.place("page"):
                page(source, wanted)
        except runs.Waiting as waiting:
            runs.show(waiting.job)
        except TooLong as error:
            inputs.offer_shorter(error, source, wanted)
        except AttnvizError as error:
            note(str(error))
    cache.drop_dead_keys()
    request.write_address()
