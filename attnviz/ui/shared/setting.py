"""Settings, and the one frozen state that holds what was chosen of them: the link is that state, written."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from attnviz.core.errors import AttnvizError, InputError, did_you_mean
from attnviz.ui.shared import words

T = TypeVar("T")

Link = dict[str, list[str]]
"""The parameters of an address, each with its values."""


@dataclass(frozen=True)
class Setting(Generic[T]):
    """One thing that can be chosen, declared by the feature that it belongs to.

    Attributes:
        name: what the link calls it.
        default: what it is where nobody chose.
        encode: how the link writes it, None for what a link cannot hold; without it, it is in no link.
        decode: how the link is read.
        of: what it is about, in words: it goes with the "model", "text", "link", "edits" or "lesson"; what is of a
            "tab" opens a part of a page and changes nothing.
        lacks: of what there is (see `state.drop_missing`) and a value, or one of several: a sentence that says what is
            there instead, or "".
        former: names in links that were copied before it was renamed.
    """

    name: str
    default: T = field(compare=False)
    encode: Callable[[T], str | Sequence[str] | None] | None = field(default=None, compare=False)
    decode: Callable[[Sequence[str]], T] | None = field(default=None, compare=False)
    of: str = field(default="", compare=False)
    lacks: Callable[[Any, Any], str] | None = field(default=None, compare=False)
    former: tuple[str, ...] = field(default=(), compare=False)

    def part(self, name: str) -> "SettingPart":
        """One field of a setting whose values are dataclasses."""
        return SettingPart(self, name)


@dataclass(frozen=True)
class SettingPart(Generic[T]):
    """One field of a setting: it is read, put and drawn as a setting is."""

    setting: Setting
    field: str

    @property
    def name(self) -> str:
        return f"{self.setting.name} {self.field}"

    @property
    def default(self) -> T:
        return getattr(self.setting.default, self.field)


@dataclass(frozen=True)
class State:
    """Everything that was chosen; of all else the default holds."""

    chosen: Mapping[Setting, Any] = field(default_factory=dict)

    def __getitem__(self, setting: Setting[T] | SettingPart[T]) -> T:
        if isinstance(setting, SettingPart):
            return getattr(self[setting.setting], setting.field)
        return self.chosen.get(setting, setting.default)

    def put(self, setting: Setting[T] | SettingPart[T], value: T) -> "State":
        """The state with another value of a setting."""
        if isinstance(setting, SettingPart):
            return self.put(setting.setting, replace(self[setting.setting], **{setting.field: value}))
        chosen = {key: other for key, other in self.chosen.items() if key != setting}
        if setting.encode is None or value != setting.default:
            chosen[setting] = value
        return State(chosen)

    def without(self, *of: str) -> "State":
        """The state without what is about a model, a text, a link or edits."""
        return State({setting: value for setting, value in self.chosen.items() if not {*setting.of.split()} & {*of}})

    def linked(self) -> "State":
        """The state without what is in no link."""
        return State({setting: value for setting, value in self.chosen.items() if setting.encode})

    def replaced(self, linked: "State") -> "State":
        """Another state, with what no link holds left as it is."""
        rest = {setting: value for setting, value in self.without("link").chosen.items() if not setting.encode}
        return State(rest | dict(linked.chosen))

    def link(self) -> Link:
        """The state as a link holds it."""
        written = {setting.name: setting.encode(value) for setting, value in self.chosen.items() if setting.encode}
        return {
            name: [text] if isinstance(text, str) else [*text] for name, text in written.items() if text is not None
        }


def session_setting(name: str, default: T, of: str = "") -> Setting[T]:
    """A setting that a session remembers and a link does not."""
    return Setting(name, default, of=of)


def coded(
    name: str, default: T, encode: Callable[[T], str], decode: Callable[[str], T], of: str = "", **more
) -> Setting[T]:
    """A setting with a way of its own to be written; an empty text is the default."""
    return Setting(
        name, default, encode, lambda values: decode(".".join(values)) if any(values) else default, of, **more
    )


def choice(
    name: str,
    options: Iterable[str] | Mapping[T, str],
    default: T | None = None,
    of: str = "",
    former: Mapping[str, T] = MappingProxyType({}),
    **more,
) -> Setting[T]:
    """One of some options; of a mapping, the link writes the values, and holds a key just as well.

    Args:
        former: options that links may still hold, and what each opens.
    """
    written = dict(options) if isinstance(options, Mapping) else {option: option for option in options}
    read = {str(option): option for option in written} | {text: option for option, text in written.items()} | {**former}
    refused = partial(words.NOT_ONE_OF.format, options=", ".join(written.values()))

    def decode(values: Sequence[str]) -> T:
        return read[_all(values, read.__contains__, refused)[-1]]

    return Setting(name, default, written.__getitem__, decode, of, **more)


def several(name: str, options: Sequence[str]) -> Setting[tuple[str, ...]]:
    """Some of the options, each a parameter of its own; all of them where nobody chose."""

    refused = partial(words.NOT_ONE_OF.format, options=", ".join(options))

    def decode(values: Sequence[str]) -> tuple[str, ...]:
        return tuple(_all([value for value in values if value], options.__contains__, refused))

    return Setting(name, (), tuple, decode)


def flag(name: str, default: bool, of: str = "") -> Setting[bool]:
    return choice(name, {True: "true", False: "false"}, default, of)


def whole(name: str, default: T, least: int, most: int, of: str = "", **more) -> Setting[int | T]:
    """A whole number within bounds."""

    def fits(value: str) -> bool:
        return bool(re.fullmatch(r"-?\d{1,12}", value, re.ASCII)) and least <= int(value) <= most

    refused = partial(words.NOT_WHOLE.format, least=least, most=most)

    def decode(values: Sequence[str]) -> int:
        return int(_all(values, fits, refused)[-1])

    return Setting(name, default, str, decode, of, **more)


def _all(values: Sequence[str], fits: Callable[[str], bool], refused: Callable[..., str]) -> Sequence[str]:
    for value in values:
        if not fits(value):
            raise InputError(refused(text=value[:40]))
    return values


def reader(
    pattern: str, make: Callable[[re.Match], T], like: str, write: Callable[[T], str] | None = None
) -> Callable[[str], T]:
    """How a text is read that a pattern matches as a whole; any other is refused with one that can be read.

    Args:
        make: the value of a match; it may refuse, too.
        like: a text that can be read, such as "2.1".
        write: the text of a value, where each value is to have one text.
    """

    def decode(text: str) -> T:
        match = re.fullmatch(pattern, text, re.ASCII)
        try:
            value = make(match) if match else None
        except AttnvizError:
            match = None
        if not match or (write and write(value) != text):
            raise InputError(words.UNREADABLE.format(text=text[:40], like=like))
        return value

    return decode


def each(decode: Callable[[str], T], most: int) -> Callable[[str], tuple[T, ...]]:
    """How several are read, with hyphens between them."""

    def decode_all(text: str) -> tuple[T, ...]:
        if text.count("-") >= most:
            raise InputError(words.TOO_MANY_PARTS.format(text=text[:40], count=text.count("-") + 1, most=most))
        return tuple(map(decode, text.split("-"))) if text else ()

    return decode_all


FORMER = {"sums", "applied", "part", "across", "up", "atlas-x", "atlas-y", "written", "reader"}
"""Settings that links may still hold, and that nothing needs any more."""

OMITTED = "omitted"
"""How many parameters a link had beyond those that are read; see `attnviz.ui.long_links`."""

PROBLEMS: Setting[tuple[str, ...]] = session_setting("problems", (), of="link")
"""Parts of the opened link that could not be read, as sentences."""


def read(link: Link, settings: Mapping[str, Setting]) -> State:
    """The state that a link holds; what cannot be read is left as it is without a link, and named."""
    state, problems = State(), []
    for name, values in link.items():
        if name in FORMER:
            continue
        if name == OMITTED and re.fullmatch("[0-9]{1,6}", values[-1]):
            problems.insert(0, words.TOO_MANY_PARAMETERS.format(count=int(values[-1])))
            continue
        setting = settings.get(name)
        if setting is None:
            problems.append(_unknown(name, [setting.name for setting in settings.values()]))
            continue
        try:
            state = state.put(setting, setting.decode(values))
        except InputError as error:
            problems.append(words.IGNORED.format(name=name, why=error))
    return state.put(PROBLEMS, tuple(problems))


def _unknown(name: str, names: Iterable[str]) -> str:
    """Sentence that there is no such setting, and which one may be meant."""
    meant = did_you_mean(words.SETTING_NAMES.get(name, name), names) or words.COPY_A_LINK
    return f"{words.UNKNOWN_SETTING.format(name=name[:40])}{meant}"
