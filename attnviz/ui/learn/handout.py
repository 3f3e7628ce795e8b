"""A lesson on paper: each step with its picture as it begins, a task with room for the answer, or its solution."""

import re
from functools import partial

import streamlit as st

from attnviz import figures
from attnviz.core.masks import Subsequent
from attnviz.core.record import Record
from attnviz.figures import Figure
from attnviz.lessons import Lesson, Step, peeking
from attnviz.ui.learn.going import begun
from attnviz.ui.shared import cache, edits, look, parameters, pictures, says
from attnviz.ui.shared.examples import TEXT
from attnviz.ui.shared.look import CELL, STEP, Look
from attnviz.ui.shared.pretrained import MODEL
from attnviz.ui.steps import parts

LINES = "\u2003" * 40
"""Room for an answer."""


def buttons(lesson: Lesson) -> None:
    """Two buttons that give the file: for the class, and for whoever teaches."""
    with st.container(horizontal=True, gap="small"):
        for name, key in (("Handout", "handout"), ("Handout with solutions", "solutions")):
            st.download_button(
                name,
                data=pictures.made(partial(page, lesson, solved=key == "solutions")),
                file_name=f"{re.sub(r'[^a-z0-9]+', '-', lesson.title.lower()).strip('-')}-{key}.html",
                mime="text/html",
                key=f"lesson {key}",
                icon=":material/description:",
                on_click="ignore",
            )
    pictures.not_made()


def page(lesson: Lesson, *, solved: bool = False) -> bytes:
    """The handout: always light, for paper.

    Args:
        solved: whether answers and notes stand in it.

    Raises:
        AttnvizError: if a model cannot be used, or a picture cannot be drawn.
    """
    from attnviz.export.handout import Section, handout

    sections = [
        Section(f"{i}. {step.title}", texts=_texts(step, solved), figures=drawn(step))
        for i, step in enumerate(lesson.steps, 1)
    ]
    return handout(lesson.title, [lesson.about] if lesson.about else [], sections)


def _texts(step: Step, solved: bool) -> tuple[str, ...]:
    idea = re.sub(r"\*\*(.*?)\*\*", r"\1", step.idea).split("\n\n")
    terms = [f"{one.name}: {one.means}{f' ({one.source})' if one.source else ''}." for one in step.terms]
    task = [f"Try it: {step.do}", step.question]
    end = [f"Solution: {step.answer}", f"Notes: {step.notes}" if step.notes else ""] if solved else [LINES, LINES]
    return tuple(filter(None, (*idea, *terms, *(task if step.do else ()), *(end if step.question else ()))))


def drawn(step: Step) -> tuple[Figure, ...]:
    """The pictures of a step in the state that it begins with; controls and tables are of the page alone."""
    now = begun(step)
    source = parameters.of(now, cache.source(now[MODEL], now[STEP]))
    lines = cache.texts(now[TEXT])
    changed = edits.of(now, source, lines)
    site, head = now[look.SITE] or look.opening_site(source), now[look.SHOW]
    at = Look(source, lines, changed, 0, site, look.opening_head(source) if head is None else head, dark=False)
    return tuple(DRAWN[name](at, now[CELL]) for name in step.shows if name in DRAWN)


def _prediction(at: Look, cell: look.Cell | None) -> Figure:
    record: Record = at.record
    position = look.asked_at(record, at.site, cell, 0)
    return says.drawn(says.choices(record)[0], record, at.before, position, sentence=0)


def _peeking(at: Look, cell: look.Cell | None) -> Figure:
    models = (("with the causal mask", learned(Subsequent()).losses), ("without a mask", learned(None).losses))
    return figures.losses(models, peeking.GUESS)


learned = cache.kept(peeking.learn)
"""How a model learned with a mask or without one, kept."""

DRAWN = {
    "map": lambda at, cell: figures.head(at.record, at.site, at.head, selected=cell, row_sums=True),
    "heads": lambda at, cell: figures.heads(at.record, at.site),
    "prediction": _prediction,
    "d_k": lambda at, cell: figures.spread(parts.spreads(parts.D_KS)),
    "peeking": _peeking,
}
"""By the names that a lesson gives them, of what is looked at and the selected cell."""
