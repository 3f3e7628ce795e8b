"""A change that leaves the weights at hand as they are: what it does to the predictions, why, and where it shows."""

from dataclasses import replace

import streamlit as st

from attnviz import analysis, figures
from attnviz.analysis.align import SAME, first_moved
from attnviz.core.errors import ShapeError
from attnviz.sources import estimate
from attnviz.ui import cache
from attnviz.ui.compare import words
from attnviz.ui.shared import look, pictures, says
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.text import in_words, quiet

WIDE = 820
"""Pixels of the first of two figures across a page: it is the answer."""


def explained(context: ViewContext) -> None:
    """Effect of the change on the predictions: the answer in words, figures with both runs, why no map moved."""
    options, position = says.choices(context.record, context.sentence), context.position
    is_word = says.NEXT in options or says.BLANK in options
    if not is_word or says.STEPS in options:
        says.line(context)
    if is_word:
        position = _answered(context)
    elif context.record.provenance == "random":
        in_words(_figure(context, says.OUTPUT, position).description)
    with st.container(horizontal=True, gap="large"):
        exports = {} if position is None else _draw(context, options, position)
    _why(context)
    if exports:
        pictures.take_one(exports, "both", words.EXPORT_BARS)
        pictures.numbers_of_one(exports, "both")


def _draw(context: ViewContext, options: list[str], position: int) -> dict[str, tuple[figures.Figure, str]]:
    """The figures of what the model says, each with both runs, and their keys."""
    exports = {}
    for effect in options:
        try:
            figure = _figure(context, effect, position)
        except ShapeError as error:  # the model wrote another text
            quiet(str(error))
            continue
        exports[effect] = figure, says.KEYS[effect]
        pictures.picture(*exports[effect])
    return exports


def _figure(context: ViewContext, effect: str, position: int) -> figures.Figure:
    alone = effect in (says.NEXT, says.BLANK) and len(says.choices(context.record, context.sentence)) == 2
    width = {"width": WIDE} if alone else {}
    return says.prediction_figure(
        effect, context.record, context.before, position, sentence=context.sentence, dark=context.dark, **width
    )


def _answered(context: ViewContext) -> int | None:
    """Say what the prediction was and is, after the selected token or where it changes most; gives where."""
    if context.moved_most is None:
        in_words(words.SAME_PREDICTIONS)
        return None
    alike = context.cell is not None and analysis.read_alike(
        context.untouched, context.record, context.position, sentence=context.sentence
    )
    position = context.position if alike else context.moved_most
    in_words(says.prediction_change(context, position, most=not alike))
    quiet(words.BARS.format(changes=", ".join(context.edits.in_words())))
    return position


def _why(context: ViewContext) -> None:
    """Why nothing moved, and a button to the first head in which something did."""
    cost = replace(every := estimate.of_all_maps(context.record), seconds=2 * every.seconds)
    there = cache.worked(
        first_moved, context.untouched, context.record, sentence=context.sentence, least=SAME, cost=cost
    )
    why = words.OWN_LAYER if context.edits.off(context.site) else words.UNMOVED.format(site=context.site)
    if there is None:
        blocked = not context.edits.heads_off and context.edits.mask is not None
        quiet((words.BLOCKS_NOTHING if blocked else words.NO_WEIGHT_MOVES).format(why=why))
        return
    site, head = there
    quiet(words.MOVED_AT.format(why=why, site=site))
    behavior = {"icon": ":material/arrow_forward:", "on_click": look.look_at, "args": there}
    name = words.COMPARE_HEAD.format(head=site.head(head))
    st.button(name, key="see moved", **behavior)
