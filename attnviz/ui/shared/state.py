"""What a person has chosen, as one frozen value: the link is that value, written.

A setting is declared once, beside the control that draws it, by the feature that owns it: what the link calls it, what
it is where nobody chose, how it is written and read. An event is a step from one state to the next. A widget remembers
nothing: before it is drawn it is given its value, and what it reports becomes a part of the state.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from attnviz.core.errors import InputError

T = TypeVar("T")

Link = dict[str, list[str]]
"""The parameters of an address, each with its values."""

MOST_SEEN = 100
"""Addresses of a session whose states are kept for Back and Forward."""


@dataclass(frozen=True)
class Setting(Generic[T]):
    """One thing that can be chosen.

    Attributes:
        name: what the link calls it.
        default: what it is where nobody chose.
        encode: how the link writes it, None for what a link cannot hold; without it, it is in no link.
        decode: how the link is read.
        of: what it is about: it is let go of with the "model", the "text" or the "link" that it was chosen for.
    """

    name: str
    default: T = field(compare=False)
    encode: Callable[[T], str | Sequence[str] | None] | None = field(default=None, compare=False)
    decode: Callable[[Sequence[str]], T] | None = field(default=None, compare=False)
    of: str = field(default="", compare=False)


def coded(name: str, default: T, encode: Callable[[T], str], decode: Callable[[str], T], of: str = "") -> Setting[T]:
    """A setting with a way of its own to be written."""
    return Setting(name, default, encode, lambda values: decode(".".join(values)), of)


def choice(name: str, options: Iterable[str] | Mapping[T, str], default: T | None = None) -> Setting[T]:
    """One of some options; of a mapping, the link writes the values."""
    written = dict(options) if isinstance(options, Mapping) else {option: option for option in options}
    read = {text: option for option, text in written.items()}

    def decode(values: Sequence[str]) -> T:
        return read[_all(values, read.__contains__, f"one of {', '.join(read)}")[-1]]

    return Setting(name, default, written.__getitem__, decode)


def several(name: str, options: Sequence[str]) -> Setting[tuple[str, ...]]:
    """Some of the options, each a parameter of its own; all of them where nobody chose."""

    def decode(values: Sequence[str]) -> tuple[str, ...]:
        return tuple(_all([value for value in values if value], options.__contains__, f"one of {', '.join(options)}"))

    return Setting(name, (), tuple, decode)


def flag(name: str, default: bool) -> Setting[bool]:
    return replace(choice(name, {True: "true", False: "false"}, default))


def whole(name: str, default: T, least: int, most: int) -> Setting[int | T]:
    """A whole number within bounds."""

    def fits(value: str) -> bool:
        return bool(re.fullmatch(r"-?\d{1,12}", value, re.ASCII)) and least <= int(value) <= most

    def decode(values: Sequence[str]) -> int:
        return int(_all(values, fits, f"a whole number from {least} to {most}")[-1])

    return Setting(name, default, str, decode)


def kept(name: str, default: T, of: str = "") -> Setting[T]:
    """What a session remembers and a link does not."""
    return Setting(name, default, of=of)


def _all(values: Sequence[str], fits: Callable[[str], bool], what: str) -> Sequence[str]:
    for value in values:
        if not fits(value):
            raise InputError(f"'{value[:40]}' is not {what}.")
    return values


@dataclass(frozen=True)
class State:
    """Everything that was chosen; of all else the default holds."""

    chosen: Mapping[Setting, Any] = field(default_factory=dict)

    def __getitem__(self, setting: Setting[T]) -> T:
        return self.chosen.get(setting, setting.default)

    def put(self, setting: Setting[T], value: T) -> "State":
        """The state with another value of a setting."""
        chosen = {one: other for one, other in self.chosen.items() if one != setting}
        if setting.encode is None or value != setting.default:
            chosen[setting] = value
        return State(chosen)

    def without(self, *of: str) -> "State":
        """The state without what is about a model, a text or a link."""
        return State({setting: value for setting, value in self.chosen.items() if setting.of not in of})

    def linked(self) -> "State":
        """The state without what is in no link."""
        return State({setting: value for setting, value in self.chosen.items() if setting.encode})

    def link(self) -> Link:
        """The state as a link holds it."""
        written = {one.name: one.encode(value) for one, value in self.chosen.items() if one.encode}
        return {
            name: [text] if isinstance(text, str) else [*text] for name, text in written.items() if text is not None
        }


PROBLEMS: Setting[tuple[str, ...]] = kept("problems", (), of="link")
"""What of the link that was opened could not be read."""


def read(link: Link, settings: Mapping[str, Setting]) -> State:
    """The state that a link holds; what cannot be read is left as it is without a link, and named."""
    state, problems = State(), []
    for name, values in link.items():
        setting = settings.get(name)
        if setting is None:
            problems.append(f"{name[:40]}: there is no such setting.")
            continue
        try:
            state = state.put(setting, setting.decode(values))
        except InputError as error:
            problems.append(f"{name}: {error}")
    return state.put(PROBLEMS, tuple(problems))


SEEN: Setting[Mapping[tuple, State]] = kept("seen", {})
"""The states of this session, by the links that hold them."""

BEGUN = kept("begun", False)
"""Whether the session has taken a link."""

_KEY, _OWN = "state", object()


def now() -> State:
    """The state of this session."""
    return st.session_state.get(_KEY) or State()


def get(setting: Setting[T]) -> T:
    return now()[setting]


def put(setting: Setting[T], value: T) -> None:
    change(lambda state: state.put(setting, value))


def change(step: Callable[..., State], *args: object) -> None:
    """One step, from the state to the next."""
    st.session_state[_KEY] = step(now(), *args)


def drop(setting: Setting[T], value: T, written: str, there: str) -> None:
    """Take another value than that of the link, and say why."""
    put(setting, value)
    put(PROBLEMS, (*get(PROBLEMS), f"{setting.name}: {written} is not there; {there}."))


def control(
    setting: Setting[T],
    shown: object = _OWN,
    *,
    at: str = "",
    read: Callable[[Any], T] = lambda reported: reported,
    step: Callable[[State, Any], State] | None = None,
    whole_page: bool = False,
) -> dict[str, Any]:
    """What a widget is drawn with: its key, the value that it shows, and the step that follows what it reports.

    Args:
        shown: the value on the widget, where that is not the setting itself.
        at: tells the widgets of one setting apart.
        read: what the setting becomes by what the widget reports.
        step: where more than the setting changes: the next state, by what the widget reports.
        whole_page: whether the setting belongs to what stands outside of the fragment that the widget is in.
    """
    key = f"{setting.name} {at}".strip()
    shown = get(setting) if shown is _OWN else shown
    st.session_state[key] = (
        shown  # always: on another page it is another widget, which would begin with its first option
    )
    step = step or (lambda now, reported: now.put(setting, read(reported)))
    return {"key": key, "on_change": _report, "args": (key, shown, step, whole_page)}


def _report(key: str, shown: object, step: Callable[[State, Any], State], whole_page: bool) -> None:
    """A step, if somebody chose: a page that comes back reports what it shows, and one that was left has no widgets."""
    if key not in st.session_state or st.session_state[key] == shown:
        return
    change(step, st.session_state[key])
    if whole_page:
        st.rerun()


def event(key: str) -> Any:
    """What a widget without a setting reports, such as a selection; None if it is not there."""
    return st.session_state.get(key)


def arrive(settings: Mapping[str, Setting]) -> None:
    """Take the state from the link where one is opened: as a session begins, and with Back and Forward."""
    link = address()
    if get(BEGUN) and not get_script_run_ctx().is_history_navigation:
        return
    opened = get(SEEN).get(_sorted(link))
    if opened is None and get(BEGUN) and not link:  # Streamlit made this address itself, on the way to another page
        return
    opened = opened or read(link, settings)
    rest = {setting: value for setting, value in now().without("link").chosen.items() if not setting.encode}
    st.session_state[_KEY] = State(rest | dict(opened.chosen)).put(BEGUN, True)


def write() -> None:
    """Make the link hold the state."""
    link = now().link()
    if link != address():
        st.query_params.from_dict(link)
    seen = [*get(SEEN).items()][-MOST_SEEN:]
    put(SEEN, dict(seen) | {_sorted(link): now().linked()})


def address() -> Link:
    """What the address of the page holds."""
    return {name: st.query_params.get_all(name) for name in st.query_params}


def _sorted(link: Link) -> tuple:
    return tuple(sorted((name, tuple(values)) for name, values in link.items()))
