"""Which atlases there are: those that ship, and the folders that whoever started the app named."""

import os
from functools import lru_cache
from pathlib import Path

import streamlit as st

from attnviz.atlas import opened
from attnviz.atlas.opened import Atlas
from attnviz.core import assets
from attnviz.core.errors import AttnvizError
from attnviz.sources.base import Source
from attnviz.ui.atlas import words
from attnviz.ui.shared import state
from attnviz.ui.shared.setting import Setting, kept
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import note

FOLDERS = "ATTNVIZ_ATLAS"
"""The variable of the environment with folders of atlases; their names are separated as those of PATH are."""

ATLAS: Setting[str | None] = kept("atlas", None, of="model")


def chosen(source: Source) -> Atlas | None:
    """The atlas of a model; one of several is chosen on the page. None if there is none."""
    for problem in _tried():
        if isinstance(problem, AttnvizError):
            note(str(problem), "notice")
    there = {str(one.folder): one for one in _built() if _is_of(one, source)}
    if len(there) < 2:
        return next(iter(there.values()), None)
    options = {"shown": state.one_of(ATLAS, there), "width": 330}
    options["format_func"] = lambda folder: words.ATLAS_OF.format(name=Path(folder).name, texts=there[folder].texts)
    return there[control(st.selectbox, words.ATLAS, ATLAS, [*there], **options)]


def models() -> list[str]:
    """The models of which there are atlases."""
    return list(dict.fromkeys(one.plan.model.name for one in _built()))


def others(found: Atlas) -> list[Atlas]:
    """The atlases of other models."""
    return [one for one in _built() if one.plan.model.name != found.plan.model.name]


def _is_of(found: Atlas, source: Source) -> bool:
    """Whether an atlas is of a model as it is here, with its settings."""
    model = found.plan.model
    step = dict(model.settings).get("step")
    return model.name == source.id and step == source.step


def _built() -> list[Atlas]:
    return [one for one in _tried() if isinstance(one, Atlas)]


def _tried() -> list[Atlas | AttnvizError]:
    """Each atlas, or why it cannot be opened."""
    named = filter(None, os.environ.get(FOLDERS, "").split(os.pathsep))
    shipped = sorted(assets.path("atlas").iterdir()) if assets.path("atlas").is_dir() else []
    return [_opened(folder, _changed(folder)) for folder in (*map(Path, named), *shipped)]


def _changed(folder: Path) -> float:
    """When an atlas was finished; 0 for one that is not."""
    try:
        return (folder / "atlas.json").stat().st_mtime
    except OSError:
        return 0.0


@lru_cache(maxsize=32)
def _opened(folder: Path, changed: float) -> Atlas | AttnvizError:
    """An atlas as it was when it changed last, or why it cannot be opened."""
    try:
        return opened.open(folder)
    except AttnvizError as problem:
        return problem
