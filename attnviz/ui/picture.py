"""A figure on a page: its picture, its description for screen readers, and its numbers as a table."""

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from attnviz.core.errors import TooLong
from attnviz.figures import Figure
from attnviz.ui import cache, runs, streamlit_internals
from attnviz.ui.budget import Busy
from attnviz.ui.request import clicked, session
from attnviz.ui.text import literal, note, unseen

ALT = "Picture of attention; its description follows"


def picture(
    figure: Figure,
    key: str,
    *,
    select: str = "",
    on_click: Callable[[dict], None] | None = None,
    on_escape: Callable[[], None] | None = None,
    on_zoom: Callable[[dict], None] | None = None,
    on_drag: Callable[[dict], None] | None = None,
) -> None:
    """Draw a figure in its own frame; where it takes long, its progress stands there.

    Args:
        key: name of the picture on its page; its clicks are counted by it.
        select: name of the selection in the chart.
        on_click: called with the fields of what was clicked, once for each click.
        on_escape: called when the selection is cleared with Escape.
        on_zoom: called with the part of a large map that a drag or the wheel asks for.
        on_drag: called with the stretches that a drag went over, {"row": [1.2, 3.4], "column": ...}, of a grid with a
            brush, and with {} once it is over.
    """
    if on_click:
        figure = replace(figure, rev=session().clicks.get(key, 0))
    try:
        screen = cache.screen(figure)
    except runs.Waiting as waiting:
        runs.show(waiting.job, "stretch")
        return
    except (TooLong, Busy) as error:
        note(str(error), "notice")
        return
    zooms = on_zoom is not None and "marks" in screen.spec
    name = f"{key} {'pixels' if 'marks' in screen.spec else 'marks'}"

    def report() -> None:
        selection = streamlit_internals.peek(name)["selection"]
        if (part := selection.get("zoom")) and clicked(key, part[0]):
            on_zoom(part[0])
            return
        points = selection.get(select)
        point = points[0] if isinstance(points, list) and points else points
        if on_drag:
            on_drag(selection.get("drag") or {})
        if point and clicked(key, point):
            on_click(point)
        elif not point and on_escape:
            on_escape()

    modes = [select]
    if zooms:
        modes.append("zoom")
    if on_drag and "marks" not in screen.spec:
        modes.append("drag")
    events = {"on_select": report, "selection_mode": modes} if on_click else {}
    with st.container(key=f"picture {key}", width="content"):
        st.vega_lite_chart(screen.data, screen.spec, key=name, theme=None, width="content", alt=ALT, **events)
        unseen(cache.description(figure))


def numbers(figure: Figure, key: str) -> None:
    """The numbers of a figure as a table, folded."""
    with st.expander("Numbers", on_change="rerun", key=f"numbers {key}") as fold:
        if fold.open:
            table = figure.table
            columns = {name: name.replace("_", " ").capitalize() for name in table.columns}
            st.dataframe(table, hide_index=True, column_config=columns, key=f"table {key}")
            if remark := table.attrs.get("note"):
                st.caption(literal(remark))
