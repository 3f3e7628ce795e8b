"""Python code that reproduces a picture of the page, to copy."""

import json
from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import attnviz
from attnviz import api, figures
from attnviz.analysis.align import AlignedPair
from attnviz.analysis.relevance import WordLogit
from attnviz.core.edits import Edits
from attnviz.core.errors import MaskError
from attnviz.core.masks import Mask
from attnviz.core.places import Sound
from attnviz.core.record import ALL, Record
from attnviz.core.request import Request
from attnviz.core.tokens import Token
from attnviz.figures import Figure
from attnviz.sources.base import Source
from attnviz.ui import cache, pictures

OF_SCREEN = ("rev", "brush", "width", "window", "paired", "explained", "on_screen", "cost", "beside")
"""Arguments of figures that only the page needs."""


class NoSnippet(Exception):
    """Raised for a value that cannot be written as Python code."""


def python(figure: Figure) -> str:
    """Write code that makes a figure and saves it; empty if an argument of the figure cannot be written as code."""
    snippet = _Snippet()
    first, named = figure.arguments
    name = next((name for name in figures.__all__ if getattr(figures, name) is figure.maker), "")
    named = {name: value for name, value in named.items() if name not in OF_SCREEN}
    try:
        code = snippet.call(f"attnviz.figures.{name}", first, named)
    except (NoSnippet, LookupError):
        return ""
    imports = [f"from {home} import {', '.join(sorted(names))}" for home, names in sorted(snippet.names.items())]
    file = f"open({json.dumps(f'{figure.name}.svg', ensure_ascii=False)}, 'wb')"
    written = f'{file}.write(attnviz.render(figure, "svg"))'
    return "\n".join(["import attnviz", *imports, "", *snippet.lines, f"figure = {code}", written])


class _Snippet:
    """Writer of code: it turns values into expressions, and collects imports and the lines that make records."""

    def __init__(self):
        self.names: dict[str, set[str]] = {}
        self.lines: list[str] = []
        self.records: list[Record] = []

    def call(self, name: str, first: Iterable[Any], named: dict[str, Any]) -> str:
        arguments = [*map(self.value, first), *(f"{key}={self.value(value)}" for key, value in named.items())]
        return f"{name}({', '.join(arguments)})"

    def value(self, value: Any) -> str:
        """Write an expression that evaluates to a value; raise NoSnippet if the value cannot be written as code."""
        if isinstance(value, Record):
            return self._record(value)
        if isinstance(value, AlignedPair):
            pair = self.call("attnviz.analysis.align.beside", (value.a, value.b), {})
            return pair if value.window == (ALL, ALL) else f"{pair}.part{self.value(value.window)}"
        if isinstance(value, Token) and not (value.special or value.joined or value.segment):
            return self.value(value.text)
        if is_dataclass(value) and not isinstance(value, type | WordLogit):  # gradients take a study of their own
            return self._dataclass(value)
        if isinstance(value, tuple | list):
            inside = ", ".join(map(self.value, value))
            if isinstance(value, list):
                return f"[{inside}]"
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        if isinstance(value, set | frozenset):
            return f"{{{', '.join(map(self.value, sorted(value)))}}}" if value else "frozenset()"
        if isinstance(value, str):
            return json.dumps(value, ensure_ascii=False)
        if value is None or isinstance(value, int | float | slice):
            return repr(value)
        raise NoSnippet

    def _dataclass(self, value: Any) -> str:
        """Write a constructor call with the fields that differ from their defaults; a mask is written as text."""
        if isinstance(value, Mask):
            try:
                return self.call("attnviz.mask", [value.text], {})
            except MaskError:  # a rule of one's own
                pass
        name = type(value).__name__
        home = "attnviz" if name in attnviz.__all__ else type(value).__module__
        self.names.setdefault(home, set()).add(name)
        first, named = [], {}
        for field in (field for field in fields(value) if field.init):
            part = getattr(value, field.name)
            if field.default is MISSING and field.default_factory is MISSING and not field.kw_only:
                first.append(part)
            elif part != (field.default if field.default is not MISSING else field.default_factory()):
                named[field.name] = part
        return self.call(name, first, named)

    def _record(self, record: Record) -> str:
        """Return the variable name of a record; the first use also adds the line that creates the record."""
        if not any(other is record for other in self.records):
            source, request = self._source(cache.maker(record)), record.request
            shared = (other for other in self.records if record.targets and other.targets is record.targets)
            first_run = next(shared, None)  # its decoder's words are the decoder input of this run
            prompt, edits = self._prompt(request), [] if record.edits == Edits() else [self.value(record.edits)]
            named = [f"target={self._texts(request.targets)}"] if request.targets else []
            named += [f"continued={self.value(request.answer)}"] if request.answer else []
            named += ["stream=True"] if record.stream is not None else []
            code = f"attnviz.analyze({', '.join([prompt, source, *edits, *named])})"
            if first_run is not None:
                name = self._name(first_run)
                code = f"{source}.run({', '.join([f'{name}.sentences', *edits, f'targets={name}.targets'])})"
            self.records.append(record)
            self.lines.append(f"{self._name(record)} = {code}")
        return self._name(record)

    def _name(self, record: Record) -> str:
        """Name the variable of a record: "record", "record_2", "record_3"."""
        number = next(i for i, other in enumerate(self.records) if other is record)
        return "record" if number == 0 else f"record_{number + 1}"

    def _texts(self, texts: tuple[str, ...]) -> str:
        return self.value(texts[0] if len(texts) == 1 else [*texts])

    def _prompt(self, request: Request) -> str:
        """Write an expression for the texts with their pictures; a picture is an example, or a file by its name."""
        if not request.pictures:
            return self._texts(request.texts)
        (picture,), make = request.pictures[0], "attnviz.picture"
        make = "attnviz.sound" if isinstance(picture, Sound) else make
        name = pictures.name_of(picture)
        file = self.value(name)
        if name in pictures.EXAMPLES:
            self.names.setdefault("attnviz.core", set()).add("assets")
            path = pictures.EXAMPLES[name]
            file = self.call("assets.path", [f"{path.parent.name}/{path.name}"], {})
        prompts = [f"{make}({file}{f', text={self.value(text)}' if text else ''})" for text in request.texts]
        return prompts[0] if len(prompts) == 1 else f"[{', '.join(prompts)}]"

    def _source(self, source: Source) -> str:
        """Write an expression for a source; a source of this process is a variable for the reader to fill in."""
        if source.id in api.OFFERED:
            if not self.lines:
                self.lines.append(f"source = ...  # your model {self.value(source.id)}")
            return "source"
        if source.one_run:
            return self.call("attnviz.cases.source", [source.name], {})
        return self.call("attnviz.load", [source.id], api.changed_settings(source))
