"""The future of an array whose rule is not known: whether it is hidden, and what of it is open."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnviz.check.findings import Finding, Laid, future
from attnviz.check.intent import Intent
from attnviz.check.remedies import block_future
from attnviz.core.amounts import counted

FEW = 4
"""Queries below which a mask that opens one key of the future for all may as well be a window."""


def looks_causal(may_attend: Tensor) -> bool:
    """Whether most heads hide the future: at most a tenth of it is open in all, or none in half of the heads, or the
    very next key alone, while at least half of the past is open. Keys and queries that are blocked throughout (padding)
    are left out. (B, H, Q, K), boolean."""
    queries, keys = may_attend.shape[2:]
    after = future(queries, keys)
    if queries < (2 if queries == keys else 3) or not after.any():
        return False
    used = may_attend.any(2, keepdim=True) & may_attend.any(3, keepdim=True)
    ahead, behind = used & after, used & ~after
    if 2 * int((may_attend & behind).count_nonzero()) < int(behind.count_nonzero()) or not bool(ahead.any()):
        return False
    open_ahead = [int(head.count_nonzero()) for head in (may_attend & ahead).unbind(1)]
    if 10 * sum(open_ahead) <= int(ahead.count_nonzero()) or 2 * open_ahead.count(0) >= len(open_ahead):
        return True
    if queries < FEW:
        return False
    shifted = torch.ones_like(after).tril(max(0, keys - queries) + 1)
    return bool((used & ~shifted).any()) and torch.equal(may_attend, used & shifted)


def saw(cells: Tensor) -> str:
    """Who saw whom in the first of some cells, (B, H, Q, K), by their positions."""
    _, _, query, key = cells.nonzero()[0].tolist()
    offset = max(0, cells.shape[3] - cells.shape[2])
    who = f"query {query}, at position {query + offset}," if offset else f"position {query}"
    return f"{who} saw position {key}"


def in_numbers(may_attend: Tensor) -> str:
    """How much of the future is open and how much of the rest: "1 of 10 future cells is open; all 15 others are"."""
    queries, keys = may_attend.shape[2:]
    after, whole = future(queries, keys), may_attend.shape[0] * may_attend.shape[1]
    ahead, behind = (int((may_attend & side).count_nonzero()) for side in (after, ~after))
    cells = int(after.count_nonzero()) * whole
    others = may_attend.numel() - cells
    rest = f"all {others:,}" if behind == others else f"{behind:,} of {others:,}"
    if not ahead:
        blocked = f"all {cells:,} future cells are" if cells > 1 else "the future cell is"
        return f"{blocked} blocked, {rest} others are open"
    return f"{ahead:,} of {cells:,} future cells {'is' if ahead < 2 else 'are'} open; {rest} others are"


def leaks(laid: Laid, may_attend: Tensor, *, stated: bool) -> Iterator[Finding]:
    """The open cells of the future."""
    open_ahead = may_attend & future(*may_attend.shape[2:])
    if not open_ahead.any():
        return
    queries, keys = may_attend.shape[2:]
    beyond_next = open_ahead & ~torch.ones(queries, keys, dtype=torch.bool).tril(max(0, keys - queries) + 1)
    count = int(open_ahead.any(-1).sum())
    see, it = ("sees", "it") if count == 1 else ("see", "them")
    rows, after = counted(count, "row"), "keys" if beyond_next.any() else "the key"
    message = f"{rows} {see} {after} after {it}: {saw(open_ahead)}. In all, {in_numbers(may_attend)}."
    fix = block_future(queries, keys)
    if not stated:
        fix += " If they are meant to be open, check it again as not causal."
    yield laid.finding("future-leak", "error" if stated else "warning", message, fix, open_ahead)


def beyond(laid: Laid, is_open: Tensor, meant: Intent) -> Iterator[Finding]:
    """Cells with a weight, or a score that does not block, that the meant mask blocks; the future's apart."""
    extra, after = meant.beyond(is_open), future(*is_open.shape[2:])
    hidden = not (is_open & ~extra & after).any()
    for rule, cells in (("future-leak", extra & after & hidden), ("deviation", extra & ~(after & hidden))):
        if cells.any():
            message = f"open that {meant.title} blocks: {saw(cells)}."
            fix = "Look for a mask that was not handed over, or is another one."
            yield from laid.some(rule, "error", cells, message, fix, "cell")


def padding_seen(laid: Laid, is_open: Tensor, tokens: Tensor) -> Iterator[Finding]:
    """Keys of padding that queries which are tokens see; `tokens` is (B, K)."""
    seen = is_open & ~tokens[:, None, None]
    if seen.shape[2] == seen.shape[3]:
        seen = seen & tokens[:, None, :, None]
    message = "of padding open to tokens."
    fix = "Join padding to the mask: mask & tokens[:, None, None, :], True at tokens."
    yield from laid.some("deviation", "error", seen, message, fix, "cell")
