"""What a head does and how that is known, in words."""

import streamlit as st

from attnviz.charts.theme import CAUTIONS
from attnviz.core.edits import Site
from attnviz.sources.base import Source
from attnviz.sources.cards import Behavior
from attnviz.ui import frame
from attnviz.ui.shared import looking
from attnviz.ui.shared.notes import large, quiet


def of_head(source: Source, site: Site, head: int | str) -> None:
    """What was found out about the head that is shown; where nothing was, which head to look at instead."""
    if source.facts:
        quiet("Pretrained. What its heads do was not measured here.")
        return
    if source.card is None:
        quiet(f"{CAUTIONS[source.provenance].capitalize()}. What a head looks at here says nothing about language.")
        return
    if found := source.card.behavior(site, head):
        large(f"{'Once trained, this head' if source.step is not None else 'This head'} {_clause(found.does)}.")
        quiet(f"How that is known: {_clause(found.evidence)}.")
        return
    what = "Nothing was measured for this head." if isinstance(head, int) else "These are all heads combined."
    quiet(f"{what} One of which it is known what it does:")
    other = _nearest(source.card.behaviors, site)
    if other is not None:
        link(other, "instead")


def link(found: Behavior, key: str, *, leave: bool = False) -> None:
    """A button that leads to the first head of a finding, on the page Heads if this one is left for it."""
    behavior = {"type": "tertiary", "icon": ":material/arrow_forward:", "key": f"to {key}"}
    if st.button(named(found), **behavior, on_click=looking.look_at, args=(found.site, found.heads[0])) and leave:
        frame.go_to("heads")


def named(found: Behavior) -> str:
    """The heads of a finding: "cross layer 1, head 2"."""
    heads = f"head {found.heads[0]}" if len(found.heads) == 1 else f"heads {', '.join(map(str, found.heads))}"
    return f"{found.site}, {heads}"


def _nearest(findings: tuple[Behavior, ...], site: Site) -> Behavior | None:
    """The finding to offer at a site: one of this site if there is one, else the first."""
    return next((found for found in findings if found.site == site), findings[0] if findings else None)


def _clause(text: str) -> str:
    return text.rstrip(". ")
