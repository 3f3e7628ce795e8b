"""Findings of a check: the rule, a message, the affected cells, and a repair."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from attnviz.core.amounts import counted

SEVERITIES = ("note", "warning", "error")
"""An error gives wrong attention; a warning is unusual but may be intended; a note says how the array was read."""
MOST = 1000
"""Maximum number of cells that a finding lists."""
NOT_SURE = "Not sure: state what is intended."
AXES = ("batch", "head", "query", "key")


@dataclass(frozen=True)
class Finding:
    """One result of a check: an error, a warning or a note.

    Attributes:
        rule: name of the rule, as in docs/reference/check.md.
        severity: one of `SEVERITIES`.
        message: one sentence.
        fix: repair; for a note, the repair in case the note is wrong.
        axes: names of the axes that the indices of a cell belong to, from `AXES`. Without "key", a cell is a row.
        cells: indices of the affected cells in the array as given, at most the first 1,000.
        total: number of all affected cells.
        calls: names of the attention calls of a model that have this error.
    """

    rule: str
    severity: str
    message: str
    fix: str = ""
    axes: tuple[str, ...] = ()
    cells: tuple[tuple[int, ...], ...] = ()
    total: int = 0
    calls: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Write the finding as lines of text: rule and message, calls and cells (not for a note), and the repair."""
        lines = [f"{self.severity} {self.rule}: {self.message}"]
        if self.severity == "note":
            return [*lines, f"  {self.fix}"] if self.fix else lines
        lines += [f"  in: {', '.join(self.calls)}"] if self.calls else []
        lines += [f"  at: {self.places(3)}"] if self.cells else []
        return [*lines, f"  fix: {self.fix}"] if self.fix else lines

    def places(self, most: int = 5) -> str:
        """Describe at most `most` cells: "head 1 query 0 key 3; head 1 query 0 key 4; ... (12 in all)"."""
        cells = [zip(self.axes, cell, strict=True) for cell in self.cells[:most]]
        texts = [" ".join(f"{axis} {index}" for axis, index in cell) for cell in cells]
        return "; ".join([*texts, *([f"... ({self.total:,} in all)"] if self.total > len(texts) else [])])


def status_of(findings: Iterable[Finding], question: str = "", *, strict: bool = False) -> int:
    """Compute the exit status: 1 for an error (or, if strict, a warning), 3 if a question is open, else 0."""
    failing = ("error", "warning") if strict else ("error",)
    if any(finding.severity in failing for finding in findings):
        return 1
    return 3 if question else 0


@dataclass(frozen=True, kw_only=True)
class Report:
    """Findings about an array, a batch or a model, with the assumptions behind them.

    Attributes:
        findings: all findings, the most severe first.
        question: question that the user must answer before the check can be completed; "" for none.
        assumed: sentence with the assumed intent, such as "a causal decoder with padding"; "" if one was given.
    """

    findings: tuple[Finding, ...] = ()
    question: str = ""
    assumed: str = ""

    @property
    def ok(self) -> bool:
        """Whether no error was found."""
        return not self.rules("error")

    @property
    def verdict(self) -> str:
        """Summary: the number of errors and warnings, "Nothing wrong was found.", or "Not sure"."""
        counts = {level: sum(finding.severity == level for finding in self.findings) for level in ("error", "warning")}
        if any(counts.values()):
            return ", ".join(counted(number, level) for level, number in counts.items() if number)
        return NOT_SURE if self.question or "ambiguous" in self.rules() else "Nothing wrong was found."

    def rules(self, *severities: str) -> set[str]:
        """Collect the rules of all findings, or of the findings with the given severities."""
        return {finding.rule for finding in self.findings if finding.severity in (severities or SEVERITIES)}

    @property
    def faults(self) -> set[str]:
        """Rules of all errors and warnings, except of warnings about empty rows, which may be intended."""
        return self.rules("error") | (self.rules("warning") - {"empty-row"})

    def status(self, *, strict: bool = False) -> int:
        """Compute the exit status: 1 for an error (or, if strict, a warning), 3 if a question is open, else 0."""
        return status_of(self.findings, self.question, strict=strict)

    def heading(self) -> list[str]:
        """Write the first lines of the report: the input and the assumptions."""
        return []

    def lines(self) -> list[str]:
        """Write the report as lines of text: the heading, one block per finding, the question and the verdict."""
        blocks = [line for finding in self.findings for line in ["", *finding.lines()]]
        question = ["", f"question: {self.question}"] if self.question else []
        return [*self.heading(), *blocks, *question, "", self.verdict]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def to_json(self) -> dict[str, Any]:
        """Convert all fields except tensors for `json.dumps`."""
        plain = {name: value for name, value in vars(self).items() if not isinstance(value, Tensor)}
        return plain | {"ok": self.ok, "findings": [asdict(finding) for finding in self.findings]}


@dataclass(frozen=True)
class ArrayReport(Report):
    """Findings about an array, with its kind, convention and shape.

    Attributes:
        kind: "mask", "weights" or "scores".
        convention: convention of a mask, one of `attnviz.check.CONVENTIONS`; else None.
        causal: whether the future is hidden: by the intent, by the assumed mask, or by the array.
        shape: (B, H, Q, K) as read; an axis that the array lacks has size 1.
        reasons: sentences that explain how the array was read.
        repaired: mask with every fix applied, in its convention; None if it has no error, or would still have one.
    """

    kind: str
    convention: str | None
    causal: bool
    shape: tuple[int, int, int, int]
    reasons: tuple[str, ...] = ()
    repaired: Tensor | None = None

    def heading(self) -> list[str]:
        """Write what the array is: kind, convention and shape, then the assumed intent, and the reasons."""
        facts = [self.kind, self.convention, "causal" if self.causal else None]
        summary = f"{', '.join(filter(None, facts))}, (B, H, Q, K) = {self.shape}"
        correction = "an encoder, give --intent two-way" if self.causal else "a decoder, give --intent causal"
        assumed = [f"  Assumed: {self.assumed}. If it is {correction}."] if self.assumed else []
        return [summary, *assumed, *(f"  {reason}" for reason in self.reasons)]


@dataclass(frozen=True, eq=False)
class Array:
    """An array laid out as (B, H, Q, K)."""

    values: Tensor  # (B, H, Q, K); an axis that the array lacks has size 1
    axes: tuple[str, ...]  # names of the axes that the array has, of `AXES`

    def findings(
        self, rule: str, severity: str, message: str, fix: str = "", cells: Tensor | None = None, noun: str = ""
    ) -> list[Finding]:
        """Make a list with one finding about the True cells, boolean (B, H, Q, K), or (B, H, Q) for rows; empty if none
        is True. With a `noun`, the message begins with the count: "row" and "with only NaN" give "3 rows with ..."."""
        if cells is None:
            return [Finding(rule, severity, message, fix)]
        number = int(cells.count_nonzero())
        if not number:
            return []
        message = f"{counted(number, noun)} {message}" if noun else message
        axes = [axis for axis in range(cells.dim()) if AXES[axis] in self.axes]
        if not axes:
            return [Finding(rule, severity, message, fix)]
        for axis in range(cells.dim()):
            cells = cells if axis in axes else cells.any(axis, keepdim=True)
        flat, size, total = cells.flatten(), MOST, int(cells.count_nonzero())
        while size < len(flat) and int(flat[:size].count_nonzero()) < min(MOST, total):  # avoids a full search
            size *= 4
        positions = torch.unravel_index(flat[:size].nonzero()[:MOST, 0], cells.shape)
        indices = tuple(zip(*[positions[axis].tolist() for axis in axes], strict=True))
        return [Finding(rule, severity, message, fix, tuple(AXES[axis] for axis in axes), indices, total)]


def future(queries: int, keys: int) -> Tensor:
    """Mark the keys after each query, boolean (Q, K); with more keys than queries (a cache), the ends are aligned."""
    offset = max(0, keys - queries)
    return torch.arange(keys) > torch.arange(queries)[:, None] + offset


def rows_to_check(values: Tensor, tokens: Tensor | None) -> Tensor:
    """Mark the queries that are not padding, in a boolean tensor that broadcasts to (B, H, Q). All are marked if
    `tokens`, (B, K), is None, or the `values`, (B, H, Q, K), have different numbers of queries and keys."""
    is_known = tokens is not None and values.shape[2] == values.shape[3]
    return tokens[:, None] if is_known else torch.ones(1, 1, 1, dtype=torch.bool)
