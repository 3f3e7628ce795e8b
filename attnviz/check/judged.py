"""What a mask is judged to be, as findings: swapped, shifted, cells that differ, and what cannot be known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from attnviz.check.findings import Finding, Laid, future
from attnviz.check.future import in_numbers
from attnviz.check.grids import MOST_CELLS, Grids
from attnviz.check.intent import Intent
from attnviz.check.kinds import small
from attnviz.core.amounts import counted
from attnviz.core.explain import LARGE, MISTAKEN, Judgement, judge, near, words

ASK = "Say what the mask is meant to be."
OFF_BY_ONE = "It is off by one: tril(diagonal=0) is open, triu(diagonal=1) blocked."
BLOCK_FUTURE = "Block them: tril(diagonal=0) is open, triu(diagonal=1) blocked."


@dataclass(frozen=True, eq=False)
class Judged:
    """A mask and what it is.

    Attributes:
        may_attend: (B, H, Q, K), True = may attend.
        grids: the different ones of it.
        judgement: of these.
        meant: what was said that it is, so that what differs is an error.
    """

    may_attend: Tensor
    grids: Grids
    judgement: Judgement
    meant: Intent | None = None

    @classmethod
    def of(cls, may_attend: Tensor, meant: Intent | None, mistakes: Sequence[str] = MISTAKEN) -> "Judged":
        if meant is not None:
            grids = Grids.of(may_attend, apart=True)
            return cls(may_attend, grids, meant.judge(grids, mistakes), meant)
        grids = Grids.of(may_attend, cells=MOST_CELLS)
        return cls(may_attend, grids, judge(grids.each, mistakes=mistakes) if grids.each else Judgement())

    @property
    def is_right(self) -> bool:
        """Whether it is what it should be, to the last cell."""
        return self.judgement.is_certain and not self.judgement.mistake

    @property
    def wrong(self) -> Tensor:
        """The cells that differ, (B, H, Q, K)."""
        return self.grids.spread([one.wrong for one in self.judgement.found])

    @property
    def expected(self) -> Tensor:
        """The mask that was meant, (B, H, Q, K)."""
        return self.grids.spread([one.grid() for one in self.judgement.found])

    @property
    def hides_future(self) -> bool:
        """Whether it is of a kind that blocks the future."""
        usual = self.judgement.mistake in ("", "shifted")
        return bool(self.judgement.found) and usual and all(one.kind.is_causal for one in self.judgement.found)


def findings(laid: Laid, judged: Judged) -> Iterator[Finding]:
    """Everything that a judgement says of a mask; of one that nothing explains what it looks like."""
    judgement, stated = judged.judgement, judged.meant is not None
    if not judgement.found:
        yield from _not_it(laid, judged.meant) if stated else _unknown(laid, judged)
        return
    if judgement.mistake:
        yield _mistake(laid, judged)
    if judged.wrong.any():
        yield from _differing(laid, judged)
    elif not stated:
        if says := words.ambiguous(judgement):
            yield laid.finding("ambiguous", "note", says, ASK)
        yield from _near(laid, judged)


def _near(laid: Laid, judged: Judged) -> Iterator[Finding]:
    """The plain mask that was meant perhaps, with the cells that differ from it."""
    close = near(judged.grids.each, judged.judgement) if len(judged.grids.each) == 1 else Judgement()
    for one in close.found if not judged.judgement.mistake else ():
        yield laid.finding("near-miss", "note", words.near(one), ASK, judged.grids.spread([one.wrong]))


def _not_it(laid: Laid, meant: Intent) -> Iterator[Finding]:
    says = f"It is not {meant.title}, whatever its numbers."
    yield laid.finding("deviation", "error", says, "Compare it with one, cell by cell: say a mask with its numbers.")


def _mistake(laid: Laid, judged: Judged) -> Finding:
    """A mistake in the whole mask, with the cells that are open by it, or else blocked."""
    judgement, stated = judged.judgement, judged.meant is not None
    says, unless = words.mistaken(judgement, judged.grids.each[0]), "" if stated else words.otherwise(judgement)
    rule, fix = judgement.mistake, words.FIXES[judgement.mistake]
    if rule == "shifted" and judged.hides_future:
        rule, fix = "future-leak" if judgement.found[0].reading.by > 0 else "blocks-itself", OFF_BY_ONE
    if unless:
        says = f"{says.removesuffix('.')}; unless it is {unless}."
    is_sure = (~judged.may_attend).all(-1).any() or not (unless or (judgement.mistake == "shifted" and not stated))
    severity = "error" if is_sure else "warning"  # a row without a key settles it
    spoiled = judged.may_attend & ~judged.expected
    chosen = spoiled if spoiled.any() else judged.expected & ~judged.may_attend
    return laid.finding(rule, severity, says, fix, chosen)


def _differing(laid: Laid, judged: Judged) -> Iterator[Finding]:
    """Single cells that differ from what the mask is else; of the future apart, where that is to be hidden."""
    judgement, stated, is_open = judged.judgement, judged.meant is not None, judged.may_attend
    severity, what = "error" if stated else "warning", words.is_what(judgement)
    meant = "" if stated else f" If that is meant, {small(ASK)}"
    hidden = not judgement.mistake and all(one.kind.is_causal is not False for one in judgement.found)
    ahead = judged.wrong & is_open & future(*is_open.shape[2:]) & hidden
    if ahead.any():
        _, _, query, key = ahead.nonzero()[0].tolist()
        says = f"{what}: {_are(ahead)} open in the future, and position {query} saw position {key}."
        yield laid.finding("future-leak", severity, says, BLOCK_FUTURE + meant, ahead)
    if (more := judged.wrong & is_open & ~ahead).any():
        yield laid.finding(
            "deviation", severity, f"{what}: {_are(more)} open instead.", f"Block {_it(more)}.{meant}", more
        )
    told = ~is_open.any(-1, keepdim=True) & (not stated)  # a row without a key is a finding of its own
    if (less := judged.wrong & ~is_open & ~told).any():
        yield laid.finding(
            "deviation", severity, f"{what}: {_are(less)} blocked instead.", f"Open {_it(less)}.{meant}", less
        )


def _are(cells: Tensor) -> str:
    count = int(cells.sum())
    return f"{count:,} {'is' if count == 1 else 'are'}"


def _it(cells: Tensor) -> str:
    return "it" if int(cells.sum()) == 1 else "them"


def _unknown(laid: Laid, judged: Judged) -> Iterator[Finding]:
    """What is seen of a mask that nothing explains: own keys blocked, alone or with most of what is usually open, or
    all of the past open and some of the future."""
    may_attend = judged.may_attend
    queries, keys = may_attend.shape[2:]
    offset = max(0, keys - queries)
    own, used = may_attend.diagonal(offset, 2, 3), may_attend.any(2)[..., offset : offset + queries]
    ahead, behind = may_attend.triu(offset + 1), may_attend.tril(offset - 1)
    cells = may_attend.new_ones(may_attend.shape)
    blocked = (cells.tril(offset) & cells.triu(offset)) & ~may_attend
    if queries > 2 and used.any() and not own.any():
        if not ahead.any() and 2 * int(behind.sum()) >= int(cells.tril(offset - 1).sum()):
            none = "" if may_attend[:, :, 0].any() else ": query 0 has none at all"
            says = f"The future is hidden, and so is each query's own key{none}."
            yield laid.finding("blocks-itself", "warning", says, OFF_BY_ONE, blocked)
            return
        empty = int((~may_attend.any(-1)).sum())
        if ahead.any() and (empty or 2 * int(may_attend.sum()) >= may_attend.numel()):
            rows = f", and {counted(empty, 'row')} sees nothing" if empty == 1 else f", and {empty:,} rows see nothing"
            says = f"No query sees itself{rows * bool(empty)}: {in_numbers(may_attend)}."
            says = f"Open and blocked are probably swapped. {says}"
            yield laid.finding("inverted", "warning", says, f"{words.FIXES['inverted']} {ASK}", blocked)
            return
    after = future(queries, keys)
    if queries > 2 and may_attend[..., ~after].all() and 2 * int(ahead.sum()) < int((cells & after).sum()):
        _, _, query, key = ahead.nonzero()[0].tolist()
        some = f"{int(ahead.sum()):,} of {int((cells & after).sum()):,}"
        says = f"All of the past is open and, of the future, {some} cells: query {query} sees key {key}."
        says = f"{says} The mask alone does not tell whether that is meant."
        yield laid.finding("future-leak", "warning", says, f"{BLOCK_FUTURE} If they are meant, {small(ASK)}", ahead)
    else:
        says = f"It is no mask that is known here: {in_numbers(may_attend)}."
        if queries * keys > LARGE:
            says += (
                f" With more than {LARGE:,} cells it is not compared with masks that have random keys, as BigBird has."
            )
        yield laid.finding("ambiguous", "note", says, ASK)
        yield from _near(laid, judged)
