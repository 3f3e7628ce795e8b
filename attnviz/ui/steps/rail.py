"""The rail of stages, and the one that is large."""

from collections.abc import Callable

import streamlit as st

from attnviz import figures
from attnviz.analysis import steps
from attnviz.analysis.steps import KEYS, Matrix, Stage
from attnviz.analysis.steps.stages import shape_text
from attnviz.figures.steps import main
from attnviz.ui import cache
from attnviz.ui.shared import look, pictures, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import QUERY
from attnviz.ui.shared.setting import choice
from attnviz.ui.shared.state import control
from attnviz.ui.steps import words
from attnviz.ui.steps.view import StepsView
from attnviz.ui.text import block_html, details_html

STAGE = choice("stage", KEYS, of="tab")
PROJECTION = choice("projection", "QKV", "Q", "tab")


def stages(context: StepsView) -> tuple[Stage, ...]:
    """The steps that this call has; those without an effect in it are left out."""
    options = {"sentence": context.sentence} | context.windows
    return tuple(
        stage
        for stage in _chain(context.record, context.origins, context.site, context.head, **options)
        if stage.is_used
    )


_chain = cache.cached(steps.chain)
"""Cached: a click does not change it."""


def current(every: tuple[Stage, ...]) -> int:
    """Which stage is large: where nobody chose, that which makes weights, else the first whose numbers are known."""
    keys, computed = [stage.key for stage in every], [stage.key for stage in every if stage.matrices]
    return keys.index(state.one_of(STAGE, keys, "softmax" if "softmax" in computed else computed[0]))


def whole(context: StepsView, every: tuple[Stage, ...], chosen: int) -> figures.Figure:
    """All stages as one figure."""
    options = context.drawn | {"rev": look.rev("stage")}
    return figures.chain(context.record, context.site, context.head, every, current=every[chosen].key, **options)


def rail(figure: figures.Figure, every: tuple[Stage, ...]) -> None:
    """All stages, to choose one."""
    choose = look.clicks("stage", lambda point: state.put(STAGE, every[int(point["position"])].key))
    pictures.picture(figure, "rail", select="stage", on_select=choose)


def turn(every: tuple[Stage, ...], chosen: int) -> None:
    """To the stage before and after, and to any by its name: with the keyboard, too."""
    nowrap, keys = {"wrap": False, "width": "content"}, [stage.key for stage in every]
    names = [f"{i + 1} · {stage.title}" for i, stage in enumerate(every)]
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", **nowrap):
        before, after = max(0, chosen - 1), min(len(every) - 1, chosen + 1)
        _go(common.BACK, "chevron_left", keys[before], chosen == 0)
        options = {"shown": chosen, "at": "chosen", "read": keys.__getitem__, "format_func": names.__getitem__}
        control(st.selectbox, words.STEP, STAGE, range(len(keys)), lead="", width=184, **options)
        _go(common.NEXT, "chevron_right", keys[after], chosen == len(keys) - 1, icon_position="right")


def _go(name: str, icon: str, key: str, disabled: bool, **look: str) -> None:
    there = {"on_click": state.put, "args": (STAGE, key), "disabled": disabled}
    st.button(name, key=f"go {name}", icon=f":material/{icon}:", **there, **look)


def stage(context: StepsView, stage: Stage) -> figures.Figure | None:
    """One step, large: what it does in one sentence, and its tables."""
    does = f"{_why(stage)[0].removesuffix('.')}."
    st.html("".join(block_html(text, "large") for text in (does, stage.missing) if text))
    if not stage.matrices:
        return None
    if stage.key == "project":
        control(st.segmented_control, words.PROJECTION, PROJECTION, tuple("QKV"), lead="")
    figure = large(context, stage)
    pictures.picture(figure, "stage", select="cell", on_select=select(context))
    return figure


def large(context: StepsView, stage: Stage) -> figures.Figure:
    """The tables of one step."""
    return figures.stage(context.record, context.site, context.head, stage, _chosen(stage), **context.drawn)


def explained(stage: Stage) -> None:
    """The equation of a step; folded by the browser, what changed, why there is such a step, and its shape."""
    named = ", ".join(f"{shape_text([letter])[1:-1]}: {words.LETTERS[letter]}" for letter in stage.letters)
    shape = words.SHAPE_OF_ALL.format(shape=stage.sizes, letters=named)
    more = "".join(block_html(text, "quiet") for text in (stage.changed, _why(stage)[1], shape) if text)
    st.latex(stage.equation)
    st.html(details_html(words.MORE, more))


def _why(stage: Stage) -> tuple[str, str]:
    """Purpose of a step in one sentence, and more about why."""
    lead, _, rest = words.WHY[stage.key].partition(". ")
    return lead, rest


def _chosen(stage: Stage) -> tuple[Matrix, ...]:
    """Which tables, what the step makes first: all, but of the projections those of Q, K or V."""
    if stage.key == "mask":
        return stage.matrices[:1]
    if stage.key != "project":
        result = main(stage)
        return tuple(sorted(stage.matrices, key=lambda matrix: matrix is not result))
    ends = state.get(PROJECTION).lower()
    by = {matrix.key: matrix for matrix in stage.matrices}
    return tuple(by[key] for key in (f"{ends}_all", f"w_{ends}", f"b_{ends}") if key in by)


def select(context: StepsView) -> Callable[[dict | None], None]:
    """Handler of a click in a table: it chooses a query, a key, or both; the same cell again clears the key."""

    def chosen(point: dict) -> None:
        query, key = look.cell_of(point)
        query = context.query if query < 0 else query
        state.put(QUERY, query)
        look.toggle_cell(None if key < 0 else (query, key))

    return look.clicks("cell", chosen, look.let_go)
