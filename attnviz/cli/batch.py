"""The command `batch`: a picture, a page, a case or the numbers of each of many texts, in one folder."""

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from attnviz import api, cases, export, figures, files
from attnviz.cli import lines, values
from attnviz.cli.bar import ProgressBar
from attnviz.cli.folder import MANIFEST, Folder
from attnviz.core.amounts import counted
from attnviz.core.display import file_stem
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.export.explore import explore
from attnviz.figures import Figure
from attnviz.sources.base import Source
from attnviz.studies.texts import of_json

NUMBERS = tuple(name for name, format in export.FORMATS.items() if format.numbers)
FORMATS = {
    "picture": tuple(name for name in export.NAMES if name not in NUMBERS),
    "numbers": NUMBERS,
    "page": ("html",),
    "case": (files.ENDING.removeprefix("."),),
}
"""Kinds of output and their formats; the first of each is the default."""

PICTURED = ("head", "heads", "overview")

NOT_SETTINGS = ("command", "files", "whole", "output")
"""Options on which what is made of a text does not depend."""

MOST_LISTED = 10
"""Failures that are named at the end, at most; the manifest has all."""


@dataclass(frozen=True)
class BatchText:
    """A text, and where it came from; or why it could not be read."""

    text: str
    origin: str
    error: str = ""


def run(options: Namespace, say: Callable[[str], None], note: Callable[[str], None]) -> int:
    """Make the file of each text that is not there yet; gives the exit status: 1 if one could not be made.

    Raises:
        AttnvizError: if the options fit no text, or the folder is of other settings.
    """
    format = _format(options)
    texts, source = [*_texts(options)], values.source(options)
    if not texts:
        raise InputError("There is no text; give files with a text on each line.")
    _check(options, source)
    folder = Folder(options.output, _settings(options, source))
    wanted = [(number, text) for number, text in enumerate(texts, 1) if not folder.holds(number, text.text)]
    for line in lines.unknown(source, Request(tuple(text.text for _, text in wanted if not text.error))):
        note(line)
    try:
        failed = _make_all(options, source, folder, wanted, format)
    except KeyboardInterrupt:
        note("Canceled. The same command goes on where this ended.")
        raise
    counts = f"{len(wanted) - len(failed):,} made, {len(texts) - len(wanted):,} kept, {len(failed):,} failed"
    say(f"{counted(len(texts), 'text')}: {counts}. {Path(options.output, MANIFEST)} says which file is of which.")
    for text, error in failed[:MOST_LISTED]:
        note(f"{text.origin}: {error}")
    if len(failed) > MOST_LISTED:
        note(f"{len(failed) - MOST_LISTED:,} more failed; {MANIFEST} names all.")
    return int(bool(failed))


def _make_all(
    options: Namespace, source: Source, folder: Folder, wanted: list[tuple[int, BatchText]], format: str
) -> list[tuple[BatchText, str]]:
    """Make the files; gives the texts of which none could be made, and why."""
    failed, bar = [], ProgressBar(sys.stderr)
    try:
        for done, (number, text) in enumerate(wanted, 1):
            error, content = text.error, b""
            if not error:
                try:
                    content = _output(options, source, text.text, format)
                except Exception as problem:  # whatever a model raises at one text, the others are still wanted
                    error = _reason(problem)
            if error:
                failed.append((text, error))
                folder.fail(number, text.text, text.origin, error)
            else:
                folder.put(number, text.text, text.origin, f"{number:05d}-{file_stem(text.text)}.{format}", content)
            bar.draw("batch", done / len(wanted), f"{done:,} of {len(wanted):,}")
    finally:
        bar.end()
    return failed


def _reason(problem: Exception) -> str:
    if isinstance(problem, AttnvizError):
        return " ".join(str(problem).split())
    if isinstance(problem, MemoryError):
        return "The text is too long for the memory there is."
    return f"{type(problem).__name__}: {' '.join(str(problem).split())[:300]}"


# What is asked for


def _format(options: Namespace) -> str:
    """The ending of the files."""
    if options.form not in FORMATS:
        raise InputError(f"There is no --as {quoted(options.form)}. There are: {', '.join(FORMATS)}.")
    if options.pictured not in PICTURED:
        raise InputError(f"There is no --of {quoted(options.pictured)}. There are: {', '.join(PICTURED)}.")
    has = FORMATS[options.form]
    if options.format is not None and options.format.lower() not in has:
        raise InputError(f"--as {options.form} has no format {quoted(options.format)}. It has: {', '.join(has)}.")
    return (options.format or has[0]).lower()


def _check(options: Namespace, source: Source) -> None:
    """Refuse at once what no text has: a layer or a head that is not there."""
    site, head = values.site(options, source), values.head(options, source)
    if site not in source.heads:
        raise InputError(f"'{source.name}' has no {site}. It has: {', '.join(map(str, source.sites))}.")
    if isinstance(head, int) and not 0 <= head < source.heads[site]:
        raise InputError(f"There is no {site.head(head)}; there are {source.heads[site]}, counted from 0.")
    if options.form == "page" and not isinstance(head, int):
        raise InputError(f"A page opens on one head, not on {quoted(head)}: give its number.")


def _settings(options: Namespace, source: Source) -> dict:
    """All that decides what is made of a text, as JSON has it."""
    settings = {name: value for name, value in vars(options).items() if name not in NOT_SETTINGS}
    terms = {"as": settings.pop("form"), "of": settings.pop("pictured")}
    source_settings = {f"source {name}": value for name, value in cases.settings_of(source).items()}
    return json.loads(json.dumps(settings | terms | source_settings, default=str))


# Texts


def _texts(options: Namespace) -> Iterator[BatchText]:
    for name in options.files:
        content = _content(name)
        called = "stdin" if name == "-" else name
        if name.lower().endswith(".jsonl"):
            parts = enumerate(content.split("\n"), 1)
            yield from (_of_json(line, f"{called}:{n}") for n, line in parts if line.strip())
        elif options.whole:
            yield BatchText(content.strip(), called)
        else:
            parts = enumerate(content.splitlines(), 1)
            yield from (BatchText(line, f"{called}:{n}") for n, line in parts if line.strip())


def _content(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{quoted(name, 200)} is not text in UTF-8.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{quoted(name, 200)} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def _of_json(line: str, origin: str) -> BatchText:
    try:
        return BatchText(of_json(line), origin)
    except InputError as error:
        return BatchText(line, origin, str(error))


# Files


def _output(options: Namespace, source: Source, text: str, format: str) -> bytes:
    """The file of a text."""
    if not text.strip():
        raise InputError("The text is empty.")
    edits = values.edits(options, source)
    record = api.analyze(text, source, edits)
    if options.form == "case":
        return files.saved(record, precision=options.precision, settings=cases.settings_of(source))
    if options.form == "page":
        before = None if edits == Edits() else api.analyze(text, source)
        opens = {"site": values.site(options, source), "head": values.head(options, source)}
        return explore(record, before=before, **opens).encode()
    figure = _figure(options, source, record)
    size = {"preset": options.preset, "scale": options.scale, "ppi": options.ppi} if options.form == "picture" else {}
    return export.render(figure, format, **size)


def _figure(options: Namespace, source: Source, record: Record) -> Figure:
    arguments = {"domain": options.domain, "dark": options.dark}
    if options.pictured == "overview":
        return figures.overview(record, **arguments)
    site, arguments = values.site(options, source), {"view": values.view(options)} | arguments
    if options.pictured == "heads":
        return figures.heads(record, site, **arguments)
    return figures.head(record, site, values.head(options, source), row_sums=options.row_sums, **arguments)
