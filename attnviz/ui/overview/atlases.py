"""Atlases of a model: those that ship, those in folders named at the start of the app, and one measured on the page."""

import os
import shutil
import tempfile
import weakref
from functools import lru_cache
from pathlib import Path

import streamlit as st

from attnviz import atlas
from attnviz.atlas.opened import Atlas
from attnviz.core import assets, progress
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError
from attnviz.sources.base import Source
from attnviz.studies import texts
from attnviz.ui import cache, cores, runs
from attnviz.ui.overview import words
from attnviz.ui.overview.numbers import is_requested
from attnviz.ui.shared import state
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.shared.setting import Setting, session_setting, whole
from attnviz.ui.shared.state import control
from attnviz.ui.text import note

FOLDERS = "ATTNVIZ_ATLAS"
"""Environment variable with folders of atlases, separated as those of PATH are."""

ATLAS = whole("atlas", 1, 1, 99, "model")
"""Which of several atlases of a model is shown, counted from 1."""
MEASURED: Setting[tuple | None] = session_setting("over texts", None)
"""Model, texts and edits whose measuring was requested."""


def built(source: Source) -> Atlas | None:
    """The atlas of a model; one of several is chosen on the page. None if there is none."""
    for problem in _opened_all():
        if isinstance(problem, AttnvizError):
            note(str(problem), "notice")
    there = [candidate for candidate in _built() if _is_of(candidate, source)]
    if len(there) < 2:
        return next(iter(there), None)

    def named(number: int) -> str:
        candidate = there[number - 1]
        return words.ATLAS_OF.format(name=candidate.folder.name, texts=candidate.texts)

    numbers = range(1, len(there) + 1)
    options = {"shown": state.one_of(ATLAS, numbers), "width": 330, "format_func": named}
    return there[control(st.selectbox, words.ATLAS, ATLAS, numbers, **options) - 1]


def others(name: str) -> list[Atlas]:
    """The atlases of other models."""
    return [candidate for candidate in _built() if candidate.plan.model.name != name]


def measured(context: ViewContext, lines: tuple[str, ...]) -> Atlas | None:
    """The atlas of a model with its changes on some texts: measured, or None below a button with its cost.

    Raises:
        AttnvizError: if the model reads none of the texts.
    """
    key = context.source, lines, context.edits
    button = {"key": "measure texts", "icon": ":material/functions:"}
    if is_requested(MEASURED, key, cost := _cost(*key), words.MEASURE_ON.format(count=len(lines)), **button):
        with runs.beside():
            return cache.worked(_measure, *key, cost=cost, unit=words.TEXTS)
    return None


_cost = cache.cached(texts.cost)


def _measure(source: Source, lines: tuple[str, ...], edits: Edits) -> Atlas:
    """Measure an atlas in a folder that lives as long as it does."""
    folder = Path(tempfile.mkdtemp(prefix="attnviz-atlas-"))
    try:
        with progress.counted(len(lines)) as report, cores.used_by(source):
            atlas.measure_texts(source, lines, folder, edits, report=lambda now: report(now.done, now.of))
        opened = atlas.open(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(opened, shutil.rmtree, folder, ignore_errors=True)
    return opened


def _is_of(candidate: Atlas, source: Source) -> bool:
    """Whether an atlas is of a model as it is here, with its settings."""
    model = candidate.plan.model
    return model.name == source.id and dict(model.settings).get("step") == source.step


def _built() -> list[Atlas]:
    return [candidate for candidate in _opened_all() if isinstance(candidate, Atlas)]


def _opened_all() -> list[Atlas | AttnvizError]:
    """Each atlas, or why it cannot be opened."""
    named = filter(None, os.environ.get(FOLDERS, "").split(os.pathsep))
    shipped = sorted(assets.path("atlas").iterdir()) if assets.path("atlas").is_dir() else []
    return [_opened(folder, _changed(folder)) for folder in (*map(Path, named), *shipped)]


def _changed(folder: Path) -> float:
    """The time at which an atlas was finished; 0 for one that is not."""
    try:
        return (folder / "atlas.json").stat().st_mtime
    except OSError:
        return 0.0


@lru_cache(maxsize=32)
def _opened(folder: Path, changed: float) -> Atlas | AttnvizError:
    """An atlas as it was when it changed last, or why it cannot be opened."""
    try:
        return atlas.open(folder)
    except AttnvizError as problem:
        return problem
