"""The command `check --model`: whether a model sees the future, its padding or other texts of a batch, and where."""

import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnviz.check import Finding, Report, check
from attnviz.check.intent import kind_or_mask
from attnviz.cli import values
from attnviz.core.amounts import counted, percent, plural
from attnviz.core.display import as_sentence, in_title, visible_text
from attnviz.core.errors import AttnvizError, InputError, NotFiniteError
from attnviz.core.leaks import LeakTest
from attnviz.core.masks import Mask, Subsequent
from attnviz.core.record import Record, Step
from attnviz.leaks import leak_test
from attnviz.leaks.padding import MOVED, PaddingTest, batch_test, padding_test
from attnviz.sources.base import Source
from attnviz.words import leak

MOST_LISTED = 3
"""Leaks, or heads that see padding, that are named, at most."""
OF_FILES = ("array", "kind", "convention", "shape")
NOT_TESTED = 3
"""Exit status where nothing wrong was found and nothing could be tested."""


@dataclass(frozen=True, eq=False)
class Checked:
    """Findings about a model: its masks by site name, and the future, its padding and other texts of a batch,
    each a test or why it was not made.

    Attributes:
        odd: NaN or infinite numbers among the outputs; empty if there are none.
        first: the first layer whose own output saw what its mask hides.
        batch: the share by which an output moved beside another text at most, and the place of the text there.
        open: no mask hides the future of a model that predicts words, and nobody said that one should.
        notes: what is unusual about its attention, such as its scale, in one sentence each.
    """

    masks: dict[str, Report]
    odd: str
    future: LeakTest | str
    first: str
    padding: PaddingTest | str
    batch: tuple[float, str] | str
    open: bool
    notes: tuple[str, ...]

    @property
    def severities(self) -> set[str | None]:
        """How bad what was found is."""
        wrong = bool(self.odd) or (isinstance(self.future, LeakTest) and bool(self.future.pairs))
        wrong |= isinstance(self.padding, PaddingTest) and self.padding.is_seen
        wrong |= not isinstance(self.batch, str) and self.batch[0] > MOVED
        return {report.worst for report in self.masks.values()} | ({"error"} if wrong else set())


def run(options: Namespace, say: Callable[[str], None]) -> int:
    """Check a model on a text and print it; gives the exit status: 1 if an error (or, if strict, a warning) was found,
    3 if none was and no output depends on another token, so that nothing was tested.

    Raises:
        AttnvizError: if the model or the text cannot be used.
    """
    if unsuitable := [name for name in OF_FILES if getattr(options, name) is not None]:
        raise InputError(f"--{unsuitable[0]} is of arrays; leave it out beside --model.")
    source, (text,) = values.load(options.model), values.texts(options.file)
    meant = Subsequent() if options.causal else None
    if options.intent:
        meant = kind_or_mask(options.intent)
    checked = _check(source, text, options.causal, meant)
    lines = [_json(checked, source)] if options.json else _lines(checked, source, text)
    for line in lines:
        say(line)
    if checked.severities & ({"error", "warning"} if options.strict else {"error"}):
        return 1
    return NOT_TESTED if isinstance(checked.future, str) or checked.future.is_blind else 0


def _check(source: Source, text: str, causal: bool | None, meant: str | Mask | None) -> Checked:
    sentences = source.tokenize([text])
    record = source.run(sentences)
    kinds = {site.kind for site in record.sites}
    target = "decoder" if "decoder" in kinds else "encoder"
    masks = {source.site_name(step.site): _of_mask(step, _meant(step, target, causal, meant)) for step in record.steps}
    promised = meant if causal is not False and isinstance(meant, Mask) else None
    odd, first, future = "", "", None
    try:
        future = leak_test(source, sentences, site=target, promised=promised)
    except NotFiniteError as error:
        odd = str(error)
    if future is not None and future.pairs:
        layers = [site for site in record.sites if site.kind == target]
        tests = ((site, leak_test(source, sentences, site=site, promised=promised)) for site in layers)
        first = next((source.site_name(site) for site, test in tests if test.pairs), "")
    padding, batch = (_tried(test, source, text) for test in (padding_test, batch_test))
    is_open = causal is None and meant is None and target == "encoder" and _predicts_next(record)
    return Checked(masks, odd, odd if future is None else future, first, padding, batch, is_open, record.findings)


def _tried(test: Callable[[Source, str], Any], source: Source, text: str) -> Any:
    """Result of a test, or why it cannot be made."""
    try:
        return test(source, text)
    except AttnvizError as error:
        return str(error)


def _predicts_next(record: Record) -> bool:
    return record.prediction is not None and record.prediction.blanks is None and not record.targets


def _of_mask(step: Step, meant: dict[str, Any]) -> Report:
    """Report on a mask; checked once, where all heads have the same."""
    keys = slice(0, step.shape[3] - step.has_sink)
    heads = torch.stack([step.may_attend(head, columns=keys) for head in range(step.num_heads)])  # (H, Q, K)
    same = bool((heads == heads[:1]).all())
    report = check(heads[0] if same else heads, kind="mask", convention="may-attend", **meant)
    return replace(report, findings=(*_added(step), *report.findings))


def _added(step: Step) -> Iterator[Finding]:
    """Masks of 0 and 1 that were handed over as floats: they are added to the scores and block nothing."""
    for bias in (bias for bias in step.scoring.bias if isinstance(bias, Tensor)):
        if bool(((bias == 0) | (bias == 1)).all()) and bool((bias == 0).any()):
            message = "The mask holds floats of 0 and 1, which are added to the scores: it blocks nothing."
            yield Finding("values", "error", message, "Hand over mask.bool(), where True = may attend.")


def _meant(step: Step, target: str, causal: bool | None, meant: str | Mask | None) -> dict[str, Any]:
    """Expectation for the mask of a step: `meant` is about the kind that is tested; a decoder is causal."""
    if step.site.kind != target:
        return {"causal": False if step.site.kind == "cross" else None}
    if meant is not None and not isinstance(meant, Subsequent):
        return {"intent": meant}
    return {"causal": True if causal is None and target == "decoder" else causal}


def _lines(checked: Checked, source: Source, text: str) -> Iterator[str]:
    yield f"{visible_text(source.name)} on '{in_title(text)}': {counted(len(checked.masks), 'attention call')}"
    same: dict[tuple[str, ...], list[str]] = {}
    for name, report in checked.masks.items():
        for finding in report.findings:
            if finding.severity != "note":
                same.setdefault(tuple(finding.lines()), []).append(name)
    for (first, *rest), names in same.items():
        rule, _, message = first.partition(": ")
        yield from ("", f"{rule}: the mask of {', '.join(names)}", f"  {message}", *rest)
    if not same:
        yield from ("", "Masks: nothing wrong was found.")
    yield from (f"note attention: {note}" for note in checked.notes)
    yield ""
    if isinstance(checked.future, str):
        yield f"error nan: {checked.future}"
        return
    yield from _future(checked, checked.future)
    yield from _padding(checked.padding, source)
    if isinstance(checked.padding, str) or not checked.padding.is_seen:  # in a batch it would be seen again
        yield from _batch(checked.batch)


def _batch(moved: tuple[float, str] | str) -> Iterator[str]:
    if isinstance(moved, str):
        yield f"Other texts: not tested. {moved}"
    elif moved[0] > MOVED:
        far = percent(moved[0])
        yield f"error batch: outputs move by up to {far} when another text is in the batch, and the text is {moved[1]}"
        yield "  look for heads and sentences that are joined in another order than they are split, or for"
        yield "  nn.MultiheadAttention without batch_first=True"
    else:
        yield "Other texts: no output moved when another text was in the batch."


def _future(checked: Checked, test: LeakTest) -> Iterator[str]:
    if test.is_blind:
        yield "Hidden tokens: not tested. No output moved with another token than its own, so that none was seen."
        return
    if not test.pairs:
        yield f"Hidden tokens: no output moved when a token was changed that its mask hides ({test.promise})."
        yield from (f"  {as_sentence(note)}" for note in test.notes)
        if checked.open:
            yield "  No mask hides the future. If the model predicts the next token, that is a mistake: say --causal."
        return
    where = f", first in {checked.first}" if checked.first else ""
    yield f"error leak: {counted(len(test.pairs), 'output')} saw a token that is hidden ({test.promise}){where}"
    yield from (f"  {leak(test, *pair)}" for pair in test.pairs[:MOST_LISTED])
    if not any(report.rules("error") for report in checked.masks.values()):
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
    for site, head, row, weight in sorted(test.heads, key=lambda entry: -entry[3])[:MOST_LISTED]:
        token = f"row {row} “{visible_text(test.token(site, row).text)}”"
        yield f"  head {head} of {source.site_name(site)}: {token} gives padding {percent(weight)} of its attention"
    more = len(test.heads) - MOST_LISTED
    if more > 0:
        yield f"  and {more} more {plural('head', more)}"


def _json(checked: Checked, source: Source) -> str:
    padding: Any = checked.padding
    if not isinstance(padding, str):
        heads = [[source.site_name(site), head, row, weight] for site, head, row, weight in padding.heads]
        padding = {"seen": padding.is_seen, "moved": padding.moved.tolist(), "heads": heads}
    future: Any = checked.future
    if not isinstance(future, str):
        pairs = [list(pair) for pair in future.pairs]
        future = {"pairs": pairs, "promised": future.promise, "first": checked.first, "tested": not future.is_blind}
    batch: Any = checked.batch
    if not isinstance(batch, str):
        batch = {"moved": batch[0], "place": batch[1]}
    masks = {name: report.to_json() for name, report in checked.masks.items()}
    tests = {"future": future, "padding": padding, "batch": batch}
    return json.dumps({"masks": masks, "notes": checked.notes, **tests}, indent=1)
