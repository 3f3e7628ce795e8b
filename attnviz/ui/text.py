"""Text on a page, shown as typed: nothing in it is read as markup."""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

import streamlit as st

from attnviz.core.display import without_surrogates

STYLE = Path(__file__).with_name("style.css")
SCRIPTS = tuple(path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("*.js")))
"""Scripts of the browser beyond Streamlit's. The server allows just this text, by its hash."""

MARKS = re.compile(r"[\\`*_\[\]#$~<>&|!+\-:@]")
"""Signs that Markdown may read, also at the beginning of a line."""

PARTED = re.compile(r"(?<=[:@])|(?<=[-<>])(?=[-<>=])|(?<=www)(?=\.)|^(?=\d+[.)])", re.IGNORECASE)
"""Places in what Streamlit replaces even where signs are escaped: emoji by name, addresses, arrows; and in a list."""


def clean(text: str) -> str:
    """Without what cannot be sent to a browser."""
    return without_surrogates(text).replace("\0", "\N{SYMBOL FOR NULL}")


def plain(text: str) -> str:
    """A text as HTML shows it."""
    return escape(clean(text))


def literal(text: str) -> str:
    """A text in a label, which Streamlit reads as Markdown: nothing in it is a mark, a color, an icon or a link."""
    return MARKS.sub(r"\\\g<0>", PARTED.sub("\N{WORD JOINER}", clean(text)))


def block(text: str, css: str, tag: str = "div", **attributes: str) -> None:
    """A text in an element of its own."""
    st.html(block_html(text, css, tag, **attributes))


def block_html(text: str, css: str, tag: str = "div", **attributes: str) -> str:
    named = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<{tag} class="{css}"{named}>{plain(text)}</{tag}>'


def note(text: str, kind: str = "error") -> None:
    """One plain sentence about what is wrong or left out."""
    block(text, css=f"note {kind}", role="alert" if kind == "error" else "status")


def verdict(text: str, kind: str) -> None:
    """Result of a test, with a sign of its own: "right", "unsure", "notice" or "error"."""
    block(text, css=f"note verdict {kind}", role="alert" if kind == "error" else "status")


def in_words(text: str) -> None:
    """The sentence about what is selected."""
    block(text, "words", role="status")


def large(text: str) -> None:
    """A sentence that stands out beside a picture or under a title."""
    block(text, "large")


def quiet(*texts: str) -> None:
    """Remarks beside a picture: one element, however many they are, as every one costs time at each click."""
    if texts:
        st.html("".join(block_html(text, "quiet") for text in texts))


def title(text: str) -> None:
    """Title of a page of text."""
    block(text, "heading", "h2")


def heading(text: str) -> None:
    """Heading of the part of the page under it."""
    block(text, "section", "h3")


def unseen(text: str) -> None:
    """For those who cannot see the picture before it."""
    block(text, "unseen", "p")


def label(text: str) -> None:
    """Label of the controls right of it."""
    st.caption(literal(text), width="content")


def table(rows: Sequence[Sequence[str]], head: Sequence[str] = (), *, numbers: Sequence[int] = ()) -> None:
    """A small table.

    Args:
        numbers: columns that hold numbers.
    """

    def line(cells: Sequence[str], tag: str) -> str:
        columns = []
        for i, cell in enumerate(cells):
            kind = ' class="number"' if i in numbers else ""
            name = 'th scope="col"' if tag == "th" and cell else "td"
            columns.append(f"<{name}{kind}>{plain(cell)}</{name[:2]}>")
        return f"<tr>{''.join(columns)}</tr>"

    top = f"<thead>{line(head, 'th')}</thead>" if head else ""
    body = "".join(line(row, "td") for row in rows)
    st.html(f'<table class="facts">{top}<tbody>{body}</tbody></table>')
