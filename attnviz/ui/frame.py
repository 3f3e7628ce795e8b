"""Frame of every page: links to the others, the input bar, one sentence for an error, and the link that holds all.

It imports nothing heavy of its own, so that the frame of a page is there at once.
"""

from collections.abc import Callable
from importlib import import_module

import streamlit as st

from attnviz.core import assets
from attnviz.core.errors import AttnvizError, EmptyRowError, TooLong
from attnviz.ui.shared import history, pages, state, words
from attnviz.ui.text import SCRIPTS, STYLE, note

Page = Callable[..., None]


def app() -> None:
    """The page that the address names.

    The input bar is drawn here and not by the page: what is typed in it stays when another page is opened.
    """

    def runner(title: str) -> Callable[[], None]:
        return lambda: body(import_module(f"attnviz.ui.{title.lower()}.page").page, chosen, title=title)

    st.set_page_config("attnviz", page_icon=str(assets.path("icon.png")), layout="wide")
    there = [pages.page(title, runner(title)) for title in pages.TITLES]
    page = st.navigation([*there, *pages.former()], position="hidden")
    if page.title in pages.FORMER:
        page.run()
    pages.land(page)
    with st.container(key="styles"):
        st.html(STYLE)
        st.html("".join(f"<script>{script}</script>" for script in SCRIPTS), unsafe_allow_javascript=True)
    st.logo(str(assets.path("logo.svg")), size="large")
    pages.links(page.title)
    chosen = selection(bar=page.title not in pages.WITHOUT_BAR)
    page.run()


def selection(*, bar: bool = True) -> tuple | None:
    """The model and the sentences chosen in the input bar; None if there is nothing to look at.

    Args:
        bar: whether the bar is seen.
    """
    from attnviz.ui import settings
    from attnviz.ui.about import panel
    from attnviz.ui.shared import inputs, welcome

    welcome.arrive(settings.LINKED)
    return inputs.input_bar(settings.LINKED, panel.button, visible=bar)


@st.fragment
def body(page: Page, chosen: tuple | None, *, title: str = pages.TITLES[0]):
    """A page, which runs again by itself when something on it is used; an error ends it with one sentence."""
    from attnviz.ui import cache, runs, settings
    from attnviz.ui.shared import lengths, welcome

    if title not in pages.WITHOUT_BAR:
        welcome.cards(settings.LINKED, chosen and chosen[0], here=title == pages.TITLES[0])
    try:
        with runs.page():
            if chosen is not None:
                page(*chosen)
            else:
                with st.container(horizontal=True, horizontal_alignment="right", gap="xsmall", key="row-two"):
                    history.buttons()  # what led here can be taken back, where it always is
    except runs.Waiting as waiting:
        runs.show(waiting.job)
    except TooLong as error:
        lengths.offers(error, *chosen)
    except AttnvizError as error:
        note(words.EMPTY_ROWS_REFUSED if isinstance(error, EmptyRowError) else str(error))
    cache.forget_the_dead()
    history.record()
    state.write()
