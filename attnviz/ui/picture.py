"""A figure on a page: its picture, its description for screen readers, and its numbers as a table."""

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from attnviz.core.errors import TooLong
from attnviz.figures import Figure
from attnviz.ui import cache, runs, streamlit_internals
from attnviz.ui.budget import Busy
from attnviz.ui.request import count_click, session
from attnviz.ui.text import block, literal, note

ALT = "Picture of attention; its description follows"


def picture(
    figure: Figure,
    key: str,
    *,
    select: str = "",
    on_click: Callable[[dict], None] | None = None,
    on_escape: Callable[[], None] | None = None,
    on_drag: Callable[[dict], None] | None = None,
) -> None:
    """Draw a figure in its own frame, or a progress display while it is being computed.

    Args:
        key: name of the picture, under which its widget and its number of clicks are kept.
        select: name of the chart's selection that a click changes, such as "cell" or "head".
        on_click: function to call with the fields of the clicked mark, once for each click.
        on_escape: function to call when Escape clears the selection.
        on_drag: function to call with the ranges of a drag on a grid that can be painted, {"row": [1.2, 3.4],
            "column": ...}, and with {} at the end of the drag.
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
    # a spec with `marks` is full Vega, for a large map in pixels; Vega-Lite has none
    name = f"{key} {'pixels' if 'marks' in screen.spec else 'marks'}"

    def report() -> None:
        """Pass what the browser reports, such as a click, to the matching function."""
        selection = streamlit_internals.peek(name)["selection"]
        point = selection.get(select)
        if isinstance(point, list) and point:
            point = point[0]
        if on_drag:
            on_drag(selection.get("drag") or {})
        if point and count_click(key, point):
            on_click(point)
        elif not point and on_escape:
            on_escape()

    modes = [select]
    if on_drag and "marks" not in screen.spec:
        modes.append("drag")
    events = {"on_select": report, "selection_mode": modes} if on_click else {}
    with st.container(key=f"picture {key}", width="content"):
        st.vega_lite_chart(screen.data, screen.spec, key=name, theme=None, width="content", alt=ALT, **events)
        block(cache.description(figure), "unseen", "p")  # for screen readers


def numbers(figure: Figure, key: str) -> None:
    """Draw the numbers of a figure as a table in a closed expander."""
    with st.expander("Numbers", on_change="rerun", key=f"numbers {key}") as fold:
        if fold.open:
            table = figure.table
            columns = {name: name.replace("_", " ").capitalize() for name in table.columns}
            st.dataframe(table, hide_index=True, column_config=columns, key=f"table {key}")
            if remark := table.attrs.get("note"):
                st.caption(literal(remark))
