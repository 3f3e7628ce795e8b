"""The pages, and the way from one to another with all that was chosen."""

import sys
from collections.abc import Callable
from functools import partial
from urllib.parse import parse_qs, urlsplit

import streamlit as st

from attnviz.ui.shared import state, words
from attnviz.ui.shared.setting import Link, session_setting

TITLES = ("Heads", "Overview", "Masks", "Steps", "Compare", "Learn")
"""Each page is made in the folder of its name."""
WITHOUT_BAR = ("Learn",)
"""Pages that choose model and text themselves."""
OPEN = "--open"
"""Argument of the app's script; what follows it is the page to open, with its settings."""
VISITED = session_setting("visited", False)
FORMER = {"model": ("Heads", {}), "atlas": ("Overview", {"panel": [words.OVER_A_CORPUS]})}
"""Addresses that links may still hold; the page that each opens, and what is added to the link."""


def page(title: str, run: Callable[[], None] = lambda: None) -> st.Page:
    return st.Page(run, title=title, url_path=title.lower(), default=title == TITLES[0])


def land(current: st.Page) -> None:
    """At the first visit of the bare address, open the page that the shell was told to open."""
    is_first = not state.get(VISITED)
    state.put(VISITED, True)
    if not is_first or sys.argv[1:2] != [OPEN] or st.query_params or current.title != TITLES[0]:
        return
    target = urlsplit(sys.argv[2])
    title = target.path.strip("/").title()
    if title in TITLES[1:]:
        st.switch_page(page(title), query_params=parse_qs(target.query))


def former() -> list[st.Page]:
    """Pages of old addresses: each opens the one that took its place, with all that the link holds."""
    return [st.Page(partial(_redirect, *to), title=name, url_path=name) for name, to in FORMER.items()]


def _redirect(title: str, added: Link) -> None:
    st.switch_page(page(title), query_params=state.address() | added)


def links(current: str) -> None:
    """A link to each page, as one element; links.js opens it in this session, with all that was chosen.

    Args:
        current: the title of the page that is there.
    """
    here = {current: ' aria-current="page"'}
    anchors = (
        f'<a href="./{title.lower() if i else ""}"{here.get(title, "")}>{title}</a>' for i, title in enumerate(TITLES)
    )
    with st.container(key="pages"):
        st.html(f'<nav aria-label="{words.PAGES}">{"".join(anchors)}</nav>')


def go_to(title: str) -> None:
    """Open another page, with all that was chosen."""
    st.switch_page(page(title), query_params=state.link())
