"""A change that leaves the weights at hand as they are: why, and where it shows."""

from dataclasses import replace

import streamlit as st

from attnviz.metrics.beside import SAME
from attnviz.metrics.compare import first_moved
from attnviz.sources import estimate
from attnviz.ui.compare import words
from attnviz.ui.shared import cache, look
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.text import in_words


def explained(at: Look) -> None:
    """Why nothing moved, and a button to the first head in which something did."""
    cost = replace(every := estimate.of_all_maps(at.record), seconds=2 * every.seconds)
    there = cache.worked(first_moved, at.untouched, at.record, sentence=at.sentence, least=SAME, cost=cost)
    why = words.OWN_LAYER if at.edits.off(at.site) else words.UNMOVED.format(site=at.site)
    if there is None:
        blocked = not at.edits.heads_off and at.edits.mask is not None
        text = words.BLOCKS_NOTHING if blocked else words.NO_WEIGHT_MOVES
        in_words(text.format(why=why))
        return
    site, head = there
    in_words(words.MOVED_AT.format(why=why, site=site))
    behavior = {"icon": ":material/arrow_forward:", "on_click": look.look_at, "args": there}
    name = words.COMPARE_HEAD.format(head=site.head(head))
    st.button(name, key="see moved", **behavior)
