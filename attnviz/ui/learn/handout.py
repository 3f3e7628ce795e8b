"""A lesson on paper: each step with its picture as it begins, a task with room for the answer, or its solution."""

from functools import partial
from typing import Any

import streamlit as st

from attnviz import figures
from attnviz.analysis import steps
from attnviz.core.display import file_stem
from attnviz.core.masks import Subsequent
from attnviz.core.record import Record
from attnviz.figures import Figure
from attnviz.lessons import Lesson, LessonStep, peeking
from attnviz.ui.learn import words
from attnviz.ui.learn.going import begun
from attnviz.ui.learn.scenes import D_KS, learned, spreads
from attnviz.ui.shared import cache, edits, look, parameters, pictures, says
from attnviz.ui.shared import words as common
from attnviz.ui.shared.examples import TEXT, by_line
from attnviz.ui.shared.look import CELL, QUERY, STEP, ViewContext
from attnviz.ui.shared.pretrained import MODEL
from attnviz.ui.shared.setting import State, session_setting
from attnviz.ui.shared.state import control

SIDE = 300
"""Points of a map."""
ROOM = 2
"""Lines for an answer."""
SOLVED = session_setting("handout with solutions", False)


def button(lesson: Lesson) -> None:
    """The file, for the class or for whoever teaches."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        solved = control(st.toggle, words.WITH_SOLUTIONS, SOLVED)
        file = f"{file_stem(lesson.title, end='solutions' if solved else 'handout')}.html"
        make = partial(page, lesson, solved=solved)
        pictures.save(common.HANDOUT, make, file, "text/html", key="lesson handout", icon=":material/description:")
    pictures.not_made()


def page(lesson: Lesson, *, solved: bool = False) -> bytes:
    """The handout as HTML: always light, for paper.

    Args:
        solved: whether answers and notes stand in it.

    Raises:
        AttnvizError: if a model cannot be used, or a picture cannot be drawn.
    """
    from attnviz.export.handout import handout

    sections = [_section(i, step, solved) for i, step in enumerate(lesson.steps, 1)]
    return handout(lesson.title, [lesson.about] if lesson.about else [], sections)


def slide_button(step: LessonStep, now: State) -> None:
    """One click for the picture of a step as it is now, as large as a slide has room for."""
    if any(name in FIGURES for name in step.shows):
        file = f"{file_stem(step.title, end='slide')}.png"
        options = {"key": "lesson slide", "type": "tertiary", "icon": ":material/download:"}
        pictures.save(words.SLIDE, partial(slide, step, now), file, "image/png", **options)


def slide(step: LessonStep, now: State) -> bytes:
    """The map of a step in some state, or what it shows in place of one, as PNG.

    Raises:
        AttnvizError: if the model cannot be used, or the picture cannot be drawn.
    """
    from attnviz import export

    name = "map" if "map" in step.shows else next(name for name in step.shows if name in FIGURES)
    return export.render(FIGURES[name](looked_at(now), now), "png", preset="slide")


def _section(number: int, step: LessonStep, solved: bool) -> Any:
    from attnviz.export.handout import Section

    terms = [f"**{term.name}**: {term.means}.{f' *{term.source}*' if term.source else ''}" for term in step.terms]
    task = [f"**{words.TRY_IT}.** {step.do}" if step.do else "", step.question]
    parts = ((words.SOLUTION, step.answer), (words.NOTES, step.notes))
    solution = [f"**{what}.** {text}" for what, text in parts if text]
    return Section(
        f"{number}. {step.title}",
        texts=(step.idea, *terms),
        figures=step_figures(step),
        after=tuple(filter(None, task)),
        choices=step.choices,
        room=ROOM if step.question and not solved else 0,
        end=tuple(solution) if solved else (),
    )


def step_figures(step: LessonStep) -> tuple[Figure, ...]:
    """The pictures of a step in the state that it begins with; controls and tables are of the page alone."""
    now = begun(step)
    return tuple(FIGURES[name](looked_at(now), now) for name in step.shows if name in FIGURES)


def looked_at(now: State) -> ViewContext:
    """View context of a state, on light paper."""
    source = parameters.of(now, cache.source(now[MODEL], now[STEP]))
    lines = cache.texts(now[TEXT], by_line=by_line(now, now[TEXT]))
    site, head = now[look.SITE] or look.opening_site(source), now[look.SHOW]
    head = look.opening_head(source) if head is None else head
    return ViewContext(source, lines, edits.of(now, source, lines), 0, site, head, dark=False)


def _prediction(context: ViewContext, now: State) -> Figure:
    record: Record = context.record
    position = look.asked_at(record, context.site, now[CELL], 0)
    return says.prediction_figure(says.choices(record)[0], record, context.before, position, sentence=0)


def _row(context: ViewContext, now: State) -> Figure:
    """The values that the chosen row adds up, and their sum."""
    row = steps.row(context.record, context.site, context.head, now[QUERY])
    stage, key = figures.values(row, len(context.tokens[1])), int(row.weights.argmax())
    return figures.stage(context.record, context.site, context.head, stage, stage.matrices, selected=(row.query, key))


def _peeking(context: ViewContext, now: State) -> Figure:
    models = ((words.MASKED, learned(Subsequent()).losses), (words.OPEN, learned(None).losses))
    return figures.losses(models, peeking.GUESS)


FIGURES = {
    "map": lambda context, now: figures.head(
        context.record, context.site, context.head, selected=now[CELL], row_sums=True, side=SIDE
    ),
    "heads": lambda context, now: figures.heads(context.record, context.site),
    "row": _row,
    "prediction": _prediction,
    "d_k": lambda context, now: figures.spread(spreads(D_KS)),
    "peeking": _peeking,
}
"""Functions of the view context and the state, by the names that lessons use."""
