"""Findings of a check: a rule, a sentence, the cells that show it, and what to do."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from attnviz.core.amounts import counted

SEVERITIES = ("note", "warning", "error")
"""An error gives wrong attention; a warning is unusual and may be meant; a note says how the array was read."""

MOST = 1000
"""Cells kept of a finding, at most."""

NOT_SURE = "Not sure: say what is meant."

AXES = ("batch", "head", "query", "key")


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Attributes:
        rule: its name, one of those in docs/reference/check.md.
        severity: one of `SEVERITIES`.
        message: one sentence.
        fix: what to do; for a note, what to do if it is wrong.
        axes: what the numbers of each cell count: some of `AXES`. Without "key" a cell is a row.
        cells: indices into the array as it was given, at most the first 1,000.
        total: number of cells.
        calls: names of the model's attention calls that have this fault.
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


@dataclass(frozen=True, kw_only=True)
class Report:
    """Findings, and what was assumed: of a mask, weights or scores, of a batch, or of a model.

    Attributes:
        findings: the worst first.
        question: what has to be answered for the rest to be judged; "" if nothing.
        assumed: what it was taken for where no intent was stated: "a causal decoder with padding".
    """

    findings: tuple[Finding, ...] = ()
    question: str = ""
    assumed: str = ""

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

    @property
    def faults(self) -> set[str]:
        """Rules of errors, and of warnings but that of rows without a key."""
        return self.rules("error") | self.rules("warning") - {"empty-row"}

    def status(self, *, strict: bool = False) -> int:
        """Exit status: 1 for an error (or, if strict, a warning), 3 if a question is open, else 0."""
        return status_of(self.findings, self.question, strict=strict)

    def heading(self) -> list[str]:
        """Lines that say what was read, and what was assumed."""
        return []

    def lines(self) -> list[str]:
        """As text: what was read, a block for each finding, and a count."""
        blocks = [line for finding in self.findings for line in ["", *finding.lines()]]
        question = ["", f"question: {self.question}"] if self.question else []
        return [*self.heading(), *blocks, *question, "", self.verdict]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def to_json(self) -> dict[str, Any]:
        """All fields but tensors, for `json.dumps`."""
        plain = {name: value for name, value in vars(self).items() if not isinstance(value, Tensor)}
        return plain | {"ok": self.ok, "findings": [asdict(finding) for finding in self.findings]}


@dataclass(frozen=True)
class ArrayReport(Report):
    """Findings about an array, and what it was read as.

    Attributes:
        kind: "mask", "weights" or "scores".
        convention: that of a mask, one of `attnviz.check.CONVENTIONS`; else None.
        causal: whether the future is hidden: by the intent, by the mask that it was taken for, or by the array.
        shape: (B, H, Q, K) as it was read; an axis that is not there counts 1.
        reasons: sentences that say why it was read so.
        repaired: mask with every fix applied, in its convention; None if nothing is wrong, or it would not pass.
    """

    kind: str
    convention: str | None
    causal: bool
    shape: tuple[int, int, int, int]
    reasons: tuple[str, ...] = ()
    repaired: Tensor | None = None

    def heading(self) -> list[str]:
        convention = f", {self.convention}" if self.convention else ""
        causal = ", causal" if self.causal else ""
        read = f"{self.kind}{convention}{causal}, (B, H, Q, K) = {self.shape}"
        other = "an encoder: --intent two-way" if self.causal else "a decoder: --intent causal"
        assumed = [f"  Assumed: {self.assumed}. If it is {other}."] if self.assumed else []
        return [read, *assumed, *(f"  {reason}" for reason in self.reasons)]


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
