"""The rail of stages, and the one that is large."""

import re
from collections.abc import Callable

import streamlit as st

from attnviz import figures, walk
from attnviz.ui.shared import look, pictures, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import QUERY
from attnviz.ui.shared.setting import choice, kept
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import block_html, plain, quiet
from attnviz.ui.steps import words
from attnviz.ui.steps.walked import Walk
from attnviz.walk import KEYS, Matrix, Stage

STAGE = choice("stage", KEYS)
PROJECTION = kept("projection", "Q")

OPENING = "products"
"""The stage that is large where nobody chose."""


def stages(at: Walk) -> tuple[Stage, ...]:
    """The chain of what is looked at."""
    shown = {"sentence": at.sentence, "knobs": at.knobs} | at.windows
    return walk.chain(at.record, at, at.site, at.head, **shown)


def current(every: tuple[Stage, ...]) -> int:
    """Which stage is large."""
    keys = [stage.key for stage in every]
    opening = "softmax" if every[keys.index(OPENING)].missing else OPENING
    return keys.index(state.one_of(STAGE, keys, opening))


def whole(at: Walk, every: tuple[Stage, ...], chosen: int) -> figures.Figure:
    """All stages as one figure."""
    drawn = at.drawn | {"rev": look.rev("stage")}
    return figures.chain(at.record, at.site, at.head, every, current=every[chosen].key, **drawn)


def rail(figure: figures.Figure, every: tuple[Stage, ...]) -> None:
    """All stages, to choose one."""
    choose = look.clicks("stage", lambda point: state.put(STAGE, every[int(point["stage"])].key))
    pictures.picture(figure, "rail", select="stage", on_select=choose)


def turn(every: tuple[Stage, ...], chosen: int) -> None:
    """To the stage before and after, and to any by its name: with the keyboard, too."""
    nowrap, keys = {"wrap": False, "width": "content"}, [stage.key for stage in every]
    names = [f"{i + 1} · {stage.title}" for i, stage in enumerate(every)]
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="turn", **nowrap):
        before, after = max(0, chosen - 1), min(len(every) - 1, chosen + 1)
        _go(common.BACK, "chevron_left", keys[before], chosen == 0)
        options = {"shown": chosen, "at": "chosen", "read": keys.__getitem__, "format_func": names.__getitem__}
        control(st.selectbox, words.STEP, STAGE, range(len(keys)), lead="", width=190, **options)
        _go(common.NEXT, "chevron_right", keys[after], chosen == len(keys) - 1)


def _go(name: str, icon: str, key: str, disabled: bool) -> None:
    there = {"on_click": state.put, "args": (STAGE, key), "disabled": disabled}
    st.button(name, key=f"go {name}", icon=f":material/{icon}:", type="tertiary", **there)


def stage(at: Walk, stage: Stage) -> figures.Figure | None:
    """One stage, large: its equation, its shape, its tables, what changed, and why there is such a step."""
    lead, _, rest = words.WHY[stage.key].partition(". ")
    said = "".join(block_html(text, "large") for text in (f"{lead.removesuffix('.')}.", stage.missing) if text)
    below = look.room() is not None and bool(stage.matrices)
    st.html(equation(stage) + said * (not below))
    figure = None
    if stage.matrices:
        matrices = _chosen(stage)
        figure = figures.stage(at.record, at.site, at.head, stage, matrices, **at.drawn)
        pictures.picture(figure, "stage", select="cell", on_select=select(at))
    if below:
        st.html(said)
    quiet(*filter(None, (stage.changed, rest, words.SHAPE_OF_ALL.format(shape=stage.sizes))))
    return figure


def equation(stage: Stage) -> str:
    """The equation, with the part of this stage marked."""
    parts = (
        f"<mark>{_symbols(part.text)}</mark>" if part.is_current else _symbols(part.text) for part in stage.equation
    )
    return f'<div class="equation" role="math">{"".join(parts)}</div>'


def _symbols(text: str) -> str:
    """Letters after an underscore as an index."""
    return re.sub(r"_(\w+)", r"<sub>\1</sub>", plain(text))


def _chosen(stage: Stage) -> tuple[Matrix, ...]:
    """Which tables: all, but of the projections those of Q, K or V."""
    if stage.key == "mask":
        return stage.matrices[:1]
    if stage.key != "project":
        return stage.matrices
    ends = control(st.segmented_control, words.PROJECTION, PROJECTION, tuple("QKV")).lower()
    return tuple(matrix for matrix in stage.matrices if matrix.key in (f"w_{ends}", f"b_{ends}", f"{ends}_all"))


def select(at: Walk) -> Callable[[dict | None], None]:
    """What a click in a table does: it chooses a query, a key, or both; the same cell again lets the key go."""

    def chosen(point: dict) -> None:
        query, key = look.cell_of(point)
        query = at.query if query < 0 else query
        state.put(QUERY, query)
        look.toggle_cell(None if key < 0 else (query, key))

    return look.clicks("cell", chosen, look.let_go)
