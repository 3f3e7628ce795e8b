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
"""Arguments of figures that the code leaves out, because only the page needs them."""


class NoSnippet(Exception):
    """Raised for a value that cannot be written as Python code."""


def python(figure: Figure) -> str:
    """Write code that makes a figure and saves it; empty if an argument of the figure cannot be written as code."""
    snippet = _Snippet()
    args, kwargs = figure.arguments
    function, *_ = [name for name in figures.__all__ if getattr(figures, name) is figure.maker]
    kwargs = {name: value for name, value in kwargs.items() if name not in OF_SCREEN}
    try:
        code = snippet.call(f"attnviz.figures.{function}", args, kwargs)
    except (NoSnippet, LookupError):
        return ""
    imports = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(snippet.imports.items())]
    file = f"open({json.dumps(f'{figure.name}.svg', ensure_ascii=False)}, 'wb')"
    save = f'{file}.write(attnviz.render(figure, "svg"))'
    return "\n".join(["import attnviz", *imports, "", *snippet.lines, f"figure = {code}", save])


class _Snippet:
    """Writer of code that turns values into expressions, and collects imports and lines that create records."""

    def __init__(self):
        self.imports: dict[str, set[str]] = {}  # names by their module
        self.lines: list[str] = []
        self.records: list[tuple[Record, str]] = []  # with the names of their variables

    def call(self, name: str, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        """Write a call of the function with this name."""
        arguments = [*map(self.value, args), *(f"{key}={self.value(value)}" for key, value in kwargs.items())]
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
        if is_dataclass(value) and not isinstance(value, type | WordLogit):  # a WordLogit holds computed gradients
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
            except MaskError:  # the rule is the user's own class: write its constructor
                pass
        name = type(value).__name__
        module = "attnviz" if name in attnviz.__all__ else type(value).__module__
        self.imports.setdefault(module, set()).add(name)
        args, kwargs = [], {}
        for field in fields(value):
            if not field.init:
                continue
            field_value, default = getattr(value, field.name), field.default
            if default is MISSING and field.default_factory is not MISSING:
                default = field.default_factory()
            if default is MISSING and not field.kw_only:
                args.append(field_value)
            elif field_value != default:
                kwargs[field.name] = field_value
        return self.call(name, args, kwargs)

    def _record(self, record: Record) -> str:
        """Return the variable name of a record; the first use also adds the line that creates the record."""
        for other, name in self.records:
            if other is record:
                return name
        name = f"record_{len(self.records) + 1}" if self.records else "record"
        source, request = self._source(cache.source_of(record)), record.request
        edits = [] if record.edits == Edits() else [self.value(record.edits)]
        earlier = [name for other, name in self.records if record.targets and other.targets is record.targets]
        if earlier:  # the decoder of this run reads the words that the decoder of an earlier run wrote
            arguments = [f"{earlier[0]}.sentences", *edits, f"targets={earlier[0]}.targets"]
            code = f"{source}.run({', '.join(arguments)})"
        else:
            arguments = [self._prompt(request), source, *edits]
            arguments += [f"target={self._texts(request.targets)}"] if request.targets else []
            arguments += [f"continued={self.value(request.answer)}"] if request.answer else []
            arguments += ["stream=True"] if record.stream is not None else []
            code = f"attnviz.analyze({', '.join(arguments)})"
        self.records.append((record, name))
        self.lines.append(f"{name} = {code}")
        return name

    def _texts(self, texts: tuple[str, ...]) -> str:
        """Write a single text as a string, several as a list."""
        return self.value(texts[0] if len(texts) == 1 else [*texts])

    def _prompt(self, request: Request) -> str:
        """Write an expression for the texts with their pictures; a picture is an example, or a file by its name."""
        if not request.pictures:
            return self._texts(request.texts)
        (picture,) = request.pictures[0]
        function = "attnviz.sound" if isinstance(picture, Sound) else "attnviz.picture"
        name = pictures.name_of(picture)
        file = self.value(name)
        if name in pictures.EXAMPLES:
            self.imports.setdefault("attnviz.core", set()).add("assets")
            path = pictures.EXAMPLES[name]
            file = self.call("assets.path", [f"{path.parent.name}/{path.name}"], {})
        text_arguments = [f", text={self.value(text)}" if text else "" for text in request.texts]
        prompts = [f"{function}({file}{argument})" for argument in text_arguments]
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
