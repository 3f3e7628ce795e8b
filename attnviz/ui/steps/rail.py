"""The rail of stages, and the one that is large."""

import re
from html import escape

import streamlit as st

from attnviz import figures, walk
from attnviz.ui.shared import looking, pictures, state
from attnviz.ui.shared.looking import CELL
from attnviz.ui.shared.notes import clean, large, quiet
from attnviz.ui.shared.state import control
from attnviz.ui.steps.base import Walk
from attnviz.ui.steps.words import WHY
from attnviz.walk import KEYS, Matrix, Stage

STAGE = state.choice("stage", KEYS)
QUERY = state.whole("query", None, 0, 999_999)
PROJECTION = state.kept("projection", "Q")

OPENING = "products"
"""The stage that is large where nobody chose."""


def stages(at: Walk) -> tuple[Stage, ...]:
    """The chain of what is looked at."""
    shown = {"sentence": at.sentence, "knobs": at.knobs} | at.windows
    return walk.chain(at.record, at.source, at.site, at.head, **shown)


def current(every: tuple[Stage, ...]) -> int:
    """Which stage is large."""
    keys = [stage.key for stage in every]
    chosen = state.get(STAGE)
    if chosen in keys:
        return keys.index(chosen)
    return keys.index("softmax" if every[keys.index(OPENING)].missing else OPENING)


def rail(at: Walk, every: tuple[Stage, ...], chosen: int) -> figures.Figure:
    """All stages, to choose one."""
    shown = {"sentence": at.sentence, "selected": at.selected, "dark": at.dark, "rev": looking.rev("stage")}
    figure = figures.walk.chain(at.record, at.site, at.head, every, current=every[chosen].key, **shown)
    keys = [stage.key for stage in every]

    def choose(point: dict | None) -> None:
        if point is not None and looking.counted(point, "stage"):
            state.put(STAGE, keys[int(point["stage"])])

    pictures.picture(figure, "rail", select="stage", on_select=choose)
    return figure


def turn(every: tuple[Stage, ...], chosen: int) -> None:
    """To the stage before and after, and to any by its name: with the keyboard, too."""
    nowrap, keys = {"wrap": False, "width": "content"}, [stage.key for stage in every]
    names = [f"{i + 1} · {stage.title}" for i, stage in enumerate(every)]
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="turn", **nowrap):
        before, after = max(0, chosen - 1), min(len(every) - 1, chosen + 1)
        _go("Back", "chevron_left", keys[before], chosen == 0)
        other = control(STAGE, chosen, at="chosen", read=keys.__getitem__)
        st.selectbox(
            "Step",
            range(len(keys)),
            format_func=names.__getitem__,
            label_visibility="collapsed",
            width=190,
            **other,
        )
        _go("Next", "chevron_right", keys[after], chosen == len(keys) - 1)


def _go(name: str, icon: str, key: str, disabled: bool) -> None:
    there = {"on_click": state.put, "args": (STAGE, key), "disabled": disabled}
    st.button(name, key=f"go {name}", icon=f":material/{icon}:", type="tertiary", **there)


def stage(at: Walk, stage: Stage) -> figures.Figure | None:
    """One stage, large: its equation, its shape, its tables, what changed, and why there is such a step."""
    equation(stage)
    quiet(f"Shape of the whole: {stage.sizes}")
    if stage.missing:
        large(stage.missing)
    figure = None
    if stage.matrices:
        matrices = _chosen(stage)
        shown = {"sentence": at.sentence, "selected": at.selected, "dark": at.dark, "rev": looking.rev("cell")}
        figure = figures.walk.stage(at.record, at.site, at.head, stage, matrices, **shown)
        pictures.picture(figure, "stage", select="cell", on_select=select(at))
    if stage.changed:
        large(stage.changed)
    if stage.key in WHY:
        quiet(WHY[stage.key])
    return figure


def equation(stage: Stage) -> None:
    """The equation, with the part of this stage marked."""
    parts = (
        f"<mark>{_symbols(part.text)}</mark>" if part.is_current else _symbols(part.text) for part in stage.equation
    )
    st.html(f'<div class="equation" role="math">{"".join(parts)}</div>')


def _symbols(text: str) -> str:
    """Letters after an underscore as an index."""
    return re.sub(r"_(\w+)", r"<sub>\1</sub>", escape(clean(text)))


def _chosen(stage: Stage) -> tuple[Matrix, ...]:
    """Which tables: all, but of the projections those of Q, K or V."""
    if stage.key == "mask":
        return stage.matrices[:1]
    if stage.key != "project":
        return stage.matrices
    st.segmented_control("Projection", tuple("QKV"), **control(PROJECTION), required=True)
    ends = state.get(PROJECTION).lower()
    return tuple(matrix for matrix in stage.matrices if matrix.key in (f"w_{ends}", f"b_{ends}", f"{ends}_all"))


def select(at: Walk):
    """What a click in a table does: it chooses a query, a key, or both; the same cell again lets the key go."""

    def clicked(point: dict | None) -> None:
        if point is None:
            state.put(CELL, None)
        elif looking.counted(point, "cell"):
            query, key = int(point["query"]), int(point["key"])
            query = at.query if query < 0 else query
            state.put(QUERY, query)
            cell = None if key < 0 else (query, key)
            state.put(CELL, None if cell == state.get(CELL) else cell)

    return clicked
