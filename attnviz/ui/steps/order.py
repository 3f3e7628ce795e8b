"""What positions are for: the words in another order."""

from dataclasses import replace

import streamlit as st

from attnviz import figures, walk
from attnviz.core.display import shown
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.ui.shared import cache, pictures, state
from attnviz.ui.shared.changes import CHANGES
from attnviz.ui.shared.text import large, quiet
from attnviz.ui.steps import words
from attnviz.ui.steps.walked import Walk, elsewhere, table
from attnviz.walk import Knobs

MOST_TOKENS = 512
SIDE = 300
"""Pixels of a map of two."""


def order(at: Walk) -> None:
    """The words from last to first, with and without positions where a model can do both."""
    large(words.REORDER)
    length = at.record.sentences[at.sentence].length
    if length > MOST_TOKENS:
        quiet(words.TOO_LONG_TO_REORDER.format(length=length, most=MOST_TOKENS))
        return
    can_switch = "positions" in at.source.settings()
    try:
        found = walk.permutation(at.source, at.record, sentence=at.sentence)
    except InputError as error:
        if can_switch:
            quiet(str(error))
            return
        elsewhere(words.INSTEAD.format(why=error))
        at = _with_random_weights(at)
        found, can_switch = walk.permutation(at.source, at.record, sentence=at.sentence), True
    large(found.says)
    with st.container(horizontal=True, gap="large"):
        _maps(at, found)
        with st.container(width=360):
            if can_switch:
                _both(at)
            else:
                elsewhere(words.POSITIONS_NEEDED)


def _with_random_weights(at: Walk) -> Walk:
    """The same text in a model that reads it, can do without positions, and has nothing changed."""
    source = cache.source("scratch")
    where = at.sentence, source.sites[0], 0, at.dark
    return Walk(source, at.lines, Edits(), *where, query=0, key=None, knobs=Knobs())


def _maps(at: Walk, found: walk.Permutation) -> None:
    """The head's weights in either order, beside each other."""
    drawn = {"sentence": at.sentence} | at.styled | {"side": SIDE}
    runs = (words.WORDS_BEFORE, found.before, "ordered"), (words.WORDS_AFTER, found.after, "reordered")
    for said, record, key in runs:
        tokens = record.sentences[at.sentence]
        with st.container(width="content"):
            quiet(said.format(words=" ".join(shown(token.text) for token in tokens.tokens[: tokens.length])))
            pictures.picture(cache.drawn(figures.head, record, at.site, at.head, **drawn), key)


def _both(at: Walk) -> None:
    """With and without positions."""
    rows = []
    for positions in (True, False):
        source = replace(at.source, positions=positions)
        record = cache.record(source, at.lines, at.edits)
        found = walk.permutation(source, record, sentence=at.sentence)
        follows = words.YES if found.follows else words.NO
        rows.append([words.ON if positions else words.OFF, f"{found.difference:.2g}", follows])
    table(words.POSITIONS_HEAD, rows, numbers=(1,))
    quiet(words.CAUSAL_ORDER)
    if state.get(CHANGES):
        quiet(words.EDITED_ORDER)
