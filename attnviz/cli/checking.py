"""The command `check`: print findings about an array file, a batch or a model, and set the exit status."""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnviz.check import ArrayReport, check, reading
from attnviz.check.findings import Report, status_of
from attnviz.check.training_batch import IDS, check_batch
from attnviz.cli import terminal
from attnviz.cli.parser import FILE, RUNS
from attnviz.core.errors import AttnvizError, InputError, quoted

FOR_MODELS = {"text": "A text", "output": "-o", "mask": "--mask", "off": "--off", "runs": "--runs"}
FOR_ARRAYS = {"array": "--array", "kind": "--kind", "convention": "--convention", "shape": "--shape"}
"""Options that apply to models or to arrays only: their names in `Namespace`, and how an error message calls them."""


def run(options: Namespace) -> int:
    """Run `check` and return the exit status: 1 for errors (with --strict, for warnings), 3 for a question, else 0."""
    if options.model or FILE.fullmatch(options.file):
        return _model(options)
    if not options.file:
        raise InputError("There is nothing to check; give a file of numbers, FILE.py:FUNCTION, or --model NAME.")
    if options.file.endswith(".py"):
        advice = f"name its function that returns your model: attnviz check {options.file}:build"
        example = "import attnviz; def build(): return attnviz.wrap(model, tokenize)"
        raise InputError(f"{quoted(options.file)} is code; {advice}. Two lines are enough in the file: {example}")
    _refuse(options, FOR_MODELS, "models")
    content = _read(options.file)
    if any(name in content.arrays for name in IDS) and not options.array:
        return _batch(content.arrays, options)
    return _arrays(content, options)


def _refuse(options: Namespace, flags: Mapping[str, str], subject: str) -> None:
    """Raise InputError if the user gave one of the `flags`, which apply only to `subject`: "models" or "arrays"."""
    for name, flag in flags.items():
        if getattr(options, name):
            raise InputError(f"{flag} applies to {subject} only; leave it out.")


def _read(file: str) -> reading.ArrayFile:
    """Read arrays from a file, or from stdin for "-"."""
    try:
        if file == "-":
            return reading.read_text(sys.stdin.read(reading.MOST_TEXT + 1))
        with Path(file).open("rb") as stream:
            return reading.read_file(os.path.basename(file), stream.read(reading.MOST_BYTES + 1))
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{quoted(file)} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def _show(report: Any, options: Namespace) -> int:
    """Print a report as text or JSON, and return its exit status."""
    terminal.say(json.dumps(report.to_json(), indent=1) if options.json else "\n".join(report.lines()))
    return report.status(strict=options.strict)


def _batch(arrays: Mapping[str, Any], options: Namespace) -> int:
    """Check a batch for a model, such as token ids with a mask; return the exit status."""
    pad_id = None if options.pad == "none" else options.pad
    report = check_batch(arrays, pad=pad_id, padded=options.pad != "none", intent=options.intent or None)
    return _show(report, options)


def _arrays(content: reading.ArrayFile, options: Namespace) -> int:
    """Check each array of a file, and each layer of an array (layers, B, H, Q, K); print equal reports once."""
    reports: dict[str, ArrayReport] = {}
    for name, array in content.chosen(options.array).items():
        kind = options.kind or reading.kind_by_name(name)
        convention = options.convention or ("may-attend" if name == "may_attend" else None)  # its name in saved runs
        if options.kind is None and kind in ("weights", "scores"):  # --convention is meant for a mask in the same file
            convention = None
        settings = {"kind": kind, "intent": options.intent, "convention": convention, "shape": options.shape}
        layers = {name: array}
        if array.ndim > 4:
            layers = {f"{name or 'array'}[{number}]": layer for number, layer in enumerate(array)}
        reports |= {name: check(layer, **settings) for name, layer in layers.items()}
    if options.json:
        terminal.say(json.dumps([{"array": name, **report.to_json()} for name, report in reports.items()], indent=1))
    else:
        names_by_report: dict[str, list[str]] = {}
        for name, report in reports.items():
            names_by_report.setdefault("\n".join(report.lines()), []).append(quoted(name) if name else "")
        paragraphs = []
        for report_text, names in names_by_report.items():
            title = ", ".join(names) if len(names) < 5 else f"{names[0]} to {names[-1]} ({len(names)} arrays)"
            paragraphs.append(f"{title}: {report_text}" if title else report_text)
        terminal.say("\n\n".join(paragraphs))
    findings = [finding for report in reports.values() for finding in report.findings]
    question = next((report.question for report in reports.values() if report.question), "")
    return status_of(findings, question, strict=options.strict)


def _model(options: Namespace) -> int:
    """Check a model, or the batch that a function in a file returns; return the exit status."""
    from attnviz import figures
    from attnviz.check.model import capture_finding, check_model
    from attnviz.cli import pictures, request
    from attnviz.sources.wrapped import Wrapped

    _refuse(options, FOR_ARRAYS, "arrays")
    if options.model and options.text:
        raise InputError("With --model, give one text; put it in quotes.")
    name, text = (options.model, options.file) if options.model else (options.file, options.text)
    try:
        source = _load(name)
    except AttnvizError as error:
        finding = capture_finding(str(error))
        if finding.severity == "note":  # the error is not about attention that cannot be captured
            raise
        return _show(Report(findings=(finding,)), options)
    if isinstance(source, Mapping):
        _refuse(options, FOR_MODELS, "models")
        return _batch(source, options)
    if options.pad is not None:
        if not isinstance(source, Wrapped):
            raise InputError("--pad is for batches and for models from attnviz.wrap; this model has its own padding.")
        source = source.with_padding(None if options.pad == "none" else options.pad)
    text = request.texts(text)[0] if text else None
    runs = [run.strip() for run in options.runs.split(",") if run.strip()]
    runs = RUNS if options.runs == "all" else runs
    tests = {"intent": options.intent, "runs": runs}
    report = check_model(source, text, edits=request.edits(options, source), **tests)
    status = _show(report, options)
    if options.output:
        if report.future is None:
            raise InputError("There is no leak test to draw: no token could be changed, or an output is not a number.")
        terminal.say(*pictures.write(figures.leaks(report.future, dark=options.dark), options))
    return status


def _load(name: str) -> Any:
    """Load a model by name, or call a function in a file that returns a model or a batch."""
    from torch import nn

    from attnviz.cli import request
    from attnviz.link import Choices
    from attnviz.sources import own_code
    from attnviz.sources.base import Source

    user_code = FILE.fullmatch(name)
    if not user_code:
        return request.source_of(Choices({"model": name}))
    request.note_user_code(*user_code.groups())
    value = own_code.value_of(*user_code.groups())
    if isinstance(value, Source | Mapping):
        return value
    batch = getattr(value, "data", None)  # the dict in a BatchEncoding of transformers
    if isinstance(batch, Mapping):
        return batch
    if isinstance(value, nn.Module):
        problem = f"{quoted(name)} gives a model without its tokenizer"
        raise InputError(f"{problem}: let the function return attnviz.wrap(model, tokenize).")
    problem = f"{quoted(name)} gives {quoted(type(value).__name__)}, which is neither a model nor a batch"
    raise InputError(f"{problem}; let it return attnviz.wrap(model, tokenize), or a dict with input_ids.")
