"""Check a model: the masks of a forward pass, and whether outputs change with hidden tokens, padding or other texts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.capturing.softmax import LATE_MASK, WRONG_AXIS
from attnviz.check import AXES, ArrayReport, Finding, Report, check
from attnviz.check.difference_causes import RunResult
from attnviz.check.findings import SEVERITIES, status_of
from attnviz.check.leak_test import PROBE, leak_test, masks, open_cells
from attnviz.check.leaks import LeakTest
from attnviz.check.mask_mistakes import kind_or_mask
from attnviz.check.same_as_alone import ELSEWHERE, MOVED, SameRun, batch_test, same_run, why_unsteady, with_longer_text
from attnviz.core.amounts import counted
from attnviz.core.display import as_sentence, in_title, visible_text
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError, NotFiniteError, UnsteadyError
from attnviz.core.masks import Full, Mask, Subsequent
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Source
from attnviz.sources.wrapped import Wrapped

OF_CAPTURE = {
    LATE_MASK: ("late-mask", "Mask before the softmax: scores.masked_fill(~may_attend, -torch.inf).softmax(-1)."),
    WRONG_AXIS: ("softmax-axis", "Take it over the keys, the last axis of scores: scores.softmax(-1)."),
}
"""Rule and repair for each error that a capture reports, by a part of its sentence."""


@dataclass(frozen=True, eq=False)
class ModelReport(Report):
    """Findings about a model on a text.

    Attributes:
        name, text: name of the model, and the text.
        passed: one sentence per test that found no error.
        skipped: one sentence per test that could not be run, with the reason.
        masks: report on the mask of each attention call, by name of the call.
        future: leak test; None if the outputs cannot be compared.
        runs: comparison of several ways to run the text and a longer one; None if not requested.
    """

    name: str
    text: str
    passed: tuple[str, ...]
    skipped: tuple[str, ...]
    masks: Mapping[str, ArrayReport]
    future: LeakTest | None
    runs: SameRun | None = None

    def status(self, *, strict: bool = False) -> int:
        """Compute the exit status, as `Report.status`; also 3 if no output could be compared."""
        blind = "no output depends on another token" if self.future is None or self.future.is_blind else ""
        return status_of(self.findings, self.question or blind, strict=strict)

    def heading(self) -> list[str]:
        calls = counted(len(self.masks), "attention call")
        return [f"{visible_text(self.name)} on '{in_title(self.text)}': {calls}", *filter(None, [self.assumed])]

    def lines(self) -> list[str]:
        return [*super().lines(), "", *self.passed, *self.skipped]

    def to_json(self) -> dict[str, Any]:
        test = self.future
        return super().to_json() | {
            "masks": {name: report.to_json() for name, report in self.masks.items()},
            "future": test and {"pairs": test.pairs, "promised": test.promise, "tested": not test.is_blind},
            "runs": self.runs and self.runs.to_json(),
        }


def check_model(
    source: Source,
    text: str | None = None,
    *,
    intent: str | Mask | None = None,
    edits: Edits = Edits(),
    runs: Sequence[str] = (),
    targets: tuple[Sentence, ...] = (),
    report: Callable[[int, int], object] = lambda done, of: None,
) -> ModelReport:
    """Check the masks of a model, and whether its outputs change with another token, padding or another text. The masks
    come from a batch of the text and a longer one, so that they include padding if the model supports it. Outputs are
    not compared if two runs on the same input differ.

    Args:
        text: text to run; by default the first example of the source.
        intent: "causal", "two-way", a mask, or a mask as text; by default inferred from the masks.
        edits: changes to the attention.
        runs: further ways to run the text and a longer one, as in `attnviz.same_run`.
        targets: decoder input for the leak test, one sentence; by default what the model writes.
        report: function that is called with the number of tokens changed so far and the number of all.

    Raises:
        AttnvizError: if the text cannot be run, or the intent cannot be read.
    """
    text = text or next(iter(source.examples), PROBE)
    intent = kind_or_mask(intent) if isinstance(intent, str) and intent != "two-way" else intent
    checked = _Check(source, text, intent, edits)
    future = comparison = None
    with torch.random.fork_rng():
        message_and_fix = why_unsteady(lambda: source.run(checked.alone, edits).output[0], MOVED)
    if message_and_fix:
        checked.findings.append(Finding("random", "error", *message_and_fix))
    else:
        future = checked.test_tokens(targets, report)
    is_comparable = not checked.errors & {"nan", "random"}
    try:
        for result in batch_test(source, text, edits, checked.name) if is_comparable else ():
            checked.judge(result)
    except NotFiniteError as error:
        checked.findings.append(Finding("nan", "error", str(error)))
    except AttnvizError as error:
        checked.skipped.append(f"Padding and other texts: not tested further. {error}")
    if runs and "random" not in checked.errors:
        comparison = same_run(source, with_longer_text(text), runs)
        for result in comparison.results:
            message = result.message or "the same answer."
            message = f"not tried. {message}" if result.cause == "not tried" else message
            checked.judge(replace(result, run="runs", message=f"{result.run}: {message}"), "Runs: ")
    question = next((report.question for report in checked.reports.values() if report.question), "")
    prediction = checked.record.prediction
    is_language_model = prediction and prediction.blanks is None and not checked.record.targets
    if not question and intent is None and not (checked.is_causal or checked.hides_some) and is_language_model:
        question = "Does the model predict the next token? No mask hides the future. Give --intent causal or two-way."
    return ModelReport(
        name=source.name,
        text=text,
        passed=tuple(checked.passed),
        skipped=tuple(checked.skipped),
        masks={checked.name(site): report for site, report in checked.reports.items()},
        future=future and replace(future, is_faulty=bool(checked.errors)),
        runs=comparison,
        findings=tuple(sorted(checked.findings, key=lambda finding: -SEVERITIES.index(finding.severity))),
        question=question,
        assumed=checked.assumed(),
    )


class _Check:
    """State of a model check: the record of a text and a longer one, the intent, and the findings so far."""

    def __init__(self, source: Source, text: str, intent: str | Mask | None, edits: Edits):
        self.source, self.intent, self.edits = source, intent, edits
        self.alone = source.tokenize([text])
        try:
            self.record = source.run(source.tokenize(with_longer_text(text)), edits)
        except AttnvizError:  # the model cannot read the longer text, or texts of different lengths
            self.record = source.run(self.alone, edits)
        self.kind = "decoder" if any(site.kind == "decoder" for site in self.record.sites) else "encoder"
        self.steps = [step for step in self.record.steps if step.site.kind == self.kind]
        self.passed: list[str] = []
        self.skipped: list[str] = []
        self.reports = {step.site: self._mask_report(step) for step in self.record.steps}
        looks_causal = any(self.reports[step.site].causal for step in self.steps)
        self.is_causal = intent == "causal" or (intent is None and (self.kind == "decoder" or looks_causal))
        if isinstance(intent, Mask) and (size := len(self.alone[0].tokens)) > 1:
            self.is_causal = not bool(intent.grid(size, size)[-2, -1])  # the last key is hidden from the query before
        last = len(self.record.sentences) - 1
        self.hides_some = any(bool((~open_cells(step, last)).triu(1).any()) for step in self.steps)
        calls: dict[Finding, list[str]] = {}
        for step in self.record.steps:
            for finding in (finding for finding in self.reports[step.site].findings if finding.severity != "note"):
                line = f" ({step.line})" if step.line else ""
                calls.setdefault(finding, []).append(self.name(step.site) + line)
        self.findings = [replace(finding, calls=tuple(names)) for finding, names in calls.items()]
        self.findings += map(capture_finding, (*self.record.findings, *filter(None, [self.record.unseen])))

    @property
    def errors(self) -> set[str]:
        """Rules of the errors found so far."""
        return {finding.rule for finding in self.findings if finding.severity == "error"}

    def name(self, site: Site) -> str:
        """Name an attention call as the source does, but "decoder", not "encoder", in a causal model of one text."""
        name = self.source.site_name(site)
        is_decoder = self.is_causal and self.kind == "encoder" and not self.record.targets
        return name.replace("encoder", "decoder", 1) if is_decoder else name

    def _mask_report(self, step: Step) -> ArrayReport:
        """Check the mask of an attention call, (B, H, Q, K), or (B, 1, Q, K) if all heads share it."""
        mask = torch.stack([masks(step, text) for text in range(step.shape[0])])
        mask = mask[:, :1] if bool((mask == mask[:, :1]).all()) else mask
        tokens, kind = _tokens(self.record, step), step.site.kind
        intent = self.intent if kind == self.kind else None
        if intent is None and kind == "decoder":
            rows = mask[tokens[:, None].expand(-1, mask.shape[1], -1)] if mask.shape[2] == mask.shape[3] else mask
            later = torch.ones(mask.shape[2:], dtype=torch.bool).triu(1) & mask & tokens[:, None, :, None]
            is_right = bool(rows.any(-1).all()) and not bool(later.any())
            intent = None if is_right else "causal"  # a right mask may hide more than the future, such as a window
        intent = "two-way" if kind == "cross" and intent is None else intent
        modules = dict(self.source.code.model.named_modules()) if isinstance(self.source, Wrapped) else {}
        is_masked = isinstance(modules.get(step.name), nn.MultiheadAttention)  # there True = masked, also in repairs
        convention, array = ("true-is-masked", ~mask) if is_masked else ("may-attend", mask)
        options = {"kind": "mask", "convention": convention, "padding": None if bool(tokens.all()) else tokens}
        report = check(array, intent=intent, **options)
        if report.question and intent is None and kind == "encoder" and not self.record.targets:
            num_errors = 0
            for name in ("causal", "two-way"):  # choose the intent for which the fewest known mistakes explain the mask
                assumed = check(array, intent=name, **options)
                errors = [finding for finding in assumed.findings if finding.severity == "error"]
                has_unknown = any(finding.message.startswith("It is not") for finding in errors)
                if errors and not has_unknown and (report.question or len(errors) < num_errors):
                    report, num_errors = assumed, len(errors)
        findings = []
        for finding in report.findings:  # omit axes along which the mask is constant
            kept = [i for i, axis in enumerate(finding.axes) if mask.shape[AXES.index(axis)] > 1]
            axes = tuple(finding.axes[i] for i in kept)
            cells = tuple(tuple(cell[i] for i in kept) for cell in finding.cells)
            findings.append(replace(finding, axes=axes, cells=cells))
        for bias in step.scoring.bias:
            if isinstance(bias, Tensor) and bias.unique().tolist() == [0, 1]:
                message = "The mask holds floats of 0 and 1, which are added to the scores: it blocks nothing."
                fix = f"Pass mask.bool(), where True = {'masked' if is_masked else 'may attend'}."
                findings.insert(0, Finding("values", "error", message, fix))
        return replace(report, findings=tuple(findings), question="" if kind == "decoder" else report.question)

    def test_tokens(self, targets: tuple[Sentence, ...], report: Callable[[int, int], object]) -> LeakTest | None:
        """Run the leak test of `leak_test` and add its findings; return the test, or None if it could not be run."""
        mask = {"causal": Subsequent(), "two-way": Full()}.get(self.intent, self.intent)
        if mask is None and self.is_causal and self.kind == "encoder":
            mask = Subsequent()
        try:
            test = leak_test(self.source, self.alone, self.edits, promised=mask, report=report, targets=targets)
        except UnsteadyError as error:
            fix = "Call model.eval(), and write F.dropout(x, p, self.training): or dropout stays on in evaluation."
            self.findings.append(Finding("random", "error", str(error), fix))
            return None
        except NotFiniteError as error:
            self.findings.append(Finding("nan", "error", str(error)))
            return None
        except InputError as error:
            self.skipped.append(f"Hidden tokens: not tested. {error}")
            return None
        if any("changes the mask itself" in note for note in test.notes):  # a mask of this kind equals no fixed intent
            self.findings = [finding for finding in self.findings if finding.rule != "deviation"]
            hidden = [~open_cells(step).any(0) & _tokens(self.record, step)[0] for step in self.steps]
            positions = torch.stack(hidden).all(0).nonzero().flatten().tolist() if hidden else []
            for position in positions:
                token = visible_text(self.record.texts(self.steps[0].site)[1].tokens[position].text)
                message = f"“{token}” ({position}) is hidden from every query, although it is not padding."
                self.findings.append(Finding("padding", "error", message, "Mask by the padding id alone: ids != pad."))
        result = f"no output moved with a token that its mask hides ({test.promise})."
        if test.is_blind:
            self.skipped.append("Hidden tokens: not tested. No output changed when any other token was changed.")
        elif test.pairs:
            (queries, keys), leaks = test.leaks.shape, test.leaks
            opening = [step.site for step in self.steps if (open_cells(step)[:queries, :keys] & leaks).any()]
            first = f", first in {self.name(opening[0])}" if opening else ""
            message = f"{counted(len(test.pairs), 'output')} saw a token that is hidden ({test.promise}){first}: "
            message += "; ".join(test.in_words(*pair) for pair in test.pairs[:3]) + "."
            self._add_changed_outputs("leak", message, ELSEWHERE, bool((leaks & test.opened).any()))
        elif self.errors:
            self.skipped.append(f"Hidden tokens: not judged until the errors are fixed; {result}")
        else:
            self.passed += [f"Hidden tokens: {result}", *(f"  {as_sentence(note)}" for note in test.notes)]
        return test

    def judge(self, result: RunResult, begin: str = "") -> None:
        """Add the result of a run to the passed tests, the skipped tests or the findings."""
        if result.same:
            self.passed.append(begin + result.message)
        elif result.cause == "not tried":
            self.skipped.append(begin + result.message)
        else:
            self._add_changed_outputs(result.run, result.message, result.fix, result.cause == "mask")

    def _add_changed_outputs(self, rule: str, message: str, fix: str, is_open: bool) -> None:
        """Add a finding about outputs that changed: an error, or a note if an earlier error explains the change.
        `is_open`: whether the mask lets these outputs see the token, so that a wrong mask explains the change."""
        explaining = {"late-mask", "softmax-axis"} | ({"broadcast"} if rule == "batch" else set())
        is_explained = bool(self.errors) and (is_open or bool(self.errors & explaining))
        if is_explained or (is_open and rule != "runs"):
            fix = "The mask causes this: fix the mask first."
        self.findings.append(Finding(rule, "note" if is_explained else "error", message, fix))

    def assumed(self) -> str:
        """Describe the assumed kind of model, and the option that corrects it; "" if the intent was given."""
        if self.intent is not None:
            return ""
        is_padded = not all(bool(_tokens(self.record, step).all()) for step in self.record.steps)
        padding = " with padding" if is_padded else ""
        if self.is_causal:
            return f"Assumed: a causal decoder{padding}. If it is an encoder, give --intent two-way."
        kind = "a mask that hides a part of the future" if self.hides_some else "a two-way encoder"
        return f"Assumed: {kind}{padding}. If it is a decoder, give --intent causal."


def capture_finding(sentence: str) -> Finding:
    """Convert a sentence from a capture to a finding: an error if it is one of `OF_CAPTURE`, else a note."""
    for fault, (rule, fix) in OF_CAPTURE.items():
        if fault in sentence:
            return Finding(rule, "error", as_sentence(sentence), fix)
    return Finding("attention", "note", as_sentence(sentence))


def _tokens(record: Record, step: Step) -> Tensor:
    """Mark the keys of a call that are not padding, boolean (B, K)."""
    sentences = record.usual_texts(step.site)[1]
    return torch.arange(step.shape[3] - step.has_sink) < torch.tensor([[sentence.length] for sentence in sentences])
