"""The toolbar: two rows that stay in view, and under them one line of changes and predictions, the same on every page.

Row 1 holds what a page is about: model, training step, text, examples. Row 2 holds how it is looked at and changed:
layer, head, mask, then what a page puts there: its view, and what can be exported.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.core.edits import Edits, Site
from attnviz.core.request import Request
from attnviz.core.stack import Stack
from attnviz.sources.base import Source
from attnviz.ui.shared import edits, files, findings, history, look, says, state, words
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.shared.mask import OPENING

ROW = {"horizontal": True, "vertical_alignment": "center", "gap": "xsmall"}
FOLD = words.CONTROLS
"""On a phone it shows the controls after it, and hides them, as the style sheet says."""


@dataclass(frozen=True, eq=False)
class Toolbar:
    """The context of a page, and the places where it adds to the toolbar.

    Attributes:
        where: layer, head and sentence, which a phone shows always.
        view: how the picture is shown.
        actions: undo, redo and the link.
        export: what can be exported.
        prediction: what the model predicts.
    """

    at: ViewContext
    where: DeltaGenerator
    view: DeltaGenerator
    actions: DeltaGenerator
    export: DeltaGenerator
    prediction: DeltaGenerator

    @property
    def display(self) -> dict[str, object]:
        """How weights become colors, and what of a map is seen."""
        return look.shown_as(self.at)

    def predict(self, position: int | None = None) -> None:
        """Write what the model predicts, after some token instead of the selected one."""
        with self.prediction:
            says.line(self.at, position)


def row_one(visible: bool = True) -> DeltaGenerator:
    """The place of the first row."""
    return st.container(**ROW | {"vertical_alignment": "top"}, key="row-one" if visible else "no-bar")


def bar(
    source: Source,
    request: Request,
    *,
    combined: bool = False,
    site: Site | None = None,
    mask: Stack = Stack(),
    original: str = words.ORIGINAL,
    more: Callable[[ViewContext], None] | None = None,
) -> Toolbar:
    """Draw the second row and the line under it; a page writes the prediction with `Toolbar.predict`.

    Args:
        combined: whether all heads can be looked at as one.
        site: where the page begins, if not where the model opens.
        mask: what is masked as long as nobody has chosen anything.
        original: what stands in the line while nothing is changed.
        more: controls of this page that stand in the menu *More*.
    """
    state.put(OPENING, Stack() if source.read_only else mask)
    findings.open_on_the_clearest(source, request)
    with st.container(**ROW, key="row-two"):
        where = st.container(**ROW, width="content", key="where")
        with where:
            chosen = look.site(source, site)
            head = look.focus(source, combined=combined)
            sentence = look.sentence(request.texts)
        with st.container(key="fold"):
            st.html(FOLD)
        with st.container(**ROW, key="controls"):
            changed = edits.mask_menu(source, request, chosen)
            view, actions = (st.container(**ROW, width="content", key=key) for key in ("view", "actions"))
            with actions:
                history.buttons()
                st.html(words.LINKS, width="content")  # made to work by links.js and glossary.js
            export, rest = (st.container(width="content", key=key) for key in ("export", "rest"))
    with st.container(**ROW | {"gap": "medium"}, key="line"):
        with st.container(**ROW, width="content", key="changes"):
            edits.chips(source, request, changed, original)
        prediction = st.container(key="said")
    edits.notices(source, request, changed)
    request = replace(request, edits=Edits() if source.read_only else changed)
    context = ViewContext(source, request, sentence, chosen, head)
    with rest:
        _more(context, more)
    return Toolbar(context, where, view, actions, export, prediction)


def _more(context: ViewContext, more: Callable[[ViewContext], None] | None) -> None:
    """The menu of what is rarely used."""
    menu = state.menu(words.MORE_MENU, key="display")
    if menu.open:
        with menu:
            if more is not None:
                more(context)
            st.html(files.button(), width="content")
