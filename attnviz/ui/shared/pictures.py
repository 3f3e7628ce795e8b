"""Figures on a page: drawn, as numbers, and exported."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis import sentences, views
from attnviz.analysis.tables import MOST_CELLS
from attnviz.analysis.views import View
from attnviz.core.errors import AttnvizError
from attnviz.figures import Figure
from attnviz.sources.estimate import in_time
from attnviz.ui import budget, cache, streamlit_internals
from attnviz.ui.shared import code, state, words
from attnviz.ui.shared.look import CELL, Cell, ViewContext, cell_of
from attnviz.ui.shared.setting import Setting, session_setting
from attnviz.ui.shared.state import control
from attnviz.ui.text import in_words, literal, note, quiet, unseen

T = TypeVar("T")

FOR = {
    words.FOR_SCREEN: ({}, {"scale": 2}),
    words.FOR_PAPER: ({"preset": "paper"}, {"preset": "paper"}),
    words.FOR_SLIDE: ({"preset": "slide"}, {"preset": "slide", "scale": 2}),
}
"""Uses of a picture, and the options for each: as SVG or PDF, and as PNG."""

MOST_LACKING = 8
"""Characters that are named where no font has them."""

TABLE = 8
"""Times as long as going through a map takes the table of its strongest weights: of a head 6, of two compared 11."""

USE = session_setting("use", words.FOR_SCREEN)
WHICH = session_setting("which picture", "")
BEGAN: Setting[Mapping[str, bool]] = session_setting("folds", {})
"""Initial state of each folded part, True if open: Streamlit would close and open it again where that changes."""


@dataclass
class Failure:
    """Why the last file of a session could not be made; empty if it was. It is filled in while no page runs."""

    reason: str = ""
    read: bool = False


FAILED: Setting[Failure | None] = session_setting("not made", None)

EVERY = 2.0
"""Seconds between two looks at whether a file could not be made, while the menu that saves it is open."""


def show(
    figure: Figure,
    key: str,
    what: str = "",
    *,
    menu: DeltaGenerator | None = None,
    table: bool = False,
    select: str | None = None,
    on_select: Callable | None = None,
) -> None:
    """A figure, the button that exports it, and if asked for its numbers.

    Args:
        what: what the button names.
        menu: where the button is; under the picture if nowhere else.
        select, on_select: see `picture`.
    """
    picture(figure, key, select=select, on_select=on_select)
    with menu or nullcontext():
        take_away(figure, key, what)
    if table:
        numbers(figure, key, what)


def picture(
    figure: Figure, key: str, *, select: str | None = None, on_select=None, brush: bool = False, on_zoom=None
) -> None:
    """A figure in its own frame. `on_select` is called with what was clicked: a dict of fields, or None.

    Args:
        select: the name of the selection in the chart.
        on_zoom: called with what a drag asked to see, if the chart zooms; gives whether that was new.
        brush: whether `on_select` is also given what a drag went over, a dict of lists that is empty without one.
    """
    screen = cache.screen(figure)
    if screen.cells is not None:  # nothing else keeps what is asked for after the run
        lent(screen, f"{key}-cells")
    marks = "brush" if brush else "marks"
    form = "pixels" if "marks" in screen.spec else marks

    def clicked() -> None:
        selection = state.event(f"{key} {form}")["selection"]
        if (part := selection.get("zoom")) and on_zoom(part[0]):
            return
        event = selection.get(select)
        if not isinstance(event, list):
            event = [event] if event else []
        on_select(event[0] if event else None, *([selection.get("drag") or {}] if brush else []))

    # A changed `alt` would build the chart anew, with a flicker: it stays, and the description stands beside the chart.
    options = {"key": f"{key} {form}", "theme": None, "width": "content", "alt": words.PICTURE_ALT}
    modes = [select]
    if form == "brush":
        modes.append("drag")
    if form == "pixels" and on_zoom is not None:
        modes.append("zoom")
    events = {} if on_select is None else {"on_select": clicked, "selection_mode": modes}
    with st.container(key=f"picture {key}", width="content"):
        st.vega_lite_chart(screen.data, screen.spec, **options, **events)
        unseen(cache.description(figure))


def default_cell(context: ViewContext, view: View, **part: slice) -> Cell | None:
    """The selected cell; with none, the strongest of the row that predicts, or of all that is seen, if anything is."""
    if context.cell is not None:
        return context.cell
    attention_view = views.see(context.record, context.site, sentence=context.sentence, view=view, **part)
    if not len(attention_view.queries) or not len(attention_view.keys):
        return None
    return attention_view.strongest_cell(context.head, context.prediction_position)


def cell_in_words(context: ViewContext, view: View, cell: Cell | None) -> None:
    """Describe a cell in words."""
    if cell:
        in_words(sentences.cell(context.record, context.site, context.head, *cell, context.sentence, view=view))
    else:
        in_words("")


def how_to_select(selected: bool, outlined: bool = False) -> None:
    """Say what a click on a cell does next; another one may be outlined where none is selected."""
    quiet(selecting(selected, outlined))


def selecting(selected: bool, outlined: bool = False) -> str:
    """The same, as a text."""
    if selected:
        return words.CELL_SELECTED
    return words.CLICK_ANOTHER if outlined else words.CLICK_A_CELL


@contextmanager
def folded(title: str, key: str, opened: bool = False) -> Iterator[bool]:
    """A part of the page that is folded; gives whether it is open, and what is drawn then stands in it.

    Args:
        opened: whether it begins open; while it is on the page, only a click on it opens and closes it.
    """
    began = opened if state.event(key) is None else state.get(BEGAN).get(key, opened)
    state.put(BEGAN, {**state.get(BEGAN), key: began})
    fold = st.expander(title, began, on_change="rerun", key=key)
    with fold:
        yield fold.open


def numbers(figure: Figure, key: str, what: str = "", opened: bool = False) -> None:
    """The same numbers as a table, folded. Where a row is a cell, choosing it selects the cell: by keyboard, too."""
    title = words.NUMBERS_OF.format(what=what) if what else words.NUMBERS
    with folded(title, key=f"numbers {key}{' open' if opened else ''}", opened=opened) as is_open:
        if is_open:
            _table(figure, key)


def numbers_of_one(figures: Mapping[str, tuple[Figure, str]], key: str) -> None:
    """The numbers of all pictures of a page, folded: of one at a time; see `take_one`."""
    with folded(words.NUMBERS, key=f"numbers {key}") as is_open:
        if is_open:
            _table(*figures[_chosen_name(figures, key, "numbers")])


def _table(figure: Figure, key: str) -> None:
    table, options = figure.table, {}

    def chosen() -> None:
        rows = state.event(key=f"table {key}")["selection"]["rows"]
        state.put(CELL, cell_of(table.iloc[rows[0]].to_dict()) if rows else None)

    if {"query", "key"} <= set(table.columns):
        options = {"on_select": chosen, "selection_mode": "single-row"}
    named = {name: name.replace("_", " ").capitalize() for name in table.columns}
    st.dataframe(table, hide_index=True, column_config=named, key=f"table {key}", **options)
    if remark := table.attrs.get("note"):
        st.caption(literal(remark))


def lent(value: T, key: str) -> Callable[[], T]:
    """A value that this session may ask for after the run: it counts among all that is kept, and may give way.

    Raises:
        AttnvizError: by the function that is given, once the value gave way.
    """
    key = cache.LENT, streamlit_internals.session_id(), key
    cache.SHARED.put(key, value)
    return lambda: cache.SHARED.get(key, _gave_way)


def _gave_way() -> NoReturn:
    raise AttnvizError(words.FILE_GAVE_WAY)


def save(label: str, file: Callable[[], bytes], name: str, mime: str, *, key: str, **options) -> None:
    """A button that makes a file and saves it. Where that fails the browser says only so; `not_made` says why.

    The button holds what makes the file until the next run of its page: what is large in it is `lent`.
    """
    failure, keep = state.get(FAILED), streamlit_internals.file_keeper(mime, name)
    if failure is None or failure.read:
        failure = Failure()
        state.put(FAILED, failure)

    def contents() -> bytes:
        failure.reason, failure.read = "", False
        try:
            content = file()
        except AttnvizError as error:
            failure.reason = str(error)
            raise
        keep(content)
        return content

    st.download_button(label, data=contents, file_name=name, mime=mime, key=key, on_click="ignore", **options)


@st.fragment(run_every=EVERY)
def not_made() -> None:
    """Say why the last file that was asked for could not be made, until the page runs again: none follows on a file."""
    reason_not_made()


def reason_not_made() -> None:
    """The same once, with the next run of the page: outside a menu, where a look every two seconds costs too much."""
    failure = state.get(FAILED)
    if failure is not None and failure.reason:
        note(failure.reason)
        failure.read = True


def _file(figure: Callable[[], Figure], name: str, options: dict[str, int | str]) -> bytes:
    from attnviz import export

    return export.render(replace(figure()), name, **options)


def take_away(figure: Figure, key: str, what: str = "", *, more: Callable[[], None] | None = None) -> None:
    """One button that opens every way to save a figure; `more` draws what else can be saved, under the formats."""
    take_one({what: (figure, key)}, key, words.EXPORT_OF.format(what=what) if what else words.EXPORT, more=more)


def take_one(
    figures: Mapping[str, tuple[Figure, str]],
    key: str,
    title: str = words.EXPORT,
    *,
    more: Callable[[], None] | None = None,
) -> None:
    """One button for all pictures of a page, as every button costs time at each click: one is chosen, then saved.

    Args:
        figures: each figure and its key on the page, by its name.
    """
    menu = st.popover(title, icon=":material/download:", on_change="rerun", key=f"take {key}")
    if menu.open:
        with menu:
            _ways(*figures[_chosen_name(figures, key, "take")], more)


def _chosen_name(figures: Mapping[str, tuple[Figure, str]], key: str, where: str) -> str:
    """Which picture of several: one choice for files and for numbers."""
    name = state.one_of(WHICH, figures)
    if len(figures) > 1:
        control(st.segmented_control, words.PICTURE, WHICH, [*figures], shown=name, at=f"{where} {key}")
    return name


def _ways(figure: Figure, key: str, more: Callable[[], None] | None) -> None:
    """Every way to save a figure: a few at once, the others folded."""
    from attnviz import export

    lent_figure = lent(replace(figure), key)  # a copy holds nothing yet of what a file needs
    use = control(st.segmented_control, words.MADE_FOR, USE, FOR, at=key)
    with st.container(horizontal=True, gap="xsmall", key=f"formats {key}"):
        for name in export.formats_for("first"):
            _format(figure, lent_figure, name, key, use)
    if (long := TABLE * figure.seconds) > budget.SILENT:
        quiet(words.TABLE_TAKES.format(time=in_time(long), rows=MOST_CELLS))
    not_made()
    if lacks := export.lacking(figure.caption):
        many = f"{', '.join(lacks[:MOST_LACKING])}{', …' if len(lacks) > MOST_LACKING else ''}"
        quiet(words.NO_FONT.format(characters=many))
    with st.expander(words.MORE_WAYS):
        with st.container(horizontal=True, gap="xsmall", key=f"more formats {key}"):
            for name in export.formats_for("more"):
                _format(figure, lent_figure, name, key, use)
        if more:
            more()
        st.caption(words.CAPTION)
        st.code(figure.caption, None, wrap_lines=True, width=560)
        if text := code.python(figure, cache.maker):
            st.caption(words.PYTHON)
            st.code(text, "python", wrap_lines=True, width=560)


def _format(figure: Figure, lent_figure: Callable[[], Figure], name: str, key: str, use: str) -> None:
    """The button that saves a figure in a format; `lent_figure` gives it until then."""
    from attnviz import export

    kind, (options, options_of_png) = export.FORMATS[name], FOR[use]
    options = options_of_png if name == "png" else options
    file = export.filename(figure, name, **options)
    make = partial(_file, lent_figure, name, options)
    save(name.upper(), make, file, kind.mime, key=f"save {name} {key}", help=kind.label)
