"""The command `check` of a model, or of the batch that a function of a person's file gives."""

import json
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from torch import nn

from attnviz import figures
from attnviz.check.model import check_model, of_capture
from attnviz.cli import checking, values
from attnviz.cli.commands import write
from attnviz.cli.typed import FILE, NONE
from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.sources.base import Source
from attnviz.sources.wrapped import Wrapped

OF_ARRAYS = {"array": "--array", "kind": "--kind", "convention": "--convention", "shape": "--shape"}


def run(options: Namespace, say: Callable[[str], None]) -> int:
    """Check a model or a batch and print it; gives the exit status: 1 if an error (or, if strict, a warning) was found,
    3 if it cannot be told before a question is answered, else 0.

    Raises:
        AttnvizError: if it cannot be run, or an option does not fit it.
    """
    checking.refuse(options, OF_ARRAYS, "arrays")
    if options.model and options.text:
        raise InputError("Beside --model there is one text; put it in quotes.")
    name, text = (options.model, options.file) if options.model else (options.file, options.text)
    try:
        source = _loaded(name)
    except AttnvizError as error:
        if (finding := of_capture(str(error))).severity == "note":
            raise
        for line in [json.dumps({"findings": [asdict(finding)]}, indent=1)] if options.json else finding.lines():
            say(line)
        return 1
    if not isinstance(source, Source):
        checking.refuse(options, checking.OF_MODELS, "models")
        return checking.batch(source, options, say)
    if options.pad is not None:
        if not isinstance(source, Wrapped):
            raise InputError("--pad is of batches and of models that attnviz.wrap makes; this one names its padding.")
        source = source if options.pad == NONE else source.with_padding(options.pad)
    report = check_model(
        source,
        values.texts(text)[0] if text else None,
        intent=options.intent or {True: "causal", False: "two-way", None: None}[options.causal],
        edits=values.edits(Namespace(**vars(options) | {"kind": None, "layer": None}), source),
        padded=options.pad != NONE,
        runs=options.runs,
    )
    checking.show(report, options, say)
    if options.output:
        if report.future is None:
            raise InputError("There is no leak test to draw: nothing could be changed, or the outputs are no numbers.")
        for line in write(figures.leaks(report.future, dark=options.dark), options):
            say(line)
    return report.status(strict=options.strict)


def _loaded(name: str) -> Source | Mapping[str, Any]:
    """The model of a name, or what a function of a file gives: a model, or a batch."""
    file = FILE.fullmatch(name)
    if not file:
        return values.load(name)
    value = values.own(*file.groups())
    if isinstance(value, Source | Mapping):
        return value
    if isinstance(getattr(value, "data", None), Mapping):  # a BatchEncoding of transformers
        return value.data
    if isinstance(value, nn.Module):
        what = f"{quoted(name)} gives a model alone; what is missing is how a text becomes its tokens"
        raise InputError(f"{what}: let a function give attnviz.wrap(model, tokenize).")
    what = f"{quoted(name)} gives {quoted(type(value).__name__)}, which is no model and no batch"
    raise InputError(f"{what}; let it give attnviz.wrap(model, tokenize), or a dict with input_ids.")
