"""Table of the heads of a model and their roles: a head is a button that opens it, its evidence is folded."""

from html import escape

import streamlit as st

from attnviz.core.amounts import percent
from attnviz.core.edits import Site
from attnviz.sources.cards import Behavior, Card
from attnviz.ui.about import words
from attnviz.ui.shared import findings, look, pages
from attnviz.ui.shared import words as common
from attnviz.ui.text import block_html, details_html, plain


def table_of(card: Card) -> None:
    """A row for each role of a head; the one without which most is lost comes first."""
    rows = [(behavior, i) for behavior in card.behaviors for i in range(len(behavior.heads))]
    every = [_numbers(behavior, i) for behavior, i in rows]
    columns = [name for name in words.COLUMNS if any(name in numbers for numbers in every)]
    with st.container(gap=None, key="roles"):
        titles = "".join(_title(name) for name in (common.ROLE, *columns, common.HEAD))
        st.html(f'<div class="role top">{titles}</div>')
        for behavior, i in rows:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                _head(behavior.site, behavior.heads[i], behavior.role)
                st.html(_row(behavior, i, columns))
    order = words.MOST_LOST if words.ACCURACY in columns else ""
    meaning = " ".join(words.MEANING[name] for name in columns if name in words.MEANING)
    footer = block_html(f"{order} {words.CLICK_A_HEAD}".strip(), "quiet")
    st.html(footer + details_html(common.MEANINGS, block_html(meaning, "quiet")) if meaning else footer)


def _title(name: str) -> str:
    """Title of a column, with its meaning on hover where that is not plain."""
    means = words.MEANING.get(name, "")
    return f'<b><abbr title="{escape(means)}">{name}</abbr></b>' if means else f"<b>{name}</b>"


def _head(site: Site, head: int, key: str = "") -> None:
    style = {"type": "tertiary", "icon": ":material/arrow_forward:", "key": f"to {site} {head} {key}".strip()}
    with st.container(width=210):
        if st.button(site.head(head).capitalize(), on_click=look.look_at, args=(site, head), **style):
            pages.go_to(pages.TITLES[0])


def _numbers(behavior: Behavior, i: int) -> dict[str, str]:
    """Measurements of a head, by the name of its column."""
    shares = {words.OFTEN: behavior.rates[i : i + 1], words.WEIGHT: behavior.shares[i : i + 1]}
    numbers = {name: percent(*share) for name, share in shares.items() if share}
    if behavior.chance is not None:
        numbers[words.CHANCE] = percent(behavior.chance)
    if behavior.off and behavior.on is not None:
        numbers[words.ACCURACY] = f"{percent(behavior.on)} → {percent(behavior.off[i])}"
    return numbers


def _row(behavior: Behavior, i: int, columns: list[str]) -> str:
    """Role and what was measured; below, folded, the evidence."""
    numbers = _numbers(behavior, i)
    has_accuracy = words.ACCURACY in numbers
    bars = (
        {words.ACCURACY: f'<i style="--on:{behavior.on:.1%};--off:{behavior.off[i]:.1%}"></i>'} if has_accuracy else {}
    )
    cells = (f"{escape(numbers.get(name, '–'))}{bars.get(name, '')}" for name in columns)
    cells = "".join(f"<span><small>{name}</small>{cell}</span>" for name, cell in zip(columns, cells, strict=True))
    does = f"{behavior.does[:1].upper()}{behavior.does[1:].rstrip('. ')}"
    evidence = (
        f"<details><summary>{common.EVIDENCE}</summary><ul class='evidence'>{findings.points(behavior)}</ul></details>"
    )
    return f'<div class="role"><div>{plain(does)}{evidence}</div>{cells}</div>'
