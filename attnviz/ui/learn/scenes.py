"""What a step of a lesson shows: pictures of the app, each a function of what is looked at, with its own controls."""

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

import streamlit as st

from attnviz import api, figures, walk
from attnviz.core.amounts import digits
from attnviz.core.display import shown
from attnviz.core.masks import Full, Subsequent
from attnviz.lessons import peeking as study
from attnviz.ui.learn import edited, museum, words
from attnviz.ui.learn.progress import PRESENT
from attnviz.ui.shared import cache, edits, look, pictures, says, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.changes import CHANGES
from attnviz.ui.shared.edits import OWN_MASK
from attnviz.ui.shared.look import CELL, QUERY, STEP, Look
from attnviz.ui.shared.parameters import SETTINGS
from attnviz.ui.shared.setting import State, choice, flag
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import in_words, quiet
from attnviz.ui.steps import play
from attnviz.ui.steps.play import KNOBS
from attnviz.ui.steps.walked import Walk, table
from attnviz.views import View
from attnviz.words import quoted_token

PEEKING = flag("peeking", False)

D_K = tuple(2**i for i in range(11))
DK = choice("dk", {d_k: str(d_k) for d_k in D_K}, D_K[4])
D_KS = (1, 4, 16, 64, 256, 1024)
"""Widths of a query that a picture compares."""

learned = cache.kept(study.learn)
"""How a model learned with a mask or without one, kept."""

HALF, SIDE, ALONE, LARGE = 240, 286, 400, 460
"""Pixels of a map: of two beside each other, of one, as a chapter is one screen, of one alone, and on a projector."""
EDITED = 520
"""Pixels of numbers to edit: the task stands beside them."""
SMALL_MAPS = 340
"""Pixels of the small maps, two in a row."""


ROW = 2
"""The row whose answer is marked."""


def prepare(names: tuple[str, ...]) -> None:
    """What takes seconds is worked out before anything is said of it."""
    if "peeking" in names and state.get(PEEKING):
        with st.spinner(words.LEARNING):
            learned(Subsequent()), learned(None)


def fill(names: tuple[str, ...]) -> bool:
    """Whether the pictures of a step leave no room at their right."""
    return any(some <= {*names} for some in FILLING)


def draw(names: tuple[str, ...], at: Look) -> None:
    """All that a step shows: beside each other where there is room, else below."""
    for wide, row in groupby(names, WIDE.__contains__):
        with st.container(horizontal=not wide, gap="small" if wide else "medium"):
            for place, column in enumerate(_columns(list(row))):
                with st.container(width="stretch" if wide else "content", key=f"scenes {wide} {place}"):
                    for name in column:
                        _map(at, names) if name == "map" else SCENES[name](at)


def _columns(row: list[str]) -> list[list[str]]:
    """What stands under each other: what the model predicts under what comes first."""
    under = [name for name in row[1:] if name == "prediction" and len(row) > 2]
    return [[name, *under * (place == 0)] for place, name in enumerate(one for one in row if one not in under)]


def _map(at: Look, names: tuple[str, ...]) -> None:
    wide = LARGE if state.get(PRESENT) else ALONE if {*names} <= ROOMY else SIDE
    drawn = at.drawn | {"row_sums": not SUMMED.isdisjoint(names)} | {"side": wide}
    figure = cache.drawn(figures.head, at.record, at.site, at.head, **drawn)
    pictures.picture(figure, "head", select="cell", on_select=look.select)
    if at.cell is None:  # a sentence about another row would answer another question
        pictures.how_to_select(False)
    else:
        pictures.cell_in_words(at, View(), at.cell)


def _heads(at: Look) -> None:
    """The heads of the layer, to choose one and to switch some off."""
    drawn = {"sentence": at.sentence, "focused": at.head, "rev": look.rev("head"), "dark": at.dark}
    figure = cache.drawn(figures.heads, at.record, at.site, **drawn)
    with st.container(key="thumbnails"):
        pictures.picture(figure, "heads", select="head", on_select=look.select_head)
        edits.eyes(at, figure.corners)
    if at.tokens[0] == at.tokens[1]:
        with st.container(width=SMALL_MAPS):
            quiet(words.SMALL_MAPS.format(tokens=" · ".join(shown(token.text) for token in at.tokens[0])))


def _prediction(at: Look) -> None:
    """What the model predicts, and what it predicted before a change."""
    effect = says.choices(at.record, at.sentence)[0]
    figure = says.drawn(effect, at.record, at.before, at.position, sentence=at.sentence, dark=at.dark)
    pictures.picture(figure, says.KEYS[effect])


def _training_step(at: Look) -> None:
    steps = at.source.steps
    last = steps[-1]
    options = {"at": "learn", "width": 480, "whole_page": True}
    control(st.select_slider, words.TRAINING_STEP, STEP, steps, shown=state.one_of(STEP, steps, last), **options)


def _walk(at: Look) -> Walk:
    """What is looked at, with the chosen query."""
    tokens = at.tokens[0]
    query = at.cell[0] if at.cell else state.one_of(QUERY, range(len(tokens)), len(tokens) - 1)
    return Walk.of(at, query=query, key=None, knobs=state.get(KNOBS))


def _query(at: Look) -> None:
    def step(now: State, query: int) -> State:
        return now.put(QUERY, query).put(CELL, None)

    look.query(common.QUERY, at.tokens[0], at.cell, step=step)


def _row(at: Look) -> None:
    """The chosen query beside each key that it may see: their product, and the weight that comes of it."""
    found = _walk(at)
    row = found.worked
    seen = [i for i, rule in enumerate(row.rules) if not rule]
    rows = [
        [
            quoted_token(at.tokens[1][row.keys[i]].text, row.keys[i]),
            f"{row.sums[i]:.2f}".replace("-", "−"),
            f"{row.weights[i]:.3f}",
        ]
        for i in seen
    ]
    chosen = row.keys.index(found.looked_at)
    table(words.ROW_HEAD, rows, numbers=(1, 2), marked=seen.index(chosen) if chosen in seen else None)
    quiet(words.OUTPUT)
    stage, selected = figures.values(row, len(at.tokens[1])), (row.query, found.looked_at)
    values = figures.stage(at.record, at.site, at.head, stage, stage.matrices, selected=selected, **at.styled)
    pictures.picture(values, "values")


def _d_k(at: Look) -> None:
    """Random queries and keys of a chosen d_k, with the scale and without it."""
    d_k = state.get(DK)
    control(st.select_slider, words.WIDTH, DK, D_K)
    (found,) = spreads((d_k,))
    rows = [
        [words.VARIANCE, digits(found.variance), digits(found.scaled_variance)],
        *(
            [name, digits(getattr(found.unscaled, field)), digits(getattr(found.scaled, field))]
            for field, name in play.MEASURES.items()
            if field != "row_sum"
        ),
    ]
    table([words.RANDOM_QUERIES.format(d_k=d_k), words.UNSCALED, words.SCALED], rows, numbers=(1, 2))
    quiet(words.IN_THEORY.format(d_k=d_k), words.LARGEST_OF_ROW)
    every = spreads(tuple(sorted({*D_KS, d_k})))
    pictures.picture(figures.spread(every, chosen=d_k, **at.styled), "spread")


_spread = cache.kept(walk.dot_product_variance)


def spreads(d_ks: tuple[int, ...]) -> tuple[walk.DotProducts, ...]:
    """Measurements of each d_k."""
    return tuple(_spread((d_k,))[0] for d_k in d_ks)


def _numbers(at: Look) -> None:
    """Numbers of the head to edit, and their effect on the row that changed most."""
    with st.container(width=EDITED):
        quiet(words.TYPE_A_NUMBER)
        edited.edit(_walk(at))
        if state.get(CHANGES):
            before = cache.record(replace(at.source, changes=()), at.lines, at.edits)
            rows = [record.step(at.site).weights(at.head, sentence=at.sentence) for record in (before, at.record)]
            query = int((rows[1] - rows[0]).abs().sum(-1).argmax())
            play.measures(replace(_walk(at), query=query), before, at.record)


def _future(at: Look) -> None:
    control(st.toggle, words.HIDE, OWN_MASK, at="learn")


def _positions(at: Look) -> None:
    """The switch, and what comes of each word where the words are read from last to first."""
    control(st.toggle, words.POSITIONS, SETTINGS["positions"], at="learn", whole_page=True)
    quiet(words.REVERSED.format(says=walk.permutation(at.source, at.record, sentence=at.sentence).says))


def _peeking(at: Look) -> None:
    """Two models learn, with the mask and without it; under that, what each may see."""
    if state.get(PEEKING):
        masked, open_to_all = learned(Subsequent()), learned(None)
        models = ((words.MASKED, masked.losses), (words.OPEN, open_to_all.losses))
        pictures.picture(cache.drawn(figures.losses, models, study.GUESS, **at.styled), "losses")
        in_words(words.WRITING.format(masked=masked.writing, open=open_to_all.writing, guess=study.GUESS))
    else:
        options = {"icon": ":material/play_arrow:", "type": "primary"}
        st.button(words.TRAIN, key="train both", on_click=state.put, args=(PEEKING, True), **options)
    _answers(at)


def _answers(at: Look) -> None:
    """Where the answer of each row stands, hidden and not."""
    tokens, side = at.tokens[0], {"side": HALF}
    answers = api.predicted(at.record.read[at.sentence])
    row, answer = quoted_token(tokens[ROW].text, ROW), quoted_token(answers[ROW], ROW + 1)
    quiet(words.ANSWERS.format(row=row, answer=answer))
    with st.container(horizontal=True, gap="medium"):
        for mask, key in ((Subsequent(), "answers hidden"), (Full(), "answers seen")):
            drawn = side | {"selected": (ROW, ROW + 1)} | at.styled
            with st.container(width="content"):
                pictures.picture(figures.mask(mask, tokens, predicted=answers, targets=True, **drawn), key)


FILLING = ({"heads"}, {"map", "prediction"}, {"peeking"}, {"bugs"})
"""Scenes that leave no room beside them."""

WIDE = ("training step", "query", "row", "future", "scores", "d_k", "numbers", "positions", "peeking", "bugs")
"""Scenes that nothing stands beside."""

ROOMY, SUMMED = {"map", "future", "positions"}, {"future", "scores"}
"""Scenes beside which a map can be large: itself, and switches; and those whose question is what its rows sum to."""

SCENES: dict[str, Callable[[Look], None]] = {
    "heads": _heads,
    "training step": _training_step,
    "query": _query,
    "row": _row,
    "future": _future,
    "scores": lambda at: play.scores(_walk(at)),
    "d_k": _d_k,
    "numbers": _numbers,
    "positions": _positions,
    "prediction": _prediction,
    "peeking": _peeking,
    "bugs": museum.gallery,
}
"""By the names that a lesson gives them; the map, which depends on what stands beside it, is drawn apart."""
