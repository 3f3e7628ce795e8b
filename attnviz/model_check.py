"""Check a model: the masks that acted, and whether its outputs move with the future, padding or other texts.

report = check_model(source, "the cat sat on the mat", intent="causal")
report.findings, report.question, report.status
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing.softmax import LATE_MASK, WRONG_AXIS
from attnviz.check import Finding, Report, check
from attnviz.check.findings import SEVERITIES, status_of
from attnviz.check.intent import kind_or_mask
from attnviz.core.amounts import counted, percent
from attnviz.core.display import as_sentence, in_title, visible_text
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError, NotFiniteError, UnsteadyError
from attnviz.core.leaks import LeakTest
from attnviz.core.masks import Mask, Subsequent
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Sentence
from attnviz.leaks import PROBE, leak_test
from attnviz.leaks.padding import MOVED, PaddingTest, batch_test, padding_test
from attnviz.same import SameRun, same_run
from attnviz.sources.base import Source
from attnviz.words import leak

LISTED = 3
"""Leaks, or heads that see padding, that a finding names, at most."""
OF_FUTURE = {"late-mask", "softmax-axis", "future-leak", "inverted", "transposed", "shifted"}
"""Rules about a mask that explain an output which moves with the future."""
OF_PADDING = {"late-mask", "softmax-axis", "padding", "inverted", "wrong-axis", "broadcast", "deviation"}
"""Rules about a mask that explain an output which moves with padding or with other texts of a batch."""
RANDOM = "Call model.eval(), and write F.dropout(x, p, self.training): it is on in evaluation without that."
OF_CAPTURE = {
    LATE_MASK: ("late-mask", "Mask before the softmax: scores.masked_fill(~may_attend, -torch.inf).softmax(-1)."),
    WRONG_AXIS: ("softmax-axis", "Take it over the keys, the last axis of scores: scores.softmax(-1)."),
}
"""Rules and repairs of faults that a capture names, by a part of its sentence."""


@dataclass(frozen=True, eq=False)
class ModelReport:
    """Findings about a model on a text.

    Attributes:
        name, text: of the model, and the text.
        assumed: what the model was taken for, where nobody stated an intent: "a causal decoder with padding".
        question: what has to be answered before the rest can be judged; "" if nothing.
        findings: the worst first; `Finding.calls` names the attention calls.
        passed: tests that found nothing, a sentence each.
        skipped: tests that could not be made, and why, a sentence each.
        masks: the report on the mask of each attention call, by its name.
        future: the leak test; None if the model gives no numbers to compare.
        padding: the padding test; None if it could not be made.
        runs: the text and a longer one, run in several ways; None if that was not asked for.
    """

    name: str
    text: str
    assumed: str
    question: str
    findings: tuple[Finding, ...]
    passed: tuple[str, ...]
    skipped: tuple[str, ...]
    masks: Mapping[str, Report]
    future: LeakTest | None
    padding: PaddingTest | None
    runs: SameRun | None = None

    @property
    def worst(self) -> str | None:
        """Severity of the worst finding; None if there is none."""
        return self.findings[0].severity if self.findings else None

    def status(self, *, strict: bool = False) -> int:
        """Exit status: 1 for an error (or, if strict, a warning), 3 if a question is open or no output could be
        compared, else 0."""
        blind = "no output depends on another token" if self.future is None or self.future.is_blind else ""
        return status_of(self.findings, self.question or blind, strict=strict)

    def lines(self) -> list[str]:
        """As text: what was assumed, a block for each finding, and what was tested."""
        calls = counted(len(self.masks), "attention call")
        first = f"{visible_text(self.name)} on '{in_title(self.text)}': {calls}"
        blocks = [line for finding in self.findings for line in ("", *finding.lines())]
        question = ["", f"question: {self.question}"] if self.question else []
        nothing = ["", "Nothing wrong was found."] if not self.findings and not question else []
        tests = [*self.passed, *self.skipped]
        return [first, *([self.assumed] if self.assumed else []), *blocks, *question, *nothing, "", *tests]

    def to_json(self) -> dict[str, Any]:
        future = self.future and {
            "pairs": [list(pair) for pair in self.future.pairs],
            "promised": self.future.promise,
            "tested": not self.future.is_blind,
        }
        return {
            "model": self.name,
            "text": self.text,
            "assumed": self.assumed,
            "question": self.question,
            "findings": [finding.to_json() for finding in self.findings],
            "passed": list(self.passed),
            "skipped": list(self.skipped),
            "masks": {name: report.to_json() for name, report in self.masks.items()},
            "future": future,
            "padding": self.padding and {"seen": self.padding.is_seen, "moved": self.padding.moved.tolist()},
            "runs": self.runs and self.runs.to_json(),
        }


def check_model(
    source: Source,
    text: str | None = None,
    *,
    intent: str | Mask | None = None,
    edits: Edits = Edits(),
    padded: bool = True,
    runs: Sequence[str] = (),
    ways: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
    site: Site | str | None = None,
    targets: tuple[Sentence, ...] = (),
    report: Callable[[int, int], object] = lambda done, of: None,
) -> ModelReport:
    """Check the masks that act in a model, and its outputs, with another token, with padding and beside another text.

    The masks are those of a batch of the text and a longer one, so that padding is there, wherever the model knows it.

    Args:
        text: by default what the source begins with.
        intent: "causal", "two-way", another kind of mask, or a mask; by default what the masks look like.
        edits: what is changed about the attention.
        padded: False where no token is padding, though the vocabulary has one of that name.
        runs: ways in which the text and a longer one are run besides, as of `attnviz.same_run`.
        ways: its functions `pack`, `pad` and `step`, of a model of one's own.
        site: the attention call whose output the leak test compares, or a kind, of all of whose layers it does; by
            default the decoder, if there is one.
        targets: what a decoder reads in the leak test, a sentence; by default what the model writes.
        report: is told how many tokens the leak test has changed, and of how many.

    Raises:
        AttnvizError: if the text cannot be run, or the intent cannot be read.
    """
    text = text or next(iter(source.examples), PROBE)
    intended = kind_or_mask(intent) if isinstance(intent, str) else intent
    leaks = {"targets": targets, "report": report}
    checked = _Check(source, text, intended, edits, padded, site).report(leaks)
    return _with_runs(checked, same_run(source, _beside_longer(text), runs, **ways)) if runs else checked


class _Check:
    """One run of a model on a text and a longer one, and the intent that its masks are held to."""

    def __init__(
        self,
        source: Source,
        text: str,
        intent: str | Mask | None,
        edits: Edits,
        padded: bool,
        site: Site | str | None,
    ):
        self.source, self.text, self.intent, self.edits, self.padded = source, text, intent, edits, padded
        self.alone = source.tokenize([text])
        try:
            self.record = source.run(source.tokenize(_beside_longer(text)), edits)
        except AttnvizError:  # texts of several lengths, or longer ones, cannot be run
            self.record = source.run(self.alone, edits)
        kinds = {place.kind for place in self.record.sites}
        self.site = site or ("decoder" if "decoder" in kinds else "encoder")
        self.target = self.site.kind if isinstance(self.site, Site) else self.site
        self.findings: list[Finding] = []
        self.passed: list[str] = []
        self.skipped: list[str] = []

    def report(self, leaks: dict[str, Any]) -> ModelReport:
        masks = {self.source.site_name(step.site): self._of_mask(step) for step in self.record.steps}
        self.findings += _merged(masks)
        self.findings += [of_capture(sentence) for sentence in self.record.findings]
        self.findings += [of_capture(self.record.unseen)] if self.record.unseen else []
        future = self._future(leaks)
        padding = None
        if not any(finding.rule in ("nan", "random") for finding in self.findings):
            padding = self._padding()
            self._batch()
        future = future and replace(future, is_faulty=self._has_error)
        self.findings.sort(key=lambda finding: -SEVERITIES.index(finding.severity))
        question = self._question(masks)
        return ModelReport(
            self.source.name,
            self.text,
            self._assumed(masks),
            question,
            tuple(self.findings),
            tuple(self.passed),
            tuple(self.skipped),
            masks,
            future,
            padding,
        )

    @property
    def _has_error(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)

    def _of_mask(self, step: Step) -> Report:
        """Report on the mask of a call, (B, H, Q, K), or (B, 1, Q, K) where all heads have one."""
        keys = slice(0, step.shape[3] - step.has_sink)
        sentences, heads = range(step.shape[0]), range(step.num_heads)
        mask = torch.stack(
            [torch.stack([step.may_attend(head, columns=keys, sentence=b) for head in heads]) for b in sentences]
        )
        same = bool((mask == mask[:, :1]).all())
        padding = _tokens(self.record, step)
        arguments = {"padding": padding} if not bool(padding.all()) else {}
        arguments = {"kind": "mask", "convention": "may-attend", **arguments}
        mask = mask[:, :1] if same else mask
        report = check(mask, **self._intended(step), **arguments)
        if report.question and step.site.kind == self.target == "decoder":
            report = check(mask, intent="causal", **arguments)
        axes = [axis for axis, is_one in (("batch", len(mask) == 1), ("head", same)) if is_one]
        findings = (_without(finding, axes) for finding in report.findings)
        return replace(report, findings=(*_added(step), *findings))

    def _intended(self, step: Step) -> dict[str, Any]:
        """Expectation for the mask of a call: the intent is that of the kind that is tested; a decoder is causal."""
        if step.site.kind != self.target:
            return {}
        if self.intent is not None:
            return {"intent": self.intent}
        return {}

    def _future(self, leaks: dict[str, Any]) -> LeakTest | None:
        promised = self.intent if isinstance(self.intent, Mask) else None
        promised = Subsequent() if self.intent == "causal" else promised
        arguments = leaks | {"site": self.site, "promised": promised}
        try:
            test = leak_test(self.source, self.alone, self.edits, **arguments)
        except NotFiniteError as error:
            self.findings.append(Finding("nan", "error", str(error)))
            return None
        except UnsteadyError as error:
            self.findings.append(Finding("random", "error", str(error), RANDOM))
            return None
        except InputError as error:
            self.skipped.append(f"Hidden tokens: not tested. {error}")
            return None
        if test.noise > MOVED:
            message = f"The same input gives outputs that differ by {percent(test.noise)} of their length."
            self.findings.append(Finding("random", "error", message, RANDOM))
        elif test.is_blind:
            self.skipped.append("Hidden tokens: not tested. No output moved with another token than its own.")
        elif not test.pairs and self._has_error:
            hides = f"No output moved with a token that its mask hides ({test.promise})."
            self.skipped.append(f"Hidden tokens: not judged before the errors are mended. {hides}")
        elif not test.pairs:
            self.passed.append(f"Hidden tokens: no output moved with a token that its mask hides ({test.promise}).")
            self.passed += [f"  {as_sentence(note)}" for note in test.notes]
        else:
            layers = [site for site in self.record.sites if site.kind == self.target]
            tests = (
                (site, leak_test(self.source, self.alone, self.edits, **arguments | {"site": site})) for site in layers
            )
            first = next((self.source.site_name(site) for site, layer in tests if layer.pairs), "")
            where = f", first in {first}" if first else ""
            message = f"{counted(len(test.pairs), 'output')} saw a token that is hidden ({test.promise}){where}: "
            message += "; ".join(leak(test, *pair) for pair in test.pairs[:LISTED]) + "."
            fix = "Its masks hide it: look for a mask after the softmax, or for what mixes positions elsewhere."
            self._moved("leak", message, fix, OF_FUTURE)
        return test

    def _padding(self) -> PaddingTest | None:
        test = self._test("Padding", padding_test)
        if test is None:
            return None
        if not test.is_seen:
            self.passed.append(f"Padding: no output moved when {counted(test.padding, 'token')} of padding followed.")
            return test
        moved = percent(float(test.moved.max()))
        message = f"Outputs move by up to {moved} when padding follows the text"
        heads = [
            f"head {head} of {self.source.site_name(site)} at row {row} “{visible_text(test.token(site, row).text)}” "
            f"gives it {percent(weight)}"
            for site, head, row, weight in sorted(test.heads, key=lambda entry: -entry[3])[:LISTED]
        ]
        message += f": {'; '.join(heads)}." if heads else "."
        fix = "Block the keys of padding in every layer, before the softmax."
        self._moved("padding", message, fix, OF_PADDING)
        return test

    def _batch(self) -> None:
        if any(finding.rule == "padding" for finding in self.findings):  # in a batch it would be seen again
            return
        test = self._test("Other texts", batch_test)
        if test is None:
            return
        if test[0] <= MOVED:
            self.passed.append("Other texts: no output moved when another text was in the batch.")
            return
        message = (
            f"Outputs move by up to {percent(test[0])} when another text is in the batch, and the text is {test[1]}."
        )
        fix = "Look for heads and sentences that are joined in another order than they are split, or for "
        fix += "nn.MultiheadAttention without batch_first=True."
        self._moved("batch", message, fix, OF_PADDING)

    def _test(self, name: str, test: Callable[[Source, str, Edits], Any]) -> Any:
        """Result of a test; None if it cannot be made, which `skipped` says."""
        try:
            return test(self.source, self.text, self.edits)
        except NotFiniteError as error:
            self.findings.append(Finding("nan", "error", str(error)))
        except AttnvizError as error:
            self.skipped.append(f"{name}: not tested. {error}")
        return None

    def _moved(self, rule: str, message: str, fix: str, causes: set[str]) -> None:
        """Outputs that moved: an error, or where a mask explains them a note."""
        if any(finding.rule in causes and finding.severity == "error" for finding in self.findings):
            self.findings.append(Finding(rule, "note", message, "The mask explains it: mend that first."))
        else:
            self.findings.append(Finding(rule, "error", message, fix))

    def _question(self, masks: Mapping[str, Report]) -> str:
        """Question that is open: whether a token is padding, and whether a model that hides nothing predicts words."""
        if self.padded and (question := self.source.padding_question):
            return question
        if asked := next((report.question for report in masks.values() if report.question), ""):
            return asked
        hides = any(report.causal for report in masks.values())
        if self.intent is None and self.target == "encoder" and not hides and _predicts_next(self.record):
            return "Does the model predict the next token? No mask hides the future. Say --intent causal or two-way."
        return ""

    def _assumed(self, masks: Mapping[str, Report]) -> str:
        """Kind of model that it was taken for, and how to say otherwise."""
        if self.intent is not None:
            return ""
        of_target = [masks[self.source.site_name(site)] for site in self.record.sites if site.kind == self.target]
        if self.target == "decoder" or any(report.causal for report in of_target):
            what, other = "a causal decoder", "two-way"
        else:
            what, other = "a two-way encoder", "causal"
        has_padding = not all(bool(_tokens(self.record, step).all()) for step in self.record.steps)
        return f"assumed: {what}{' with padding' if has_padding else ''}; not so? --intent {other}"


def _with_runs(report: ModelReport, runs: SameRun) -> ModelReport:
    """A report with a finding for each way that gives another answer."""
    wrong = [Finding("runs", "error", result.message, result.fix) for result in runs.tried if not result.same]
    same = [result.run for result in runs.tried if result.same]
    passed = [f"Runs: the same answer {', '.join(same)}."] if same else []
    skipped = [f"Runs: {result.run} not tried. {result.message}" for result in runs.results if result not in runs.tried]
    findings = sorted([*report.findings, *wrong], key=lambda finding: -SEVERITIES.index(finding.severity))
    passed, skipped = (*report.passed, *passed), (*report.skipped, *skipped)
    return replace(report, findings=tuple(findings), passed=passed, skipped=skipped, runs=runs)


def of_capture(sentence: str) -> Finding:
    """A sentence of the capture about a model as a finding: an error where it names a fault, else a note."""
    for fault, (rule, fix) in OF_CAPTURE.items():
        if fault in sentence:
            return Finding(rule, "error", as_sentence(sentence), fix)
    return Finding("attention", "note", as_sentence(sentence))


def _beside_longer(text: str) -> list[str]:
    """The text, and one of twice its length; of a pair, its first half is doubled."""
    first, bar, second = text.partition("|||")
    return [text, f"{first} {first}{bar}{second}"]


def _tokens(record: Record, step: Step) -> Tensor:
    """The keys of a call that are no padding, boolean (B, K)."""
    own = step.site.kind == "decoder" and record.targets
    sentences: Sequence[Sentence] = record.targets if own else record.sentences
    keys = step.shape[3] - step.has_sink
    return torch.arange(keys) < torch.tensor([[sentence.length] for sentence in sentences])


def _without(finding: Finding, axes: Sequence[str]) -> Finding:
    """A finding whose cells do not name axes along which the mask is the same."""
    places = [place for place, axis in enumerate(finding.axes) if axis not in axes]
    cells = tuple(tuple(cell[place] for place in places) for cell in finding.cells)
    return replace(finding, axes=tuple(finding.axes[place] for place in places), cells=cells)


def _predicts_next(record: Record) -> bool:
    return record.prediction is not None and record.prediction.blanks is None and not record.targets


def _added(step: Step) -> Iterator[Finding]:
    """Masks of 0 and 1 that were handed over as floats: they are added to the scores and block nothing."""
    for bias in (bias for bias in step.scoring.bias if isinstance(bias, Tensor)):
        if bool(((bias == 0) | (bias == 1)).all()) and bool((bias == 0).any()):
            message = "The mask holds floats of 0 and 1, which are added to the scores: it blocks nothing."
            yield Finding("values", "error", message, "Hand over mask.bool(), where True = may attend.")


def _merged(masks: Mapping[str, Report]) -> Iterable[Finding]:
    """The findings about masks, each once, with the names of its calls."""
    calls: dict[Finding, list[str]] = {}
    for name, report in masks.items():
        for finding in report.findings:
            if finding.severity != "note":
                calls.setdefault(finding, []).append(name)
    return (replace(finding, calls=tuple(names)) for finding, names in calls.items())
