"""Tables of the page: escaped text, numbers set right."""

from collections.abc import Sequence
from html import escape

import streamlit as st

from attnviz.core.display import shown
from attnviz.ui.shared.notes import clean

LONGEST = 60


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = (), marked: int | None = None
) -> None:
    """A small table in a frame that scrolls.

    Args:
        numbers: which columns hold numbers.
        marked: the row that stands out.
    """
    st.html(text(head, rows, numbers=numbers, marked=marked))


def text(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = (), marked: int | None = None
) -> str:
    """What `table` shows, as HTML."""
    kinds = [' class="number"' if i in numbers else "" for i in range(len(head))]
    top = "".join(f'<th scope="col"{kind}>{_plain(cell)}</th>' for cell, kind in zip(head, kinds, strict=True))
    marks = {marked: ' class="marked"'}
    body = "".join(
        f"<tr{marks.get(i, '')}>"
        + "".join(f"<td{kind}>{_plain(cell)}</td>" for cell, kind in zip(row, kinds, strict=True))
        + "</tr>"
        for i, row in enumerate(rows)
    )
    return (
        '<div class="scrolls" role="region" aria-label="Table" tabindex="0">'
        f'<table class="facts walked"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _plain(cell: str) -> str:
    return escape(clean(shown(cell, LONGEST).replace("␣", " ")))
