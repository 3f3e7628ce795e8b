"""What is on the screen as code that a person can take away: for Python, and for the shell."""

import inspect
import json
import shlex
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import attnviz
from attnviz import api, figures, metrics
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import And, Mask, Not, Or
from attnviz.core.record import ALL, Record
from attnviz.core.tokens import Token
from attnviz.figures import Figure
from attnviz.metrics.beside import Beside
from attnviz.sources.base import Source
from attnviz.ui.shared import words
from attnviz.views import View

OF_SCREEN = ("rev", "brush", "width", "zooms", "window", "paired", "explained")
"""What a figure is given for the page alone."""
SEEN = {"sentence": 0, "view": View()}
"""What is looked at where nothing is asked for."""

OWN = f"# {words.SOURCE_OF_CODE}"

Origin = Callable[[Record], tuple[Source, tuple[str, ...]]]
"""From a record to its source and its texts."""


def python(figure: Figure, origin: Origin) -> str:
    """Lines of Python that make a figure and write it as a file; empty if it was not made of records and numbers."""
    if figure.call is None:
        return ""
    writer = Writer(origin)
    try:
        made = writer.figure(figure)
    except _NoCode:
        return ""
    file = f'open("{figure.name}.png", "wb").write(attnviz.render(figure, "png"))'
    return "\n".join([*writer.imported(), "", *writer.lines, f"figure = {made}", file])


def _asked(figure: Figure) -> dict[str, Any]:
    """The named arguments that differ from their defaults and have a meaning outside of the page."""
    given = inspect.signature(getattr(figures, figure.call.name)).parameters
    plain = {name: one.default for name, one in given.items()} | vars(type(figure.style)()) | SEEN
    return {
        name: value
        for name, value in figure.call.named.items()
        if name not in OF_SCREEN and (name not in plain or value != plain[name])
    }


def _origin(origin: Origin, record: Record) -> tuple[Source, tuple[str, ...]]:
    try:
        return origin(record)
    except LookupError:
        raise _NoCode from None


class _NoCode(Exception):
    """A value that no line of code makes."""


class Writer:
    """Writes values as expressions; collects what must be imported, and the lines that make records."""

    def __init__(self, origin: Origin):
        self.origin = origin
        self.names: dict[str, set[str]] = {}
        self.lines: list[str] = []
        self.records: list[Record] = []

    def imported(self) -> list[str]:
        """The lines that import what is named, by the modules that have it."""
        named = (f"from {home} import {', '.join(sorted(names))}" for home, names in sorted(self.names.items()))
        return ["import attnviz", *named]

    def figure(self, figure: Figure) -> str:
        """The call that makes a figure of records and numbers."""
        return self.call(f"attnviz.figures.{figure.call.name}", figure.call.arguments, _asked(figure))

    def call(self, name: str, arguments: Iterable[Any], named: dict[str, Any]) -> str:
        written = [*map(self.value, arguments), *(f"{name}={self.value(value)}" for name, value in named.items())]
        return f"{name}({', '.join(written)})"

    def value(self, value: Any) -> str:
        if isinstance(value, Record):
            return self._record(value)
        if isinstance(value, Beside):
            made = self.call("attnviz.metrics.beside.beside", (value.a, value.b), {})
            return made if value.window == (ALL, ALL) else f"{made}.part{self.value(value.window)}"
        if isinstance(value, And | Or):
            return (" & " if isinstance(value, And) else " | ").join(map(self._tight, value.masks))
        if isinstance(value, Not):
            return f"~{self._tight(value.mask)}"
        if isinstance(value, Token) and not (value.special or value.joined or value.segment):
            return self.value(value.text)
        if is_dataclass(value) and not isinstance(value, type):
            return self._dataclass(value)
        if isinstance(value, tuple | list):
            inside = ", ".join(map(self.value, value))
            return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(value) == 1)})"
        if isinstance(value, set | frozenset):
            return f"{{{', '.join(map(self.value, sorted(value)))}}}" if value else "frozenset()"
        if isinstance(value, str):
            return json.dumps(value, ensure_ascii=False)
        if value is None or isinstance(value, int | float | slice):
            return repr(value)
        raise _NoCode

    def _tight(self, mask: Mask) -> str:
        return f"({self.value(mask)})" if isinstance(mask, And | Or) else self.value(mask)

    def _dataclass(self, value: Any) -> str:
        name = type(value).__name__
        home = "attnviz" if name in attnviz.__all__ else type(value).__module__
        self.names.setdefault(home, set()).add(name)
        first, named = [], {}
        for field in (field for field in fields(value) if field.init):
            chosen = getattr(value, field.name)
            if field.default is MISSING and field.default_factory is MISSING and not field.kw_only:
                first.append(chosen)
            elif chosen != (field.default if field.default is not MISSING else field.default_factory()):
                named[field.name] = chosen
        return self.call(name, first, named)

    def _record(self, record: Record) -> str:
        """The name of a record, which a line before makes."""
        if not any(one is record for one in self.records):
            source, texts = _origin(self.origin, record)
            edits = [self.value(record.edits)] if record.edits != Edits() else []
            by = next((one for one in self.records if record.targets and one.targets is record.targets), None)
            self.records.append(record)
            made = f"attnviz.analyze({', '.join([self._texts(texts), self._source(source), *edits])})"
            if by is not None:  # its decoder reads what the decoder of that one wrote
                words = f"targets={self._name(by)}.targets"
                made = f"{self._loaded(source)}.run({', '.join([f'{self._name(by)}.sentences', *edits, words])})"
            self.lines.append(f"{self._name(record)} = {made}")
        return self._name(record)

    def _name(self, record: Record) -> str:
        number = next(i for i, one in enumerate(self.records) if one is record)
        return "record" if number == 0 else f"record_{number + 1}"

    def _texts(self, texts: tuple[str, ...]) -> str:
        return self.value(texts[0] if len(texts) == 1 else [*texts])

    def _source(self, source: Source) -> str:
        """A source as `attnviz.analyze` takes it: one that differs in nothing by its name."""
        plain = source.id not in api.OFFERED and not source.one_run and not api.chosen(source)
        return self.value(source.id) if plain else self._loaded(source)

    def _loaded(self, source: Source) -> str:
        if source.id in api.OFFERED:
            self.lines += [] if OWN in self.lines else [OWN]
            return "source"
        if source.one_run:
            self.names.setdefault("attnviz", set()).add("cases")
            return self.call("cases.source", [source.name], {})
        return self.call("attnviz.load", [source.id], api.chosen(source))


# The shell


def shell(figure: Figure, origin: Origin) -> str:
    """The command that writes a figure as a file; empty if the shell has none for it."""
    if figure.call is None or figure.call.name not in _COMMANDS:
        return ""
    asked = _asked(figure)
    records = [one.a.record if isinstance(one, Beside) else one for one in figure.call.arguments]
    record = next(one for one in reversed(records) if isinstance(one, Record))
    try:
        words = _COMMANDS[figure.call.name](figure.call.arguments, asked)
        source, texts = _origin(origin, record)
        words += _drawn(asked) + _model(source) + _edits(record.edits)
        if figure.call.name == "difference":
            words += _with(figure.call.arguments[0], origin)
    except _NoCode:
        return ""
    command, *options = words
    return shlex.join(["attnviz", command, "\n".join(texts), *options, "-o", f"{figure.name}.png"])


def _head(arguments: tuple, asked: dict, form: str = "map") -> list[str]:
    """A head as a map, as lines or as a text."""
    _, site, heads = arguments
    head, *beside = heads if isinstance(heads, tuple | list) else [heads]
    words = ["head", *_site(site), "--head", str(head)]
    words += ["--as", form] if form != "map" else []
    words += ["--beside", ",".join(map(str, beside))] if beside else []
    words += ["--least", str(asked.pop("least"))] if "least" in asked else []
    asked.pop("row", None)  # the shell lets none stand out
    words += ["--row-sums"] if asked.pop("row_sums", False) else []
    words += ["--before"] if asked.pop("before", None) else []
    for name, flag in (("rows", "--queries"), ("columns", "--keys")):
        if span := asked.pop(name, None):
            words += [flag, f"{span.start}-{span.stop - 1}"]
    token, to = asked.pop("chosen", None), asked.pop("side", "from") == "to" if form == "text" else False
    pins = asked.pop("pins", frozenset())
    if len(pins) > 1 or (form == "lines" and "side" in asked):
        raise _NoCode
    for axis, position in pins:
        token, to = position, axis == "key"
    return words + (["--token", str(token)] if token is not None else []) + ["--to"] * to


def _heads(arguments: tuple, asked: dict) -> list[str]:
    """All heads; the shell frames none."""
    asked.pop("focused", None)
    return ["heads", *_site(arguments[1])]


def _says(arguments: tuple, asked: dict) -> list[str]:
    """Predictions; `attnviz predict` chooses the picture by the model, and draws the last word of a text alone."""
    before, after, *at = asked.pop("before", None), *arguments
    length = after.sentences[asked.get("sentence", 0)].length
    whole = at == [length - 1] and not metrics.fills_in(after) if at else after.prediction is None or after.targets
    if not whole or (None if before is None else before.edits) != (Edits() if after.edits != Edits() else None):
        raise _NoCode
    return ["predict"]


def _change(arguments: tuple, asked: dict) -> list[str]:
    before, after = arguments
    if before.edits != Edits() or after.edits == Edits():
        raise _NoCode
    return ["change"]


def _compare(arguments: tuple, asked: dict) -> list[str]:
    if arguments[0].window != (ALL, ALL):
        raise _NoCode
    a = arguments[0].a
    words = ["compare", *_site(a.site), "--head", str(a.head)]
    return words + (["--sentence", str(a.sentence + 1)] if a.sentence else [])


def _with(found: Beside, origin: Origin) -> list[str]:
    """What of B differs from A: its text, model, training step or head; or A's changes, which are then all left out."""
    a, b = found.a, found.b
    (source, texts), (other, others) = (_origin(origin, side.record) for side in (a, b))
    words = [] if others[b.sentence] == texts[a.sentence] else ["--with-text", others[b.sentence]]
    mine, own = (api.chosen(one) for one in (source, other))
    if source.id != other.id:
        words += ["--with-model", other.id]
        mine = {}
    elif mine.get("step") != own.get("step"):
        words += ["--with-step", str(own.get("step", other.steps[-1]))]
        mine = mine | {"step": own.get("step")}
    if any(own.get(name) != mine.get(name) for name in {*own, *mine}):
        raise _NoCode
    if (a.site, a.head) != (b.site, b.head):
        words += ["--with-head", f"{b.site.kind[0]}{b.site.layer}.{b.head}"]
    if b.record.edits != (a.record.edits if words else Edits()) or not (words or a.record.edits != Edits()):
        raise _NoCode
    return words


_COMMANDS: dict[str, Callable[[tuple, dict], list[str]]] = {
    "head": _head,
    "lines": lambda arguments, asked: _head(arguments, asked, "lines"),
    "text_strip": lambda arguments, asked: _head(arguments, asked, "text"),
    "distance": lambda arguments, asked: _head(arguments, asked, "distance"),
    "heads": _heads,
    "change": _change,
    "difference": _compare,
    **dict.fromkeys(("step_by_step", "next_word", "labels", "similarity"), _says),
}
"""Which command draws a figure, with the options that are its own; they take those out of what is asked."""


def _site(site: Site) -> list[str]:
    return ["--kind", site.kind, "--layer", str(site.layer)]


def _drawn(asked: dict) -> list[str]:
    """How it is drawn; what the shell cannot ask for has no command."""
    view = asked.pop("view", View())
    words = ["--dark"] if asked.pop("dark", False) else []
    if isinstance(asked.get("selected"), tuple):
        words += ["--cell", "{}.{}".format(*asked.pop("selected"))]
    words += ["--sentence", str(asked.pop("sentence") + 1)] if "sentence" in asked else []
    words += ["--domain", asked.pop("domain")] if "domain" in asked else []
    words += ["--words"] if view.words else []
    words += ["--sentences"] if view.sentences else []
    words += ["--parts", str(view.parts)] if view.parts else []
    words += ["--special", view.special] if view.special != View().special else []
    words += ["--pair", view.pair.replace(" to ", "")] if view.pair != View().pair else []
    if any(value is not None for value in asked.values()):
        raise _NoCode
    return words


def _model(source: Source) -> list[str]:
    """Every setting that differs, as the shell reads it."""
    if source.id in api.OFFERED:
        raise _NoCode
    words = ["--model", source.id]
    for name, value in api.chosen(source).items():
        if name == "changes":
            raise _NoCode
        words += ["--step", str(value)] if name == "step" else ["--set", f"{name}={json.dumps(value)}"]
    return words


def _edits(edits: Edits) -> list[str]:
    """What is changed; a bias or a softcap cannot be said in the shell."""
    if edits.bias or edits.softcap is not None:
        raise _NoCode
    words = [] if edits.mask is None else ["--mask", json.dumps(edits.mask.to_json())]
    off = ",".join(f"{site.kind[0]}{site.layer}.{head}" for site, head in sorted(edits.heads_off))
    words += ["--off", off] if off else []
    words += [] if edits.own_mask else ["--no-own-mask"]
    words += [] if edits.mask_cross else ["--no-mask-cross"]
    words += ["--temperature", repr(edits.temperature)] if edits.temperature != 1 else []
    words += ["--score-scale", repr(edits.scale)] if edits.scale is not None else []
    return words + (["--empty-rows", edits.empty_rows] if edits.empty_rows != Edits().empty_rows else [])
