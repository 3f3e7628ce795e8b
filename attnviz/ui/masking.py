"""The mask of the app: one stack of rules that every page shows and changes, with undo and redo."""

from dataclasses import replace

import streamlit as st

from attnviz.core.errors import AttnvizError
from attnviz.core.stack import Entry, History, Stack
from attnviz.ui.lab import link


def now() -> Stack:
    """The rules: those that somebody chose, else those that the page begins with."""
    chosen = st.session_state["mask"]
    return st.session_state.get("opening", Stack()) if chosen is None else chosen


def put(stack: Stack) -> None:
    """Another mask, which can be undone. One that a link cannot hold is refused, and `problem` says why."""
    try:
        link.encode_stack(stack)
    except AttnvizError as error:
        refuse(error)
        return
    _keep(_history().do(stack))


def refuse(error: AttnvizError) -> None:
    """Leave the mask as it is, and say why when the page runs again."""
    st.session_state["mask refused"] = str(error)


def refused() -> str:
    """Why the last change was refused, said once; empty if it was not."""
    return st.session_state.pop("mask refused", "")


def amend(stack: Stack) -> None:
    """Another mask in the place of the present one: one step of undo for a change that goes on."""
    put(stack)
    history = _history()
    if history.present == stack and len(history.past) > 1:
        _keep(History(stack, history.past[:-1]))


def undo() -> None:
    _keep(_history().undo())


def redo() -> None:
    _keep(_history().redo())


def can_undo() -> bool:
    return bool(_history().past)


def can_redo() -> bool:
    return bool(_history().future)


def _keep(history: History) -> None:
    st.session_state["mask history"], st.session_state["mask"] = history, history.present


def _history() -> History:
    kept = st.session_state.get("mask history")
    return History(now()) if kept is None else kept.do(now())


def fitting(stack: Stack, sentences: int) -> tuple[Stack, tuple[Entry, ...]]:
    """The stack for so many sentences, and which entries that are on are for another number, and so left out."""
    left_out = tuple(e for e in stack.entries if e.on and e.mask.batch_size not in (None, sentences))
    entries = (replace(e, on=False) if e in left_out else e for e in stack.entries)
    return Stack(tuple(entries)), left_out
