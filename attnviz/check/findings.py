"""Findings of a check: a rule, a sentence, the cells that show it, and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnviz.core.amounts import counted

SEVERITIES = ("note", "warning", "error")
"""An error gives wrong attention; a warning is unusual and may be meant; a note says how the array was read."""

MOST = 1000
"""Cells kept of a finding, at most."""

NOT_SURE = "Not sure: the array alone does not tell what is meant."

AXES = ("batch", "head", "query", "key")

CHECKS = {
    "broadcast": "how the shape meets scores of (B, H, Q, K): note = how, error = not, or silently on other axes",
    "convention": "the convention in which a mask is read, where it was not said",
    "values": "a mask holds something else than booleans, 0 and 1, or 0 and one very negative number",
    "nan": "a number is NaN; a row that is NaN throughout is what -inf leaves of a fully masked row",
    "inf": "a score is +inf, or a weight or an additive mask +inf or (weights) -inf",
    "inverted": "a part of the intended mask, its padding or all of it has open and blocked swapped",
    "transposed": "a part of the intended mask, or all of it, has rows and columns swapped",
    "shifted": "a part of the intended mask is moved by one query, or its padding by one key",
    "deviation": "a part of the intended mask is missing or too much, or single cells differ from it",
    "ambiguous": "the mask alone cannot tell its convention, or the weights whether sinks take a share of them",
    "empty-row": "no key left: error in masks and scores; warning in weights, in a kind of mask that has such rows and "
    "for queries of padding (a note if padding was said, if the mask was said, or if the fill is a finite number)",
    "future-leak": "a key after the query is open, or has a weight above 1e-6; error if the intent hides the future",
    "blocks-itself": "a causal part also hides each query's own key",
    "weak-fill": "an additive mask blocks by a number above -1,000: e to that number is left of the weight; or "
    "scores hold one number wherever the intended mask blocks, and it does not block",
    "range": "a weight is below 0 or above 1, by more than the tolerance of row sums",
    "row-sum": "a row of weights does not sum to 1, within max(1e-3, 2 eps of its precision), or half a digit per key "
    "where all have the same few digits",
    "wrong-axis": "rows of weights do not sum to 1, but columns, heads or sentences do; or a mask blocks queries where "
    "padding blocks keys",
    "masked-after-softmax": "only rows with a weight of 0 fall short of 1, and none exceeds it",
}
"""Every rule of arrays, and when it speaks."""

MODEL_CHECKS = {
    "padding": "a batch: its mask is open at padding or blocks a token; a model: outputs move with padding",
    "positions": "a batch: the first token of a text that is padded at the left has not position 0",
    "late-mask": "a model: weights become 0 after the softmax, so that rows do not sum to 1",
    "softmax-axis": "a model: the softmax is taken over the queries or another axis that is not the keys'",
    "random": "a model: the same input gives two outputs, as with dropout",
    "leak": "a model: an output moves when a token is changed that is hidden from it, and no mask explains that",
    "runs": "a model: it gives another answer packed, padded, with a cache or in a batch than alone",
    "batch": "a model: outputs move when another text is in the batch",
    "documents": "a batch: packed documents see each other, or their lengths differ from their positions",
    "labels": "a batch: the loss counts padding or no end of text, or labels are shifted twice, or cross documents",
}
"""Every rule of models and batches besides, and when it speaks."""


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Attributes:
        rule: name in `CHECKS`.
        severity: one of `SEVERITIES`.
        message: one sentence.
        fix: what to do; of a note what to do if it is not so.
        axes: what the numbers of each cell count: some of `AXES`. Without "key" a cell is a row.
        cells: indices into the array as it was given, at most the first 1,000.
        total: number of cells.
        calls: names of the attention calls of a model that have it.
    """

    rule: str
    severity: str
    message: str
    fix: str = ""
    axes: tuple[str, ...] = ()
    cells: tuple[tuple[int, ...], ...] = ()
    total: int = 0
    calls: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        lists = {"axes": list(self.axes), "cells": [list(cell) for cell in self.cells], "calls": list(self.calls)}
        return {**vars(self), **lists}

    def lines(self) -> list[str]:
        """As text."""
        rows = [f"{self.severity} {self.rule}: {self.message}"]
        if self.severity == "note":
            return [*rows, f"  {self.fix}"] if self.fix else rows
        rows += [f"  in: {', '.join(self.calls)}"] if self.calls else []
        rows += [f"  at: {self.places(3)}"] if self.cells else []
        return [*rows, f"  fix: {self.fix}"] if self.fix else rows

    def places(self, most: int = 5) -> str:
        """The first cells in words: "head 1 query 0 key 3; head 1 query 0 key 4; ... (12 in all)"."""
        named = [" ".join(f"{axis} {n}" for axis, n in zip(self.axes, cell, strict=True)) for cell in self.cells[:most]]
        more = [f"... ({self.total:,} in all)"] if self.total > len(named) else []
        return "; ".join([*named, *more])


def status_of(findings: Iterable[Finding], question: str = "", *, strict: bool = False) -> int:
    """Exit status: 1 for an error (or, if strict, a warning), 3 if a question is open, else 0."""
    failing = ("error", "warning") if strict else ("error",)
    if any(finding.severity in failing for finding in findings):
        return 1
    return 3 if question else 0


@dataclass(frozen=True)
class Report:
    """Kind and shape that an array was read as, and the findings.

    Attributes:
        kind: "mask", "weights" or "scores".
        convention: that of a mask, one of `attnviz.check.CONVENTIONS`; else None.
        causal: whether the future is hidden: by the intent, by the mask that it was taken for, or by the array.
        shape: (B, H, Q, K) as it was read; an axis that is not there counts 1.
        reasons: sentences that say why it was read so.
        findings: the worst first.
        question: what has to be answered for the rest to be judged; "" if nothing.
        assumed: mask that it was taken for where no intent was stated: "a causal decoder with padding".
        repaired: mask with every fix applied, in its convention; None if nothing is wrong, or it would not pass.
    """

    kind: str
    convention: str | None
    causal: bool
    shape: tuple[int, int, int, int]
    reasons: tuple[str, ...]
    findings: tuple[Finding, ...]
    question: str = ""
    assumed: str = ""
    repaired: Tensor | None = None

    @property
    def worst(self) -> str | None:
        """The severity of the worst finding; None if there is none."""
        return max((finding.severity for finding in self.findings), key=SEVERITIES.index, default=None)

    @property
    def ok(self) -> bool:
        """Whether no error was found."""
        return self.worst != "error"

    @property
    def verdict(self) -> str:
        """Summary: number of errors and warnings, or that nothing wrong or certain was found."""
        counts = {each: sum(finding.severity == each for finding in self.findings) for each in ("error", "warning")}
        if any(counts.values()):
            return ", ".join(counted(number, severity) for severity, number in counts.items() if number)
        return NOT_SURE if self.question or "ambiguous" in self.rules() else "Nothing wrong was found."

    def rules(self, *severities: str) -> set[str]:
        """The rules that were found, of these severities or of all."""
        return {finding.rule for finding in self.findings if finding.severity in (severities or SEVERITIES)}

    def status(self, *, strict: bool = False) -> int:
        """Exit status of the command: 1 for an error (or, if strict, a warning), 3 if a question is open, else 0."""
        return status_of(self.findings, self.question, strict=strict)

    def lines(self) -> list[str]:
        """As text: what the array was read as, a block for each finding, and a count."""
        convention = f", {self.convention}" if self.convention else ""
        causal = ", causal" if self.causal else ""
        read = f"{self.kind}{convention}{causal}, (B, H, Q, K) = {self.shape}"
        blocks = [line for finding in self.findings for line in ["", *finding.lines()]]
        asked = ["", f"question: {self.question}"] if self.question else []
        other = "an encoder: --intent two-way" if self.causal else "a decoder: --intent causal"
        assumed = [f"  Assumed: {self.assumed}. If it is {other}."] if self.assumed else []
        return [read, *assumed, *(f"  {reason}" for reason in self.reasons), *blocks, *asked, "", self.verdict]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def to_json(self) -> dict[str, Any]:
        lists = {"shape": list(self.shape), "reasons": list(self.reasons), "ok": self.ok, "worst": self.worst}
        lists["findings"] = [finding.to_json() for finding in self.findings]
        return {name: value for name, value in vars(self).items() if name != "repaired"} | lists


@dataclass(frozen=True, eq=False)
class Laid:
    """An array laid out as (B, H, Q, K).

    Attributes:
        values: (B, H, Q, K); an axis that was not given has size 1.
        axes: the axes that were given, some of `AXES`.
    """

    values: Tensor
    axes: tuple[str, ...]

    def findings(
        self, rule: str, severity: str, message: str, fix: str = "", cells: Tensor | None = None, noun: str = ""
    ) -> list[Finding]:
        """A finding whose cells are those of a boolean tensor, (B, H, Q, K) or (B, H, Q) of rows; none if no cell is.

        Args:
            noun: what is counted; the sentence then begins with the number of cells.
        """
        total = 0 if cells is None else int(cells.count_nonzero())
        if cells is not None and not total:
            return []
        message = f"{counted(total, noun)} {message}" if noun else message
        axes = [] if cells is None else [axis for axis in range(cells.dim()) if AXES[axis] in self.axes]
        if not axes:
            return [Finding(rule, severity, message, fix)]
        for axis in set(range(cells.dim())) - {*axes}:
            cells = cells.any(axis, keepdim=True)  # an array without that axis is repeated over it
        flat, size, total = cells.flatten(), MOST, int(cells.count_nonzero())
        while size < len(flat) and int(flat[:size].count_nonzero()) < min(MOST, total):  # the first cells of many
            size *= 4
        places = torch.unravel_index(flat[:size].nonzero()[:MOST, 0], cells.shape)
        indices = tuple(zip(*[places[axis].tolist() for axis in axes], strict=True))
        return [Finding(rule, severity, message, fix, tuple(AXES[axis] for axis in axes), indices, total)]


def future(queries: int, keys: int) -> Tensor:
    """Which keys lie after the query, boolean (Q, K); with more keys than queries the ends are aligned (a cache)."""
    offset = max(0, keys - queries)
    return torch.arange(keys) > torch.arange(queries)[:, None] + offset


def read_rows(values: Tensor, tokens: Tensor | None) -> Tensor:
    """Rows that are read, broadcasts to (B, H, Q): those of queries that are no padding; `tokens` is (B, K)."""
    is_known = tokens is not None and values.shape[2] == values.shape[3]
    return tokens[:, None] if is_known else torch.ones(1, 1, 1, dtype=torch.bool)


def saw(cells: Tensor) -> str:
    """The query and the key of the first of some cells, (B, H, Q, K), by their positions."""
    _, _, query, key = cells.nonzero()[0].tolist()
    offset = max(0, cells.shape[3] - cells.shape[2])
    subject = f"query {query}, at position {query + offset}," if offset else f"position {query}"
    return f"{subject} saw position {key}"


def block_future(queries: int, keys: int) -> str:
    """Code that blocks the future, where the last query stands at the last key."""
    first = max(0, keys - queries)
    where = f", as query 0 stands at position {first} (K - Q)" if first else ""
    return f"Block them: at most tril(diagonal={first}) is open, triu(diagonal={first + 1}) blocked{where}."
