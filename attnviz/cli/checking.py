"""The command `check` of a file or pasted numbers: findings and an exit status out. No model is loaded."""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attnviz.check import ArrayReport, check, reading
from attnviz.check.batch import IDS, check_batch
from attnviz.check.findings import status_of
from attnviz.cli.typed import NONE
from attnviz.core.errors import InputError, quoted

OF_MODELS = {"text": "A text", "output": "-o", "masks": "--mask", "off": "--off", "runs": "--runs"}
CODE = (
    "{file} is code; name a function of it that gives your model: attnviz check {path}:build. "
    "Two lines are enough in the file: import attnviz; def build(): return attnviz.wrap(model, tokenize)"
)
"""Message about a file of Python that is given without a function."""


def run(options: Namespace, say: Callable[[str], None]) -> int:
    """Check what was given and print it; gives the exit status: 1 if an error (or, if strict, a warning) was found,
    3 if it cannot be told before a question is answered, else 0.

    Raises:
        AttnvizError: if the file cannot be read, or an option does not fit it.
    """
    if not options.file:
        raise InputError("There is nothing to check; give a file of numbers, FILE.py:FUNCTION, or --model NAME.")
    if options.file.endswith(".py"):
        raise InputError(CODE.format(file=quoted(options.file), path=options.file))
    refuse(options, OF_MODELS, "models")
    content = _read(options.file)
    if any(name in content.arrays for name in IDS) and not options.array:
        return batch(content.arrays, options, say)
    return _arrays(content, options, say)


def refuse(options: Namespace, flags: Mapping[str, str], of: str) -> None:
    """Refuse options of something else than what is checked."""
    if unsuitable := [flag for name, flag in flags.items() if getattr(options, name)]:
        raise InputError(f"{unsuitable[0]} is of {of}; leave it out here.")


def batch(arrays: Mapping[str, Any], options: Namespace, say: Callable[[str], None]) -> int:
    """Check a batch and print it; gives the exit status."""
    pad = None if options.pad == NONE else options.pad
    report = check_batch(arrays, pad=pad, padded=options.pad != NONE, intent=options.intent or None)
    show(report, options, say)
    return report.status(strict=options.strict)


def show(report: Any, options: Namespace, say: Callable[[str], None]) -> None:
    """Print a report, as text or as JSON."""
    for line in [json.dumps(report.to_json(), indent=1)] if options.json else report.lines():
        say(line)


def _arrays(content: reading.ArrayFile, options: Namespace, say: Callable[[str], None]) -> int:
    chosen = content.chosen(options.array)
    arrays = {name: array for entry in chosen.items() for name, array in _layers(*entry)}
    reports = {name: _report(name, array, options) for name, array in arrays.items()}
    if options.json:
        say(json.dumps([{"array": name, **report.to_json()} for name, report in reports.items()], indent=1))
    else:
        alike: dict[tuple[str, ...], list[str]] = {}
        for name, report in reports.items():
            alike.setdefault(tuple(report.lines()), []).append(name)
        for number, ((first, *rest), names) in enumerate(alike.items()):
            called = f"{_listed(names)}: " if any(names) else ""
            for line in [*([""] if number else []), f"{called}{first}", *rest]:
                say(line)
    findings = [finding for report in reports.values() for finding in report.findings]
    question = next((report.question for report in reports.values() if report.question), "")
    return status_of(findings, question, strict=options.strict)


def _layers(name: str, array: Any) -> list[tuple[str, Any]]:
    """An array, or each layer of one of five axes: (layers, B, H, Q, K)."""
    if array.ndim != 5:
        return [(name, array)]
    return [(f"{name or 'array'}[{layer}]", part) for layer, part in enumerate(array)]


def _listed(names: list[str]) -> str:
    """Names of arrays of which the same is said; of many the first and the last."""
    quoted_names = [quoted(name) for name in names]
    return (
        ", ".join(quoted_names)
        if len(quoted_names) < 5
        else f"{quoted_names[0]} to {quoted_names[-1]} ({len(quoted_names)} arrays)"
    )


def _read(file: str) -> reading.ArrayFile:
    if file == "-":
        try:
            return reading.read_text(sys.stdin.read(reading.MOST_TEXT + 1))
        except UnicodeDecodeError:
            raise InputError("What came on stdin is no text in UTF-8; give a file of numbers by its name.") from None
    try:
        with Path(file).open("rb") as opened:
            return reading.read_file(os.path.basename(file), opened.read(reading.MOST_BYTES + 1))
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{quoted(file)} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def _report(name: str, array: object, options: Namespace) -> ArrayReport:
    """A convention is of masks: beside a mask, arrays whose names say that they are something else go without."""
    named = reading.kind_by_name(name)
    convention = options.convention or ("may-attend" if name == "may_attend" else None)  # as this project writes it
    if options.kind is None and named in ("weights", "scores"):
        convention = None
    intent = options.intent or {True: "causal", False: "two-way", None: None}[options.causal]
    return check(array, kind=options.kind or named, intent=intent, convention=convention, shape=options.shape)
