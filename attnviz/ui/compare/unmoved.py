"""A change that leaves the weights at hand as they are: why, and where it shows."""

from dataclasses import replace

import streamlit as st

from attnviz.metrics.beside import SAME
from attnviz.metrics.compare import first_moved
from attnviz.sources import estimate
from attnviz.ui.shared import cache, look
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.text import in_words

OWN_LAYER = "Switching a head off leaves the weights of its own layer as they are: it changes what the layer passes on."


def explained(at: Look) -> None:
    """Why nothing moved, and a button to the first head in which something did."""
    cost = replace(every := estimate.of_all_maps(at.record), seconds=2 * every.seconds)
    there = cache.worked(first_moved, at.untouched, at.record, sentence=at.sentence, least=SAME, cost=cost)
    why = OWN_LAYER if at.edits.off(at.site) else f"The change leaves the weights of {at.site} as they are."
    if there is None:
        blocked = not at.edits.heads_off and at.edits.mask is not None
        more = "It blocks nothing that is not blocked already." if blocked else "The predictions:"
        in_words(f"{why} No weight of any layer moves. {more}")
        return
    site, head = there
    in_words(f"{why} The first weights that move are those of {site}.")
    behavior = {"icon": ":material/arrow_forward:", "on_click": look.look_at, "args": there}
    st.button(f"Compare {site} head {head}", key="see moved", **behavior)
