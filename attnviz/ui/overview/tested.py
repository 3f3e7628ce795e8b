"""The switch-off test: each head off in turn, alone, which of them matters most, and all of them in that order."""

from functools import partial

import pandas as pd
import streamlit as st

from attnviz.ablation import Sweep
from attnviz.figures.overview import FEW
from attnviz.ui.overview import card, every, tables, words
from attnviz.ui.overview.numbers import OFF, TITLES, Numbers, switched_off
from attnviz.ui.shared import look
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.text import block_html, details_html, large, lead
from attnviz.ui.shared.toolbar import Bar


def panel(bar: Bar) -> None:
    """Which head matters most, and all of them in that order, as maps and as a table."""
    lead(words.IN_TURN)
    found = switched_off(bar.at)
    if found is None or found.strongest is None:
        if found:
            _verdict(bar.at, found)
        every.panel(bar, lambda at, _: card.named(at))
        return
    among = (found.by, *(name for name in OFF if name != found.by and found.table[name].notna().any()))
    every.panel(bar, partial(_table, found=found, names=among), among=among)


def _verdict(at: Look, found: Sweep) -> None:
    """Which head matters most, and the way to it: to its page where it is the framed one."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="matters"):
        large(found.sentences()[0])
        if (most := found.strongest) == (at.site, at.head):
            card.opens(at)
        elif most:
            options = {"key": "to what matters", "icon": ":material/arrow_forward:", "on_click": look.look_at}
            st.button(words.SHOW_MOST.format(head=most[0].head(most[1])), args=most, **options)


def _table(at: Look, known: Numbers, *, found: Sweep, names: tuple[str, ...]) -> None:
    """Which head matters most; another that is framed and its rank; every head, the one that matters most first.

    What the weights would have said comes last, and folded what the numbers mean.
    """
    _verdict(at, found)
    if found.strongest != (at.site, at.head):
        card.named(at, rank=_rank(at, known, found.by))
    ranked = known.table.sort_values(found.by, ascending=False, kind="stable")
    tables.choosing(at, ranked, names, key="tested", brief=len(ranked) > FEW)
    means = (words.NUMBER_MEANS.format(number=TITLES[name], means=card.meant(name)) for name in names)
    meanings = "".join(block_html(one, "quiet") for one in means)
    st.html(block_html(found.sentences()[1], "quiet") + details_html(common.MEANINGS, meanings))


def _rank(at: Look, known: Numbers, by: str) -> str:
    """Of the framed head, by what changes without it; "" where that is not known."""
    change, changes = known.row((at.site, at.number))[by], known.table[by]
    if pd.isna(change):
        return ""
    rank, count, brief = 1 + int((changes > change).sum()), int(changes.notna().sum()), at.site.brief(at.number)
    return words.RANK.format(brief=brief, rank=rank, count=count)
