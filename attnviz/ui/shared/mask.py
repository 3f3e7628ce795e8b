"""The mask of the app: one stack of rules that every page shows and changes."""

from collections.abc import Callable
from dataclasses import replace

from attnviz.core.errors import AttnvizError
from attnviz.core.stack import Entry, Stack
from attnviz.ui.shared import mask_link, state
from attnviz.ui.shared.history import GOES_ON
from attnviz.ui.shared.setting import State, coded, session_setting

MASK = coded("mask", None, mask_link.encode_stack, mask_link.decode_stack, "edits")
OPENING = session_setting("opening mask", Stack())
"""The mask that a page begins with."""
REFUSED = session_setting("mask refused", "")


def of(now: State) -> Stack:
    """The rules: those that somebody chose, else those that the page begins with."""
    return now[OPENING] if now[MASK] is None else now[MASK]


def current() -> Stack:
    return of(state.now())


def changed(now: State, change: Callable[[Stack], Stack]) -> State:
    """With another mask; one that is refused, or that no link can hold, leaves it as it is."""
    try:
        stack = change(of(now))
        mask_link.encode_stack(stack)
    except AttnvizError as error:
        return now.put(REFUSED, str(error))
    return now.put(MASK, stack)


def put(now: State, stack: Stack) -> State:
    return changed(now, lambda _: stack)


def amended(now: State, stack: Stack) -> State:
    """With another mask in the place of the present one: one step of undo for a change that goes on."""
    return put(now, stack).put(GOES_ON, True)


def without(now: State, i: int) -> State:
    """Without one of its rules."""
    return changed(now, lambda stack: stack.removed(i))


def with_entry(now: State, i: int, values: Callable[[], dict[str, object]]) -> State:
    """With another join or another sign of a rule, or the rule on or off."""
    return changed(now, lambda stack: stack.replaced(i, replace(stack.entries[i], **values())))


def with_numbers(now: State, i: int, values: Callable[[], dict[str, object]]) -> State:
    """With other numbers of a rule, which may be refused."""
    return with_entry(now, i, lambda: {"mask": replace(of(now).entries[i].mask, **values())})


def refused() -> str:
    """Why the last change was refused, said once; empty if it was not."""
    why = state.get(REFUSED)
    state.put(REFUSED, "")
    return why


def fitting(stack: Stack, sentences: int) -> tuple[Stack, tuple[Entry, ...]]:
    """The stack for so many sentences, and which entries that are on are for another number, and so left out."""
    left_out = tuple(e for e in stack.entries if e.on and e.mask.batch_size not in (None, sentences))
    entries = (replace(e, on=False) if e in left_out else e for e in stack.entries)
    return Stack(tuple(entries)), left_out
