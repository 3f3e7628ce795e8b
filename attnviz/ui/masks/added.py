"""What is added to the scores, or bounds them: bias, never mask."""

from dataclasses import replace
from typing import Any

import streamlit as st

from attnviz import figures, walk
from attnviz.core.modifiers import alibi_slopes
from attnviz.ui.masks.base import Lab
from attnviz.ui.shared import looking, pictures, state
from attnviz.ui.shared.mask_link import Added, decode_added, encode_added
from attnviz.ui.shared.notes import heading, quiet
from attnviz.ui.shared.state import control

ADDED = state.coded("added", Added(), encode_added, decode_added)

START = Added(True, 0, 5.0)
"""What a modifier begins with when it is switched on."""


def controls(lab: Lab) -> None:
    """ALiBi, a relative bias and the softcap, each on or off, with its number."""
    added = state.get(ADDED)
    on = sum((added.alibi, added.relative is not None, added.softcap is not None))
    title = f"Bias on scores: {on} on" if on else "Bias on scores"
    with st.popover(title, icon=":material/add:", width="stretch", disabled=bool(lab.source.read_only)):
        st.caption("Numbers added to the scores, or a bound of them. They block nothing: this is bias, not mask.")
        _switch("ALiBi: less for keys farther away", "alibi", added.alibi)
        if added.alibi and isinstance(lab.head, int):
            slope = alibi_slopes(lab.source.num_heads)[lab.head]
            quiet(f"Head {lab.head} loses {slope:.4g} for each position of distance.")
        _switch("Relative bias: a number for each distance", "relative", added.relative is not None)
        if added.relative is not None:
            _number("Seed of its numbers", "relative", added.relative, 0, 9999)
        _switch("Softcap: scores stay below a bound", "softcap", added.softcap is not None)
        if added.softcap is not None:
            _number("Bound", "softcap", added.softcap, 0.1, 999.0)


def shown(lab: Lab, cell: tuple[int, int] | None) -> None:
    """What is added to the scores of this head, by an edit or by the model itself: bias, beside the mask."""
    if lab.record.step(lab.site).scoring.bias == () or not isinstance(lab.head, int) or lab.record.read_only:
        return
    stages = walk.chain(lab.record, None, lab.site, lab.head, sentence=lab.sentence)
    stage = next(stage for stage in stages if stage.key == "bias")
    heading("Bias on the scores of this head")
    quiet("It is added before the softmax. It blocks nothing: a key with less of it than others loses weight to them.")
    drawn = {"selected": cell or (-1, -1), "dark": lab.dark, "rev": looking.rev("cell"), "sentence": lab.sentence}
    figure = figures.walk.stage(lab.record, lab.site, lab.head, stage, (stage.matrix("added"),), **drawn)
    pictures.picture(figure, "bias", select="cell", on_select=looking.select)
    pictures.take_away(figure, "bias", "bias")


def _switch(title: str, name: str, on: bool) -> None:
    st.toggle(title, **_part(name, on, at="on", read=lambda chosen: getattr(START if chosen else Added(), name)))


def _number(title: str, name: str, value: float, least: float, most: float) -> None:
    st.number_input(title, least, most, **_part(name, value, at="number"), required=True)


def _part(name: str, shown: object, *, at: str, read=lambda value: value) -> dict[str, Any]:
    """The control of one part of what is added."""

    def other(value: object) -> Added:
        return replace(state.get(ADDED), **{name: read(value)})

    return control(ADDED, shown, at=f"{name} {at}", read=other)
