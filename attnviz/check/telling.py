"""A report as text, for the shell and for the page."""

from attnviz.check import SEVERITIES, Finding, Report
from attnviz.core.amounts import counted
from attnviz.core.errors import quoted


def lines(name: str, report: Report) -> list[str]:
    """A report as text: what the array was read as, a block for each finding, and a count."""
    called = f"{quoted(name)}: " if name else ""
    convention = f", {report.convention}" if report.convention else ""
    causal = ", causal" if report.causal else ""
    head = f"{called}{report.kind}{convention}{causal}, (B, H, Q, K) = {report.shape}"
    blocks = [line for found in report.findings for line in ["", *_block(found)]]
    return [head, *(f"  {reason}" for reason in report.reasons), *blocks, "", _count(report)]


def _block(finding: Finding) -> list[str]:
    rows = [f"{finding.severity} {finding.rule}", f"  {finding.says}"]
    rows += [f"  at: {finding.places()}"] if finding.cells else []
    return [*rows, f"  fix: {finding.fix}"] if finding.fix else rows


def _count(report: Report) -> str:
    counts = [(sum(found.severity == one for found in report.findings), one) for one in reversed(SEVERITIES)]
    listed = ", ".join(counted(number, name) for number, name in counts if number)
    return listed if report.worst in ("error", "warning") else f"Nothing wrong was found{listed and f' ({listed})'}."
