"""Text on a page, shown exactly as typed and never interpreted as markup."""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

import streamlit as st

from attnviz.core.display import without_surrogates

STYLE = Path(__file__).with_name("style.css")
SCRIPTS = tuple(path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("*.js")))
"""Our own scripts in the browser; the server allows exactly this text, by its hash."""

MARKS = re.compile(r"[\\`*_\[\]#$~<>&|!+\-:@]")
"""Characters with a meaning in Markdown, also at the beginning of a line."""

JOINED = re.compile(r"(?<=[:@])|(?<=[-<>])(?=[-<>=])|(?<=www)(?=\.)|^(?=\d+[.)])", re.IGNORECASE)
"""Positions for an invisible word joiner. It keeps Markdown from replacing what escapes do not protect: ":smile:",
www.example.org, "->" and "1." at the beginning of a list."""


def clean(text: str) -> str:
    """Replace characters that cannot be sent to a browser: surrogates and NUL."""
    return without_surrogates(text).replace("\0", "\N{SYMBOL FOR NULL}")


def plain(text: str) -> str:
    """Escape a text for HTML."""
    return escape(clean(text))


def literal(text: str) -> str:
    """Escape a text for a label, which Streamlit parses as Markdown with colors, icons and links."""
    return MARKS.sub(r"\\\g<0>", JOINED.sub("\N{WORD JOINER}", clean(text)))


def block(text: str, css: str, tag: str = "div", **attributes: str) -> None:
    """Draw a text as an HTML element with a class of the style sheet."""
    st.html(block_html(text, css, tag, **attributes))


def block_html(text: str, css: str, tag: str = "div", **attributes: str) -> str:
    """Write the HTML element that `block` draws."""
    named = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<{tag} class="{css}"{named}>{plain(text)}</{tag}>'


def note(text: str, kind: str = "error") -> None:
    """Draw a sentence about an error or about something left out."""
    block(text, css=f"note {kind}", role="alert" if kind == "error" else "status")


def verdict(text: str, kind: str) -> None:
    """Draw the result of a test with its icon: "right", "unsure", "notice" or "error"."""
    block(text, css=f"note verdict {kind}", role="alert" if kind == "error" else "status")


def in_words(text: str) -> None:
    """Draw a sentence about the selection, which screen readers read out."""
    block(text, "words", role="status")


def large(text: str) -> None:
    """Draw a sentence in large type, beside a picture or under a title."""
    block(text, "large")


def quiet(*texts: str) -> None:
    """Draw remarks in small type, all in one element, as each element costs time at every click."""
    if texts:
        st.html("".join(block_html(text, "quiet") for text in texts))


def heading(text: str) -> None:
    """Draw the heading of a part of the page."""
    block(text, "section", "h3")


def label(text: str) -> None:
    """Draw the label of the controls to its right."""
    st.caption(literal(text), width="content")


def table(rows: Sequence[Sequence[str]], head: Sequence[str] = (), *, numbers: Sequence[int] = ()) -> None:
    """Draw a small table; `numbers` are the indices of the columns with numbers."""

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
