"""Python that makes what is on the screen, to be copied."""

import json
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import attnviz
from attnviz import api, figures
from attnviz.analysis.align import AlignedPair
from attnviz.analysis.relevance import IntegratedGradients, WordLogit
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import MaskError
from attnviz.core.masks import Mask
from attnviz.core.places import Sound
from attnviz.core.record import ALL, Record
from attnviz.core.request import Request
from attnviz.core.tokens import Token
from attnviz.figures import Figure
from attnviz.sources.base import Source
from attnviz.ui.shared import photos, words

OF_SCREEN = ("rev", "brush", "width", "zooms", "window", "paired", "explained", "on_screen", "cost")
"""Arguments that a figure gets for the page alone."""

OWN = f"# {words.SOURCE_OF_CODE}"

Maker = Callable[[Record], Source]
"""From a record to its source."""


def python(figure: Figure, maker: Maker) -> str:
    """Lines of Python that make a figure and write it as a file; empty if it was not made of records and numbers."""
    writer = CodeWriter(maker)
    try:
        expression = writer.figure(figure)
    except _NoCode:
        return ""
    file = f'open("{figure.name}.png", "wb").write(attnviz.render(figure, "png"))'
    return "\n".join([*writer.imported(), "", *writer.lines, f"figure = {expression}", file])


def python_of_call(record: Record, site: Site, head: int, sentence: int, maker: Maker) -> str:
    """Lines of Python that compute an attention call step by step, and again with PyTorch's own attention."""
    writer, named = CodeWriter(maker), {"sentence": sentence} if sentence else {}
    try:
        source = writer.source_of(record)
        chain = writer.call("attnviz.analysis.steps.chain", (record, source, site, head), named)
        check = writer.call("attnviz.analysis.steps.check", (record, site), named)
    except _NoCode:
        return ""
    steps = [f"for stage in {chain}:", '    print(f"{stage.title}: {stage.missing or stage.changed}")']
    return "\n".join([*writer.imported(), "", *writer.lines, *steps, f"print({check}.message)"])


class _NoCode(Exception):
    """A value that no line of code makes."""


class CodeWriter:
    """Writes values as expressions; collects what must be imported, and the lines that make records."""

    def __init__(self, maker: Maker):
        self.maker = maker
        self.names: dict[str, set[str]] = {}
        self.lines: list[str] = []
        self.records: list[Record] = []

    def imported(self) -> list[str]:
        """The lines that import what is named, by the modules that have it."""
        named = (f"from {home} import {', '.join(sorted(names))}" for home, names in sorted(self.names.items()))
        return ["import attnviz", *named]

    def figure(self, figure: Figure) -> str:
        """The call that makes a figure of records and numbers."""
        first, named = figure.arguments
        name = next(name for name in figures.__all__ if getattr(figures, name) is type(figure))
        named = {name: value for name, value in named.items() if name not in OF_SCREEN}
        return self.call(f"attnviz.figures.{name}", first, named)

    def call(self, name: str, arguments: Iterable[Any], named: dict[str, Any]) -> str:
        written = [*map(self.value, arguments), *(f"{name}={self.value(value)}" for name, value in named.items())]
        return f"{name}({', '.join(written)})"

    def value(self, value: Any) -> str:
        if isinstance(value, Record):
            return self._record(value)
        if isinstance(value, Source):
            return self._loaded(value)
        if isinstance(value, AlignedPair):
            expression = self.call("attnviz.analysis.align.beside", (value.a, value.b), {})
            return expression if value.window == (ALL, ALL) else f"{expression}.part{self.value(value.window)}"
        if isinstance(value, Mask):
            return self._mask(value)
        if isinstance(value, Token) and not (value.special or value.joined or value.segment):
            return self.value(value.text)
        if isinstance(value, WordLogit):
            return self._gradients(value)
        if is_dataclass(value) and not isinstance(value, type):
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
        raise _NoCode

    def source_of(self, record: Record) -> Source:
        try:
            return self.maker(record)
        except LookupError:
            raise _NoCode from None

    def _gradients(self, word: WordLogit) -> str:
        """The call that computes the gradients of the record that was written last."""
        source = self.source_of(self.records[-1])
        steps = {"steps": word.steps} if isinstance(word, IntegratedGradients) else {}
        named = steps | ({"sentence": word.sentence} if word.sentence else {})
        name = "attnviz.studies.gradients." + ("integrated" if steps else "relevance")
        return self.call(name, (source, self.records[-1], word.id, word.position), named)

    def _mask(self, mask: Mask) -> str:
        try:
            return self.call("attnviz.mask", [mask.text], {})
        except MaskError:  # a rule of one's own
            return self._dataclass(mask)

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
        if not any(other is record for other in self.records):
            source, request = self.source_of(record), record.request
            edits = [self.value(record.edits)] if record.edits != Edits() else []
            by = next((other for other in self.records if record.targets and other.targets is record.targets), None)
            self.records.append(record)
            named = [f"target={self._texts(request.targets)}"] if request.targets else []
            named += ["stream=True"] if record.stream is not None else []
            expression = f"attnviz.analyze({', '.join([self._asked(request), self._source(source), *edits, *named])})"
            if request.answer:
                begin = f"begin={self.value(list(request.answer))}"
                written = [self._asked(request), self._source(source), str(len(request.answer)), *edits, begin]
                expression = f"attnviz.generate({', '.join(written)}).record"
            if by is not None:  # its decoder reads what the decoder of that one wrote
                words = f"targets={self._name(by)}.targets"
                expression = f"{self._loaded(source)}.run({', '.join([f'{self._name(by)}.sentences', *edits, words])})"
            self.lines.append(f"{self._name(record)} = {expression}")
        return self._name(record)

    def _name(self, record: Record) -> str:
        number = next(i for i, other in enumerate(self.records) if other is record)
        return "record" if number == 0 else f"record_{number + 1}"

    def _texts(self, texts: tuple[str, ...]) -> str:
        return self.value(texts[0] if len(texts) == 1 else [*texts])

    def _asked(self, request: Request) -> str:
        """Texts, each with its picture if it has one: an example by its file, or one that a person dropped by name."""
        if not request.pictures:
            return self._texts(request.texts)
        name = photos.named(request.pictures[0])
        if not name:
            raise _NoCode
        file = self.value(name)
        if name in photos.EXAMPLES:
            self.names.setdefault("attnviz.core", set()).add("assets")
            path = photos.EXAMPLES[name]
            file = self.call("assets.path", [f"{path.parent.name}/{path.name}"], {})
        make = "attnviz.sound" if isinstance(request.pictures[0][0], Sound) else "attnviz.picture"
        each = [f"{make}({file}{f', text={self.value(text)}' if text else ''})" for text in request.texts]
        return each[0] if len(each) == 1 else f"[{', '.join(each)}]"

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
