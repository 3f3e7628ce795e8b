"""Check a mask: compare it with its intent, or without an intent with the usual masks, and list its errors."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attnviz.check.arrays import CONVENTIONS, VERY_NEGATIVE, conventions_of, fill_value, is_binary, to_may_attend
from attnviz.check.findings import Array, ArrayReport, Finding, future, rows_to_check
from attnviz.check.mask_mistakes import MISTAKES, Combination, Intent, explain, hides_future, mask_readings
from attnviz.check.repairs import block_future, repair
from attnviz.core.amounts import counted


def check_mask(grid: Array, stated: str | None, intent: Intent | None, tokens: Tensor | None) -> ArrayReport:
    """Check a mask, (B, H, Q, K): its numbers, the intent that it fits best, its mistakes, and all other wrong cells.
    If convention or intent are None, they are inferred. `tokens` is boolean (B, K), False at padding."""
    mask, names, shape = grid.values, conventions_of(grid.values, stated), tuple(grid.values.shape)
    findings = [*_find_values(grid, stated)]
    if any(finding.severity == "error" and finding.rule != "weak-fill" for finding in findings):
        return ArrayReport("mask", "additive", False, shape, findings=tuple(findings))
    masks = {name: to_may_attend(mask, name) for name in names}
    has_equal_heads = all(torch.equal(cells, cells[:, :1].expand_as(cells)) for cells in masks.values())
    heads = slice(0, 1) if has_equal_heads else slice(None)
    readings = [*mask_readings({name: cells[:, heads] for name, cells in masks.items()}, intent, tokens)]
    exact: dict[str, Combination] = {}  # first reading without mistakes per convention
    for reading in readings:
        if reading.convention not in exact and reading.is_right:
            exact[reading.convention] = reading
    if intent is None and (not exact or shape[3] == 1 < shape[2]):  # a single key tells no usual mask
        return _unknown_report(grid, masks, stated, tokens, findings)
    fitting = [exact[name] for name in names if name in exact]
    best = fitting[0] if fitting else explain(readings)
    title, assumed = best.intent.title, ""
    if intent is None:
        is_unpadded = best.tokens is None or bool(best.tokens.all())
        title = assumed = title if is_unpadded else f"{title} with padding"
    mistakes, wrong = [*best.faults()], best.upright(best.differences()[1]).expand(shape)
    if len(fitting) > 1 and intent is None:
        message = f"Its values fit two conventions: read as '{best.convention}' it is {assumed}, and as "
        message += f"'{fitting[1].convention}' {fitting[1].intent.title}, maybe with padding."
        findings += grid.findings("ambiguous", "note", message, "State the convention.")
    elif len(masks) > 1:
        how = "best fits" if mistakes or wrong.any() else "fits"
        message = f"It is read as '{best.convention}' ({CONVENTIONS[best.convention]}), which {how} {title}."
        other = "F.scaled_dot_product_attention" if best.convention == "true-is-masked" else "nn.MultiheadAttention"
        fix = f"If that is wrong, state the convention. Pass the opposite to {other}."
        findings += grid.findings("convention", "note", message, fix)
    together = " (Both repairs are needed.)" if len(mistakes) > 1 else ""
    for part, mistake, cells in mistakes:
        rule, words = MISTAKES[mistake]
        message = f"{part.name if part else 'The whole mask is'} {words}."
        fix = f"{repair(part, mistake, best.convention, mask)}{together}"
        findings += grid.findings(rule, "error", message, fix, cells.expand(shape))
    hides = hides_future(best.rules, best.offset, shape)
    findings += find_cells(grid, masks[best.convention], wrong, title, hides, has_mistakes=bool(mistakes))
    if not mistakes:
        empty, intended = ~masks[best.convention].any(-1), ~best.expected.any(-1)
        is_read, severity = rows_to_check(mask, best.tokens), "warning" if best.intent.is_usual else "note"
        for level, rows, phrase in (
            ("error", empty & ~intended & is_read, ""),
            (severity, empty & intended & is_read, f", as {title} has"),
            (severity if tokens is None else "note", empty & ~is_read, ", as queries of padding often have"),
        ):
            findings += _empty_rows(grid, level, rows, phrase, best.convention)
    alignment = "last query is at the last key, as with a cache"
    if not best.offset:
        alignment = "first query is at the first key, as with is_causal; with a cache, align last query and last key"
    reasons = (f"Its {alignment}.",) if hides and shape[2] < shape[3] else ()
    convention, repaired, findings = stated or best.convention, best.expected.expand(shape), tuple(findings)
    return ArrayReport("mask", convention, hides, shape, reasons, repaired, findings=findings, assumed=assumed)


def find_cells(
    grid: Array, may_attend: Tensor, wrong: Tensor, title: str, hides: bool, *, has_mistakes: bool
) -> Iterator[Finding]:
    """Make findings about wrong cells: future keys that are open, other open cells, and blocked cells. `may_attend` and
    `wrong`, the cells that no mistake explains, are boolean (B, H, Q, K). `title` describes the intended mask, which
    hides the future if `hides`; `has_mistakes` if the report also names mistakes."""
    queries, keys = may_attend.shape[2:]
    leaks, first = wrong & may_attend & future(queries, keys) & hides, max(0, keys - queries)
    for rule, cells, state, fix in (
        ("future-leak", leaks, "open in the future", block_future(first)),
        ("deviation", wrong & may_attend & ~leaks, "open instead", "Block the listed cells."),
        ("deviation", wrong & ~may_attend, "blocked instead", "Open the listed cells."),
    ):
        if number := int(cells.count_nonzero()):
            subject = f"{counted(number, 'cell')} {'is' if number == 1 else 'are'}"
            besides = ", besides the mistakes above" if has_mistakes else ""
            _, _, query, key = cells.nonzero()[0].tolist()
            example = f", and position {query + first} saw position {key}" if cells is leaks else ""
            message = f"It is not {title}: {subject} {state}{besides}{example}."
            yield from grid.findings(rule, "error", message, fix, cells)


def _unknown_report(
    grid: Array, masks: dict[str, Tensor], stated: str | None, tokens: Tensor | None, findings: list[Finding]
) -> ArrayReport:
    """Report on a mask that equals no usual mask: ask for the intent, and list errors that hold under any intent.
    `masks` has the mask, (B, H, Q, K), True = may attend, per possible convention; `stated` is the given convention."""
    convention, mask = next(iter(masks.items()))
    is_checked = rows_to_check(mask, tokens)
    if tokens is not None:
        is_token = tokens[:, None, None]
        open_padding = mask & ~is_token & is_checked[..., None]
        is_seen = (mask & is_checked[..., None]).any((1, 2), keepdim=True)
        has_all_queries = mask.shape[2] in (1, mask.shape[3])
        hidden_tokens = is_token & ~is_seen & has_all_queries
        num_open, num_hidden = int(open_padding.any((1, 2)).count_nonzero()), int(hidden_tokens.count_nonzero())
        problems = [f"{counted(num_open, 'key')} of padding open to tokens"] if num_open else []
        problems += [f"{counted(num_hidden, 'token')} hidden from every query"] if num_hidden else []
        fix = "Block the keys of padding only: join tokens[:, None, None, :], where tokens is (B, K), True at tokens."
        message, cells = f"{' and '.join(problems).capitalize()}.", open_padding | hidden_tokens
        findings += grid.findings("deviation", "error", message, fix, cells)
    severity = "error" if stated or len(masks) == 1 else "warning"
    findings += _empty_rows(grid, severity, ~mask.any(-1) & is_checked, "", convention)
    question = "What is the mask meant to be? It is none of the usual masks (causal, with a window or a prefix, "
    question += "documents, padding alone). Give --intent causal, two-way or a mask such as "
    question += f"'causal & window(4)'{'' if len(masks) == 1 else ', and its --convention'}."
    ahead, shape = future(*mask.shape[2:]), tuple(grid.values.shape)
    hides = bool(ahead.any()) and not bool((mask & ahead).any())
    return ArrayReport("mask", stated or convention, hides, shape, findings=tuple(findings), question=question)


def _find_values(grid: Array, stated: str | None) -> Iterator[Finding]:
    """Find wrong numbers in a floating-point mask: floats of 0 and 1, a weak fill, NaN, +inf and other numbers."""
    mask, fill = grid.values, fill_value(grid.values)
    if not mask.is_floating_point():
        return
    if is_binary(mask) and mask.any():
        if stated == "zero-is-masked":
            return
        severity = {"additive": "error", None: "note"}.get(stated, "warning")
        message = "It holds floats of 0 and 1, which F.scaled_dot_product_attention and nn.MultiheadAttention add to "
        message += "the scores: it blocks nothing."
        fix = "Pass mask.bool(), True = masked."
        if stated != "true-is-masked":
            fix = "Pass mask.bool(), True = may attend, or mask == 0 to nn.MultiheadAttention."
        cells = mask == 0 if stated == "additive" else None
        yield from grid.findings("values", severity, message, fix, cells)
    elif fill is not None and fill > -1000:  # scores in the hundreds occur
        severity, effect = "error", f"{math.exp(fill):.2g} of their weight remains"
        if fill <= -20:
            severity, effect = "warning", f"a key whose score is {-fill:.4g} above the others still gets weight"
        message = f"Blocked scores are lowered by only {-fill:.4g}: {effect}."
        fix = "Fill with -inf, or torch.finfo(dtype).min."
        yield from grid.findings("weak-fill", severity, message, fix, mask < 0)
    elif fill is None and (mask != 0).any():
        fix = "0 * -inf is NaN: do not multiply by -inf, use torch.where or masked_fill."
        yield from grid.findings("nan", "error", "The mask holds NaN.", fix, mask.isnan())
        is_inf = mask == math.inf
        yield from grid.findings("inf", "error", "The mask holds +inf.", "Use -inf to block, and 0 to open.", is_inf)
        is_odd = (mask != 0) & (mask > VERY_NEGATIVE) & mask.isfinite()
        if is_odd.any():
            example = f"{mask[is_odd][0].item():.4g}"
            message = f"The mask holds {example} and other numbers that neither block a key nor leave it open."
            fix = "Other numbers make it a bias, not a mask; if the array holds scores or weights, state that kind."
            yield from grid.findings("values", "error", message, fix, is_odd)


def _empty_rows(grid: Array, severity: str, rows: Tensor, phrase: str, convention: str) -> list[Finding]:
    """Make the finding about `rows` without an open key, boolean (B, H, Q), with a `phrase` in its message. A warning
    becomes a note if the mask blocks with a finite number, because the softmax then makes no NaN."""
    fill = fill_value(grid.values) if convention == "additive" else None
    effect = "softmax makes NaN there, unless the code fills in zeros, as F.scaled_dot_product_attention does"
    if fill is not None and fill > -torch.inf:
        effect = "softmax spreads the weight over masked keys there"
        severity = "note" if severity == "warning" else severity
    message = f"{counted(int(rows.count_nonzero()), 'row')} of {rows.numel():,} without a key left{phrase}: {effect}."
    fix = "Leave a key open (the first, or its own). Rows of padding may stay empty, if their output is set to zero "
    fix += "and excluded from the loss."
    return grid.findings("empty-row", severity, message, fix, rows)
