"""Checks of weights: distributions over keys that may be attended to, one head unlike the other."""

from collections.abc import Iterator

from torch import Tensor

from attnviz.check import heads, sums
from attnviz.check.findings import Finding, Laid, Report, future
from attnviz.check.future import beyond, in_numbers, leaks, looks_causal
from attnviz.check.intent import Intent
from attnviz.check.kinds import small
from attnviz.core.amounts import counted
from attnviz.core.explain import judge, words

LEAK = 1e-6
"""A weight on the future above this leaks; a softmax leaves less of what was filled with a very negative number."""


def check_weights(laid: Laid, causal: bool | None, meant: Intent | None) -> Report:
    """Whether the weights hide the future, and what is wrong with them."""
    findings = list(_not_numbers(laid))
    weights = laid.values.nan_to_num(0.0, 0.0, 0.0)
    valid = laid.values.isfinite().all(-1)
    laid = Laid(weights, laid.axes, laid.eps, laid.rounding)
    dead = (weights == 0).all(-1).all(-1).all(0) & valid.any(-1).any(0)
    of_sums = list(sums.check_sums(laid, valid & ~dead[:, None]))
    findings += of_sums
    findings += _range(laid, of_sums)
    if not any(finding.rule == "dropout-on" for finding in of_sums):
        findings += _empty(laid, valid & ~dead[:, None])
    findings += _over_masked(laid, valid)
    open_cells = weights > LEAK
    uniform = _uniform_over_all(laid) & valid
    telling = open_cells & ~uniform[..., None]
    hides = looks_causal(telling) if causal is None else causal
    inverted = _inverted(laid, valid & ~uniform)
    findings += inverted
    if meant is not None:
        findings += beyond(laid, open_cells, meant)
    elif hides and not inverted:
        findings += leaks(laid, telling if causal is None else open_cells, stated=causal is not None)
    findings += heads.check_heads(laid, valid, dead)
    leak = any(finding.rule == "future-leak" for finding in findings)  # which says how much of the future is open
    follows = ", so an open cell of the future counts as a leak" if leak else f": {in_numbers(telling)}"
    taken = f"The weights look causal{follows}."
    return laid.report("weights", None, hides, (taken,) if hides and causal is None else (), findings)


def _not_numbers(laid: Laid) -> Iterator[Finding]:
    values, nan = laid.values, laid.values.isnan()
    rows = nan.all(-1)
    message = "of NaN throughout: no key was left, and -inf was filled in."
    fix = "Leave a key open in each row, or set these rows to zero: torch.nan_to_num after the softmax."
    yield from laid.some("nan", "error", rows, message, fix, "row")
    single = nan & ~rows[..., None]
    cells = counted(int(single.count_nonzero()), "cell")
    message = f"NaN in {cells} of rows that hold numbers too: a softmax makes no such row."
    yield from laid.some("nan", "error", single, message, "Look for what is done to the weights after the softmax.")
    fix = "Weights are at most 1. If these are masked scores, say that they are scores."
    yield from laid.some("inf", "error", values.isinf(), "Some weights are infinite.", fix)


def _range(laid: Laid, of_sums: list[Finding]) -> list[Finding]:
    near = sums.tolerance(laid)
    outside = laid.values < -near
    if not any(finding.rule == "dropout-on" for finding in of_sums):
        outside = outside | (laid.values > 1 + near)
    such = f", such as {laid.values[outside][0].item():.4g}" if outside.any() else ""
    fix = "A softmax gives none. If these are scores, from before the softmax, say so."
    return laid.some("range", "error", outside, f"below 0 or above 1{such}.", fix, "weight")


def _empty(laid: Laid, valid: Tensor) -> list[Finding]:
    empty = (laid.values == 0).all(-1) & valid
    message = "of 0 throughout: the query had no key left, and its output is 0."
    fix = "If they are not padding, mend the mask: leave each query a key."
    return laid.some("empty-row", "warning", empty, message, fix, "row")


def _uniform_over_all(laid: Laid) -> Tensor:
    """Rows, (B, H, Q), that spread evenly over every key."""
    spread = laid.values.amax(-1) - laid.values.amin(-1)
    return (spread <= heads.EVEN * laid.values.amax(-1) + 2 * laid.rounding) & (laid.values.amin(-1) > 0)


def _over_masked(laid: Laid, valid: Tensor) -> list[Finding]:
    """Rows spread evenly over all keys, where every other row of every head blocks some of them."""
    even = _uniform_over_all(laid) & valid
    others = (valid & ~even)[..., None]
    open_cells, after = (laid.values > LEAK) & others, future(*laid.values.shape[2:])
    causal = bool(others.any()) and looks_causal(open_cells)
    backwards = not bool((open_cells & after).any())
    could = (others & ~after if backwards else others).any(2, keepdim=True).any(1, keepdim=True)
    blocked = could & ~open_cells.any(2, keepdim=True).any(1, keepdim=True)
    over = even & (blocked.any(-1) | (after.any(-1) & causal))
    message = "even over all keys, masked ones too: no key was left, and -1e9 filled in."
    fix = "Leave each query a key, or fill with -inf and set empty rows to zero."
    return laid.some("uniform-over-masked", "error", over, message, fix, "row")


def _inverted(laid: Laid, valid: Tensor) -> list[Finding]:
    """Every row that has a key left sees what a causal mask blocks, and nothing else."""
    open_cells = (laid.values > LEAK) & valid[..., None]
    grid = open_cells.any(1).any(0)
    if len(grid) < 3 or int(grid.any(-1).count_nonzero()) < 2:
        return []
    after, used = future(*grid.shape), grid.any(1, keepdim=True) & grid.any(0)
    if (after & used & ~grid).any():  # what a causal mask blocks would be open, but for padding
        return []
    judgement = judge([grid], mistakes=("inverted",))
    if judgement.mistake != "inverted" or not judgement.is_certain or not judgement.explanations[0].kind.is_causal:
        return []
    message, fix = (
        f"The mask was inverted: {small(words.mistaken(judgement, grid))}",
        "Hand the opposite mask over: ~mask.",
    )
    return [laid.finding("inverted", "error", message, fix, open_cells & after)]
