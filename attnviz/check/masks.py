"""Checks of a mask: against what it is meant to be, or without an intent as one of the masks that are known.

Each fault is named with its repair, which is written for the convention of the mask.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from attnviz.check.arrays import CONVENTIONS, VERY_NEGATIVE, conventions_of, fill, is_binary, opened
from attnviz.check.findings import ArrayReport, Finding, Laid, block_future, future, read_rows, saw
from attnviz.check.intent import ASSUMED, COUNTED, Combination, Intent, Part, explain, hides_future, mask_readings
from attnviz.core.amounts import counted
from attnviz.core.errors import MaskError
from attnviz.core.masks import Subsequent, Window

WEAK = -1000.0
"""An additive mask should block by less than this: scores of some hundreds occur."""

ASK = (
    "What is the mask meant to be? It is none of those that are known without being told (causal, with a window or a "
    "prefix, documents, padding alone). Say --intent causal, two-way or a mask such as 'causal & window(4)'"
)
LEAVE_ONE = (
    "Leave a key open (the first, or its own). Padding that nothing reads may stay so, if its output is set to zero "
    "and kept out of the loss."
)
"""Repair of a fully masked row."""

DIAGONAL = (
    "Its first query stands at the first key, as is_causal of PyTorch has it; with a cache, the last query has to "
    "stand at the last key.",
    "Its last query stands at the last key, as with a cache.",
)
"""Position of the diagonal of a mask of fewer queries than keys, without an offset and with one."""

OF_RULE = {
    "ahead": ("shifted", "off by one: each query has the keys of the next one"),
    "behind": ("shifted", "off by one: each query has the keys of the one before"),
    "longer": ("deviation", "off by one: it is one key too long"),
    "shorter": ("deviation", "off by one: it is one key too short"),
    "transposed": ("transposed", "transposed"),
    "inverted": ("inverted", "inverted"),
    "missing": ("deviation", "missing"),
}
OF_CAUSAL = OF_RULE | {
    "ahead": ("future-leak", "off by one: it opens the next key"),
    "behind": ("blocks-itself", "off by one: it blocks each query's own key"),
    "missing": ("future-leak", "missing"),
    "extra": ("deviation", "that is not meant: it hides the future"),
}
OF_PADDING = {
    "ahead": ("shifted", "off by one: it opens the first key of padding"),
    "behind": ("shifted", "off by one: it blocks a token at its edge"),
    "inverted": ("inverted", "inverted"),
    "wrong-axis": ("wrong-axis", "blocks queries instead of keys"),
    "as-queries": ("broadcast", "of (B, K) is read as (Q, K): query i has the padding of text i"),
    "as-heads": ("broadcast", "of (B, K) is read as (H, K): head i has the padding of text i"),
    "repeat": ("broadcast", "made by repeat instead of repeat_interleave: heads have the padding of other texts"),
    "missing": ("deviation", "missing"),
}
"""Name of the finding for each mistake, and how a sentence about the part goes on."""


def check_mask(
    laid: Laid, stated: str | None, intent: Intent | None, tokens: Tensor | None, keys: int | None = None
) -> ArrayReport:
    """Report on a mask: its values, and what it should be.

    Args:
        stated: the convention, if it was said.
        tokens: (B, K), True = token, if it is known which keys are padding.
        keys: of the scores, if that is known.
    """
    mask, names = laid.values, conventions_of(laid.values, stated)
    shape, findings = tuple(mask.shape), []
    if mask.is_floating_point() and is_binary(mask) and mask.any() and stated != "zero-is-masked":
        message = "It holds floats of 0 and 1, which F.scaled_dot_product_attention and nn.MultiheadAttention add to "
        message += "the scores: it blocks nothing."
        fix = "Hand over mask.bool(), True = may attend; to nn.MultiheadAttention mask == 0."
        fix = "Hand over mask.bool(), True = masked." if stated == "true-is-masked" else fix
        severity = {"additive": "error", None: "note"}.get(stated, "warning")
        findings += laid.findings("values", severity, message, fix, mask == 0 if severity == "error" else None)
        mask, names = (mask == 1, ["may-attend"]) if stated == "additive" else (mask, names)
    elif names == ["additive"]:
        value = fill(mask)
        if value is None and (mask != 0).any():
            return ArrayReport("mask", "additive", False, shape, findings=tuple(_no_mask(laid)))
        if value is not None and value > WEAK:
            left = f"a key whose score is {-value:.4g} above the others still gets weight"
            left = f"{math.exp(value):.2g} of their weight stays" if value > -20 else left
            message = f"Blocked scores are lowered by {-value:.4g} only: {left}."
            severity, fix = "error" if value > -20 else "warning", "Fill with -inf, or torch.finfo(dtype).min."
            findings += laid.findings("weak-fill", severity, message, fix, laid.values < 0)
    masks = {name: opened(mask, name) for name in names}
    by_query = _by_query(laid, masks[names[0]], keys) if tokens is None and (not intent or intent.kind) else None
    if by_query is not None:
        message = "It blocks queries where padding blocks keys: these rows have no key left, and all others see the "
        fix = "Block keys instead: hand over (B, 1, 1, K), such as (ids != pad)[:, None, None, :]."
        findings += laid.findings("wrong-axis", "error", f"{message}padding.", fix, ~by_query)
        report = ArrayReport("mask", names[0], False, shape, repaired=by_query[:, :, None])
    elif intent is None:
        report = _without_intent(laid, masks, tokens, is_stated=stated is not None)
    else:
        report = _with_intent(laid, masks, intent, tokens)
    return replace(report, convention=stated or report.convention, findings=(*findings, *report.findings))


def _by_query(laid: Laid, mask: Tensor, keys: int | None) -> Tensor | None:
    """Rows, (B, H, Q), that are open or blocked throughout as padding makes them that stands on the axis of queries."""
    is_one = mask.shape[3] == 1 and "key" in laid.axes and "query" in laid.axes and keys != 1
    is_open = mask[..., 0]
    if mask.shape[2] < 2 or not (is_one or mask.shape[2] == mask.shape[3]) or (mask != is_open[..., None]).any():
        return None
    at_one_end = bool((is_open.int().diff(dim=2).abs().sum(2) < 2).all())
    return is_open if at_one_end and is_open.any() and not is_open.all() else None


def _with_intent(laid: Laid, masks: dict[str, Tensor], intent: Intent, tokens: Tensor | None) -> ArrayReport:
    """Report on a mask against its intent: the mistakes that give it, and the cells that differ beside them."""
    same = all(torch.equal(mask, mask[:, :1].expand_as(mask)) for mask in masks.values())
    readings = [*mask_readings({name: mask[:, :1] if same else mask for name, mask in masks.items()}, intent, tokens)]
    shape = tuple(laid.values.shape)
    best = explain(readings)
    faults, may_attend, wrong, findings = [*best.faults()], masks[best.convention], best.differing.expand(shape), []
    if len(masks) > 1:
        how = "best fits" if faults or wrong.any() else "fits"
        findings += _read_as(laid, best.convention, f"{how} {intent.title}")
    together = " (Both repairs are needed.)" if len(faults) > 1 else ""
    for part, mistake, cells in faults:
        rule, message = mistake_in_words(part, mistake)
        fix = f"{repair(part, mistake, best.convention, laid.values)}{together}"
        findings += laid.findings(rule, "error", message, fix, cells.expand(shape))
    report = _explained(laid, best, (f", as {intent.title} has", "warning" if intent.kind else "note"), tokens)
    ahead = wrong & may_attend & future(*shape[2:]) & report.causal
    for rule, cells, what, fix in (
        ("future-leak", ahead, "open in the future", block_future(*shape[2:])),
        ("deviation", wrong & may_attend & ~ahead, "open instead", "Block the cells that are named."),
        ("deviation", wrong & ~may_attend, "blocked instead", "Open the cells that are named."),
    ):
        if cells.any():
            are = f"{counted(int(cells.count_nonzero()), 'cell')} {'is' if cells.count_nonzero() == 1 else 'are'}"
            also = ", beside the mistakes that are named" if faults else ""
            message = f"It is not {intent.title}: {are} {what}{also}{f', and {saw(cells)}' if cells is ahead else ''}."
            findings += laid.findings(rule, "error", message, fix, cells)
    return replace(report, findings=(*findings, *report.findings), repaired=best.right.expand(shape))


def _without_intent(laid: Laid, masks: dict[str, Tensor], tokens: Tensor | None, *, is_stated: bool) -> ArrayReport:
    """Report on a mask that is exactly a known one; else the question what it is meant to be, and what holds anyhow."""
    shape, known, first = tuple(laid.values.shape), {}, next(iter(masks))
    for (name, mask), (kind, title) in product(masks.items(), ASSUMED.items()):
        readings = mask_readings({name: mask}, Intent(title, kind=kind), tokens) if name not in known else ()
        for reading in readings:
            if name not in known and not reading.whole and reading.is_right:
                rules = [rule for rule in getattr(reading.rules, "masks", ()) if type(rule) in COUNTED]
                number = "".join(str(getattr(rule, COUNTED[type(rule)])) for rule in rules)
                known[name] = reading, title.format(number=number)
    if not known:
        empty = ~masks[first].any(-1) & read_rows(masks[first], tokens)
        severity = "error" if is_stated or len(masks) == 1 else "warning"
        findings = [*_of_padding(laid, masks[first], tokens), *_empty(laid, severity, empty, "", first)]
        question = f"{ASK}{'' if len(masks) == 1 else ', and its --convention'}."
        ahead = future(*shape[2:])
        hides = bool(ahead.any()) and not bool((masks[first] & ahead).any())
        return ArrayReport("mask", first, hides, shape, findings=tuple(findings), question=question)
    (convention, (reading, title)), *others = known.items()
    has_padding = reading.tokens is not None and not bool(reading.tokens.all())
    assumed, findings = f"{title} with padding" if has_padding else title, []
    if others:
        message = f"Nothing in it tells the convention: read as '{convention}' it is {assumed}, and as "
        message += f"'{others[0][0]}' {others[0][1][1]}, maybe with padding."
        findings += laid.findings("ambiguous", "note", message, "Say the convention.")
    elif len(masks) > 1:
        findings += _read_as(laid, convention, "makes it a mask that is known")
    report = _explained(laid, reading, (f", as {assumed} has", "warning"), tokens)
    return replace(report, findings=(*findings, *report.findings), assumed=assumed)


def _explained(laid: Laid, best: Combination, as_meant: tuple[str, str], tokens: Tensor | None) -> ArrayReport:
    """Report on an explained mask. If no fault is named, its rows without a key are: those that are so by mistake, as
    the intended mask has them (words and severity in `as_meant`), or as queries of padding."""
    shape, findings = tuple(laid.values.shape), []
    hides = hides_future(best.rules, best.offset, shape)
    if not (any(best.mistakes) or best.whole):
        empty, intended = ~best.may_attend.any(-1).expand(shape[:3]), ~best.right.any(-1)
        of_padding = ~read_rows(best.may_attend, best.tokens)
        usual = "warning" if tokens is None and as_meant[1] == "warning" else "note"
        for why, severity, rows in (
            ("", "error", empty & ~intended & ~of_padding),
            (*as_meant, empty & intended & ~of_padding),
            (", as queries of padding often have", usual, empty & of_padding),
        ):
            findings += _empty(laid, severity, rows, why, best.convention)
    reasons = (DIAGONAL[best.offset > 0],) if hides and shape[2] < shape[3] else ()
    return ArrayReport("mask", best.convention, hides, shape, reasons, findings=tuple(findings))


def _read_as(laid: Laid, convention: str, why: str) -> list[Finding]:
    """Note on the convention that was not said."""
    message = f"It is read as '{convention}' ({CONVENTIONS[convention]}), which {why}."
    other = "F.scaled_dot_product_attention" if convention == "true-is-masked" else "nn.MultiheadAttention"
    fix = f"If that is wrong, say the convention. To {other} hand over the opposite."
    return laid.findings("convention", "note", message, fix)


def _of_padding(laid: Laid, may_attend: Tensor, tokens: Tensor | None) -> Iterator[Finding]:
    """Keys of padding that tokens see, and tokens that no query sees, where it was said which keys are padding."""
    if tokens is None:
        return
    is_read, keys = read_rows(may_attend, tokens)[..., None], tokens[:, None, None]
    exposed = may_attend & ~keys & is_read
    hidden = keys & ~(may_attend & is_read).any((1, 2), keepdim=True)
    hidden = hidden & (may_attend.shape[2] in (1, may_attend.shape[3]))
    if exposed.any() or hidden.any():
        keys_seen = int(exposed.any((1, 2)).count_nonzero())
        parts = [f"{counted(keys_seen, 'key')} of padding open to tokens"] if keys_seen else []
        parts += [f"{counted(int(hidden.count_nonzero()), 'token')} hidden from every query"] if hidden.any() else []
        fix = "Of the keys, block padding alone: join tokens[:, None, None, :], where tokens is (B, K), True at tokens."
        yield from laid.findings("deviation", "error", f"{' and '.join(parts).capitalize()}.", fix, exposed | hidden)


def _no_mask(laid: Laid) -> Iterator[Finding]:
    """Numbers of an additive mask that neither block nor leave open."""
    values = laid.values
    fix = "0 * -inf is NaN: do not multiply by -inf, use torch.where or masked_fill."
    yield from laid.findings("nan", "error", "The mask holds NaN.", fix, values.isnan())
    yield from laid.findings("inf", "error", "The mask holds +inf.", "Blocked is -inf, open is 0.", values == torch.inf)
    odd = (values != 0) & (values > VERY_NEGATIVE) & values.isfinite()
    if odd.any():
        message = f"The mask holds {values[odd][0].item():.4g} and other numbers that neither block nor leave open."
        fix = "Numbers added to scores that change them are a bias; if they are scores or weights, say that kind."
        yield from laid.findings("values", "error", message, fix, odd)


def _empty(laid: Laid, severity: str, rows: Tensor, why: str, convention: str) -> list[Finding]:
    """A finding about rows without a key; a warning is a note if a finite fill leaves numbers in them."""
    count, value = int(rows.count_nonzero()), fill(laid.values) if convention == "additive" else None
    it, has = ("it", "has") if count == 1 else ("them", "have")
    what = f"softmax makes NaN of {it}, unless the code fills in zeros, as F.scaled_dot_product_attention does"
    if value is not None and value > -torch.inf:
        what = f"softmax spreads {it} over masked keys"
        severity = "note" if severity == "warning" else severity
    message = f"{counted(count, 'row')} of {rows.numel():,} {has} no key left{why}: {what}."
    return laid.findings("empty-row", severity, message, LEAVE_ONE, rows)


def mistake_in_words(part: Part | None, mistake: str) -> tuple[str, str]:
    """Name of the finding, and the sentence: "Causal part off by one: it opens the next key."; no part is all."""
    if part is None:
        return mistake, f"The whole mask is {mistake}."
    if part.is_padding:
        rule, sentence = OF_PADDING[mistake]
        return rule, f"Padding {sentence}."
    is_causal = mistake == "extra" or isinstance(part.rule, Subsequent)
    rule, sentence = (OF_CAUSAL if is_causal else OF_RULE)[mistake]
    keyword = "causal" if is_causal else getattr(part.rule, "keyword", "") or "other"
    return rule, f"{keyword.capitalize()} part {sentence}."


def repair(part: Part | None, mistake: str, convention: str, values: Tensor) -> str:
    """Repair of one mistake, in a part or (None) the whole mask, for `values` in the convention they were given in."""
    is_masked, additive = convention in ("true-is-masked", "additive"), convention == "additive"
    if mistake == "extra":
        return "Leave the causal part out."
    if part is None and mistake == "transposed":
        return "Hand over mask.mT: rows are queries, columns are keys."
    if part is None:
        opposite = "~mask" if values.dtype is torch.bool else "1 - mask"
        opposite = "torch.where(mask < 0, 0.0, -torch.inf)" if additive else opposite
        return f"Hand over {opposite}, or say the other convention."
    is_missing = mistake == "missing"
    code, where = code_of(part, is_masked=part.when_missing if is_missing and additive else is_masked)
    if is_missing and additive:
        return f"Join it: mask = mask.masked_fill({code}, {'-torch.inf' if part.when_missing else '0.0'}){where}."
    if is_missing:
        mask = "mask.bool()" if values.is_floating_point() else "mask"
        return f"Join it: mask = {mask} {'&' if part.when_missing is not is_masked else '|'} {code}{where}."
    change = f"Write this part{', True = masked before it is filled with -inf,' if additive else ''} as"
    if mistake == "repeat":
        change = f"Repeat it with repeat_interleave({values.shape[1]}, 0), or write this part as"
    return f"{change}: {code}{where}."


def code_of(part: Part, *, is_masked: bool) -> tuple[str, str]:
    """A right part as code, True = may attend or True = masked, and what its names stand for."""
    *_, queries, keys = part.shape
    if part.is_padding:
        name, compared = ("padding", "==") if is_masked else ("tokens", "!=")
        return f"{name}[:, None, None, :]", f", where {name} is (B, K) and True at {name}, such as ids {compared} pad"
    size, first = "n, n" if queries == keys else f"{queries}, {keys}", part.offset
    ones = f"torch.ones({size}, dtype=torch.bool)"
    where = f", as query 0 stands at position {first} (K - Q)" if first else ""
    match part.rule:
        case Subsequent(offset):
            first += offset
            return f"{ones}.{f'triu(diagonal={first + 1})' if is_masked else f'tril(diagonal={first})'}", where
        case Window(before, after):
            code = f"{ones}.triu(diagonal={first - before}).tril(diagonal={first + after})"
            return f"~{code}" if is_masked else code, where
    try:
        moved = f".shifted({first})" if first else ""
        code = f'attnviz.mask("{part.rule.text}"){moved}.grid({size})'
    except MaskError:
        return "the rule that is meant", ""
    return f"~{code}" if is_masked else code, ""
