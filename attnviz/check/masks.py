"""Checks of a mask: what it is, inverted, transposed, empty rows, leaks of the future, and numbers that are no mask."""

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from attnviz.check import kinds
from attnviz.check.findings import Finding, Laid, Report, future
from attnviz.check.future import leaks, looks_causal, padding_seen, saw
from attnviz.check.grids import Grids
from attnviz.check.guessing import evidence
from attnviz.check.intent import Intent
from attnviz.check.judged import Judged
from attnviz.check.judged import findings as of_judgement
from attnviz.check.meant import Combination, explain, mask_readings
from attnviz.check.remedies import block_future, mistake_in_words, repair
from attnviz.core.amounts import counted
from attnviz.core.explain import LARGE, MISTAKEN, Judgement, words

WEAK = -1000.0
"""An additive mask should block by less than this: scores of some hundreds occur."""

CERTAIN = "It is read as {convention}."
PROBABLE = "It is probably meant as {convention}, and is read so."
UNKNOWN = "Nothing in it tells the convention. It is read as {convention}."
"""In which convention a mask is read, and how certain that is."""

NAN = "softmax makes NaN of {it}, unless the code fills in zeros, as F.scaled_dot_product_attention does"
LEAVE_ONE = (
    "Leave a key open (the first, or its own). Padding that nothing reads may stay so, if its output is set to zero "
    "and kept out of the loss."
)
"""Result of a fully masked row, and what to do."""

TOP_LEFT = (
    "Its first query stands at the first key, as is_causal of PyTorch has it; with a cache, the last query has to "
    "stand at the last key."
)
BOTTOM_RIGHT = "Its last query stands at the last key, as with a cache."
"""Position of the diagonal of a mask of fewer queries than keys."""

OF_PADDING = ", as queries of padding often have"
"""Reason for most rows without a key."""

READINGS = tuple(mistake for mistake in MISTAKEN if mistake != "inverted")
"""Mistakes looked for in either of two conventions; "inverted" in one is right in the other."""


def check_mask(
    laid: Laid,
    stated: str | None,
    causal: bool | None,
    meant: Intent | None,
    keys: int | None = None,
    tokens: Tensor | None = None,
) -> Report:
    """The convention of a mask, what it is, whether it hides the future, and what is wrong with it.

    Args:
        keys: of the scores, if that is known.
        tokens: (B, K), True = token, if it is known which keys are padding.
    """
    mask = laid.values
    convention = kinds.convention_of(mask, stated)
    if mask.is_floating_point() and convention == "additive" and bool(((mask == 0) | (mask == 1)).all() & mask.any()):
        message = "The mask holds floats of 0 and 1, and is added to the scores: it blocks nothing."
        fix = "Hand over mask.bool(), where True = may attend; or fill with 0 and -inf."
        added = laid.finding("values", "error", message, fix, mask == 0)
        report = check_mask(Laid(mask == 1, laid.axes), "may-attend", causal, meant, keys, tokens)
        return replace(report, convention=convention, findings=(added, *report.findings))
    by_cells = meant is not None and meant.mask is not None
    if tokens is None and not by_cells and (by_query := _by_query(laid, convention or "may-attend", keys)) is not None:
        report = laid.report("mask", convention or "may-attend", bool(causal), (), [by_query])
        return replace(report, repaired=kinds.opened(mask, report.convention)[..., :1].mT)
    if convention == "additive" and kinds.of_ones(mask) and bool((mask == 1).any()):
        zeros = Laid(mask.masked_fill(mask == 1, 0), laid.axes, laid.eps, laid.rounding)
        message = (
            "What is open holds 1 instead of 0: every open score grows by 1, which leaves the weights as they are."
        )
        ones = laid.finding("values", "note", message, "Fill what is open with 0.", mask == 1)
        report = check_mask(zeros, stated, causal, meant, keys, tokens)
        return replace(report, findings=(ones, *report.findings))
    if convention == "additive" and bool((mask != 0).any()) and kinds.fill(mask) is None:
        return laid.report("mask", convention, bool(causal), (), _values(laid))
    findings = list(_weak_fill(laid)) if convention == "additive" else _added(laid, convention)
    if meant is not None and meant.rules is not None:
        report = _against_intent(laid, convention, meant, tokens)
        return replace(report, findings=(*findings, *report.findings))
    if convention is None:
        convention, judged, guess = _guess(laid, meant, tokens, causal)
        findings.append(guess)
    else:
        judged = Judged.of(kinds.opened(mask, convention), meant, tokens=tokens, causal=causal)
    hides, reasons = _future(judged, causal)
    leaking = [] if causal is False or judged.composition is not None else [*_leaks(laid, judged, causal, hides)]
    repeated = set() if causal is not False or judged.faults else {"future-leak"}
    if leaking:
        repeated = {"future-leak", "ambiguous", "near-miss"}
    findings += [finding for finding in of_judgement(laid, judged) if finding.rule not in repeated]
    findings += [*leaking, *_empty(laid, judged, convention, tokens)]
    if tokens is not None and judged.composition is None:
        mended = judged.may_attend & judged.expected if judged.judgement.mistake else judged.may_attend
        findings += padding_seen(laid, mended, tokens)
    report = laid.report("mask", convention, hides, reasons, findings, judged.judgement)
    assumed, question = judged.assumed, judged.question
    return replace(report, assumed=assumed, question=question, repaired=_mended(judged, causal, tokens))


def _against_intent(laid: Laid, convention: str | None, meant: Intent, tokens: Tensor | None) -> Report:
    """Report on a mask against its intent: the mistakes that give it, and the cells that differ beside them."""
    may_attend = "may-attend" if laid.values.dtype is torch.bool else "zero-is-masked"
    conventions = [convention] if convention else [may_attend, "true-is-masked"]
    masks = {name: kinds.opened(laid.values, name) for name in conventions}
    is_same = all(torch.equal(mask, mask[:, :1].expand_as(mask)) for mask in masks.values())
    masks = {name: mask[:, :1] if is_same else mask for name, mask in masks.items()}
    best = explain([*mask_readings(masks, meant.rules, tokens, padding_may_be=meant.mask is None)])
    reading, faults = best.reading, list(best.faults())
    findings = []
    if convention is None:
        how = "best fits" if faults or best.differing.any() else "fits"
        message = f"It is read as '{reading.convention}' ({kinds.CONVENTIONS[reading.convention]}), which {how} "
        message += f"{meant.title}."
        findings.append(laid.finding("convention", "note", message, "If that is wrong, say the convention."))
    together = " (Both repairs are needed.)" if len(faults) > 1 else ""
    for part, mistake, cells in faults:
        rule, message = mistake_in_words(part, mistake)
        fix = f"{repair(part, mistake, best, laid.values)}{together}"
        findings.append(laid.finding(rule, "error", message, fix, cells.expand_as(laid.values)))
    findings += _deviations(laid, best, meant, beside=bool(faults))
    findings += _rows_without_key(laid, best, meant, tokens)
    queries, keys = laid.values.shape[2:]
    hides_future = not (best.right & future(queries, keys)).any()
    where = BOTTOM_RIGHT if reading.offset else TOP_LEFT
    reasons = (where,) if hides_future and queries < keys else ()
    report = laid.report("mask", reading.convention, hides_future, reasons, findings)
    return replace(report, repaired=best.right.expand_as(laid.values))


def _deviations(laid: Laid, best: Combination, meant: Intent, *, beside: bool) -> Iterator[Finding]:
    """Cells that differ beside the mistakes: of the future apart, if it is to be hidden."""
    wrong, queries, keys = best.differing.expand_as(laid.values), *laid.values.shape[2:]
    if not wrong.any():
        return
    is_open, also = best.reading.may_attend, ", beside the mistakes that are named" if beside else ""
    hides_future = not (best.right & future(queries, keys)).any()
    ahead = wrong & is_open & future(queries, keys) & hides_future
    if ahead.any():
        message = f"It is not {meant.title}: {_are(ahead)} open in the future{also}, and {saw(ahead)}."
        yield laid.finding("future-leak", "error", message, block_future(queries, keys), ahead)
    for cells, what, fix in (
        (wrong & is_open & ~ahead, "open", "Block the cells that are named."),
        (wrong & ~is_open, "blocked", "Open the cells that are named."),
    ):
        if cells.any():
            message = f"It is not {meant.title}: {_are(cells)} {what} instead{also}."
            yield laid.finding("deviation", "error", message, fix, cells)


def _rows_without_key(laid: Laid, best: Combination, meant: Intent, tokens: Tensor | None) -> Iterator[Finding]:
    """Rows without a key: by mistake, or as the intended mask has them, such as those of padding."""
    reading = best.reading
    rows = torch.ones_like(laid.values[..., 0], dtype=torch.bool)
    empty, intended = ~reading.may_attend.any(-1) & rows, ~best.right.any(-1)
    of_padding = torch.zeros_like(intended)
    if reading.tokens is not None and reading.may_attend.shape[2] == reading.may_attend.shape[3]:
        of_padding = ~reading.tokens[:, None]
    usual = "note" if meant.mask is not None else "warning"
    by_mistake = "note" if best.num_faults else "error"
    why = ", which follows from the mistakes" if best.num_faults else ""
    yield from _empty_rows(laid, by_mistake, empty & ~intended & ~of_padding, why, reading.convention)
    yield from _empty_rows(laid, usual, empty & intended & ~of_padding, f", as {meant.title} has", reading.convention)
    usual = usual if tokens is None else "note"
    yield from _empty_rows(laid, usual, empty & of_padding, OF_PADDING, reading.convention)


def _mended(judged: Judged, causal: bool | None, tokens: Tensor | None) -> Tensor:
    """The mask as it was meant, (B, H, Q, K), True = may attend."""
    mask = judged.may_attend.where(~judged.part, judged.expected) if judged.judgement.explanations else judged.expected
    if judged.others is not None and judged.others.judgement.explanations:
        mask = mask.where(~judged.others.part, judged.others.expected)
    if causal:
        mask = mask & ~future(*mask.shape[2:])
    return mask if tokens is None else mask & tokens[:, None, None]


def _by_query(laid: Laid, convention: str, keys: int | None) -> Finding | None:
    """Rows that are open or blocked throughout, as padding makes them that stands on the axis of the queries."""
    if convention == "additive" and kinds.fill(laid.values) is None:
        return None
    rows, size = kinds.opened(laid.values, convention), laid.values.shape
    is_one = size[3] == 1 and "key" in laid.axes and "query" in laid.axes and keys != 1
    if size[2] < 2 or not (is_one or size[2] == size[3]) or not torch.equal(rows, rows[..., :1].expand_as(rows)):
        return None
    closed = ~rows[..., 0]
    if not closed.any() or closed.all() or not ((closed.int().diff(dim=2) != 0).sum(2) < 2).all():
        return None
    message = (
        "It blocks queries where padding blocks keys: these rows have no key left, and all others see the padding."
    )
    return laid.finding("wrong-axis", "error", message, words.FIXES["wrong-axis"], closed)


def _added(laid: Laid, convention: str | None) -> list[Finding]:
    """Effect of floats of 0 and 1: most functions of torch add them; code that compares them blocks."""
    if not laid.values.is_floating_point() or convention == "zero-is-masked" or not bool((laid.values == 1).any()):
        return []
    message = (
        "It holds floats of 0 and 1, which F.scaled_dot_product_attention and nn.MultiheadAttention add to the scores"
    )
    message = f"{message}: with them it blocks nothing. Code that compares it with 0, such as masked_fill, blocks."
    rule, severity = ("values", "warning") if convention else ("ambiguous", "note")
    return [laid.finding(rule, severity, message, "To functions that add, hand over mask.bool(), True = may attend.")]


def _leaks(laid: Laid, judged: Judged, causal: bool | None, hides: bool) -> Iterator[Finding]:
    """All of the future that is open, if it was said to be blocked, or if nothing else is known of the mask."""
    judgement = judged.judgement
    turned = judgement.mistake in ("inverted", "transposed")
    explained = turned and all(explanation.kind.is_causal for explanation in judgement.explanations)
    if (causal and not explained) or (hides and not judged.judgement.explanations):
        yield from leaks(laid, judged.may_attend, stated=causal is not None)


def _future(judged: Judged, causal: bool | None) -> tuple[bool, tuple[str, ...]]:
    """Whether the mask hides the future, and why it is taken to: for what it is, or for how much of it is open."""
    if explanations := judged.judgement.explanations:
        what = "It is exactly" if judged.judgement.is_exact else "It is taken for"
        reason = f"{what} {words.named(judged.judgement)}{words.source(judged.judgement)}."
        *_, queries, keys = judged.may_attend.shape
        if judged.hides_future and queries != keys:
            reason += f" {BOTTOM_RIGHT if explanations[0].reading.seen.first else TOP_LEFT}"
        return judged.hides_future if causal is None else causal, () if explanations[0].mistake else (reason,)
    if causal is None and looks_causal(judged.may_attend):
        return True, ("It looks causal, so an open cell of the future counts as a leak.",)
    return bool(causal), ()


def _weak_fill(laid: Laid) -> list[Finding]:
    """Whether an additive mask blocks enough."""
    value = kinds.fill(laid.values)
    if value is None or value <= WEAK:
        return []
    severity, left = "warning", f"a key whose score is {-value:.4g} above the others still gets weight"
    if value > -20:
        severity, left = "error", f"{math.exp(value):.2g} of their weight stays"
    message = f"Blocked scores are lowered by {-value:.4g} only: {left}."
    fix = "Fill with -inf, or torch.finfo(dtype).min."
    return [laid.finding("weak-fill", severity, message, fix, laid.values < 0)]


def _guess(laid: Laid, meant: Intent | None, tokens: Tensor | None, causal: bool | None) -> tuple[str, Judged, Finding]:
    """True = masked or its opposite, by which of them the mask is a known one; may attend where nothing tells."""
    mask, numbers = laid.values == 1, laid.values.dtype is not torch.bool
    open_where, masked_where = _both_ways(mask, meant, tokens, causal)
    points, reasons = evidence(open_where, masked_where)
    if points < 0:
        convention, judged = "true-is-masked", masked_where
    else:
        convention, judged = "zero-is-masked" if numbers else "may-attend", open_where
    message = PROBABLE if points else UNKNOWN
    if abs(points) >= 4:
        message = CERTAIN
    message = message.format(convention=f"'{convention}' ({kinds.CONVENTIONS[convention]})")
    fix = "If that is wrong, say the convention. "
    if points < 0:
        fix += "To F.scaled_dot_product_attention hand over the opposite: it reads True as may attend."
    elif points:
        fix += "To nn.MultiheadAttention hand over the opposite: it reads True as masked."
    rule, message = "convention" if points else "ambiguous", " ".join([message, *reasons])
    return convention, judged, laid.finding(rule, "note", message, fix.strip())


def _both_ways(mask: Tensor, meant: Intent | None, tokens: Tensor | None, causal: bool | None) -> tuple[Judged, Judged]:
    """A mask read as True = may attend, and as True = masked.

    Where one of them is right, or nearly so and large, the other is not looked at for mistakes; and not at all if it is
    large and no query sees itself in it.
    """
    readings = sorted((mask, ~mask), key=lambda reading: not _own(reading).all())  # queries see themselves
    first = Judged.of(readings[0], meant, (), tokens, causal)
    is_good = first.is_right or first.judgement.is_clear
    if is_good and mask[0, 0].numel() > LARGE and _own(readings[0]).all():
        second = Judged(readings[1], Grids.of(readings[1]), Judgement(), meant)
    else:
        second = Judged.of(readings[1], meant, (), tokens, causal)
    good = [judged.is_right or judged.judgement.is_clear for judged in (first, second)]
    both = [
        Judged.of(judged.may_attend, meant, READINGS, tokens, causal) if each or not any(good) else judged
        for judged, each in zip((first, second), good, strict=True)
    ]
    return (both[0], both[1]) if readings[0] is mask else (both[1], both[0])


def _own(mask: Tensor) -> Tensor:
    """Whether each query sees itself."""
    return mask.diagonal(max(0, mask.shape[3] - mask.shape[2]), 2, 3)


def _are(cells: Tensor) -> str:
    count = int(cells.count_nonzero())
    return f"{count:,} {'cell is' if count == 1 else 'cells are'}"


def _values(laid: Laid) -> Iterator[Finding]:
    values = laid.values
    fix = "0 * -inf is NaN: do not multiply by -inf, use torch.where or masked_fill."
    yield from laid.some("nan", "error", values.isnan(), "The mask holds NaN.", fix)
    yield from laid.some("inf", "error", values == torch.inf, "The mask holds +inf.", "Blocked is -inf, open is 0.")
    odd = (values != 0) & (values > kinds.VERY_NEGATIVE) & values.isfinite()
    if odd.any():
        message = f"The mask holds {values[odd][0].item():.4g} and other numbers that neither block nor leave open."
        fix = "Numbers added to scores that change them are a bias; if they are scores or weights, say that kind."
        yield laid.finding("values", "error", message, fix, odd)


def _empty(laid: Laid, judged: Judged, convention: str, tokens: Tensor | None) -> Iterator[Finding]:
    """Rows without a key: by mistake, or as a known mask has them, such as those of padding.

    Also of these a softmax makes NaN, and most code that is handed such a mask does not say so: they are a warning,
    unless a person said what is padding, or cell by cell that they are meant, or a finite fill leaves numbers.
    """
    empty, judgement = ~judged.may_attend.any(-1), judged.judgement
    as_known = judgement.explanations and not judgement.mistake
    expected = ~judged.expected.any(-1) & judged.part.any(-1) if as_known else torch.zeros_like(empty)
    if judgement.mistake == "wrong-axis" and not judged.faults:  # whose finding names these rows
        return
    empty, of_padding = empty & ~judged.emptied, judged.of_padding
    if judged.composition is not None:
        expected = ~judged.expected.any(-1)
    is_padding = any(explanation.reading.padding is not None for explanation in judgement.explanations)
    why = f", as {words.named(judgement)} has" if as_known else ", as has"
    why = OF_PADDING if is_padding else why
    yield from _empty_rows(laid, "error", empty & ~expected & ~of_padding, "", convention)
    yield from _empty_rows(laid, "warning", empty & expected & ~of_padding, why, convention)
    allowed = "warning" if tokens is None else "note"
    yield from _empty_rows(laid, allowed, empty & of_padding, OF_PADDING, convention)


def _empty_rows(laid: Laid, severity: str, rows: Tensor, why: str, convention: str) -> list[Finding]:
    """A finding about rows without a key; a warning is a note if a finite fill leaves numbers in them."""
    count, fill = int(rows.count_nonzero()), kinds.fill(laid.values) if convention == "additive" else None
    it, has = ("it", "has") if count == 1 else ("them", "have")
    what = NAN.format(it=it)
    if fill is not None and fill > -torch.inf:
        what = f"softmax spreads {it} over masked keys"
        severity = "note" if severity == "warning" else severity
    message = f"{counted(count, 'row')} of {rows.numel():,} {has} no key left{why}: {what}."
    return laid.some("empty-row", severity, rows, message, LEAVE_ONE)
