"""Mistakes, and steps of training alone, in the one attention call that is shown: never in the model.

The settings that change a model (temperature, scale, mask) are `Edits`; these act on the numbers shown and on nothing
else, so no other layer knows of them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.core import attention
from attnviz.core.errors import InputError, check_whole, quoted
from attnviz.core.record import Step
from attnviz.walk.windows import window_positions

ADDED = -1e9
"""Number added to a masked score where masking adds: a large one, where -inf is meant."""

NEARLY = 1e-4
"""A row that sums to 1 but for so much sums to 1: the rest is rounding."""


@dataclass(frozen=True)
class Knobs:
    """Exhibits that act on the shown call alone. The defaults are what attention does.

    Attributes:
        mask_after_softmax: weights of masked keys are set to 0 *after* the softmax, which is wrong: what they took from
            the others stays lost, and rows no longer sum to 1. `masking` then plays no part.
        masking: "replace" masked scores with -inf, or "add" -1e9 to them, which leaves an empty row with weights on
            keys that are masked.
        dropout_p: share of the weights zeroed; the others are divided by 1 - dropout_p. As in training.
        dropout_seed: which weights are zeroed.
    """

    mask_after_softmax: bool = False
    masking: str = "replace"
    dropout_p: float = 0.0
    dropout_seed: int = 0

    def __post_init__(self):
        if self.masking not in ("replace", "add"):
            raise InputError(f"Masking is {quoted(self.masking)}; it is 'replace' (with -inf) or 'add' (-1e9).")
        if isinstance(self.dropout_p, bool) or not 0 <= self.dropout_p < 1:
            raise InputError(f"dropout_p is {quoted(self.dropout_p)}; it must be at least 0 and below 1.")
        check_whole("dropout_seed", self.dropout_seed, 0, 2**31 - 1)

    @property
    def in_words(self) -> tuple[str, ...]:
        """One phrase for each thing that is not as it is in attention; empty if nothing is."""
        phrases = ["mask after the softmax"] if self.mask_after_softmax else []
        phrases += ["-1e9 added where masked"] if self.masking == "add" and not self.mask_after_softmax else []
        phrases += [f"dropout {self.dropout_p:g} (seed {self.dropout_seed})"] if self.dropout_p else []
        return tuple(phrases)


def masked_scores(step: Step, head: int, rows: slice, knobs: Knobs = Knobs(), *, sentence: int = 0) -> Tensor:
    """Input of the softmax, (rows, K)."""
    if knobs.mask_after_softmax:
        return step.scores(head, rows, sentence=sentence)
    if knobs.masking == "replace":
        return step.masked_scores(head, rows, sentence=sentence)
    scores = step.scores(head, rows, sentence=sentence)
    return scores + torch.where(step.may_attend(head, rows, sentence=sentence), 0.0, ADDED).to(scores.dtype)


def softmax(step: Step, head: int, rows: slice, knobs: Knobs = Knobs(), *, sentence: int = 0) -> Tensor:
    """Output of the softmax, (rows, K); before a mask that comes after it."""
    if not knobs.mask_after_softmax and knobs.masking == "replace":
        return step.weights(head, rows, sentence=sentence)
    return attention.normalize(masked_scores(step, head, rows, knobs, sentence=sentence))


def weights(step: Step, head: int, rows: slice, knobs: Knobs = Knobs(), *, sentence: int = 0) -> Tensor:
    """The weights before dropout, (rows, K)."""
    result = softmax(step, head, rows, knobs, sentence=sentence)
    if not knobs.mask_after_softmax:
        return result
    return result.where(step.may_attend(head, rows, sentence=sentence), 0)


def dropped(weights: Tensor, p: float, seed: int, *, head: int = 0, first: int = 0) -> Tensor:
    """Dropout on rows of weights, (R, K), the first of them query `first`; each weight stays the same on average.

    Every row draws from its own seed, so a window loses the weights that the whole loses.
    """
    if not p:
        return weights
    survives = torch.stack([_draw(seed, head, first + row, weights.shape[1]) >= p for row in range(len(weights))])
    return (weights / (1 - p)).where(survives, 0)


def _draw(seed: int, head: int, query: int, keys: int) -> Tensor:
    generator = torch.Generator().manual_seed(((seed * 1_000_003 + head) * 1_000_003 + query) % 2**63)
    return torch.rand(keys, generator=generator)


@dataclass(frozen=True, eq=False)
class Exhibit:
    """The weights of one head as attention makes them, and as the knobs do.

    Attributes:
        queries: the rows.
        before, after: (rows, K).
        sums_before, sums_after: of each row, float64, (rows,).
        outputs_before, outputs_after: weights times values, (rows, d_v).
        message: one sentence on what came of it.
    """

    queries: range
    before: Tensor
    after: Tensor
    sums_before: Tensor
    sums_after: Tensor
    outputs_before: Tensor
    outputs_after: Tensor
    message: str


def exhibit(step: Step, head: int, knobs: Knobs, *, queries: slice = slice(0, 64), sentence: int = 0) -> Exhibit:
    """Effect of the knobs on the weights of some queries, at most 64.

    Raises:
        InputError: if more queries are asked for, or a head or sentence is not there.
    """
    rows = window_positions(queries, step.shape[2], "queries")
    where = {"sentence": sentence}
    before = step.weights(head, slice(rows.start, rows.stop), **where)
    undropped = weights(step, head, slice(rows.start, rows.stop), knobs, **where)
    after = dropped(undropped, knobs.dropout_p, knobs.dropout_seed, head=head, first=rows.start)
    value = step.value[sentence, head]
    sums = [each.double().sum(-1) for each in (before, after)]
    outputs = [each.to(value.dtype) @ value for each in (before, after)]
    return Exhibit(rows, before, after, *sums, *outputs, _summary(rows, before, after, sums, knobs))


def _summary(rows: range, before: Tensor, after: Tensor, sums: list[Tensor], knobs: Knobs) -> str:
    if not knobs.in_words:
        return "Nothing is changed."
    what = " and ".join(knobs.in_words)
    if not before.numel():
        return f"With {what}: there is no weight."
    wrong = int((~((sums[1] - 1).abs() <= NEARLY)).sum())  # a NaN is no 1
    finite = sums[1][sums[1].isfinite()]
    between = f"they sum to between {float(finite.min()):.4g} and {float(finite.max()):.4g}" if len(finite) else ""
    none = f"{len(rows) - len(finite)} of them to NaN" if len(finite) < len(rows) else ""
    rows_say = ", ".join(filter(None, (f"{wrong} of {len(rows)} rows do not sum to 1", between, none)))
    moved = float((after - before).abs().nan_to_num().max())
    return f"With {what}: {rows_say if wrong else 'every row sums to 1'}. A weight moved by up to {moved:.4g}."
