"""What A says and what B says, beside each other."""

import streamlit as st

from attnviz.figures.difference import told_apart
from attnviz.metrics.beside import Beside, Side, vectors_apart
from attnviz.ui.compare import words
from attnviz.ui.shared import look, pictures, says
from attnviz.ui.shared.text import quiet

ALONE = tuple(effect for effect in says.KEYS if effect not in (says.OUTPUT, says.ALIKE))
"""The figures that show what one run says."""


def is_any(*sides: Side) -> bool:
    """Whether one of some sides predicts anything, or gives a vector."""
    outputs = ((side.record.labels, side.record.prediction, side.record.vectors) for side in sides)
    return any(one is not None for each in outputs for one in each)


def both(a: Side, b: Side, found: Beside | None, cell: tuple[int, int] | None) -> None:
    """Two columns: a line and a figure for each side; of models that give vectors, how far they are apart.

    Two heads of one run share what it says.
    """
    if a.record.vectors is not None and b.record.vectors is not None:
        quiet(words.ONE_VECTOR) if a.record is b.record else _vectors(a, b)
        return
    positions, sides = _positions(a, b, found, cell), [("A", a), ("B", b)]
    if a.record is b.record:
        quiet(words.ONE_RUN)
        sides, positions = [(words.A_AND_B, a)], positions[:1]
    apart = told_apart(a, b) if len(sides) > 1 else None
    with st.container(horizontal=True, gap="large"):
        for i, ((name, side), (_, other), position) in enumerate(zip(sides, sides[::-1], positions, strict=True)):
            with st.container(width=560, key=f"said {name}"):
                called = words.SIDE.format(side=name, what=apart[i]) if apart else name
                says.one(called, side.record, other.record, position, (side.sentence, other.sentence), positions)
    if options := _effects(a, b):
        _figures(sides, positions, says.one_of(options, words.PREDICTIONS))


def _figures(sides: list[tuple[str, Side]], positions: tuple[int, ...], effect: str) -> None:
    """The same figure of each, beside each other, with their ends at one height: their titles may take more lines.

    Steps of texts that differ in length begin at one height.
    """
    key = says.KEYS[effect]
    alignment = "top" if effect == says.STEPS else "bottom"
    with st.container(horizontal=True, vertical_alignment=alignment, gap="large"):
        for (name, side), position in zip(sides, positions, strict=True):
            with st.container(width=560, key=f"drawn {name}"):
                figure = says.drawn(effect, side.record, None, position, sentence=side.sentence, dark=look.is_dark())
                pictures.show(figure, f"{key} {name}", words.FIGURE_OF.format(figure=key, side=name), table=True)


def _vectors(a: Side, b: Side) -> None:
    apart = vectors_apart(a, b)
    if apart is None:
        quiet(words.OTHER_LENGTHS)
    else:
        st.html(f'<div class="says">{says.vectors_apart(apart)}</div>')


def _positions(a: Side, b: Side, found: Beside | None, cell: tuple[int, int] | None) -> tuple[int, int]:
    """After which token each is asked for a word: at the query of the selected cell, where both have one."""
    last = tuple(look.asked_at(side.record, side.site, None, side.sentence) for side in (a, b))
    if found is None or cell is None or (a.site.kind == "encoder" and a.record.targets):
        return last
    row = found.rows[cell[0]]
    asked = (look.asked_at(s.record, s.site, (i, 0), s.sentence) for s, i in zip((a, b), row, strict=True))
    return last if None in row else tuple(asked)


def _effects(a: Side, b: Side) -> list[str]:
    """The figures that both have; of a text that goes on and of one that is translated none can be compared."""
    if bool(a.record.targets) != bool(b.record.targets):
        return []
    each = [says.choices(side.record, side.sentence) for side in (a, b)]
    return [effect for effect in each[0] if effect in each[1] and effect in ALONE]
