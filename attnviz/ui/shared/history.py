"""Undo and redo of everything that a link holds: the states of a session, one after another."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import streamlit as st

from attnviz.ui import streamlit_internals
from attnviz.ui.shared import state, words
from attnviz.ui.shared.setting import Setting, State, session_setting

REMEMBERED = 100
"""States of a session that can be gone back to."""


@dataclass(frozen=True)
class History:
    """The state that links hold, with what it was before and what was undone.

    Attributes:
        past: the states before, the oldest first; at most `REMEMBERED`.
        future: the states that were undone, the next one first.
    """

    present: State = State()
    past: tuple[State, ...] = ()
    future: tuple[State, ...] = ()

    def do(self, now: State) -> "History":
        """Another state is now present, and nothing is left to redo; of another tab alone there is nothing to undo."""
        if now.without("tab") == self.present.without("tab"):
            return replace(self, present=now)
        return History(now, (*self.past, self.present)[-REMEMBERED:])

    def undo(self) -> "History":
        """One step back, if there is one."""
        if not self.past:
            return self
        return History(self.past[-1], self.past[:-1], (self.present, *self.future))

    def redo(self) -> "History":
        """One step forward, if one was undone."""
        if not self.future:
            return self
        return History(self.future[0], (*self.past, self.present), self.future[1:])

    def browsed(self, now: State) -> "History":
        """The browser went to a state: back, forward, or to another one."""
        steps = (self.undo(), self.redo())
        return next((step for step in steps if step != self and step.present == now), self.do(now))


HISTORY: Setting[History | None] = session_setting("history", None)
GOES_ON = session_setting("goes on", False)
"""Whether the state of this run takes the place of the one before: a drag goes on, or a step was undone."""


def record() -> None:
    """Keep the state at the end of a run."""
    state.put(HISTORY, _now())
    state.put(GOES_ON, False)


def _now() -> History:
    """The history with the state as it is."""
    now, history = state.now().linked(), state.get(HISTORY)
    if history is None:
        return History(now)
    if state.get(GOES_ON):
        return replace(history, present=now)
    return history.browsed(now) if streamlit_internals.is_history_navigation() else history.do(now)


def buttons() -> None:
    """Undo and redo."""
    history = _now()
    _button(words.UNDO, words.UNDO_HELP, "undo", History.undo, bool(history.past))
    _button(words.REDO, words.REDO_HELP, "redo", History.redo, bool(history.future))


def _button(title: str, help: str, name: str, step: Callable[[History], History], able: bool) -> None:
    options = {"icon": f":material/{name}:", "disabled": not able, "type": "tertiary", "help": help}
    st.button(title, key=f"icon {name}", on_click=_go, args=(step,), **options)


def _go(step: Callable[[History], History]) -> None:
    """Go a step back or forward; the whole page shows it."""
    history = step(_now())
    state.change(lambda now: now.replaced(history.present).put(HISTORY, history).put(GOES_ON, True))
    st.rerun()
