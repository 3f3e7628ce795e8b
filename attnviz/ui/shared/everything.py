"""Everything of a page in one file, and with it the file that opens at the same state."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz import cases
from attnviz.core.edits import Site
from attnviz.figures import Figure
from attnviz.figures.figure import stem
from attnviz.sources.base import Source
from attnviz.ui.shared import answer, examples, files, look, parameters, pictures, pretrained, state, target, words
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.text import quiet

OF_MODEL = (
    pretrained.MODEL,
    pretrained.HF,
    examples.TEXT,
    examples.LINES,
    target.TARGET,
    answer.ANSWER,
    answer.CHAT,
    answer.SYSTEM,
    look.STEP,
    *parameters.DECLARED,
)
"""Settings that identify the run: the file is that run, and the changes in it."""


def menu(context: ViewContext) -> None:
    """The menu of a page that has no figure of its own to export there."""
    place = st.popover(words.EXPORT, icon=":material/download:", on_change="rerun", key="take everything")
    if place.open:
        with place:
            button(context)
            pictures.not_made()


def above(context: ViewContext, figure: Figure, key: str, menu: DeltaGenerator) -> None:
    """The menu of a page that has one main figure: the figure, and everything."""
    with menu:
        pictures.take_away(figure, key, more=partial(button, context, (figure,)))


def button(context: ViewContext, figures: Sequence[Figure] = ()) -> None:
    """The button that saves it.

    Args:
        figures: those of the page.
    """
    copies = tuple(replace(figure) for figure in figures)
    held = pictures.lent((context.source, context.record, context.before, copies), "everything")
    opens = {"sentence": context.sentence, "site": context.site, "head": context.number, "dark": context.dark}
    pictures.save(
        words.EVERYTHING,
        partial(_archive, held, _page_state() | cases.made_with(context.request), opens),
        f"{stem(context.record, sentence=context.sentence)}.zip",
        "application/zip",
        help=words.EVERYTHING_HOLDS.rstrip("."),
        key="save everything",
        icon=":material/folder_zip:",
    )
    quiet(words.EVERYTHING_HOLDS)


def _page_state() -> dict[str, Any]:
    """State of the page as a link: of the run that is in the file, and of its model."""
    now = state.now().linked()
    of_run = now.without("edits")
    for setting in OF_MODEL:
        of_run = of_run.put(setting, setting.default)
    if files.is_file(now[pretrained.MODEL]):
        return {"state": of_run.link()}
    if now[pretrained.HF]:
        now = now.put(pretrained.HF, cases.without_path(now[pretrained.HF]))
    return {"state": of_run.link(), "link": now.link()}


def _archive(held: Callable[[], tuple], settings: dict[str, Any], opens: dict[str, int | Site | bool]) -> bytes:
    from attnviz.export import everything

    source, record, before, figures = held()
    return everything(record, figures, before=before, settings=_settings(source) | settings, **opens)


def _settings(source: Source) -> dict[str, Any]:
    return dict(getattr(source, "case", None) or cases.settings_of(source))
