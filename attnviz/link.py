"""Read and write links: the URL parameters of a page, defined by a table of names.

    choices, complaints = read({"model": ["story"], "layer": ["d1"], "head": ["0"]})
    choices["layer"]                       # Site("decoder", 1)
    write(choices.put(head=2))             # {"model": "story", "layer": "d1", "head": "2"}

The app, the shell and the course use the same table. Examples: layer ``c1`` (cross layer 1), cell ``2.1`` (query 2, key
1), heads ``e0.1-e0.3``, selected tokens ``q2-k5``, view ``words.hide`` (pieces merged, special tokens hidden), zoom
``0.511.300.811`` (first and last query, first and last key).
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode

from attnviz.analysis import views  # imports the whole package first, to avoid a deadlock between threads
from attnviz.core.edits import BY_LETTER, Edits, Site, Take
from attnviz.core.errors import AttnvizError, InputError, did_you_mean, quoted
from attnviz.core.masks.text import Stack, stack_from_text
from attnviz.core.scoring import EMPTY_ROWS, ALiBi, Bias, RelativeBias

COMBINED = ("mean", "max", "min")
"""Ways to combine all heads into one map."""
LONGEST = 8_000
"""Maximum number of bytes of a value in a URL; a longer text stays in the session."""
MOST = 2_000
"""Maximum number of items in a list of heads, tokens, or ids of an answer."""

Head = tuple[Site, int]


class Codec(NamedTuple):
    """Functions that read a value from text and write it; reading raises AttnvizError for invalid text."""

    read: Callable[[str], Any]
    write: Callable[[Any], str] = str


@dataclass(frozen=True)
class Name:
    """A URL parameter of the link.

    Attributes:
        name: name of the URL parameter.
        default: value if the user has chosen none.
        codec: functions to read and write the value.
        about: groups of choices that are cleared together, see `Choices.without`: "model" if the value is cleared when
            the model changes, and likewise "text", "edits" and "tab".
    """

    name: str
    default: Any
    codec: Codec
    about: frozenset[str]


class Choices:
    """Values that a user chose, by name, without values equal to the default; immutable."""

    def __init__(self, chosen: Mapping[str, Any] | None = None):
        self.chosen = {name: value for name, value in (chosen or {}).items() if value != NAMES[name].default}

    def __getitem__(self, name: str) -> Any:
        return self.chosen[name] if name in self.chosen else NAMES[name].default

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Choices) and self.chosen == other.chosen

    def __hash__(self) -> int:
        return hash(frozenset(self.chosen.items()))

    def put(self, **values: Any) -> "Choices":
        """Return the choices with new values for the given names."""
        return Choices(self.chosen | values)

    def without(self, *about: str) -> "Choices":
        """Return the choices without the values of some groups: "model", "text", "edits" or "tab"."""
        return Choices({name: value for name, value in self.chosen.items() if not NAMES[name].about & {*about}})


def read(url_parameters: Mapping[str, Sequence[str]]) -> tuple[Choices, tuple[str, ...]]:
    """Read URL parameters; return the choices, and a sentence for each invalid value, which keeps its default.

    Args:
        url_parameters: values by name, as from `urllib.parse.parse_qs`; the last of several values counts.
    """
    chosen, complaints = {}, []
    for name, values in url_parameters.items():
        if name not in NAMES:
            complaints.append(f"The link holds {quoted(name[:40])}, which is unknown.{did_you_mean(name, NAMES)}")
            continue
        try:
            if values[-1] or name == "text":  # an empty text differs from the default, an example
                chosen[name] = NAMES[name].codec.read(values[-1])
        except AttnvizError as error:
            complaints.append(f"The link's {name} was left out: {error}")
    return Choices(chosen), tuple(complaints)


def write(choices: Choices) -> dict[str, str]:
    """Write the choices as URL parameters, in the order of the table, without values that are too long.

    The model is always written, because a link without a model opens as a first visit.
    """
    return {"model": choices["model"]} | _short_texts(choices)


def _short_texts(choices: Choices) -> dict[str, str]:
    """Write the chosen values as texts, without texts that are too long for a URL."""
    texts = {name: entry.codec.write(choices[name]) for name, entry in NAMES.items() if name in choices.chosen}
    return {name: text for name, text in texts.items() if len(urlencode({name: text})) <= LONGEST}


def too_long(choices: Choices) -> tuple[str, ...]:
    """List the names of chosen values that are too long for a URL."""
    return tuple(name for name in choices.chosen if name not in _short_texts(choices))


def edits(choices: Choices, *, has_cross: bool = False) -> Edits:
    """Make the edits from the choices.

    Args:
        has_cross: whether the model has cross-attention. A causal mask changes it only if the user chose so.

    Raises:
        InputError: if two of the changes contradict each other.
    """
    stack, mask_cross = choices["mask"] or Stack(), choices["cross"]
    mask = stack.mask()
    if mask is None or not has_cross:
        mask_cross = True  # the default, because it has no effect
    elif mask_cross is None:  # the user did not choose
        mask_cross = not any(entry.on and entry.mask.keyword == "causal" for entry in stack.entries)
    return Edits(
        mask=mask,
        heads_off=choices["heads_off"],
        own_mask=choices["own_mask"],
        mask_cross=mask_cross,
        taken=choices["take"],
        temperature=choices["temperature"],
        scale=None if choices["scaled"] else 1.0,
        scored_site=choices["scored"],
        bias=choices["bias"],
        softcap=choices["softcap"],
        empty_rows=choices["empty"],
    )


def head_text(head: Head) -> str:
    """Write a head for the link: "c1.2" is head 2 of cross layer 1."""
    return f"{SITE.write(head[0])}.{head[1]}"


def _match(pattern: str, convert: Callable[[re.Match], Any], example: str, write: Callable[[Any], str] = str) -> Codec:
    """Make a codec for texts that match a pattern; `convert` makes the value, and errors show the `example`."""

    def read_text(text: str) -> Any:
        match = re.fullmatch(pattern, text, re.ASCII)
        if match is None:
            raise InputError(f"{quoted(text[:40])} cannot be read; it should look like {example}.")
        return convert(match)

    return Codec(read_text, write)


def _list(each: Codec, make: type = tuple) -> Codec:
    """Make a codec for a list with hyphens between values, read as a tuple or a frozenset."""

    def read_text(text: str) -> Collection:
        parts = text.split("-")
        if len(parts) > MOST:
            raise InputError(f"{quoted(text[:40])} has {len(parts):,} parts; a link holds at most {MOST:,}.")
        return make(map(each.read, parts))

    def write_values(values: Collection) -> str:
        return "-".join(map(each.write, sorted(values) if make is frozenset else values))

    return Codec(read_text, write_values)


def _one_of(*options: str) -> Codec:
    """Make a codec that reads only the given texts."""
    return _match("|".join(options), lambda match: match[0], " or ".join(options))


def _view_text(view: views.View) -> str:
    """Write a view for the link: "words.hide"; "" for the view of every token."""
    unit = f"parts{view.parts}" if view.parts else view.unit
    return ".".join(text for text in (unit, view.special) if text not in ("", "show"))


def _view_of(match: re.Match) -> views.View:
    """Make a view from a match of the pattern of `VIEW`."""
    unit, parts, special = match.groups()
    is_words, is_sentences = unit == "words", unit == "sentences"
    return views.View(words=is_words, special=special or "show", sentences=is_sentences, parts=int(parts or 0))


def _bias_text(biases: tuple[Bias, ...]) -> str:
    """Write biases for the link: "alibi.relative0"."""
    return ".".join("alibi" if isinstance(bias, ALiBi) else f"relative{bias.seed}" for bias in biases)


def _bias_of(match: re.Match) -> tuple[Bias, ...]:
    """Make biases from a match of the pattern of `BIAS`."""
    alibi, seed = match.groups()
    biases = [ALiBi()] if alibi else []
    return (*biases, RelativeBias(seed=int(seed))) if seed else tuple(biases)


def _read_b(text: str) -> Choices:
    """Read the choices of run B in a comparison; "original" is the run without changes, which has no choices."""
    if text == "original":
        return Choices()
    choices, complaints = read(parse_qs(text, keep_blank_values=True))
    if complaints:
        raise InputError(complaints[0])
    if "b" in choices.chosen:
        raise InputError("B cannot have its own B.")
    return choices


def _numbers(count: int, example: str) -> Codec:
    """Make a codec for a tuple of `count` integers with dots between them."""
    pattern = r"\.".join([r"(\d{1,6})"] * count)
    return _match(pattern, lambda m: tuple(map(int, m.groups())), example, lambda values: ".".join(map(str, values)))


TEXT = Codec(str)
PROMPT = Codec(lambda text: "" if text == "-" else text, lambda system: system or "-")
FLAG = _match("true|false", lambda match: match[0] == "true", "true or false", lambda value: str(value).lower())
DECIMAL = _match(r"(?!0+(?:\.0*)?$)\d{1,4}(?:\.\d{1,3})?", lambda match: float(match[0]), "0.5", "{:g}".format)
SITE = _match(r"([edc])(\d{1,3})", lambda m: Site(BY_LETTER[m[1]], int(m[2])), "d1", "{0.kind[0]}{0.layer}".format)
HEAD = _match(r"([edc]\d{1,3})\.(\d{1,3})", lambda match: (SITE.read(match[1]), int(match[2])), "d1.0", head_text)
FOCUS = _match(rf"\d{{1,3}}|{'|'.join(COMBINED)}", lambda m: int(m[0]) if m[0].isdigit() else m[0], "0 or mean")
NUMBER = _match(r"\d{1,9}", lambda match: int(match[0]), "318")
FROM_1 = _match(r"[1-9]\d{0,2}", lambda match: int(match[0]), "1")
SIDE = {"q": "query", "k": "key"}
PIN = _match(r"([qk])(\d{1,6})", lambda m: (SIDE[m[1]], int(m[2])), "q2", lambda pin: f"{pin[0][0]}{pin[1]}")
VIEW = _match(r"(words|sentences|parts(\d{1,3}))?\.?(hide)?", _view_of, "words.hide", _view_text)
BIAS = _match(r"(alibi)?\.?(?:relative(\d{1,4}))?", _bias_of, "alibi.relative0", _bias_text)
STACK = Codec(stack_from_text, lambda stack: stack.text)
TAKES = Codec(lambda text: tuple(map(Take.read, text.split("\n"))), lambda takes: "\n".join(map(str, takes)))
COMPARED = Codec(_read_b, lambda choices: urlencode(_short_texts(choices)) or "original")

_TABLE = (  # name, default, codec, and groups of the name
    # request
    ("model", "translator", TEXT),
    ("step", None, NUMBER, "model"),
    ("text", None, TEXT),
    ("lines", None, FLAG),
    ("target", "", TEXT, "text model"),
    ("answer", (), _list(NUMBER), "text model"),
    ("chat", None, PROMPT, "model"),  # the system prompt; "-" for a chat without one
    ("picture", None, TEXT),
    ("gray", (), _list(NUMBER), "model edits"),
    # edits
    ("mask", None, STACK, "edits"),
    ("heads_off", frozenset(), _list(HEAD, frozenset), "model edits"),
    ("take", (), TAKES, "model text edits"),
    ("own_mask", True, FLAG, "edits"),
    ("cross", None, FLAG, "edits"),
    ("empty", EMPTY_ROWS[0], _one_of(*EMPTY_ROWS), "edits"),
    ("bias", (), BIAS, "edits"),
    ("softcap", None, DECIMAL, "edits"),
    ("temperature", 1.0, DECIMAL, "edits"),
    ("scaled", True, FLAG, "edits"),
    ("scored", None, SITE, "model edits"),
    # selection
    ("layer", None, SITE, "model"),
    ("head", None, FOCUS, "model"),
    ("cell", None, _numbers(2, "2.1"), "text"),
    ("pins", frozenset(), _list(PIN, frozenset), "text"),
    ("sentence", 1, FROM_1),
    ("view", views.View(), VIEW),
    ("zoom", (), _list(_numbers(4, "0.63.0.63")), "text"),
    ("colors", "adaptive", _one_of("adaptive", "log")),
    # form of a head
    ("form", None, TEXT, "tab"),
    ("also", (), _list(NUMBER), "model"),
    ("least", None, DECIMAL),
    ("side", "from", _one_of("from", "to"), "tab"),
    ("less", "none", _one_of("none", "sinks", "neutral"), "tab"),
    # parts of the pages
    ("part", None, TEXT, "tab"),
    ("sort", None, TEXT),
    ("role", None, TEXT),
    ("word", None, TEXT, "text model"),
    ("minus", None, TEXT, "text model"),
    ("number", None, TEXT, "tab"),
    ("lab", None, TEXT, "tab"),
    ("intent", None, TEXT),
    ("library", None, TEXT, "tab"),
    ("stage", None, TEXT, "tab"),
    ("b", None, COMPARED),
    ("chapter", None, FROM_1),
)
NAMES: dict[str, Name] = {
    name: Name(name, default, codec, frozenset(" ".join(about).split())) for name, default, codec, *about in _TABLE
}
"""All URL parameters of the link, in the order in which they are written."""
