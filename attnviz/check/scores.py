"""Checks of scores, before the softmax, with a mask in them or not."""

import torch

from attnviz.check import heads
from attnviz.check.findings import Finding, Laid, Report
from attnviz.check.future import beyond, in_numbers, leaks, looks_causal
from attnviz.check.intent import Intent
from attnviz.check.kinds import VERY_NEGATIVE
from attnviz.core.explain import judge, words


def check_scores(laid: Laid, causal: bool | None, meant: Intent | None) -> Report:
    """Whether the scores hide the future, and what is wrong with them."""
    scores, findings = laid.values, []
    fix = "Look for NaN in queries and keys: an empty row of the layer before, or numbers too large for float16."
    findings += laid.some("nan", "error", scores.isnan(), "Some scores are NaN.", fix)
    fix = "float16 ends at 65,504: scale the queries before the product, or compute scores in float32."
    findings += laid.some("inf", "error", scores == torch.inf, "Some scores are +inf: the row becomes NaN.", fix)
    blocked = scores <= VERY_NEGATIVE
    fix = "Leave each query a key, or set these rows to zero after the softmax."
    message = "without a key left: every score blocks."
    findings += laid.some("empty-row", "error", blocked.all(-1), message, fix, "row")
    hides = bool(blocked.any()) and looks_causal(~blocked) if causal is None else causal
    if meant is not None and blocked.any():
        findings += beyond(laid, ~blocked, meant)
    elif filled := _filled(laid) if not blocked.any() else []:
        findings += filled
    elif (causal or meant is not None) and not blocked.any():
        message = "No score blocks a key: these are scores from before the mask, which show no leak."
        findings.append(laid.finding("future-leak", "note", message, "Check the mask or the weights."))
    elif hides:
        findings += leaks(laid, ~blocked, stated=causal is not None)
    valid = ~scores.isnan().any(-1)
    usable = ~blocked & valid[..., None]
    judged = scores.masked_fill(~usable, 0), usable, 2 * laid.rounding
    even = heads.even(*judged)
    if even.any():
        findings.append(heads.uniform(laid, even))
    findings += heads.identical(laid, heads.even_rows(*judged).all(-1).all(0))
    findings += heads.symmetric(laid, scores.masked_fill(blocked, -torch.inf), valid & ~even[:, None], relative=False)
    taken = f"The scores look causal: {in_numbers(~blocked)}."
    return laid.report("scores", None, hides, (taken,) if hides and causal is None else (), findings)


def _filled(laid: Laid) -> list[Finding]:
    """Scores that one number replaces, exactly where a known mask blocks, though that number does not block."""
    scores = laid.values
    value = scores.flatten().mode().values
    cells = scores == value
    grid = ~cells[0, 0]
    if int(cells[0, 0].count_nonzero()) < 3 or not torch.equal(cells, cells[:1, :1].expand_as(cells)) or not grid.any():
        return []
    judgement = judge((grid,), mistakes=())
    if not judgement.is_certain:
        return []
    message = (
        f"Every cell that {words.named(judgement)} blocks holds {float(value):.4g}, to which softmax gives weight."
    )
    fix = "Fill with -inf before the softmax: scores.masked_fill(~mask, -torch.inf)."
    return [laid.finding("weak-fill", "error", message, fix, cells)]
