"""The state of a session, its way from the link and back, and the widgets that show it and change it.

An event is a step from one state to the next. A widget remembers nothing: before it is drawn it is given its value, and
what it reports becomes a part of the state.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import streamlit as st

from attnviz.ui import streamlit_internals
from attnviz.ui.shared import words
from attnviz.ui.shared.setting import PROBLEMS, Link, Setting, SettingPart, State, read, session_setting

T = TypeVar("T")

MOST_VISITED = 100
"""Addresses of a session whose states are kept for Back and Forward."""
MOST_PILLS = 16
"""Options of a choice; more are a list."""

VISITED: Setting[Mapping[tuple, State]] = session_setting("seen", {})
"""The states of this session, by the links that hold them."""
BEGUN = session_setting("begun", False)
"""Whether the session has taken a link."""
WRITTEN: Setting[tuple[Link, ...]] = session_setting("links written", ())
"""The link that the browser was last known to show, and those written since: it may show any of them still."""
CHECKED: Setting[tuple[str, ...]] = session_setting("link checked", (), of="link")
"""Kinds of settings of the link that were checked against what there is: of the model, and of the text."""

PLACED: Setting[Mapping[str, str]] = session_setting("turned", {})
"""The page on which each of the widgets in `TURNED` was turned last, by its key; "" since it was told its value."""
TURNED = {"slider", "select_slider", "number_input"}
"""Widgets that a held key turns further while the page is still drawn for the value before."""

NOTHING: Link = {"model": ["translator"]}
"""The link where nothing was chosen. Every link names its model: one without is opened as a first visit is."""
PLACES = {"tab", "panel", "part", "checked", "tested"}
"""Settings that name a part of a page: a link with no others says nothing of what is looked at there."""

_KEY, _OWN = "state", object()


@dataclass(eq=False)
class Session:
    """State of one browser tab; Streamlit keeps this object, and no value of it."""

    state: State = State()


def event(key: str) -> Any:
    """The value of a widget, or what it reports, such as a selection; None if it is not on the page."""
    return streamlit_internals.peek(key)


def now() -> State:
    """The state of this session."""
    session = event(_KEY)
    return session.state if session else State()


def get(setting: Setting[T] | SettingPart[T]) -> T:
    return now()[setting]


def put(setting: Setting[T] | SettingPart[T], value: T) -> None:
    change(lambda state: state.put(setting, value))


def change(step: Callable[..., State], *args: object) -> None:
    """One step, from the state to the next."""
    session = event(_KEY)
    if session is None:
        session = st.session_state[_KEY] = Session()
    session.state = step(session.state, *args)


def one_of(setting: Setting[T], options: Iterable[T], other: T = _OWN) -> T:
    """The value of a setting if it is one of some options, else another one, or the first of them."""
    options, chosen = list(options), get(setting)
    if chosen in options:
        return chosen
    return options[0] if other is _OWN else other


def control(
    widget: Callable[..., Any],
    title: str,
    setting: Setting[T] | SettingPart[T],
    *args: object,
    shown: object = _OWN,
    lead: str | None = None,
    at: str = "",
    read: Callable[[Any], T] = lambda reported: reported,
    step: Callable[[State, Any], State] | None = None,
    whole_page: bool = False,
    **options: object,
) -> Any:
    """Draw a widget of Streamlit with the value of a setting, and give what the widget gives: what it shows.

    Args:
        args: of the widget, such as its options or its bounds.
        shown: the value on the widget, where that is not the setting itself.
        lead: what stands left of it in the place of its title, "" for nothing.
        at: tells the widgets of one setting apart.
        read: what the setting becomes by what the widget reports.
        step: where more than the setting changes: the next state, by what the widget reports.
        whole_page: whether the setting belongs to what stands outside of the fragment that the widget is in.
        options: of the widget.
    """
    key = f"{setting.name} {at}".strip()
    shown = get(setting) if shown is _OWN else shown
    name = widget.__name__
    if name not in TURNED or not _is_there(key, shown):
        st.session_state[key] = shown
    step = step or (lambda now, reported: now.put(setting, read(reported)))
    if name in ("pills", "segmented_control") and "selection_mode" not in options:
        options = {"required": True} | options
    if name == "pills":
        options["wrap"] = True
    if lead is not None:
        options["label_visibility"] = "collapsed"
    if lead:
        st.caption(lead, width="content")
    return widget(title, *args, key=key, on_change=_report, args=(key, shown, step, whole_page), **options)


def _is_there(key: str, value: object) -> bool:
    """Whether the browser has the widget with this value, or one that was turned on since: told it again, it goes back.

    Surely has it who turned it. On another page it is another widget, which would begin with its first option, and so
    does one that was drawn in a run that was cut short.
    """
    there = get(PLACED).get(key) == streamlit_internals.page_hash() and event(key) == value
    if not there:
        put(PLACED, {**get(PLACED), key: ""})
    return there


def _report(key: str, value: object, step: Callable[[State, Any], State], whole_page: bool) -> None:
    """A step, if somebody chose: a page that comes back reports what it shows, and one that was left has no widgets."""
    if (reported := streamlit_internals.peek(key, value)) == value:
        return
    put(PLACED, {**get(PLACED), key: streamlit_internals.page_hash()})
    change(step, reported)
    if whole_page:
        st.rerun()


def menu(title: str, **options: Any) -> Any:
    """A popover. Its `open` says whether to draw into it: widgets of a closed one report values of before."""
    return st.popover(title, on_change="rerun", **options)


def tabs(setting: Setting[str | None], parts: Mapping[str, Callable[[], T]], opening: str | None = None) -> T:
    """Names in a row, and what belongs to the chosen one, which stands in the link; `opening` where nobody chose.

    The style sheet draws them as tabs: those of Streamlit are 150 components more in each rendering of the page.
    """
    chosen = get(setting) or opening or next(iter(parts))
    return parts[control(st.segmented_control, words.PARTS, setting, [*parts], shown=chosen, lead="")]()


def arrive(settings: Mapping[str, Setting], first: Link | None = None) -> None:
    """Take the state from the link where one is opened: as a session begins, and with Back and Forward.

    Args:
        first: the link that the session begins with in the place of that of the page.
    """
    link = address()
    if not _moved(link) and get(BEGUN):
        return
    opened = get(VISITED).get(_sorted(link))
    if opened is None and get(BEGUN) and not link:  # Streamlit made this address itself, on the way to another page
        return
    change(State.replaced, opened or read(first or link, settings))
    put(BEGUN, True)


def _moved(link: Link) -> bool:
    """Whether the browser went to another link by itself.

    Streamlit says so, but not where something on the page reports at the same moment. Then it is seen by the link: it
    is none that the browser may still show.
    """
    is_written = link in get(WRITTEN)
    put(WRITTEN, _since(link))
    return streamlit_internals.is_history_navigation() or not is_written


def _since(link: Link) -> tuple[Link, ...]:
    """The link that the browser shows, and those that were written after it."""
    written = get(WRITTEN)
    return written[written.index(link) :] if link in written else (link,)


def drop_missing(of: str, there: Any) -> bool:
    """Once for each link: let go of what the model or the picture does not have, and say so.

    Args:
        of: what the settings are about.
        there: the model, how many queries and keys there are, or how many chapters: what `Setting.lacks` is asked with.
    """
    if of in get(CHECKED):
        return False
    put(CHECKED, (*get(CHECKED), of))
    before = get(PROBLEMS)
    for setting, value in now().chosen.items():
        if setting.lacks is None or of not in setting.of.split():
            continue
        many = isinstance(value, tuple | frozenset) and isinstance(setting.default, tuple | frozenset)
        lost = {item: why for item in (value if many else (value,)) if (why := setting.lacks(there, item))}
        if lost:
            put(setting, type(value)(item for item in value if item not in lost) if many else setting.default)
            written = setting.encode(type(value)(lost) if many else value)
            gone = (written if isinstance(written, str) else ", ".join(written))[:40]
            why = words.NOT_THERE.format(value=gone, there=next(iter(lost.values())))
            put(PROBLEMS, (*get(PROBLEMS), words.IGNORED.format(name=setting.name, why=why)))
    return get(PROBLEMS) != before


def link() -> Link:
    """The link that holds the state."""
    return NOTHING | now().link()


def write() -> None:
    """Make the address of the page hold the state."""
    held, current = link(), address()
    if held != current:
        st.query_params.from_dict(held)
        put(WRITTEN, (*_since(current), held))
    visited = [*get(VISITED).items()][-MOST_VISITED:]
    put(VISITED, dict(visited) | {_sorted(held): now().linked()})


def address() -> Link:
    """Parameters of the address of the page."""
    return {name: st.query_params.get_all(name) for name in st.query_params}


def _sorted(link: Link) -> tuple:
    return tuple(sorted((name, tuple(values)) for name, values in link.items()))
