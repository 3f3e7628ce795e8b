"""What a change does, and what the model says: the figure beside the large picture."""

from dataclasses import replace

import streamlit as st

from attnviz import figures, metrics
from attnviz.core.edits import Site
from attnviz.core.errors import ShapeError
from attnviz.core.record import Record
from attnviz.figures import Figure
from attnviz.ui.shared import cache, looking, notes, pictures, says, state
from attnviz.ui.shared.state import control

EFFECTS = ("step by step", "next word", "output vectors", "blanks", "one blank", "labels", "similarity")
"""What can stand beside the large picture."""

STEPS, NEXT, OUTPUT, BLANKS, BLANK, LABELS, ALIKE = EFFECTS
EFFECT = replace(state.choice("effect", EFFECTS), of="model")
KEYS = {STEPS: "steps", NEXT: "words", OUTPUT: "change", BLANKS: "blanks", BLANK: "blank", LABELS: "labels"}
KEYS |= {ALIKE: "similarity"}


def panel(record: Record, before: Record | None, site: Site, cell: tuple[int, int] | None, sentence: int) -> None:
    """One figure, and a choice of which if the model says anything.

    Args:
        before: the run without changes; None if nothing is changed.
    """
    effect = _choice(record, sentence)
    if effect == OUTPUT and before is None:
        if record.provenance != "random":
            notes.quiet(f"Nothing is changed, so no output vector moved.{_how(record)}")
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


def _how(record: Record) -> str:
    return "" if record.read_only else " Switch a head off, or set a mask."


def choices(record: Record, sentence: int = 0) -> list[str]:
    """What can be shown; first what the model says, then how its output moved."""
    if record.labels is not None:
        return [LABELS, OUTPUT]
    if record.vectors is not None and len(record.sentences) > 1:
        return [ALIKE, OUTPUT]
    if record.prediction is None:
        return [OUTPUT]
    if metrics.fills_in(record):
        blanks = len(record.prediction.blanks[sentence])
        return [*([BLANK] if blanks else []), *([BLANKS] if blanks > 1 else []), OUTPUT]
    return [STEPS, NEXT, OUTPUT] if record.prediction.written else [NEXT, OUTPUT]


def drawn(effect: str, record: Record, before: Record | None, position: int, **shown) -> Figure:
    """The figure of one choice.

    Args:
        position: after which token the next word is asked for, or which blank.
    """
    if effect in (STEPS, BLANKS):
        return cache.drawn(figures.step_by_step, record, before=before, **shown)
    if effect in (NEXT, BLANK):
        return cache.drawn(figures.next_word, record, position, before=before, **shown)
    if effect == LABELS:
        return cache.drawn(figures.labels, record, before=before, **shown)
    if effect == ALIKE:
        return cache.drawn(figures.similarity, record, before=before, dark=shown["dark"])
    return cache.drawn(figures.change, before, record, **shown)


def _choice(record: Record, sentence: int) -> str:
    return one_of(choices(record, sentence), "What the model says")


def one_of(options: list[str], title: str) -> str:
    """The chosen one of some figures, else the first."""
    chosen = state.get(EFFECT)
    chosen = chosen if chosen in options else options[0]
    if len(options) > 1:
        behavior = {"label_visibility": "collapsed", "required": True}
        st.segmented_control(title, options, **control(EFFECT, chosen), **behavior)
    return chosen
