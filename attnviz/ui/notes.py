"""Text on a page, shown as typed: nothing in it is read as markup."""

from html import escape

import streamlit as st

from attnviz.core.display import without_surrogates


def note(text: str, kind: str = "error") -> None:
    """One plain sentence, shown as typed: nothing in it is read as markup."""
    role = "alert" if kind == "error" else "status"
    st.html(f'<div class="note {kind}" role="{role}">{escape(clean(text))}</div>')


def in_words(text: str) -> None:
    """The sentence about what is selected."""
    st.html(f'<div class="words" role="status">{escape(clean(text))}</div>')


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
