"""Check that the outputs of a run are finite: NaN never compares equal, so checks for leaks would miss a leak."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from attnviz.core.amounts import counted
from attnviz.core.display import visible_text
from attnviz.core.errors import NotFiniteError
from attnviz.core.record import Record, Step

NAN_MASK = "0 * -inf is NaN, so make it with torch.where or masked_fill"
BEFORE = "look at what comes before it: an empty row of an earlier layer, or numbers too large for their type"
AFTER = "look at what comes after it, such as a division by 0 or numbers too large for their type"


def odd_rows(output: Tensor) -> Tensor:
    """Mark positions of an output (n, d) with NaN, +inf or only -inf, boolean (n,); a single -inf excludes a word."""
    return (output.isnan() | (output == torch.inf)).any(-1) | (output == -torch.inf).all(-1)


def check_finite(record: Record, output: Tensor, length: int, labels: list[str]) -> None:
    """Refuse a run with NaN or infinite outputs, (n, d), at one of the first `length` positions (no padding).

    Raises:
        NotFiniteError: with the first position, the first step that is not finite, and the likely cause.
    """
    if odd := _describe_first_odd(record, output, length, labels):
        place, cause = odd
        raise NotFiniteError(f"{place}, so nothing can be compared: {cause}.")


def not_finite(record: Record) -> str:
    """Describe NaN or infinite outputs in a sentence with the first position and the likely cause; "" without such
    outputs, or if the edits set empty rows to NaN."""
    if record.edits.empty_rows == "nan" or bool(record.output.isfinite().all()):
        return ""
    for sentence, output in zip(record.read, record.output, strict=True):
        if odd := _describe_first_odd(record, output, sentence.length, sentence.labels):
            return f"{odd[0]}: {odd[1]}."
    return ""


def _describe_first_odd(record: Record, output: Tensor, length: int, labels: Sequence[str]) -> tuple[str, str] | None:
    """Describe the first odd position of an output (n, d), and the cause; None if there is no such position."""
    rows = odd_rows(output)[:length].nonzero().flatten().tolist()
    if not rows:
        return None
    kind = "NaN" if output[rows[0]].isnan().any() else "infinite"
    more = f" and at {counted(len(rows) - 1, 'other position')}" if len(rows) > 1 else ""
    cause = next(filter(None, map(_first_cause, record.steps)), f"all attention is finite, so {AFTER}")
    return f"The output is {kind} at position {rows[0]} “{visible_text(labels[rows[0]])}”{more}", cause


def _first_cause(step: Step) -> str:
    """Describe the first tensor of a step that is not finite, with its place and a remedy; empty if all are finite."""
    return next(_find_causes(step), "")


def _find_causes(step: Step) -> Iterator[str]:
    for bias in (addend for addend in step.scoring.bias if isinstance(addend, Tensor)):
        if not bool(bias.isfinite().all()):
            query, key = (~bias.isfinite()).nonzero()[0, -2:].tolist()
            kind = "NaN" if bias.isnan().any() else "an infinite number"
            yield f"the mask of {step.site} holds {kind}, first at query {query} key {key} ({NAN_MASK})"
    for name in ("query", "key", "value"):
        tensor = getattr(step, name)
        if not bool(tensor.isfinite().all()):
            head, position = (~tensor.isfinite()).nonzero()[0, 1:3].tolist()
            yield f"the {name} of {step.site}, head {head}, position {position}, is the first; {BEFORE}"
    if bool((step.logsumexp == -torch.inf).any()):
        head, query = (step.logsumexp == -torch.inf).nonzero()[0, 1:].tolist()
        yield f"query {query} has no key left in {step.site}, head {head}, and softmax makes NaN of such a row"
    if not bool(step.logsumexp.isfinite().all()):
        head, query = (~step.logsumexp.isfinite()).nonzero()[0, 1:].tolist()
        yield f"scores of {step.site}, head {head}, query {query}, are too large for their type"
