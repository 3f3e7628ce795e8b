"""What a head does and how that is known, in words."""

import streamlit as st

from attnviz.charts.theme import CAUTIONS
from attnviz.core.edits import Site
from attnviz.sources.base import Source
from attnviz.sources.cards import Behavior
from attnviz.ui.shared import look
from attnviz.ui.shared.lengths import SENTENCE_ENDS
from attnviz.ui.shared.text import large, plain, quiet


def of_head(source: Source, site: Site, head: int | str) -> None:
    """What was found out about the head that is shown; where nothing was, which head to look at instead."""
    if source.facts:
        quiet("Pretrained. What its heads do was not measured here.")
        return
    if source.card is None:
        own = source.provenance == "your own" or source.one_run
        more = (
            "What its heads do was not measured here."
            if own
            else "What a head looks at here says nothing about language."
        )
        quiet(f"{CAUTIONS[source.provenance].capitalize()}. {more}")
        return
    if found := source.card.behavior(site, head):
        large(f"{'Once trained, this head' if source.step is not None else 'This head'} {found.does.rstrip('. ')}.")
        with st.expander("Evidence"):
            st.html(f'<ul class="quiet evidence">{points(found)}</ul>')
        return
    what = "Nothing was measured for this head." if isinstance(head, int) else "These are all heads combined."
    quiet(f"{what} One of which it is known what it does:")
    known = source.card.behaviors
    if known:
        link(next((found for found in known if found.site == site), known[0]), "instead")


def points(found: Behavior) -> str:
    """The sentences of the evidence, as items of an HTML list."""
    sentences = SENTENCE_ENDS.split(f"{found.evidence.rstrip('. ')}.")
    return "".join(f"<li>{plain(sentence)}</li>" for sentence in sentences)


def link(found: Behavior, key: str) -> None:
    """A button that leads to the first head of a finding."""
    heads = f"head {found.heads[0]}" if len(found.heads) == 1 else f"heads {', '.join(map(str, found.heads))}"
    behavior = {"type": "tertiary", "icon": ":material/arrow_forward:", "key": f"to {key}"}
    behavior |= {"on_click": look.look_at, "args": (found.site, found.heads[0])}
    st.button(f"{found.site}, {heads}", **behavior)
