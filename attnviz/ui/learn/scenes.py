"""Scenes of a lesson: pictures of the app, each a function of the view context, with its own controls."""

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

import streamlit as st

from attnviz import api, figures
from attnviz.analysis import steps
from attnviz.analysis.sentences import quoted_token
from attnviz.analysis.views import View
from attnviz.core.amounts import digits
from attnviz.core.display import visible_text
from attnviz.core.masks import Full, Subsequent
from attnviz.lessons import peeking as study
from attnviz.ui import cache
from attnviz.ui.learn import museum, words
from attnviz.ui.shared import edits, look, pictures, says, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.edits import OWN_MASK
from attnviz.ui.shared.look import CELL, QUERY, STEP, ViewContext
from attnviz.ui.shared.parameters import SETTINGS
from attnviz.ui.shared.setting import State, choice, flag
from attnviz.ui.shared.state import control
from attnviz.ui.steps.scores import MEASURES, scores
from attnviz.ui.steps.view import StepsView, table
from attnviz.ui.text import in_words, quiet

PEEKING = flag("peeking", False)

D_K = tuple(2**i for i in range(11))
DK = choice("dk", {d_k: str(d_k) for d_k in D_K}, D_K[4])
D_KS = (1, 4, 16, 64, 256, 1024)
"""Widths of a query that a picture compares."""

learned = cache.cached(study.learn)
"""How a model learned with a mask or without one, kept."""

HALF, SIDE, ALONE = 240, 286, 400
"""Pixels of a map: of two beside each other, of one, as a chapter is one screen, and of one alone."""
SMALL_MAPS = 340
"""Pixels of the small maps, two in a row."""


ROW = 2
"""The row whose answer is marked."""

ROUNDING = 1e-4
"""Share of the largest number below which a difference is rounding."""


def prepare(names: tuple[str, ...]) -> None:
    """Compute what takes seconds before the page mentions it."""
    if "peeking" in names and state.get(PEEKING):
        with st.spinner(words.LEARNING):
            learned(Subsequent()), learned(None)


def fill(names: tuple[str, ...]) -> bool:
    """Whether the pictures of a step leave no room at their right."""
    return any(some <= {*names} for some in FILLING)


def draw(names: tuple[str, ...], context: ViewContext) -> None:
    """All that a step shows: beside each other where there is room, else below."""
    for wide, row in groupby(names, WIDE.__contains__):
        with st.container(horizontal=not wide, gap="small" if wide else "medium"):
            for place, column in enumerate(_columns(list(row))):
                with st.container(width="stretch" if wide else "content", key=f"scenes {wide} {place}"):
                    for name in column:
                        _map(context, names) if name == "map" else SCENES[name](context)


def _columns(row: list[str]) -> list[list[str]]:
    """Columns of scenes: the prediction stands under the first scene."""
    under = [name for name in row[1:] if name == "prediction" and len(row) > 2]
    columns = [[name] for name in row if name not in under]
    columns[0] += under
    return columns


def _map(context: ViewContext, names: tuple[str, ...]) -> None:
    side = ALONE if {*names} <= ROOMY else SIDE
    options = context.drawn | {"row_sums": not SUMMED.isdisjoint(names), "side": side}
    figure = cache.rendered(figures.head, context.record, context.site, context.head, **options)
    pictures.picture(figure, "head", select="cell", on_select=look.select)
    if context.cell is None:  # a sentence about another row would answer another question
        pictures.how_to_select(False)
    else:
        pictures.cell_in_words(context, View(), context.cell)


def _heads(context: ViewContext) -> None:
    """The heads of the layer, to choose one and to switch some off."""
    options = {"sentence": context.sentence, "focused": context.head, "rev": look.rev("head"), "dark": context.dark}
    figure = cache.rendered(figures.heads, context.record, context.site, **options)
    with st.container(key="thumbnails"):
        pictures.picture(figure, "heads", select="head", on_select=look.select_head)
        edits.eyes(context, figure.corners)
    if context.tokens[0] == context.tokens[1]:
        with st.container(width=SMALL_MAPS):
            quiet(words.SMALL_MAPS.format(tokens=" · ".join(visible_text(token.text) for token in context.tokens[0])))


def _prediction(context: ViewContext) -> None:
    """The prediction, and the one before a change."""
    effect = says.choices(context.record, context.sentence)[0]
    figure = says.prediction_figure(
        effect, context.record, context.before, context.position, sentence=context.sentence, dark=context.dark
    )
    pictures.picture(figure, says.KEYS[effect])


def _training_step(context: ViewContext) -> None:
    steps = context.source.steps
    last = steps[-1]
    options = {"at": "learn", "width": 480, "whole_page": True}
    control(st.select_slider, words.TRAINING_STEP, STEP, steps, shown=state.one_of(STEP, steps, last), **options)


def _steps(context: ViewContext) -> StepsView:
    """The view context with the chosen query."""
    tokens = context.tokens[0]
    query = context.cell[0] if context.cell else state.one_of(QUERY, range(len(tokens)), len(tokens) - 1)
    return StepsView.of(context, query=query, key=None)


def _query(context: ViewContext) -> None:
    def step(now: State, query: int) -> State:
        return now.put(QUERY, query).put(CELL, None)

    look.query(common.QUERY, context.tokens[0], context.cell, step=step)


def _row(context: ViewContext) -> None:
    """The chosen query beside each key that it may see: their product, and the weight that comes of it."""
    steps_view = _steps(context)
    row = steps_view.row
    visible = [i for i, rule in enumerate(row.rules) if not rule]
    rows = [
        [
            quoted_token(context.tokens[1][row.keys[i]].text, row.keys[i]),
            f"{row.sums[i]:.2f}".replace("-", "−"),
            f"{row.weights[i]:.3f}",
        ]
        for i in visible
    ]
    chosen = row.keys.index(steps_view.looked_at)
    table(words.ROW_HEAD, rows, numbers=(1, 2), marked=visible.index(chosen) if chosen in visible else None)
    quiet(words.OUTPUT)
    stage, selected = figures.values(row, len(context.tokens[1])), (row.query, steps_view.looked_at)
    values = figures.stage(
        context.record, context.site, context.head, stage, stage.matrices, selected=selected, **context.styled
    )
    pictures.picture(values, "values")


def _d_k(context: ViewContext) -> None:
    """Random queries and keys of a chosen d_k, with the scale and without it."""
    d_k = state.get(DK)
    control(st.select_slider, words.WIDTH, DK, D_K)
    (products,) = spreads((d_k,))
    rows = [
        [words.VARIANCE, digits(products.variance), digits(products.scaled_variance)],
        *(
            [name, digits(getattr(products.unscaled, field)), digits(getattr(products.scaled, field))]
            for field, name in MEASURES.items()
        ),
    ]
    table([words.RANDOM_QUERIES.format(d_k=d_k), words.UNSCALED, words.SCALED], rows, numbers=(1, 2))
    quiet(words.IN_THEORY.format(d_k=d_k), words.LARGEST_OF_ROW)
    every = spreads(tuple(sorted({*D_KS, d_k})))
    pictures.picture(figures.spread(every, chosen=d_k, **context.styled), "spread")


_spread = cache.cached(steps.dot_product_variance)


def spreads(d_ks: tuple[int, ...]) -> tuple[steps.DotProducts, ...]:
    """Measurements of each d_k."""
    return tuple(_spread((d_k,))[0] for d_k in d_ks)


def _future(context: ViewContext) -> None:
    control(st.toggle, words.HIDE, OWN_MASK, at="learn")


def _positions(context: ViewContext) -> None:
    """The switch, and by how much the outputs of the words change where these are read from last to first."""
    control(st.toggle, words.POSITIONS, SETTINGS["positions"], at="learn", whole_page=True)
    sentence, before = context.record.sentences[context.sentence], context.record.output[context.sentence]
    typed = [i for i, token in enumerate(sentence.tokens) if not token.special]
    places = dict(zip(typed, reversed(typed), strict=True))
    order = [places.get(i, i) for i in range(len(sentence.tokens))]
    backwards = replace(sentence, tokens=tuple(sentence.tokens[i] for i in order))
    after = context.source.run((backwards,), context.edits).output[0]
    moved, largest = float((after - before[order]).abs().max()), float(before.abs().max())
    text = words.ORDER_UNSEEN if moved <= ROUNDING * largest else words.ORDER_SEEN
    quiet(text.format(moved=f"{moved:.2g}", largest=f"{largest:.2g}"))


def _peeking(context: ViewContext) -> None:
    """Two models learn, with the mask and without it; under that, what each may see."""
    if state.get(PEEKING):
        masked, open_to_all = learned(Subsequent()), learned(None)
        museum.losses({words.MASKED: masked, words.OPEN: open_to_all})
        in_words(words.WRITING.format(masked=masked.writing, open=open_to_all.writing, guess=study.GUESS))
    else:
        options = {"icon": ":material/play_arrow:", "type": "primary"}
        st.button(words.TRAIN, key="train both", on_click=state.put, args=(PEEKING, True), **options)
    _answers(context)


def _answers(context: ViewContext) -> None:
    """Place of the answer of each row, hidden and visible."""
    tokens, side = context.tokens[0], {"side": HALF}
    answers = api.predicted(context.record.read[context.sentence])
    row, answer = quoted_token(tokens[ROW].text, ROW), quoted_token(answers[ROW], ROW + 1)
    quiet(words.ANSWERS.format(row=row, answer=answer))
    with st.container(horizontal=True, gap="medium"):
        for mask, key in ((Subsequent(), "answers hidden"), (Full(), "answers seen")):
            options = side | {"selected": (ROW, ROW + 1)} | context.styled
            with st.container(width="content"):
                pictures.picture(figures.mask(mask, tokens, predicted=answers, targets=True, **options), key)


FILLING = ({"heads"}, {"map", "prediction"}, {"peeking"}, {"bugs"})
"""Scenes that leave no room beside them."""

WIDE = ("training step", "query", "row", "future", "scores", "d_k", "positions", "peeking", "bugs")
"""Scenes that nothing stands beside."""

ROOMY, SUMMED = {"map", "future", "positions"}, {"future", "scores"}
"""Scenes beside which a map can be large: itself, and switches; and those whose question is what its rows sum to."""

SCENES: dict[str, Callable[[ViewContext], None]] = {
    "heads": _heads,
    "training step": _training_step,
    "query": _query,
    "row": _row,
    "future": _future,
    "scores": lambda context: scores(_steps(context)),
    "d_k": _d_k,
    "positions": _positions,
    "prediction": _prediction,
    "peeking": _peeking,
    "bugs": museum.gallery,
}
"""By the names that a lesson gives them; the map, which depends on what stands beside it, is drawn apart."""
