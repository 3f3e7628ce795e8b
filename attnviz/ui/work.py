"""Work that takes long on a page: a button that says its cost, and its progress in its place."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

import streamlit as st

from attnviz.core.errors import AttnvizError
from attnviz.sources.estimate import Estimate, in_time
from attnviz.ui import budget, runs
from attnviz.ui.request import session
from attnviz.ui.text import note, quiet


@contextmanager
def part() -> Iterator[None]:
    """Draw a part of a page: what it waits for, or why there is none, stands in its place, and the rest is there."""
    try:
        yield
    except runs.Waiting as waiting:
        runs.show(waiting.job, "stretch")
    except AttnvizError as error:
        note(str(error), "notice")


def is_requested(key: str, what: Hashable, cost: Estimate, label: str) -> bool:
    """Whether to do some work: at once where nobody waits for it, else after a click on its button.

    Args:
        key: names the button.
        what: all that the work depends on; other work has to be asked for again.

    Raises:
        OverBudget: if it costs more than this server takes.
    """
    memory = session().memory
    if cost.seconds <= budget.SILENT or memory.get(key) == what:
        return True
    budget.check_work(cost)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        icon = ":material/play_arrow:"
        st.button(label, key=key, type="primary", icon=icon, on_click=memory.update, args=({key: what},))
        quiet(f"About {in_time(cost.seconds)} on this machine.")
    return False
