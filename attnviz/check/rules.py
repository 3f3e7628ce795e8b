"""Rules of masks, weights and scores: the errors that an array can have, each with its cells and a repair.

A mask is compared with its intent, or, without an intent, with the usual masks; repairs are written in its convention.
Weights and scores are compared with a softmax: which keys a query attends to, and numbers that no softmax gives.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attnviz.check.arrays import CONVENTIONS, VERY_NEGATIVE, conventions_of, fill_value, is_binary, to_may_attend
from attnviz.check.findings import Array, ArrayReport, Finding, future, read_rows
from attnviz.check.intent import MISTAKES, Intent, Part, explain, hides_future, mask_readings
from attnviz.core.amounts import counted
from attnviz.core.errors import MaskError
from attnviz.core.masks import Mask, Subsequent

TOLERANCE = 1e-3
"""Allowed error of the sum of a row: two roundings of float32 scores in the hundreds already change it by 1e-4."""


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
    findings += _find_cells(grid, masks[best.convention], wrong, title, hides, has_faults=bool(faults))
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


def _find_cells(
    grid: Array, may_attend: Tensor, wrong: Tensor, title: str, hides: bool, *, has_faults: bool
) -> Iterator[Finding]:
    """Find the `wrong` cells that no mistake explains, (B, H, Q, K): open in the future, open, or blocked. `title` is
    the intended mask, which hides the future if `hides`; `has_faults` if mistakes were found, too."""
    queries, keys = may_attend.shape[2:]
    ahead, first = wrong & may_attend & future(queries, keys) & hides, max(0, keys - queries)
    for rule, cells, state, fix in (
        ("future-leak", ahead, "open in the future", _block_future(first)),
        ("deviation", wrong & may_attend & ~ahead, "open instead", "Block the listed cells."),
        ("deviation", wrong & ~may_attend, "blocked instead", "Open the listed cells."),
    ):
        if number := int(cells.count_nonzero()):
            subject = f"{counted(number, 'cell')} {'is' if number == 1 else 'are'}"
            others = ", besides the mistakes above" if has_faults else ""
            _, _, query, key = cells.nonzero()[0].tolist()
            leak = f", and position {query + first} saw position {key}" if cells is ahead else ""
            yield from grid.findings(rule, "error", f"It is not {title}: {subject} {state}{others}{leak}.", fix, cells)


def _block_future(first: int) -> str:
    """Write how to block the future in code, if query 0 is at the position `first` of the keys."""
    reason = f", as query 0 is at position {first} (K - Q)" if first else ""
    return f"Block them: at most tril(diagonal={first}) is open, triu(diagonal={first + 1}) blocked{reason}."


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


def repair(part: Part | None, mistake: str, convention: str, values: Tensor) -> str:
    """Write the repair of a mistake in a part, or in the whole mask (None), as code in the convention of the mask."""
    is_masked, additive = convention in ("true-is-masked", "additive"), convention == "additive"
    if part is None and mistake == "transposed":
        return "Pass mask.mT: rows are queries, columns are keys."
    if part is None:
        opposite = "~mask" if values.dtype is torch.bool else "1 - mask"
        opposite = "torch.where(mask < 0, 0.0, -torch.inf)" if additive else opposite
        return f"Pass {opposite}, or state the other convention."
    blocks, is_missing = part.when_missing, mistake in ("missing", "open-future")
    code, reason = code_of(part, is_masked=blocks if is_missing and additive else is_masked)
    change = f"Write this part{', True = masked before it is filled with -inf,' if additive else ''} as: {code}"
    if mistake == "extra":
        change, reason = "Leave the causal part out", ""
    elif mistake == "repeat":
        change = f"Repeat it with repeat_interleave({values.shape[1]}, 0), or write this part as: {code}"
    elif is_missing and additive:
        change = f"Join it: mask = mask.masked_fill({code}, {'-torch.inf' if blocks else '0.0'})"
    elif is_missing:
        mask = "mask.bool()" if values.is_floating_point() else "mask"
        change = f"Join it: mask = {mask} {'&' if blocks is not is_masked else '|'} {code}"
    return f"{change}{reason}."


def code_of(part: Part, *, is_masked: bool) -> tuple[str, str]:
    """Write a correct part as code, True = may attend or True = masked, and explain the names in the code."""
    *_, queries, keys = part.shape
    if part.rule is None:
        name, compared = ("padding", "==") if is_masked else ("tokens", "!=")
        return f"{name}[:, None, None, :]", f", where {name} is (B, K) and True at {name}, such as ids {compared} pad"
    size, first = "n, n" if queries == keys else f"{queries}, {keys}", part.offset
    ones = f"torch.ones({size}, dtype=torch.bool)"
    reason = f", as query 0 is at position {first} (K - Q)" if first else ""
    if isinstance(part.rule, Subsequent):
        first += part.rule.offset
        return f"{ones}.{f'triu(diagonal={first + 1})' if is_masked else f'tril(diagonal={first})'}", reason
    try:
        shift = f".shifted({first})" if first else ""
        code = f'attnviz.mask("{part.rule.text}"){shift}.grid({size})'
    except MaskError:
        return "the intended rule", ""
    return f"~{code}" if is_masked else code, ""


def tolerance(array: Tensor) -> float:
    """Choose the allowed error of a row sum: by the dtype, and for rounded weights half of the last decimal per key."""
    if not array.is_floating_point():
        return TOLERANCE
    eps, digit = torch.finfo(array.dtype).eps, 0.0
    if array.element_size() > 2:
        numbers = array.nan_to_num(0.0, 0.0, 0.0)
        narrow = (torch.float16, torch.bfloat16)  # numbers that fit exactly were probably computed in that type
        eps = max([eps, *(torch.finfo(t).eps for t in narrow if torch.equal(numbers.to(t).to(array.dtype), numbers))])
        for decimals in (4, 3, 2):
            scaled = numbers * 10**decimals
            digit = 0.5 * 10.0**-decimals if ((scaled - scaled.round()).abs() < TOLERANCE).all() else digit
    return max(TOLERANCE, 2 * eps, digit * array.shape[-1])


def check_weights(grid: Array, intent: Intent | None, tokens: Tensor | None, near: float) -> ArrayReport:
    """Report whether the weights hide the future, and their errors; row sums may differ from 1 by up to `near`."""
    values = grid.values
    nan, valid = values.isnan(), values.isfinite().all(-1)
    rows, weights = nan.all(-1), values.nan_to_num(0.0, 0.0, 0.0)
    empty = (weights == 0).all(-1) & valid
    outside = (weights < -near) | (weights > 1 + near)
    example = f", such as {weights[outside][0].item():.4g}" if outside.any() else ""
    message = "with only NaN: no key was left, and -inf was filled in."
    fix = "Leave a key open in each row, or set these rows to zero: torch.nan_to_num after the softmax."
    findings = grid.findings("nan", "error", message, fix, rows, "row")
    message = "with NaN in rows that also hold numbers: no softmax makes such a row."
    fix = "Look for code that changes the weights after the softmax."
    findings += grid.findings("nan", "error", message, fix, nan & ~rows[..., None], "cell")
    fix = "Weights are at most 1. If these are masked scores, state that the kind is scores."
    findings += grid.findings("inf", "error", "Some weights are infinite.", fix, values.isinf())
    grid = Array(weights, grid.axes)
    findings += _sum_findings(grid, valid & ~empty, near)
    fix = "A softmax gives none. If these are scores, from before the softmax, state that kind."
    findings += grid.findings("range", "error", f"below 0 or above 1{example}.", fix, outside, "weight")
    message = "with only zeros: the query had no key left, and its output is 0."
    fix = "If they are not padding, fix the mask: leave each query a key."
    findings += grid.findings("empty-row", "warning", message, fix, empty & read_rows(weights, tokens), "row")
    hides, of_mask = _compare(grid, weights > 1e-6, intent, tokens)  # keys with a very negative score get less
    return ArrayReport("weights", None, hides, tuple(weights.shape), findings=(*findings, *of_mask))


def check_scores(grid: Array, intent: Intent | None, tokens: Tensor | None) -> ArrayReport:
    """Report whether the scores hide the future, and their errors."""
    scores, findings = grid.values, []
    fix = "Look for NaN in queries and keys: an empty row of the layer before, or numbers too large for float16."
    findings += grid.findings("nan", "error", "Some scores are NaN.", fix, scores.isnan())
    fix = "float16 ends at 65,504: scale the queries before the product, or compute scores in float32."
    findings += grid.findings("inf", "error", "Some scores are +inf: the row becomes NaN.", fix, scores == torch.inf)
    blocked = scores <= VERY_NEGATIVE
    fix = "Leave each query a key, or set these rows to zero after the softmax."
    empty = blocked.all(-1) & read_rows(scores, tokens)
    findings += grid.findings("empty-row", "error", "without a key left: every score blocks.", fix, empty, "row")
    hides, of_mask = False, []
    if blocked.any():
        hides, of_mask = _compare(grid, ~blocked, intent, tokens)
    elif intent is not None:
        intended, hides = _intended_mask(intent.mask, ~blocked)
        cells = ~intended.expand_as(scores)
        numbers = scores[cells].unique()
        if len(numbers) == 1 and int(cells[0, 0].count_nonzero()) > 2:
            message = f"Every cell that {intent.title} blocks holds {float(numbers):.4g}, which still gets weight."
            fix = "Fill with -inf before the softmax: scores.masked_fill(~mask, -torch.inf)."
            of_mask = grid.findings("weak-fill", "error", message, fix, cells)
        elif hides:
            message = "No score blocks a key: these are scores from before the mask, which show no leak."
            of_mask = grid.findings("future-leak", "note", message, "Check the mask or the weights.")
    return ArrayReport("scores", None, hides, tuple(scores.shape), findings=(*findings, *of_mask))


def _sum_findings(grid: Array, live: Tensor, near: float) -> Iterator[Finding]:
    """Find rows that do not sum to 1 among the `live` rows, (B, H, Q): finite and not all 0."""
    weights, sums = grid.values, grid.values.sum(-1, dtype=torch.float64)
    off = live & ((sums - 1).abs() > near)
    if not off.any():
        return
    for axis, words in ((2, "the columns do, over queries"), (1, "the heads of each cell do"), (0, "sentences do")):
        along = weights.sum(axis, dtype=torch.float64)
        if weights.shape[axis] > 1 and bool(((along - 1).abs() <= near)[along > 0].all()) and bool((along > 0).any()):
            message = f"The rows do not sum to 1, but {words}: the softmax ran over the wrong axis."
            yield from grid.findings("wrong-axis", "error", message, "Take softmax(dim=-1), over the keys.", off)
            return
    rows, of_live = counted(int(off.count_nonzero()), "row"), sums[live]
    least, most = float(sums[off].min()), float(sums[off].max())
    if most < 1 and (weights == 0).any(-1)[off].all():
        message = f"Masked after the softmax: {rows} with blocked keys sum to less than 1."
        fix = "Mask the scores with -inf before the softmax, so that the other weights sum to 1."
        yield from grid.findings("masked-after-softmax", "error", message, fix, off)
    elif float(of_live.max()) < 1 - near and float(of_live.max() - of_live.min()) > near:
        message = f"Each row sums to less than 1 ({least:.4g} to {most:.4g}). This is right if sinks take the rest; "
        message += "otherwise keys were cut off."
        fix = "If the model has no sinks, look for code that changes the weights after the softmax."
        yield from grid.findings("ambiguous", "note", message, fix)
    else:
        between = f"{least:.4g}" if most - least < 1e-4 * most else f"{least:.4g} to {most:.4g}"
        message = f"{rows} of {off.numel():,} with the sum {between} instead of 1."
        fix = "Change no weights after the softmax: by dropout (call model.eval()), cutting off keys or summing heads."
        yield from grid.findings("row-sum", "error", message, fix, off)


def _compare(grid: Array, is_open: Tensor, intent: Intent | None, tokens: Tensor | None) -> tuple[bool, list[Finding]]:
    """Compare open cells of weights or scores, (B, H, Q, K), with the intent, or a causal mask if they look causal.
    Return whether the future is hidden, and findings about open cells that should be blocked, also at padding."""
    is_read, findings = read_rows(is_open, tokens)[..., None], []
    queries, keys = is_open.shape[2:]
    if intent is None:
        hides = _looks_causal(is_open)
        leaks = is_open & future(queries, keys) & hides
        if leaks.any():
            query, key = leaks.nonzero()[0, 2:].tolist()
            first, number = max(0, keys - queries), counted(int(leaks.count_nonzero()), "open future cell")
            message = f"It looks causal, with {number}: position {query + first} saw position {key}."
            fix = f"{_block_future(first)} If they are meant to be open: --intent two-way."
            findings += grid.findings("future-leak", "warning", message, fix, leaks)
    else:
        intended, hides = _intended_mask(intent.mask, is_open)
        findings += _find_cells(grid, is_open, is_open & ~intended & is_read, intent.title, hides, has_faults=False)
    if tokens is not None:
        fix = "Join padding to the mask: mask & tokens[:, None, None, :], True at tokens."
        padding = is_open & ~tokens[:, None, None] & is_read
        findings += grid.findings("deviation", "error", "of padding open to tokens.", fix, padding, "cell")
    return hides, findings


def _looks_causal(is_open: Tensor) -> bool:
    """Whether half of the past is open, and half of the heads open at most a tenth of the future; used keys count."""
    queries, keys = is_open.shape[2:]
    used = is_open.any(2, keepdim=True) & is_open.any(3, keepdim=True)
    ahead, behind = used & future(queries, keys), used & ~future(queries, keys)
    hides_per_head = 10 * (is_open & ahead).sum((0, 2, 3)) <= ahead.sum((0, 2, 3))
    is_past_open = 2 * int((is_open & behind).count_nonzero()) >= int(behind.count_nonzero())
    has_past = bool(ahead.any()) and queries > 1 + (queries != keys)
    return has_past and is_past_open and 2 * int(hides_per_head.sum()) >= len(hides_per_head)


def _intended_mask(mask: Mask, is_open: Tensor) -> tuple[Tensor, bool]:
    """Compute the cells that the intended mask opens, (B or 1, 1, Q, K), and whether the mask hides the future."""
    batch, _, queries, keys = is_open.shape
    offset = max(0, keys - queries)
    return mask.shifted(offset).tensor(queries, keys)[:batch], hides_future(mask, offset, is_open.shape)
