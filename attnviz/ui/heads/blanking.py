"""Blank patches of a picture: masked for the attention, or gray in the picture itself; two switches for each patch."""

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from attnviz import figures
from attnviz.analysis.sentences import quoted_token
from attnviz.core.errors import AttnvizError
from attnviz.core.masks import Blank
from attnviz.core.stack import Entry, Stack
from attnviz.ui import cache
from attnviz.ui.heads import words
from attnviz.ui.shared import mask, photos, says, state
from attnviz.ui.shared.look import CELL, PINS, ViewContext
from attnviz.ui.shared.photos import GRAYED
from attnviz.ui.shared.setting import State, session_setting
from attnviz.ui.shared.state import control
from attnviz.ui.text import quiet

BLANKED = session_setting("patch blanked", False)
GRAY = session_setting("patch gray", False)


def controls(context: ViewContext, figure: figures.patches) -> None:
    """The two switches of the patch whose attention is shown, and what the model says without gray patches."""
    source = context.source
    queries, keys = context.record.step(context.site).shape[2:]
    if source.read_only or queries != keys:
        return
    place = figure.position
    token = context.tokens[0][place]
    pin = frozenset({("query" if figure.side == "from" else "key", place)})

    def held(step: Callable[[State, int, bool], State]) -> Callable[[State, bool], State]:
        """The step, with the patch picked: else another one becomes that of the largest weight."""
        return lambda now, on: step(now, place, on).put(CELL, None).put(PINS, pin)

    quiet((words.PATCH if token.box else words.TOKEN).format(patch=quoted_token(token.text, place)))
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="blanking"):
        is_blank = place in _blank(mask.current())
        control(st.toggle, words.BLANK, BLANKED, shown=is_blank, step=held(_blanked))
        if source.reads in ("picture", "both") and token.box is not None:
            options = {"shown": place in state.get(GRAYED), "whole_page": True}
            control(st.toggle, words.GRAY, GRAY, step=held(_grayed), **options)
        if _blank(mask.current()) or state.get(GRAYED):
            st.button(words.BLANK_NONE, type="tertiary", key="blank none", on_click=_clear)
    if state.get(GRAYED):
        _without_gray(context)


def _blank(stack: Stack) -> tuple[int, ...]:
    """Positions that are blank in the attention."""
    return next((entry.mask.positions for entry in stack.entries if _is_blank(entry)), ())


def _is_blank(entry: Entry) -> bool:
    return entry.on and not entry.negated and isinstance(entry.mask, Blank)


def _with_blank(now: State, positions: set[int]) -> State:
    """The step to a mask in which just these positions are blank."""
    others = tuple(entry for entry in mask.of(now).entries if not _is_blank(entry))
    blank = (Entry(Blank(tuple(positions))),) if positions else ()
    return mask.put(now, Stack((*others, *blank)))


def _blanked(now: State, place: int, on: bool) -> State:
    others = {*_blank(mask.of(now))} - {place}
    return _with_blank(now, others | {place} if on else others)


def _grayed(now: State, place: int, on: bool) -> State:
    others = tuple(position for position in now[GRAYED] if position != place)
    return now.put(GRAYED, (*others, place) if on else others)


def _clear() -> None:
    state.change(lambda now: _with_blank(now, set()).put(GRAYED, ()))
    st.rerun()


def _without_gray(context: ViewContext) -> None:
    """The prediction for the whole picture, beside that for the one with gray patches."""
    request = photos.whole(context.source, context.request.texts)
    try:
        whole = cache.record(context.source, replace(request, edits=context.edits))
    except AttnvizError:
        return
    before = says.prediction(whole, 0, 0)
    if before is not None and before.text:
        quiet(words.WITHOUT_GRAY.format(label=before.text, share=before.detail))
