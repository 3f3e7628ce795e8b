"""The pages, and the way from one to another with all that was chosen."""

from collections.abc import Callable

import streamlit as st

from attnviz.ui.shared import state
from attnviz.ui.shared.setting import Link

TITLES = ("Heads", "Overview", "Masks", "Steps", "Compare", "Atlas", "Model", "Learn")
"""Each page is made in the folder of its name."""
WITHOUT_BAR = ("Learn",)
"""Pages that choose model and text themselves."""


def page(title: str, run: Callable[[], None] = lambda: None) -> st.Page:
    return st.Page(run, title=title, url_path=title.lower(), default=title == TITLES[0])


def links(link: Link) -> None:
    """A link to each page, with what was chosen."""
    for title in TITLES:
        st.page_link(page(title), query_params=link)


def go_to(title: str) -> None:
    """Open another page, with all that was chosen."""
    st.switch_page(page(title), query_params=state.link())
