"""The picture of a chapter as a file for a slide, and the figures that chapters show."""

from functools import partial

from attnviz import figures
from attnviz.analysis import steps
from attnviz.core.display import file_stem
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.figures import Figure
from attnviz.lessons import LessonStep
from attnviz.ui import cache
from attnviz.ui.learn import words
from attnviz.ui.learn.scenes import D_KS, spreads
from attnviz.ui.shared import edits, look, parameters, pictures, says
from attnviz.ui.shared.examples import TEXT, by_line
from attnviz.ui.shared.look import CELL, QUERY, STEP, ViewContext
from attnviz.ui.shared.pretrained import MODEL
from attnviz.ui.shared.setting import State

SIDE = 300
"""Points of a map."""


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


def looked_at(now: State) -> ViewContext:
    """View context of a state, on light paper."""
    source = parameters.of(now, cache.source(now[MODEL], now[STEP]))
    request = Request(cache.texts(now[TEXT], by_line=by_line(now, now[TEXT])))
    site, head = now[look.SITE] or look.opening_site(source), now[look.SHOW]
    head = look.opening_head(source) if head is None else head
    return ViewContext(source, edits.put(now, source, request), 0, site, head, dark=False)


def _prediction(context: ViewContext, now: State) -> Figure:
    record: Record = context.record
    position = look.asked_at(record, context.site, now[CELL], 0)
    return says.prediction_figure(says.choices(record)[0], record, context.before, position, sentence=0)


def _row(context: ViewContext, now: State) -> Figure:
    """The values that the chosen row adds up, and their sum."""
    row = steps.row(context.record, context.site, context.head, now[QUERY])
    stage, key = figures.values(row, len(context.tokens[1])), int(row.weights.argmax())
    return figures.stage(context.record, context.site, context.head, stage, stage.matrices, selected=(row.query, key))


FIGURES = {
    "map": lambda context, now: figures.head(
        context.record, context.site, context.head, selected=now[CELL], row_sums=True, side=SIDE
    ),
    "heads": lambda context, now: figures.heads(context.record, context.site),
    "row": _row,
    "prediction": _prediction,
    "d_k": lambda context, now: figures.spread(spreads(D_KS)),
}
"""Functions of the view context and the state, by the names that lessons use."""
