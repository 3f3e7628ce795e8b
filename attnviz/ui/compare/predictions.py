"""Predictions of A and of B."""

import streamlit as st
import torch

from attnviz.analysis.align import AlignedPair, Side
from attnviz.figures.difference import told_apart
from attnviz.ui.compare import words
from attnviz.ui.shared import look, says
from attnviz.ui.text import quiet


def is_any(*sides: Side) -> bool:
    """Whether one of some sides predicts anything, or gives a vector."""
    outputs = ((side.record.labels, side.record.prediction, side.record.vectors) for side in sides)
    return any(output is not None for each in outputs for output in each)


def both(a: Side, b: Side, comparison: AlignedPair | None, cell: tuple[int, int] | None) -> None:
    """A line for each side; of models that give vectors, how far they are apart.

    Two heads of one run share what it says.
    """
    if a.record.vectors is not None and b.record.vectors is not None:
        quiet(words.ONE_VECTOR) if a.record is b.record else _vectors(a, b)
        return
    positions, sides = _positions(a, b, comparison, cell), [("A", a), ("B", b)]
    if a.record is b.record:
        quiet(words.ONE_RUN)
        sides, positions = [(words.A_AND_B, a)], positions[:1]
    apart = told_apart(a, b) if len(sides) > 1 else None
    for i, ((name, side), (_, other), position) in enumerate(zip(sides, sides[::-1], positions, strict=True)):
        called = words.SIDE.format(side=name, what=apart[i]) if apart else name
        says.show_run(called, side.record, other.record, position, (side.sentence, other.sentence), positions)


def _vectors(a: Side, b: Side) -> None:
    one, other = (side.record.vectors[side.sentence].double() for side in (a, b))
    if one.shape != other.shape:
        quiet(words.OTHER_LENGTHS)
    else:
        apart = max(0.0, float(1 - torch.cosine_similarity(one, other, dim=0)))
        st.html(f'<div class="says">{says.vectors_apart(apart)}</div>')


def _positions(a: Side, b: Side, comparison: AlignedPair | None, cell: tuple[int, int] | None) -> tuple[int, int]:
    """After which token each is asked for a word: at the query of the selected cell, where both have one."""
    last = tuple(look.asked_at(side.record, side.site, None, side.sentence) for side in (a, b))
    if comparison is None or cell is None or (a.site.kind == "encoder" and a.record.targets):
        return last
    row = comparison.rows[cell[0]]
    positions = (look.asked_at(s.record, s.site, (i, 0), s.sentence) for s, i in zip((a, b), row, strict=True))
    return last if None in row else tuple(positions)
