"""Choices of a session: read from and written to the link, shown and changed by widgets.

A widget stores no state: it gets its value from the choices before it is drawn, and what it reports changes the
choices. (Streamlit's own `bind` was tried: it adds no entry to the browser's history, so that Back leaves the app, and
after a callback the address holds the choices of the previous run.)
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
"""Maximum number of undo steps, and of addresses in a session that Back and Forward can restore."""
TURNED = ("slider", "select_slider", "number_input")
"""Widgets whose value can change while the page is drawn, such as by a held key; setting it would move them back."""

CHOSEN = object()
"""Marker for `control`: the widget shows the choice itself."""

_KEY = "attnviz"


@dataclass(eq=False)
class TabState:
    """The choices of one browser tab.

    Attributes:
        choices: current choices.
        complaints: messages about settings of the opened link that are not possible.
        past, future: choices that undo and redo return to.
        opened: whether the session has read its first link.
        memory: values outside of the link, by name, such as the state of a menu or a canceled job.
        written: addresses that the browser may still show: the last known address, and those written since.
        visited: choices by their address, as some are too long for an address.
        clicks: number of clicks on each picture, so that the same place can be clicked again.
        before_course: choices, past and future outside of the course, which chapters do not change.
        turned: hash of the page on which each widget of `TURNED` was drawn last.
        linked: settings of the opened link, until the user changes a choice or opens another page.
        page: title of the page that was drawn last.
        notices: container on the page for messages about the link.
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
    before_course: tuple[Choices, tuple[Choices, ...], tuple[Choices, ...]] | None = None
    turned: dict[str, str] = field(default_factory=dict)
    linked: dict[str, Any] = field(default_factory=dict)
    page: str = ""
    notices: DeltaGenerator | None = None


def session() -> TabState:
    """Return the state of the browser tab of this run."""
    current = streamlit_internals.peek(_KEY)
    if current is None:
        current = st.session_state[_KEY] = TabState()
    return current


def now() -> Choices:
    """Return the current choices."""
    return session().choices


def change(step: Callable[[Choices], Choices]) -> None:
    """Apply the function `step` to the current choices, and keep the old choices for undo."""
    current = session()
    after = step(current.choices)
    if after.without("tab") != current.choices.without("tab"):
        current.past, current.future = (*current.past, current.choices)[-REMEMBERED:], ()
    current.choices, current.linked = after, {}


def turn_to(title: str) -> None:
    """Store the title of the page being drawn; after a change of the page, settings of the link need no message."""
    current = session()
    if current.page not in ("", title):
        current.linked = {}
    current.page = title


def put(**values: Any) -> None:
    """Set the choices of these names."""
    change(lambda choices: choices.put(**values))


def open_page(title: str, **values: Any) -> None:
    """Set choices and open another page; a new text also clears all choices that belong to the old text."""
    change(lambda choices: (choices.without("text") if "text" in values else choices).put(**values))
    session().memory["open"] = title


def undo() -> None:
    """Return to the previous choices."""
    current = session()
    *past, before = current.past
    current.past, current.future, current.choices = tuple(past), (current.choices, *current.future), before


def redo() -> None:
    """Revert the last undo."""
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
    """Draw a widget for one setting, and return the value that it shows; settings are stored in the link.

    Args:
        widget: function of Streamlit, such as `st.selectbox`.
        name: name of the setting, as in `link.NAMES`.
        args: further arguments of the widget, such as its options or bounds.
        value: value to show, if it is not the choice itself.
        step: function from the choices and a reported value to new choices; by default it stores the value.
        part: suffix of the key, for several widgets of the same setting.
        visible: whether to show the label; screen readers always read it.
    """
    key = f"{name} {part}".strip()
    value = now()[name] if value is CHOSEN else value
    if widget.__name__ not in TURNED or not _shows_already(key, value):
        st.session_state[key] = value

    def report() -> None:
        reported = streamlit_internals.peek(key, value)
        if reported != value:  # a page that is opened again reports its old values
            session().turned[key] = streamlit_internals.page_hash()
            change(lambda choices: step(choices, reported) if step else choices.put(**{name: reported}))

    label_visibility = "visible" if visible else "collapsed"
    return widget(label, *args, key=key, on_change=report, label_visibility=label_visibility, **options)


def choice(
    widget: Callable[..., Any], label: str, name: str, options: Sequence[Any], opening: Any = None, **more: Any
) -> Any:
    """Draw a `control` with these options; a value that is not an option becomes `opening` or the first option."""
    first = options[0] if opening is None else opening
    return control(widget, label, name, options, value=allowed(name, options, first), **more)


def allowed(name: str, options: Sequence[Any], opening: Any = None) -> Any:
    """Return the choice of a name if it is an option, else `opening`, with a message if it came from the link."""
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
    """Show once which settings of the opened link are not possible; later messages appear in the same container."""
    current = session()
    current.notices = st.container()
    with current.notices:
        for complaint in current.complaints:
            note(complaint, "notice")
    current.complaints = ()


def _shows_already(key: str, value: Any) -> bool:
    """Whether the browser already shows the widget with this value on this page."""
    current, page = session().turned.get(key), streamlit_internals.page_hash()
    session().turned[key] = page
    return current == page and streamlit_internals.peek(key) == value


def clicked(picture: str, point: dict) -> bool:
    """Whether a reported click is new; the browser reports the last click again with each run."""
    clicks = session().clicks
    if int(point.get("rev", -1)) != clicks.get(picture, 0):
        return False
    clicks[picture] = clicks.get(picture, 0) + 1
    return True


def arrive(first: dict[str, str]) -> bool:
    """Read the choices from the address when a session begins and after Back and Forward.

    Args:
        first: choices for a first visit with an empty address.

    Returns:
        Whether the address was empty and `first` was used.
    """
    current, address = session(), _address()
    browsed = streamlit_internals.is_history_navigation() or address not in current.written
    current.written = current.written[current.written.index(address) :] if address in current.written else (address,)
    if current.opened and (not browsed or not address):  # Streamlit empties the address on the way to another page
        return False
    choices = current.visited.get(_sorted_items(address))
    complaints: tuple[str, ...] = ()
    if choices is None:
        choices, complaints = link.read({name: [value] for name, value in (address or first).items()})
    if current.opened:
        change(lambda _: choices)
    is_first, current.opened = not current.opened, True
    current.choices, current.complaints, current.linked = choices, complaints, {**choices.chosen}
    if is_first:  # charts do not find their colors if a typed address has unescaped brackets
        write_address(anew=True)
    return is_first and not address


def write_address(*, anew: bool = False) -> None:
    """Write the choices into the address of the page; with `anew`, even if the address has these choices already."""
    current, address = session(), _address()
    if current.choices["chapter"] is None:
        current.before_course = current.choices, current.past, current.future
    new_address = link.write(current.choices)
    if new_address != address or anew:
        st.query_params.from_dict(new_address)
        since = current.written[current.written.index(address) :] if address in current.written else (address,)
        current.written = (*since, new_address)
    current.visited[_sorted_items(new_address)] = current.choices
    while len(current.visited) > REMEMBERED:
        del current.visited[next(iter(current.visited))]


def leave_course() -> None:
    """Restore the choices, undo and redo from before the course was opened."""
    current = session()
    if current.choices["chapter"] is None:
        return
    if current.before_course is None:
        current.choices = current.choices.put(chapter=None)
    else:
        current.choices, current.past, current.future = current.before_course


def _address() -> dict[str, str]:
    return {name: st.query_params[name] for name in st.query_params}


def _sorted_items(address: dict[str, str]) -> tuple:
    return tuple(sorted(address.items()))
