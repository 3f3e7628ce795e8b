"""The choices of a session, their way from the link and back, and the widgets that show it and change it.

A widget remembers nothing: before it is drawn it is given its value, and what it reports becomes a choice. (Streamlit's
own `bind` was tried: it adds no entry to the browser's history, so that Back leaves the app, and after a callback the
address holds the choices of the run before.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz import link
from attnviz.core.errors import did_you_mean, quoted
from attnviz.link import Choices
from attnviz.ui import streamlit_internals
from attnviz.ui.text import note

REMEMBERED = 100
"""Steps that can be undone, and addresses of a session that Back and Forward find again."""
TURNED = ("slider", "select_slider", "number_input")
"""Widgets that a held key turns further while the page is drawn: told their value again, they would jump back."""

CHOSEN = object()
"""The value of a widget that shows the choice itself."""

_KEY = "attnviz"


@dataclass(eq=False)
class TabState:
    """The choices of one browser tab.

    Attributes:
        choices: everything that is chosen now.
        complaints: sentences about what the opened link asks for and cannot have.
        past, future: choices that undo and redo go to.
        opened: whether the session has read its first link.
        memory: values that stand in no link, by name: what a menu shows, whether something was canceled.
        written: addresses that the browser may still show: its last known one, and those written since.
        visited: choices by the address that holds them, for what an address is too short for.
        clicks: number of clicks on each picture, so that the same place can be clicked again.
        own: choices, past and future outside of the course, which a chapter leaves as they are.
        linked: what the opened link asks for, until something else is chosen or another page is opened.
        page: title of the page that was drawn last.
        notices: place on the page for sentences about the link.
    """

    choices: Choices = field(default_factory=Choices)
    complaints: tuple[str, ...] = ()
    past: tuple[Choices, ...] = ()
    future: tuple[Choices, ...] = ()
    opened: bool = False
    memory: dict[str, Any] = field(default_factory=dict)
    written: tuple[dict[str, str], ...] = ()
    visited: dict[tuple, Choices] = field(default_factory=dict)
    clicks: dict[str, int] = field(default_factory=dict)
    own: tuple[Choices, tuple[Choices, ...], tuple[Choices, ...]] | None = None
    turned: dict[str, str] = field(default_factory=dict)
    linked: dict[str, Any] = field(default_factory=dict)
    page: str = ""
    notices: DeltaGenerator | None = None


def session() -> TabState:
    """The session of this run."""
    current = streamlit_internals.peek(_KEY)
    if current is None:
        current = st.session_state[_KEY] = TabState()
    return current


def now() -> Choices:
    """Everything that is chosen."""
    return session().choices


def change(step: Callable[[Choices], Choices]) -> None:
    """Go from the present choices to others, and remember the present ones for undo."""
    current = session()
    after = step(current.choices)
    if after.without("tab") != current.choices.without("tab"):
        current.past, current.future = (*current.past, current.choices)[-REMEMBERED:], ()
    current.choices, current.linked = after, {}


def turn_to(title: str) -> None:
    """Begin to draw a page; another one than the link's lacks what the link asks for with good reason."""
    current = session()
    if current.page not in ("", title):
        current.linked = {}
    current.page = title


def put(**values: Any) -> None:
    """Choose other values of these names."""
    change(lambda choices: choices.put(**values))


def undo() -> None:
    """Go back to the choices before."""
    current = session()
    *past, before = current.past
    current.past, current.future, current.choices = tuple(past), (current.choices, *current.future), before


def redo() -> None:
    """Take back the last undo."""
    current = session()
    after, *future = current.future
    current.past, current.future, current.choices = (*current.past, current.choices), tuple(future), after


def control(
    widget: Callable[..., Any],
    label: str,
    name: str,
    *args: Any,
    value: Any = CHOSEN,
    step: Callable[[Choices, Any], Choices] | None = None,
    part: str = "",
    visible: bool = True,
    **options: Any,
) -> Any:
    """Draw a widget with the value of a name of the link, and return what it shows.

    Args:
        widget: such as `st.selectbox`.
        name: a name of the link.
        args: further arguments of the widget: its options or its bounds.
        value: what it shows, where that is not the choice itself.
        step: what a report changes; by default it is the new value of the name.
        part: tells the widgets of one name apart.
        visible: whether the label is drawn; screen readers always have it.
    """
    key = f"{name} {part}".strip()
    value = now()[name] if value is CHOSEN else value
    if widget.__name__ not in TURNED or not _is_turned_to(key, value):
        st.session_state[key] = value

    def report() -> None:
        reported = streamlit_internals.peek(key, value)
        if reported != value:  # a page that comes back reports what it shows
            session().turned[key] = streamlit_internals.page_hash()
            change(lambda choices: step(choices, reported) if step else choices.put(**{name: reported}))

    label_visibility = "visible" if visible else "collapsed"
    return widget(label, *args, key=key, on_change=report, label_visibility=label_visibility, **options)


def choice(
    widget: Callable[..., Any], label: str, name: str, options: Sequence[Any], opening: Any = None, **more: Any
) -> Any:
    """Draw a `control` of some options; another value gives way to `opening`, by default the first."""
    first = options[0] if opening is None else opening
    return control(widget, label, name, options, value=allowed(name, options, first), **more)


def allowed(name: str, options: Sequence[Any], opening: Any = None) -> Any:
    """The choice of a name if it is among the options, else `opening`; of a link that asks for another this is said."""
    current, value = session(), now()[name]
    if value in options:
        return value
    if value != (default := link.NAMES[name].default):
        if current.linked.get(name) == value:
            near = did_you_mean(str(value), map(str, options))
            with current.notices or st.container():
                note(f"The link's {name} was left out: {quoted(str(value)[:40])} is not a choice here.{near}", "notice")
        else:  # a choice of another page or model
            current.choices = current.choices.put(**{name: default})
    return opening


def complain() -> None:
    """Say what the opened link asks for and cannot have, once; here stands as well what a page finds later."""
    current = session()
    current.notices = st.container()
    with current.notices:
        for complaint in current.complaints:
            note(complaint, "notice")
    current.complaints = ()


def _is_turned_to(key: str, value: Any) -> bool:
    """Whether the browser has the widget with this value already, on this page."""
    current, page = session().turned.get(key), streamlit_internals.page_hash()
    session().turned[key] = page
    return current == page and streamlit_internals.peek(key) == value


def clicked(picture: str, point: dict) -> bool:
    """Whether a reported click is new; the browser repeats the last one with each run."""
    clicks = session().clicks
    if int(point.get("rev", -1)) != clicks.get(picture, 0):
        return False
    clicks[picture] = clicks.get(picture, 0) + 1
    return True


def arrive(first: dict[str, str]) -> bool:
    """Take the choices from the address where it was opened: as a session begins, and with Back and Forward.

    Returns whether `first` was opened.

    Args:
        first: the address that a first visit opens in the place of an empty one.
    """
    current, there = session(), _address()
    browsed = streamlit_internals.is_history_navigation() or there not in current.written
    current.written = current.written[current.written.index(there) :] if there in current.written else (there,)
    if current.opened and (not browsed or not there):  # Streamlit empties the address on the way to another page
        return False
    choices = current.visited.get(_sorted(there))
    complaints: tuple[str, ...] = ()
    if choices is None:
        choices, complaints = link.read({name: [value] for name, value in (there or first).items()})
    if current.opened:
        change(lambda _: choices)
    is_first, current.opened = not current.opened, True
    current.choices, current.complaints, current.linked = choices, complaints, {**choices.chosen}
    if is_first:  # a typed address may hold brackets as they are, behind which charts do not find their colors
        write_address(anew=True)
    return is_first and not there


def write_address(*, anew: bool = False) -> None:
    """Make the address of the page hold the choices.

    Args:
        anew: whether to write it also where it holds them already.
    """
    current, there = session(), _address()
    if current.choices["chapter"] is None:
        current.own = current.choices, current.past, current.future
    held = link.write(current.choices)
    if held != there or anew:
        st.query_params.from_dict(held)
        since = current.written[current.written.index(there) :] if there in current.written else (there,)
        current.written = (*since, held)
    current.visited[_sorted(held)] = current.choices
    while len(current.visited) > REMEMBERED:
        del current.visited[next(iter(current.visited))]


def leave_course() -> None:
    """Stand again, with undo and redo, where the person was before a chapter of the course was opened."""
    current = session()
    if current.choices["chapter"] is None:
        return
    if current.own is None:
        current.choices = current.choices.put(chapter=None)
    else:
        current.choices, current.past, current.future = current.own


def _address() -> dict[str, str]:
    return {name: st.query_params[name] for name in st.query_params}


def _sorted(address: dict[str, str]) -> tuple:
    return tuple(sorted(address.items()))
