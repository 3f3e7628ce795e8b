"""What the heads of a model do, as a table: a head is a button that opens it, its evidence is folded."""

from html import escape

import streamlit as st

from attnviz.core.amounts import percent
from attnviz.core.edits import Site
from attnviz.sources.cards import Behavior, Card
from attnviz.ui.about import words
from attnviz.ui.shared import findings, look, pages
from attnviz.ui.shared import words as common
from attnviz.ui.shared.text import block_html, details_html, plain


def table_of(card: Card) -> None:
    """A row for each role of a head; the one without which most is lost comes first."""
    rows = [(found, i) for found in card.behaviors for i in range(len(found.heads))]
    every = [_numbers(found, i) for found, i in rows]
    columns = [name for name in words.COLUMNS if any(name in numbers for numbers in every)]
    with st.container(gap=None, key="roles"):
        titles = "".join(_title(name) for name in (common.ROLE, *columns, common.HEAD))
        st.html(f'<div class="role top">{titles}</div>')
        for found, i in rows:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                _head(found.site, found.heads[i], found.role)
                st.html(_row(found, i, columns))
    order = words.MOST_LOST if words.ACCURACY in columns else ""
    meaning = " ".join(words.MEANING[name] for name in columns if name in words.MEANING)
    said = block_html(f"{order} {words.CLICK_A_HEAD}".strip(), "quiet")
    st.html(said + details_html(common.MEANINGS, block_html(meaning, "quiet")) if meaning else said)


def _title(name: str) -> str:
    """Of a column; what it means is read at it where that is not plain."""
    means = words.MEANING.get(name, "")
    return f'<b><abbr title="{escape(means)}">{name}</abbr></b>' if means else f"<b>{name}</b>"


def _head(site: Site, head: int, key: str = "") -> None:
    behavior = {"type": "tertiary", "icon": ":material/arrow_forward:", "key": f"to {site} {head} {key}".strip()}
    behavior |= {"on_click": look.look_at, "args": (site, head)}
    with st.container(width=210):
        if st.button(site.head(head).capitalize(), **behavior):
            pages.go_to(pages.TITLES[0])


def _numbers(found: Behavior, i: int) -> dict[str, str]:
    """What was measured of a head, by the name of its column."""
    shares = {words.OFTEN: found.rates[i : i + 1], words.WEIGHT: found.shares[i : i + 1]}
    numbers = {name: percent(*share) for name, share in shares.items() if share}
    numbers |= {} if found.chance is None else {words.CHANCE: percent(found.chance)}
    known = found.off and found.on is not None
    return numbers | ({words.ACCURACY: f"{percent(found.on)} → {percent(found.off[i])}"} if known else {})


def _row(found: Behavior, i: int, columns: list[str]) -> str:
    """Role and what was measured; below, folded, the evidence."""
    numbers = _numbers(found, i)
    known = words.ACCURACY in numbers
    bars = {words.ACCURACY: f'<i style="--on:{found.on:.1%};--off:{found.off[i]:.1%}"></i>'} if known else {}
    cells = (f"{escape(numbers.get(name, '–'))}{bars.get(name, '')}" for name in columns)
    cells = "".join(f"<span><small>{name}</small>{cell}</span>" for name, cell in zip(columns, cells, strict=True))
    does = f"{found.does[:1].upper()}{found.does[1:].rstrip('. ')}"
    evidence = (
        f"<details><summary>{common.EVIDENCE}</summary><ul class='evidence'>{findings.points(found)}</ul></details>"
    )
    return f'<div class="role"><div>{plain(does)}{evidence}</div>{cells}</div>'
