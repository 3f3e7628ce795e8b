"""What a change does, and what the model says: the figure beside the large picture."""

import streamlit as st

from attnviz import figures
from attnviz.core.edits import Site
from attnviz.core.errors import ShapeError
from attnviz.core.record import Record
from attnviz.figures import Figure
from attnviz.ui import looking, notes, pictures, says, state

STEPS, NEXT, OUTPUT = state.EFFECTS
KEYS = {STEPS: "steps", NEXT: "words", OUTPUT: "change"}


def panel(record: Record, before: Record | None, site: Site, cell: tuple[int, int] | None, sentence: int) -> None:
    """One figure, and a choice of which if the model says anything.

    Args:
        before: the run without changes; None if nothing is changed.
    """
    effect = _choice(record)
    if effect == OUTPUT and before is None:
        if record.prediction is not None:
            notes.quiet("Nothing is changed, so no output vector moved. Switch a head off, or set a mask.")
    else:
        position = says.position(record, site, cell, sentence)
        try:
            figure = drawn(effect, record, before, position, sentence=sentence, dark=looking.is_dark())
        except ShapeError as error:  # the model wrote another text
            notes.quiet(str(error))
            return
        key = KEYS[effect]
        pictures.picture(figure, key)
        if effect == OUTPUT:
            notes.quiet(figure.description)
        pictures.take_away(figure, key, key)
        pictures.numbers(figure, key)


def choices(record: Record) -> list[str]:
    """What can be shown; first what the model writes, else what it says next, else how its output moved."""
    if record.prediction is None:
        return [OUTPUT]
    return list(state.EFFECTS) if record.prediction.written else [NEXT, OUTPUT]


def drawn(effect: str, record: Record, before: Record | None, position: int, **shown) -> Figure:
    """The figure of one choice.

    Args:
        position: after which token the next word is asked for.
    """
    if effect == STEPS:
        return figures.step_by_step(record, before=before, **shown)
    if effect == NEXT:
        return figures.next_word(record, position, before=before, **shown)
    return figures.change(before, record, **shown)


def _choice(record: Record) -> str:
    options, chosen = choices(record), st.session_state["effect"]
    chosen = chosen if chosen in options else options[0]
    if len(options) > 1:
        st.session_state["effect shown"] = chosen
        behavior = {"on_change": _choose, "label_visibility": "collapsed", "required": True}
        st.segmented_control("What the model says", options, key="effect shown", **behavior)
    return chosen


def _choose() -> None:
    st.session_state["effect"] = st.session_state["effect shown"]
