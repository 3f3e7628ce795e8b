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


class Markup(str):
    """A cell that is HTML already."""


def clean(text: str) -> str:
    """Without what cannot be sent to a browser."""
    return without_surrogates(text).replace("\0", "\N{SYMBOL FOR NULL}")


def plain(text: str) -> str:
    """A text as HTML shows it."""
    return text if isinstance(text, Markup) else escape(clean(text))


def literal(text: str) -> str:
    """A text in a label, which Streamlit reads as Markdown: nothing in it is a mark, a color, an icon or a link."""
    return MARKS.sub(r"\\\g<0>", PARTED.sub("\N{WORD JOINER}", clean(text)))


def block(text: str, css: str, tag: str = "div", **attributes: str) -> None:
    """A text in an element of its own."""
    st.html(block_html(text, css, tag, **attributes))


def block_html(text: str, css: str, tag: str = "div", **attributes: str) -> str:
    named = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<{tag} class="{css}"{named}>{plain(text)}</{tag}>'


def style(css: str, key: str) -> None:
    """Rules that hold while this element is on the page; those without an element beside them stay until a reload."""
    with st.container(key=f"styles {key}"):  # which takes no room
        st.html(f"<i hidden></i><style>{css}</style>")


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


def lead(text: str) -> None:
    """First sentence of a part of the page: what it answers, and what to do."""
    block(text, "lead")


def quiet(*texts: str) -> None:
    """Remarks beside a picture: one element, however many they are, as every one costs time at each click."""
    if texts:
        st.html("".join(block_html(text, "quiet") for text in texts))


def details_html(title: str, inside: str) -> str:
    """HTML that few look for, folded by the browser alone: it costs no component."""
    return f'<details class="more"><summary>{plain(title)}</summary>{inside}</details>'


def title(text: str) -> None:
    """Title of a page of text."""
    block(text, "heading", "h2")


def heading(text: str) -> None:
    """Heading of the part of the page under it."""
    block(text, "section", "h3")


def leads_to(text: str) -> None:
    """An arrow from the picture before to the next one, which is what comes of it."""
    st.html(block_html(text, "leads-to"), width="content")


def unseen(text: str) -> None:
    """For those who cannot see the picture before it."""
    block(text, "unseen", "p")


def label(text: str) -> None:
    """Label of the controls right of it."""
    st.caption(literal(text), width="content")


def table(rows: Sequence[Sequence[str]], head: Sequence[str] = (), **style) -> None:
    """A small table; see `table_html`."""
    st.html(table_html(rows, head, **style))


def table_html(
    rows: Sequence[Sequence[str]],
    head: Sequence[str] = (),
    *,
    numbers: Sequence[int] = (),
    marked: int | None = None,
    css: str = "facts",
    named: str = "",
    rows_named: bool = False,
) -> str:
    """A small table.

    Args:
        numbers: which columns hold numbers.
        marked: the row that stands out.
        named: what the frame is called in which it scrolls; without it, it has none.
        rows_named: whether the first column names the rows.
    """

    def line(cells: Sequence[str], tag: str, marks: str = "") -> str:
        columns = []
        for i, cell in enumerate(cells):
            kind = ' class="number"' if i in numbers else ""
            if cell and (tag == "th" or (rows_named and i == 0)):
                scope = "col" if tag == "th" else "row"
                columns.append(f'<th scope="{scope}"{kind}>{plain(cell)}</th>')
            else:
                columns.append(f"<td{kind}>{plain(cell)}</td>")
        return f"<tr{marks}>{''.join(columns)}</tr>"

    top = f"<thead>{line(head, 'th')}</thead>" if head else ""
    body = "".join(line(row, "td", ' class="marked"' if i == marked else "") for i, row in enumerate(rows))
    html = f'<table class="{css}">{top}<tbody>{body}</tbody></table>'
    return (
        f'<div class="scrolls" role="region" aria-label="{plain(named)}" tabindex="0">{html}</div>' if named else html
    )
