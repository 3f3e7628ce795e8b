"""A change that leaves the weights at hand as they are: what it does to the predictions, why, and where it shows."""

from dataclasses import replace

import streamlit as st

from attnviz import figures, metrics
from attnviz.core.errors import ShapeError
from attnviz.metrics.beside import SAME
from attnviz.metrics.compare import first_moved
from attnviz.sources import estimate
from attnviz.ui.compare import words
from attnviz.ui.shared import cache, look, pictures, says
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.text import in_words, quiet

WIDE = 820
"""Pixels of the first of two figures across a page: it is the answer."""


def explained(at: Look) -> None:
    """What the change does to what the model says: the answer in words, figures with both runs, why no map moved."""
    options, position = says.choices(at.record, at.sentence), at.position
    is_word = says.NEXT in options or says.BLANK in options
    if not is_word or says.STEPS in options:
        says.line(at)
    if is_word:
        position = _answered(at)
    elif at.record.provenance == "random":
        in_words(_figure(at, says.OUTPUT, position).description)
    with st.container(horizontal=True, gap="large"):
        drawn = {} if position is None else _drawn(at, options, position)
    _why(at)
    if drawn:
        pictures.take_one(drawn, "both", words.EXPORT_BARS)
        pictures.numbers_of_one(drawn, "both")


def _drawn(at: Look, options: list[str], position: int) -> dict[str, tuple[figures.Figure, str]]:
    """The figures of what the model says, each with both runs, and their keys."""
    drawn = {}
    for effect in options:
        try:
            figure = _figure(at, effect, position)
        except ShapeError as error:  # the model wrote another text
            quiet(str(error))
            continue
        drawn[effect] = figure, says.KEYS[effect]
        pictures.picture(*drawn[effect])
    return drawn


def _figure(at: Look, effect: str, position: int) -> figures.Figure:
    alone = effect in (says.NEXT, says.BLANK) and len(says.choices(at.record, at.sentence)) == 2
    width = {"width": WIDE} if alone else {}
    return says.drawn(effect, at.record, at.before, position, sentence=at.sentence, dark=at.dark, **width)


def _answered(at: Look) -> int | None:
    """Say what the prediction was and is, after the selected token or where it changes most; gives where."""
    if at.moved_most is None:
        in_words(words.SAME_PREDICTIONS)
        return None
    alike = at.cell is not None and metrics.read_alike(at.untouched, at.record, at.position, sentence=at.sentence)
    position = at.position if alike else at.moved_most
    in_words(says.prediction_change(at, position, most=not alike))
    quiet(words.BARS.format(changes=", ".join(at.edits.in_words())))
    return position


def _why(at: Look) -> None:
    """Why nothing moved, and a button to the first head in which something did."""
    cost = replace(every := estimate.of_all_maps(at.record), seconds=2 * every.seconds)
    there = cache.worked(first_moved, at.untouched, at.record, sentence=at.sentence, least=SAME, cost=cost)
    why = words.OWN_LAYER if at.edits.off(at.site) else words.UNMOVED.format(site=at.site)
    if there is None:
        blocked = not at.edits.heads_off and at.edits.mask is not None
        quiet((words.BLOCKS_NOTHING if blocked else words.NO_WEIGHT_MOVES).format(why=why))
        return
    site, head = there
    quiet(words.MOVED_AT.format(why=why, site=site))
    behavior = {"icon": ":material/arrow_forward:", "on_click": look.look_at, "args": there}
    name = words.COMPARE_HEAD.format(head=site.head(head))
    st.button(name, key="see moved", **behavior)
