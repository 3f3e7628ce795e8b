"""Scale and temperature of the scores, with the spread of the chosen row before and after."""

from dataclasses import replace

import streamlit as st

from attnviz.analysis import steps
from attnviz.core.amounts import digits
from attnviz.ui import cache
from attnviz.ui.shared import state
from attnviz.ui.shared.edits import TUNED
from attnviz.ui.shared.state import control
from attnviz.ui.steps import words
from attnviz.ui.steps.view import StepsView, table
from attnviz.ui.text import quiet

TEMPERATURES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
MEASURES = {"entropy": words.ENTROPY, "largest": words.LARGEST, "gradient": words.GRADIENT}


def scores(context: StepsView) -> None:
    """The scale and the temperature of all calls, and their effect on the row."""
    if context.source.read_only:
        quiet(context.source.read_only)
        return
    control(st.toggle, words.DIVIDE, TUNED.part("scaled"))
    part = TUNED.part("temperature")
    options = sorted({*TEMPERATURES, state.get(part)})
    control(st.select_slider, words.TEMPERATURE, part, options, format_func=lambda temperature: f"{temperature:g}")
    plain = replace(context.edits, temperature=1.0, scale=None)
    request = replace(context.request, edits=plain)
    before = cache.record(context.source, request) if plain != context.edits else context.record
    place = context.site, context.head, context.query
    compared = steps.compare(before, context.record, *place, sentence=context.sentence)
    sides = {words.BEFORE: compared.before, words.NOW: compared.after}
    if before is context.record:
        del sides[words.BEFORE]
    rows = [[title, *(digits(getattr(side, name)) for side in sides.values())] for name, title in MEASURES.items()]
    row = words.ROW.format(query=context.tokens[0][context.query].text, position=context.query)
    table([row, *sides], rows, numbers=(1, 2))
