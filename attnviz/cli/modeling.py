"""The command `check --model`: whether a model sees the future or its padding, in which head, by which row."""

import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from attnviz.check import Report, check
from attnviz.cli import rules, values
from attnviz.core.amounts import counted, percent, plural
from attnviz.core.display import in_title, shown
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.leaks import LeakTest
from attnviz.core.masks import Mask, Subsequent
from attnviz.core.record import Record, Step
from attnviz.leaks import leak_test
from attnviz.leaks.padding import PaddingTest, padding_test
from attnviz.sources.base import Source
from attnviz.words import leak

MOST_LISTED = 3
"""Leaks, or heads that see padding, that are named, at most."""
OF_FILES = ("array", "kind", "convention", "shape")


@dataclass(frozen=True, eq=False)
class Checked:
    """What was found of a model: of its masks by site name, of the future, and of its padding or why that is not known.

    Attributes:
        first: the first layer whose own output saw what its mask hides.
        open: no mask hides the future of a model that predicts words, and nobody said that one should.
    """

    masks: dict[str, Report]
    future: LeakTest
    first: str
    padding: PaddingTest | str
    open: bool


def run(options: Namespace, say: Callable[[str], None]) -> int:
    """Check a model on a text and print it; gives the exit status: 1 if an error (or, if strict, a warning) was found.

    Raises:
        AttnvizError: if the model or the text cannot be used.
    """
    if given := [name for name in OF_FILES if getattr(options, name) is not None]:
        raise InputError(f"--{given[0]} is of arrays; leave it out beside --model.")
    source, (text, *more) = values.load(options.model), values.texts(options.file)
    if more:
        raise InputError("A model is checked on one text; give one line.")
    meant = rules.read(options.meant) if options.meant else Subsequent() if options.causal else None
    found = _check(source, text, options.causal, meant)
    lines = [_json(found, source)] if options.json else _lines(found, source, text)
    for line in lines:
        say(line)
    errors = [report.worst for report in found.masks.values()]
    errors += ["error"] * (bool(found.future.pairs) or (not isinstance(found.padding, str) and found.padding.is_seen))
    return int(any(one in (("error", "warning") if options.strict else ("error",)) for one in errors))


def _check(source: Source, text: str, causal: bool | None, meant: Mask | None) -> Checked:
    sentences = source.tokenize([text])
    record = source.run(sentences)
    kinds = {site.kind for site in record.sites}
    target = "decoder" if "decoder" in kinds else "encoder"
    masks = {source.site_name(one.site): _of_mask(one, _meant(one, target, causal, meant)) for one in record.steps}
    promised = None if causal is False else meant
    future = leak_test(source, sentences, site=target, promised=promised)
    first = ""
    if future.pairs:
        layers = [site for site in record.sites if site.kind == target]
        tests = ((site, leak_test(source, sentences, site=site, promised=promised)) for site in layers)
        first = next((source.site_name(site) for site, test in tests if test.pairs), "")
    try:
        padding: PaddingTest | str = padding_test(source, text)
    except AttnvizError as error:
        padding = str(error)
    is_open = causal is None and meant is None and target == "encoder" and _predicts_next(record)
    return Checked(masks, future, first, padding, is_open)


def _predicts_next(record: Record) -> bool:
    return record.prediction is not None and record.prediction.blanks is None and not record.targets


def _of_mask(step: Step, meant: dict[str, Any]) -> Report:
    """What is wrong with a mask; checked once, where all heads have the same."""
    keys = slice(0, step.shape[3] - step.has_sink)
    heads = torch.stack([step.may_attend(head, columns=keys) for head in range(step.num_heads)])  # (H, Q, K)
    same = bool((heads == heads[:1]).all())
    return check(heads[0] if same else heads, kind="mask", convention="may-attend", **meant)


def _meant(step: Step, target: str, causal: bool | None, meant: Mask | None) -> dict[str, Any]:
    """What the mask of a step is held against: what was said is of the kind that is tested; a decoder is causal."""
    if step.site.kind != target:
        return {"causal": False if step.site.kind == "cross" else None}
    if meant is not None and not isinstance(meant, Subsequent):
        return {"meant": meant}
    return {"causal": True if causal is None and target == "decoder" else causal}


def _lines(found: Checked, source: Source, text: str) -> Iterator[str]:
    yield f"{shown(source.name)} on '{in_title(text)}': {counted(len(found.masks), 'attention call')}"
    same: dict[tuple[str, ...], list[str]] = {}
    for name, report in found.masks.items():
        for finding in report.findings:
            if finding.severity != "note":
                same.setdefault(tuple(finding.lines()), []).append(name)
    for (first, *rest), names in same.items():
        yield from ("", f"{first}: the mask of {', '.join(names)}", *rest)
    if not same:
        yield from ("", "Masks: nothing wrong was found.")
    yield ""
    yield from _future(found)
    yield from _padding(found.padding, source)


def _future(found: Checked) -> Iterator[str]:
    test = found.future
    if not test.pairs:
        yield f"Hidden tokens: no output moved when a token was changed that its mask hides ({test.promise})."
        if found.open:
            yield "  No mask hides the future. If the model predicts the next token, that is a mistake: say --causal."
        return
    at = f", first in {found.first}" if found.first else ""
    yield f"error leak: {counted(len(test.pairs), 'output')} saw a token that is hidden ({test.promise}){at}"
    yield from (f"  {leak(test, *pair)}" for pair in test.pairs[:MOST_LISTED])
    if not any(report.rules("error") for report in found.masks.values()):
        yield "  Its masks hide it: look for a mask after the softmax, or for what mixes positions elsewhere."


def _padding(test: PaddingTest | str, source: Source) -> Iterator[str]:
    if isinstance(test, str):
        yield f"Padding: not tested. {test}"
        return
    if not test.is_seen:
        yield f"Padding: no output moved when {counted(test.padding, 'token')} of padding followed."
        return
    moved = int(test.moved.argmax())
    yield f"error padding: outputs move by up to {percent(float(test.moved[moved]))} when padding follows the text"
    for site, head, row, weight in sorted(test.heads, key=lambda one: -one[3])[:MOST_LISTED]:
        token = f"row {row} “{shown(test.tokens[row].text)}”"
        yield f"  head {head} of {source.site_name(site)}: {token} gives padding {percent(weight)} of its attention"
    more = len(test.heads) - MOST_LISTED
    if more > 0:
        yield f"  and {more} more {plural('head', more)}"


def _json(found: Checked, source: Source) -> str:
    padding: Any = found.padding
    if not isinstance(padding, str):
        heads = [[source.site_name(site), head, row, weight] for site, head, row, weight in padding.heads]
        padding = {"seen": padding.is_seen, "moved": padding.moved.tolist(), "heads": heads}
    test = found.future
    future = {"pairs": [list(pair) for pair in test.pairs], "promised": test.promise, "first": found.first}
    masks = {name: report.to_json() for name, report in found.masks.items()}
    return json.dumps({"masks": masks, "future": future, "padding": padding}, indent=1)
