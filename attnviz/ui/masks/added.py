"""The controls of what is added to the scores, or bounds them, and its picture: bias, never mask."""

import streamlit as st

from attnviz import figures
from attnviz.analysis import steps
from attnviz.core.modifiers import alibi_slopes
from attnviz.ui.masks import words
from attnviz.ui.masks.lab import Lab
from attnviz.ui.shared import look, pictures, state
from attnviz.ui.shared.edits import ADDED, Added
from attnviz.ui.shared.state import control
from attnviz.ui.text import heading, quiet

START = Added(True, 0, 5.0)
"""First value of a modifier that is switched on."""


def controls(lab: Lab) -> None:
    """ALiBi, a relative bias and the softcap, each on or off, with its number."""
    added = state.get(ADDED)
    on = sum((added.alibi, added.relative is not None, added.softcap is not None))
    title = words.BIAS_ON.format(count=on) if on else words.BIAS
    with st.popover(title, icon=":material/add:", width="stretch", disabled=bool(lab.source.read_only)):
        st.caption(words.BIAS_MEANS)
        if _switch(words.ALIBI, "alibi") and isinstance(lab.head, int):
            slope = alibi_slopes(lab.source.num_heads)[lab.head]
            quiet(words.SLOPE.format(head=lab.head, slope=slope))
        if _switch(words.RELATIVE, "relative"):
            _number(words.SEED_OF_BIAS, "relative", 0, 9999)
        if _switch(words.SOFTCAP, "softcap"):
            _number(words.BOUND, "softcap", 0.1, 999.0)


def _switch(title: str, name: str) -> bool:
    part = ADDED.part(name)
    on = state.get(part) not in (None, False)
    return control(st.toggle, title, part, shown=on, at="on", read=lambda on: getattr(START if on else Added(), name))


def _number(title: str, name: str, least: float, most: float) -> None:
    control(st.number_input, title, ADDED.part(name), least, most, at="number", required=True)


def head_bias(lab: Lab) -> None:
    """Bias that an edit or the model itself adds to the scores of this head, beside the mask."""
    if lab.record.step(lab.site).scoring.bias == () or not isinstance(lab.head, int) or lab.record.read_only:
        return
    heading(words.BIAS_OF_HEAD)
    _picture(lab)


def _picture(lab: Lab) -> None:
    quiet(words.BIAS_ADDED)
    stages = steps.chain(lab.record, None, lab.site, lab.head, sentence=lab.sentence)
    stage = next(stage for stage in stages if stage.key == "bias")
    options = lab.drawn | {"selected": lab.cell or (-1, -1)}
    figure = figures.stage(lab.record, lab.site, lab.head, stage, (stage.matrix("added"),), **options)
    pictures.show(figure, "bias", words.BIAS_PICTURE, select="cell", on_select=look.select)
