"""The pages, and the way from one to another with all that was chosen."""

from collections.abc import Callable, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import get_script_run_ctx

from attnviz.ui.shared import state
from attnviz.ui.shared.setting import Link, Setting, kept

TITLES = ("Heads", "Overview", "Masks", "Steps", "Compare", "Atlas", "Model", "Learn")
"""Each page is made in the folder of its name."""
WITHOUT_BAR = ("Learn",)
"""Pages that choose model and text themselves."""
DRAWN: Setting[Link] = kept("links drawn", {})
"""What the links hold that are on the screen."""


def page(title: str, run: Callable[[], None] = lambda: None) -> st.Page:
    return st.Page(run, title=title, url_path=title.lower(), default=title == TITLES[0])


def links(link: Link, places: Sequence[DeltaGenerator] = ()) -> list[DeltaGenerator]:
    """A link to each page, with what was chosen: in the places of earlier ones, if there are any.

    They are no part of a page: Streamlit would drop them with it, and move all that stands after them.
    """
    state.put(DRAWN, link)
    drawn, context = zip(places or [st] * len(TITLES), TITLES, strict=True), get_script_run_ctx()
    with context.run_with_active_hash(context.pages_manager.main_script_hash):
        return [place.page_link(page(title), query_params=link) for place, title in drawn]


def go_to(title: str) -> None:
    """Open another page, with all that was chosen."""
    st.switch_page(page(title), query_params=state.link())
