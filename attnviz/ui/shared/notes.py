"""Text on a page, shown as typed: nothing in it is read as markup."""

from html import escape

import streamlit as st

from attnviz.core.display import shown, without_surrogates

MOST_UNKNOWN = 4
"""So many unknown words are named."""


def note(text: str, kind: str = "error") -> None:
    """One plain sentence, shown as typed: nothing in it is read as markup."""
    role = "alert" if kind == "error" else "status"
    st.html(f'<div class="note {kind}" role="{role}">{escape(clean(text))}</div>')


def unknown_words(unknown: dict[str, tuple[str, ...]], read_as: str = "<unk>", who: str = "This model") -> None:
    """Which words the model does not know, each with a known one that is spelled most like it."""
    if not unknown:
        return
    named = [f"'{shown(word)}'" + (f" (nearest: '{near[0]}')" if near else "") for word, near in unknown.items()]
    more = f" and {len(named) - MOST_UNKNOWN} more" if len(named) > MOST_UNKNOWN else ""
    them = "it" if len(named) == 1 else "them"
    known = f"{who} does not know {', '.join(named[:MOST_UNKNOWN])}{more}; it reads {them} as {shown(read_as)}."
    note(known, "notice")


def sideways(what: str) -> None:
    """On a narrow screen: that a picture goes on, and what is there."""
    st.html(f'<div class="quiet narrow">Scroll the picture sideways to see {what}.</div>')


def in_words(text: str) -> None:
    """The sentence about what is selected."""
    st.html(f'<div class="words" role="status">{escape(clean(text))}</div>')


def large(text: str) -> None:
    """A sentence that stands out beside a picture or under a title."""
    st.html(f'<div class="large">{escape(clean(text))}</div>')


def heading(text: str) -> None:
    """What the part of the page under it is about."""
    st.html(f'<h3 class="section">{escape(clean(text))}</h3>')


def quiet(text: str) -> None:
    """A remark beside a picture."""
    st.html(f'<div class="quiet">{escape(clean(text))}</div>')


def unseen(text: str) -> None:
    """For those who cannot see the picture before it."""
    st.html(f'<p class="unseen">{escape(clean(text))}</p>')


def clean(text: str) -> str:
    """Without what cannot be sent to a browser."""
    return without_surrogates(text).replace("\0", "\N{SYMBOL FOR NULL}")


def label(text: str) -> None:
    """What the controls right of it are about."""
    st.caption(text, width="content")
