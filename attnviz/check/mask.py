"""Check a mask: compare it with its intent, or without an intent with the usual masks, and list its errors."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attnviz.check.arrays import CONVENTIONS, VERY_NEGATIVE, conventions_of, fill_value, is_binary, to_may_attend
from attnviz.check.findings import Array, ArrayReport, Finding, future, read_rows
from attnviz.check.mask_mistakes import MISTAKES, Intent, explain, hides_future, mask_readings
from attnviz.check.repairs import block_future, repair
from attnviz.core.amounts import counted


def check_mask(grid: Array, stated: str | None, intent: Intent | None, tokens: Tensor | None) -> ArrayReport:
    """Report on a mask: its values, the intent that it fits best, its mistakes, and the cells that still differ.

    Args:
        stated: convention of the mask, if given.
        tokens: (B, K), True = token; None if padding is unknown.
    """
    mask, names, shape = grid.values, conventions_of(grid.values, stated), tuple(grid.values.shape)
    findings = [*_find_values(grid, stated)]
    if any(finding.severity == "error" and finding.rule != "weak-fill" for finding in findings):
        return ArrayReport("mask", "additive", False, shape, findings=tuple(findings))
    masks = {name: to_may_attend(mask, name) for name in names}
    is_alike = all(torch.equal(mask, mask[:, :1].expand_as(mask)) for mask in masks.values())
    distinct = {name: mask[:, :1] for name, mask in masks.items()} if is_alike else masks  # one of equal heads
    readings = [*mask_readings(distinct, intent, tokens)]
    exact = {reading.convention: reading for reading in reversed(readings) if reading.is_right}  # first per convention
    if intent is None and (not exact or shape[3] == 1 < shape[2]):  # a column tells no usual mask
        return _unknown_report(grid, masks, stated, tokens, findings)
    best, *others = [exact[name] for name in names if name in exact] or [explain(readings)]
    title, assumed = best.intent.title, ""
    if intent is None:
        title = assumed = title if best.tokens is None or bool(best.tokens.all()) else f"{title} with padding"
    faults, wrong = [*best.faults()], best.upright(best.differences()[1]).expand(shape)
    if others and intent is None:
        message = f"Its values fit two conventions: read as '{best.convention}' it is {assumed}, and as "
        message += f"'{others[0].convention}' {others[0].intent.title}, maybe with padding."
        findings += grid.findings("ambiguous", "note", message, "State the convention.")
    elif len(masks) > 1:
        how = "best fits" if faults or wrong.any() else "fits"
        message = f"It is read as '{best.convention}' ({CONVENTIONS[best.convention]}), which {how} {title}."
        other = "F.scaled_dot_product_attention" if best.convention == "true-is-masked" else "nn.MultiheadAttention"
        fix = f"If that is wrong, state the convention. Pass the opposite to {other}."
        findings += grid.findings("convention", "note", message, fix)
    together = " (Both repairs are needed.)" if len(faults) > 1 else ""
    for part, mistake, cells in faults:
        rule, words = MISTAKES[mistake]
        message = f"{part.name if part else 'The whole mask is'} {words}."
        fix = f"{repair(part, mistake, best.convention, grid.values)}{together}"
        findings += grid.findings(rule, "error", message, fix, cells.expand(shape))
    hides = hides_future(best.rules, best.offset, shape)
    findings += find_cells(grid, masks[best.convention], wrong, title, hides, has_faults=bool(faults))
    if not faults:  # rows without a key: by mistake, intended, or at queries that are padding
        severity, may_attend = "warning" if best.intent.is_usual else "note", masks[best.convention]
        empty, intended, of_padding = ~may_attend.any(-1), ~best.expected.any(-1), ~read_rows(mask, best.tokens)
        usual = severity if tokens is None else "note"
        as_meant, as_usual = f", as {title} has", ", as queries of padding often have"
        findings += _empty_rows(grid, "error", empty & ~intended & ~of_padding, "", best.convention)
        findings += _empty_rows(grid, severity, empty & intended & ~of_padding, as_meant, best.convention)
        findings += _empty_rows(grid, usual, empty & of_padding, as_usual, best.convention)
    alignment = "last query is at the last key, as with a cache"
    if not best.offset:
        alignment = "first query is at the first key, as with is_causal; with a cache, align last query and last key"
    reasons = (f"Its {alignment}.",) if hides and shape[2] < shape[3] else ()
    convention, repaired, findings = stated or best.convention, best.expected.expand(shape), tuple(findings)
    return ArrayReport("mask", convention, hides, shape, reasons, repaired, findings=findings, assumed=assumed)


def find_cells(
    grid: Array, may_attend: Tensor, wrong: Tensor, title: str, hides: bool, *, has_faults: bool
) -> Iterator[Finding]:
    """Find the `wrong` cells that no mistake explains, (B, H, Q, K): open in the future, open, or blocked. `title` is
    the intended mask, which hides the future if `hides`; `has_faults` if mistakes were found, too."""
    queries, keys = may_attend.shape[2:]
    ahead, first = wrong & may_attend & future(queries, keys) & hides, max(0, keys - queries)
    for rule, cells, state, fix in (
        ("future-leak", ahead, "open in the future", block_future(first)),
        ("deviation", wrong & may_attend & ~ahead, "open instead", "Block the listed cells."),
        ("deviation", wrong & ~may_attend, "blocked instead", "Open the listed cells."),
    ):
        if number := int(cells.count_nonzero()):
            subject = f"{counted(number, 'cell')} {'is' if number == 1 else 'are'}"
            others = ", besides the mistakes above" if has_faults else ""
            _, _, query, key = cells.nonzero()[0].tolist()
            leak = f", and position {query + first} saw position {key}" if cells is ahead else ""
            yield from grid.findings(rule, "error", f"It is not {title}: {subject} {state}{others}{leak}.", fix, cells)


def _unknown_report(
    grid: Array, masks: dict[str, Tensor], stated: str | None, tokens: Tensor | None, findings: list[Finding]
) -> ArrayReport:
    """Report on a mask that equals no usual mask: ask for the intent, and list errors that hold under any intent."""
    convention, mask = next(iter(masks.items()))
    is_read = read_rows(mask, tokens)
    if tokens is not None:
        keys = tokens[:, None, None]
        exposed = mask & ~keys & is_read[..., None]
        hidden = keys & ~(mask & is_read[..., None]).any((1, 2), keepdim=True)
        hidden = hidden & (mask.shape[2] in (1, mask.shape[3]))
        open_keys, num_hidden = int(exposed.any((1, 2)).count_nonzero()), int(hidden.count_nonzero())
        parts = [f"{counted(open_keys, 'key')} of padding open to tokens"] if open_keys else []
        parts += [f"{counted(num_hidden, 'token')} hidden from every query"] if num_hidden else []
        fix = "Block the keys of padding only: join tokens[:, None, None, :], where tokens is (B, K), True at tokens."
        findings += grid.findings("deviation", "error", f"{' and '.join(parts).capitalize()}.", fix, exposed | hidden)
    severity = "error" if stated or len(masks) == 1 else "warning"
    findings += _empty_rows(grid, severity, ~mask.any(-1) & is_read, "", convention)
    question = "What is the mask meant to be? It is none of the usual masks (causal, with a window or a prefix, "
    question += "documents, padding alone). Say --intent causal, two-way or a mask such as "
    question += f"'causal & window(4)'{'' if len(masks) == 1 else ', and its --convention'}."
    ahead, shape = future(*mask.shape[2:]), tuple(grid.values.shape)
    hides = bool(ahead.any()) and not bool((mask & ahead).any())
    return ArrayReport("mask", stated or convention, hides, shape, findings=tuple(findings), question=question)


def _find_values(grid: Array, stated: str | None) -> Iterator[Finding]:
    """Find wrong numbers in a floating-point mask: floats of 0 and 1, a weak fill, NaN, +inf and other numbers."""
    mask = grid.values
    if not mask.is_floating_point():
        return
    if is_binary(mask) and mask.any():
        severity = {"additive": "error", None: "note"}.get(stated, "warning")
        message = "It holds floats of 0 and 1, which F.scaled_dot_product_attention and nn.MultiheadAttention add to "
        fix = "Pass mask.bool(), True = may attend, or mask == 0 to nn.MultiheadAttention."
        fix = "Pass mask.bool(), True = masked." if stated == "true-is-masked" else fix
        cells = mask == 0 if stated == "additive" else None
        if stated != "zero-is-masked":
            yield from grid.findings("values", severity, f"{message}the scores: it blocks nothing.", fix, cells)
    elif (value := fill_value(mask)) is not None and value > -1000:  # scores in the hundreds occur
        effect = f"a key whose score is {-value:.4g} above the others still gets weight"
        effect = f"{math.exp(value):.2g} of their weight remains" if value > -20 else effect
        message = f"Blocked scores are lowered by only {-value:.4g}: {effect}."
        severity, fix = "error" if value > -20 else "warning", "Fill with -inf, or torch.finfo(dtype).min."
        yield from grid.findings("weak-fill", severity, message, fix, mask < 0)
    elif value is None and (mask != 0).any():
        fix = "0 * -inf is NaN: do not multiply by -inf, use torch.where or masked_fill."
        yield from grid.findings("nan", "error", "The mask holds NaN.", fix, mask.isnan())
        is_inf = mask == math.inf
        yield from grid.findings("inf", "error", "The mask holds +inf.", "Use -inf to block, and 0 to open.", is_inf)
        odd = (mask != 0) & (mask > VERY_NEGATIVE) & mask.isfinite()
        message = "and other numbers that neither block nor leave open."
        message = f"The mask holds {mask[odd][0].item():.4g} {message}" if odd.any() else message
        fix = "Other numbers make it a bias, not a mask; if the array holds scores or weights, state that kind."
        yield from grid.findings("values", "error", message, fix, odd)


def _empty_rows(grid: Array, severity: str, rows: Tensor, why: str, convention: str) -> list[Finding]:
    """Make the finding about `rows`, boolean (B, H, Q), without an open key; `why` is a phrase for the message. A
    warning becomes a note if the mask has a finite fill, as the softmax then makes no NaN."""
    value = fill_value(grid.values) if convention == "additive" else None
    effect = "softmax makes NaN there, unless the code fills in zeros, as F.scaled_dot_product_attention does"
    if value is not None and value > -torch.inf:
        effect = "softmax spreads the weight over masked keys there"
        severity = "note" if severity == "warning" else severity
    message = f"{counted(int(rows.count_nonzero()), 'row')} of {rows.numel():,} without a key left{why}: {effect}."
    fix = "Leave a key open (the first, or its own). Rows of padding may stay empty, if their output is set to "
    return grid.findings("empty-row", severity, message, f"{fix}zero and excluded from the loss.", rows)
