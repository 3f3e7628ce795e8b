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
CONTINUOUS = ("slider", "select_slider", "number_input")
"""Widgets that a user may still move while the page is drawn; setting their value would move them back."""

CHOSEN = object()
"""Default of `control`'s argument `value`: the widget shows the choice itself."""

_KEY = "attnviz"


@dataclass(eq=False)
class TabState:
    """The choices of one browser tab.

    Attributes:
        choices: current choices.
        link_errors: messages about settings of the opened link that are not possible.
        past, future: choices that undo and redo return to.
        has_read_link: whether the session has read its first link.
        memory: values outside of the link, by name, such as the state of a menu or a canceled job.
        recent_addresses: URL parameters that the browser may still show: the last known ones, and those written since.
        choices_by_address: choices by their URL parameters, as a URL cannot hold very long choices.
        clicks: number of clicks on each picture, so that the same place can be clicked again.
        before_course: choices, past and future from before the Learn page was opened; its chapters do not change them.
        widget_pages: hash of the page on which each widget of `CONTINUOUS` was drawn last, by the widget's key.
        choices_from_link: settings of the opened link; empty once the user changes a choice or opens another page.
        page: title of the page that was drawn last.
        notices: container on the page for messages about the link.
    """

    choices: Choices = field(default_factory=Choices)
    link_errors: tuple[str, ...] = ()
    past: tuple[Choices, ...] = ()
    future: tuple[Choices, ...] = ()
    has_read_link: bool = False
    memory: dict[str, Any] = field(default_factory=dict)
    recent_addresses: tuple[dict[str, str], ...] = ()
    choices_by_address: dict[frozenset, Choices] = field(default_factory=dict)
    clicks: dict[str, int] = field(default_factory=dict)
    before_course: tuple[Choices, tuple[Choices, ...], tuple[Choices, ...]] | None = None
    widget_pages: dict[str, str] = field(default_factory=dict)
    choices_from_link: dict[str, Any] = field(default_factory=dict)
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
    """Replace the current choices by `step(choices)`, and keep the old choices for undo."""
    current = session()
    after = step(current.choices)
    if after.without("tab") != current.choices.without("tab"):  # undo does not return to another part of a page
        current.past, current.future = (*current.past, current.choices)[-REMEMBERED:], ()
    current.choices, current.choices_from_link = after, {}


def set_page(title: str) -> None:
    """Store the title of the page to draw; on another page than before, messages no longer mention the opened link."""
    current = session()
    if current.page not in ("", title):
        current.choices_from_link = {}
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
    apply: Callable[[Choices, Any], Choices] | None = None,
    part: str = "",
    visible: bool = True,
    **options: Any,
) -> Any:
    """Draw a widget for one setting of the link, and return the value that the widget shows.

    Args:
        widget: function of Streamlit, such as `st.selectbox`.
        name: name of the setting, as in `link.NAMES`.
        args: further arguments of the widget, such as its options or bounds.
        value: value to show; by default the current choice of this setting.
        apply: function (choices, value of the user) -> new choices; by default it stores the value under `name`.
        part: suffix of the key, for several widgets of the same setting.
        visible: whether to show the label; screen readers always read it.
    """
    key = f"{name} {part}".strip()
    value = now()[name] if value is CHOSEN else value
    if widget.__name__ not in CONTINUOUS or not _shows_already(key, value):
        st.session_state[key] = value

    def report() -> None:
        reported = streamlit_internals.peek(key, value)
        if reported == value:  # a page that is opened again reports its old values
            return
        session().widget_pages[key] = streamlit_internals.page_hash()  # shown here: `control` will not set it again
        if apply is None:
            put(**{name: reported})
        else:
            change(lambda choices: apply(choices, reported))

    label_visibility = "visible" if visible else "collapsed"
    return widget(label, *args, key=key, on_change=report, label_visibility=label_visibility, **options)


def choice(
    widget: Callable[..., Any], label: str, name: str, options: Sequence[Any], default: Any = None, **more: Any
) -> Any:
    """Draw a `control` with these options; a choice that is not an option becomes `default` or the first option."""
    default = options[0] if default is None else default
    return control(widget, label, name, options, value=valid_choice(name, options, default), **more)


def valid_choice(name: str, options: Sequence[Any], default: Any = None) -> Any:
    """Return the current choice of a setting if it is an option, else `default`, with a message if a link chose it."""
    current, value, unset = session(), now()[name], link.NAMES[name].default
    if value in options:
        return value
    if value == unset:
        return default
    if current.choices_from_link.get(name) == value:
        near = did_you_mean(str(value), map(str, options))
        with current.notices or st.container():
            note(f"The link's {name} was left out: {quoted(str(value)[:40])} is not a choice here.{near}", "notice")
    else:  # a choice of another page or model
        current.choices = current.choices.put(**{name: unset})
    return default


def show_link_errors() -> None:
    """Show once which settings of the opened link are not possible; later messages appear in the same container."""
    current = session()
    current.notices = st.container()
    with current.notices:
        for message in current.link_errors:
            note(message, "notice")
    current.link_errors = ()


def _shows_already(key: str, value: Any) -> bool:
    """Whether the browser already shows the widget on this page with this value; remember that it is on this page."""
    pages, page = session().widget_pages, streamlit_internals.page_hash()
    was_on_page = pages.get(key) == page
    pages[key] = page
    return was_on_page and streamlit_internals.peek(key) == value


def count_click(picture: str, point: dict) -> bool:
    """Count a reported click, and return whether it is new: the browser reports the last click again with each run."""
    clicks = session().clicks
    if int(point.get("rev", -1)) != clicks.get(picture, 0):  # rev: number of clicks when the picture was drawn
        return False
    clicks[picture] = clicks.get(picture, 0) + 1
    return True


def read_address(first: dict[str, str]) -> bool:
    """Read the choices from the URL parameters when a session begins, and after Back or Forward; else change nothing.

    Args:
        first: URL parameters to use if a session begins without any.

    Returns:
        Whether `first` was read.
    """
    current, address = session(), st.query_params.to_dict()
    is_navigation = streamlit_internals.is_history_navigation() or address not in current.recent_addresses
    current.recent_addresses = _addresses_since(address)
    is_first = not current.has_read_link
    if not is_first and (not is_navigation or not address):  # Streamlit clears the parameters between two pages
        return False
    choices = current.choices_by_address.get(frozenset(address.items()))
    messages: tuple[str, ...] = ()
    if choices is None:
        choices, messages = link.read({name: [value] for name, value in (address or first).items()})
    if not is_first:
        change(lambda _: choices)  # so that undo can return to the choices before Back or Forward
    current.has_read_link = True
    current.choices, current.link_errors, current.choices_from_link = choices, messages, {**choices.chosen}
    if is_first:  # charts do not find their colors if a typed address has unescaped brackets
        write_address(always=True)
    return is_first and not address


def write_address(*, always: bool = False) -> None:
    """Write the choices into the page's URL parameters; with `always`, even if the URL has these choices already."""
    current, address = session(), st.query_params.to_dict()
    if current.choices["chapter"] is None:
        current.before_course = current.choices, current.past, current.future
    new_address = link.write(current.choices)
    if new_address != address or always:
        st.query_params.from_dict(new_address)
        current.recent_addresses = (*_addresses_since(address), new_address)
    current.choices_by_address[frozenset(new_address.items())] = current.choices
    while len(current.choices_by_address) > REMEMBERED:
        oldest = next(iter(current.choices_by_address))
        del current.choices_by_address[oldest]


def _addresses_since(address: dict[str, str]) -> tuple[dict[str, str], ...]:
    """Return an address and the addresses that this session wrote after it; an address is its URL parameters."""
    addresses = session().recent_addresses
    return addresses[addresses.index(address) :] if address in addresses else (address,)


def leave_course() -> None:
    """Restore the choices, undo and redo from before the course was opened."""
    current = session()
    if current.choices["chapter"] is None:
        return
    if current.before_course is None:
        current.choices = current.choices.put(chapter=None)
    else:
        current.choices, current.past, current.future = current.before_course
