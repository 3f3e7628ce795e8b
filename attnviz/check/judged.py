"""Judgement of a mask, as findings: swapped, shifted, cells that differ, and what cannot be known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnviz.check.findings import Finding, Laid, future
from attnviz.check.future import in_numbers, saw
from attnviz.check.grids import MOST, Grids
from attnviz.check.intent import ADDS, Intent
from attnviz.check.kinds import small
from attnviz.check.parts import Composition, PartFault, compose
from attnviz.check.remedies import block_future, open_own, remedy
from attnviz.core.amounts import counted
from attnviz.core.explain import LARGE, MARGIN, MISTAKEN, Judgement, judge, near, row_step, under, words

IS_PADDING = "Is key 0 padding? Say padding=, (B, K) with True at tokens."
ASK = "Say what the mask is meant to be."


@dataclass(frozen=True, eq=False)
class Judged:
    """A mask and what it is.

    Attributes:
        may_attend: (B, H, Q, K), True = may attend.
        grids: the different ones of it.
        judgement: of these.
        meant: what was said that it is, so that what differs is an error.
        instead: what it is to the last cell instead of what is meant.
        composition: its parts, where they and their faults explain every cell.
        tokens: (B, K), which keys are no padding, if that was said.
        others: those of its grids that are no known mask, where the rest of a batch is.
    """

    may_attend: Tensor
    grids: Grids
    judgement: Judgement
    meant: Intent | None = None
    instead: Judgement = Judgement()
    composition: Composition | None = None
    tokens: Tensor | None = None
    others: "Judged | None" = None

    @classmethod
    def of(
        cls,
        may_attend: Tensor,
        meant: Intent | None,
        mistakes: Sequence[str] = MISTAKEN,
        tokens: Tensor | None = None,
        causal: bool | None = None,
    ) -> "Judged":
        said, composition = {"meant": meant, "tokens": tokens}, None
        kind = meant.kind if meant is not None else None
        if tokens is not None:
            composition = compose(may_attend, tokens, kind, causal, mistakes)
            if composition is not None and len(composition.faults) < 2:
                return cls(may_attend, Grids.of(may_attend), composition.rest, composition=composition, **said)
        grids = Grids.of(may_attend, apart=meant is not None)
        judgement = meant.judge(grids, mistakes) if meant is not None else judge(grids.each, mistakes=mistakes)
        is_single = len(grids.each) == 1 or not judgement.mistake
        if mistakes and tokens is None and not (judgement.is_certain and (is_single or meant)):
            composition = compose(may_attend, None, kind, causal, mistakes)
        if composition is not None and composition.bits + MARGIN <= judgement.bits:
            return cls(may_attend, grids, composition.rest, composition=composition, **said)
        if meant is not None:
            return cls(may_attend, grids, judgement, instead=meant.instead(grids, judgement), **said)
        if not judgement.is_certain and mistakes and len(grids.each) > 1:
            certain = [under((grid,), "").is_certain for grid in grids.each]
            if any(certain) and not all(certain):
                right, wrong = grids.only(certain), grids.only([not is_certain for is_certain in certain])
                others = cls(may_attend, wrong, judge(wrong.each, mistakes=mistakes))
                return cls(may_attend, right, judge(right.each, mistakes=mistakes), others=others, **said)
        return cls(may_attend, grids, judgement, **said)

    @property
    def faults(self) -> tuple[PartFault, ...]:
        """Faults of its parts, where they explain every cell."""
        return self.composition.faults if self.composition is not None else ()

    @property
    def is_right(self) -> bool:
        """Whether it is what it should be, to the last cell."""
        if self.composition is not None:
            return not self.composition.faults
        return self.judgement.is_certain and not self.judgement.mistake

    @property
    def wrong(self) -> Tensor:
        """The cells that differ, (B, H, Q, K)."""
        return self.grids.spread([explanation.wrong for explanation in self.judgement.explanations])

    @property
    def expected(self) -> Tensor:
        """The mask that was meant, (B, H, Q, K)."""
        if self.composition is not None:
            return self.composition.right
        if not self.judgement.explanations:
            return self.may_attend
        return self.grids.spread([explanation.grid() for explanation in self.judgement.explanations])

    @property
    def of_padding(self) -> Tensor:
        """Rows of queries that are padding, boolean, broadcasts to (B, H, Q)."""
        *_, queries, keys = self.may_attend.shape
        tokens = self.tokens if self.composition is None else self.composition.tokens
        if queries != keys:
            return torch.zeros(1, 1, 1, dtype=torch.bool)
        if tokens is not None:
            return ~tokens[:, None]
        paddings = [explanation.reading.padding for explanation in self.judgement.explanations]
        rows = [~padding.grid(1, keys)[0] if padding else torch.zeros(keys, dtype=torch.bool) for padding in paddings]
        return self.grids.spread(rows) if rows else torch.zeros(1, 1, 1, dtype=torch.bool)

    @property
    def emptied(self) -> Tensor:
        """Rows without a key, (B, H, Q), that have one in the mask that was meant: what follows from a mistake."""
        if not (self.faults or self.judgement.mistake):
            return torch.zeros_like(self.may_attend[..., 0])
        return ~self.may_attend.any(-1) & self.expected.any(-1) & self.part.any(-1)

    @property
    def part(self) -> Tensor:
        """The cells of its grids, (B, H, Q, K): all, unless others are judged apart."""
        return self.grids.spread([torch.ones_like(grid) for grid in self.grids.each])

    @property
    def hides_future(self) -> bool:
        """Whether it is of a kind that blocks the future."""
        usual = self.judgement.mistake in ("", "shifted")
        return (
            bool(self.judgement.explanations)
            and usual
            and all(explanation.kind.is_causal for explanation in self.judgement.explanations)
        )

    @property
    def assumed(self) -> str:
        """The mask in words, where nobody said what it is meant to be: "a causal decoder with padding"."""
        if self.meant is not None or not self.judgement.explanations:
            return ""
        kinds = {explanation.kind.name: explanation.kind.title for explanation in self.judgement.explanations}
        names = [{"causal": "causal decoder", "full": "two-way encoder"}.get(*kind) for kind in kinds.items()]
        tokens = self.tokens if self.composition is None else self.composition.tokens
        padded = any(explanation.reading.padding is not None for explanation in self.judgement.explanations)
        padded |= tokens is not None and not tokens.all()
        return f"a {' or '.join(names)}{' with padding' if padded else ''}"

    @property
    def question(self) -> str:
        """The question that settles which of two readings is meant, where they need different repairs; "" if none."""
        explanations, composition = self.judgement.explanations, self.composition
        if self.meant is not None or self.tokens is not None or not explanations:
            return ""
        paddings = [explanation.reading.padding for explanation in explanations]
        if composition is None and all(padding is not None and padding.left is not None for padding in paddings):
            return IS_PADDING  # inverted padding on the right is the same mask
        return ""


def findings(laid: Laid, judged: Judged) -> Iterator[Finding]:
    """Everything that a judgement says of a mask; of one that nothing explains what it looks like."""
    judgement, stated = judged.judgement, judged.meant is not None
    if judged.composition is not None:
        yield from _of_parts(laid, judged)
        return
    if judged.instead.explanations:
        yield _instead(laid, judged)
        return
    yield from _of_batch(laid, judged)
    if not judgement.explanations:
        yield from _not_it(laid, judged.meant) if stated else _unknown(laid, judged)
        return
    if judgement.mistake:
        yield _mistake(laid, judged)
    if judged.wrong.any():
        yield from _differing(laid, judged)
    elif not stated:
        if message := words.ambiguous(judgement):
            yield laid.finding("ambiguous", "note", message, ASK)
        yield from _near(laid, judged)


def _of_parts(laid: Laid, judged: Judged) -> Iterator[Finding]:
    """Each part that is wrong, with what mends it alone; all of them mended it is what is meant."""
    together = "" if len(judged.faults) == 1 else " (Both repairs are needed.)"
    wrong, lost = judged.may_attend ^ judged.expected, int(judged.emptied.count_nonzero())
    ahead = judged.may_attend & ~judged.expected & future(*wrong.shape[2:])
    intended = f"It is not {judged.meant.title}: " if judged.meant is not None else ""
    by_it = f", so that {counted(lost, 'row')} of {judged.emptied.numel():,} {'has' if lost == 1 else 'have'} no key"
    for number, fault in enumerate(judged.faults):
        message = f"{intended}{fault.description}{by_it if lost and not number else ''}"
        cells = ahead if fault.rule == "future-leak" and ahead.any() else wrong
        backwards = fault.fault == "transposed" and fault.is_causal and not (together or intended)
        if backwards and judged.tokens is None:
            message += ", unless it is a model that reads backwards"
        severity = "warning" if message.endswith("backwards") else "error"
        yield laid.finding(
            fault.rule, severity, f"{message[:1].upper()}{message[1:]}.", f"{fault.fix}{together}", cells
        )


def _instead(laid: Laid, judged: Judged) -> Finding:
    """Another known mask, to the last cell, than the one that is meant."""
    kind, explanations = judged.meant.kind, judged.instead.explanations
    message = f"{words.is_what(judged.instead)}, and not {judged.meant.title}"
    if all(explanation.kind.name in ("full", "causal") for explanation in explanations):
        message += f": its {ADDS[kind.name]} is missing" if kind.name in ADDS else ""
    fix = "Join what is missing, or say the mask with its numbers: then each cell that differs is named."
    return laid.finding("deviation", "error", f"{message}.", fix)


def _of_batch(laid: Laid, judged: Judged) -> Iterator[Finding]:
    """Sentences whose masks are of other kinds than the rest, and those that are not looked at."""
    names, grids = {}, judged.grids
    for place, explanation in enumerate(judged.judgement.explanations):
        for sentence in (grids.number == place).any(1).nonzero().flatten().tolist():
            names.setdefault(sentence, set()).add(explanation.kind.title)
    kinds: dict[str, list[int]] = {}
    for sentence, titles in names.items():
        kinds.setdefault(" or ".join(sorted(titles)), []).append(sentence)
    if len(kinds) > 1 or judged.others is not None:
        listed = [f"{_sentences(which)} a {title}" for title, which in kinds.items()]
        if judged.others is not None:
            which = (judged.others.grids.number >= 0).any(1).nonzero().flatten().tolist()
            listed.append(f"{_sentences(which)} another one")
        yield Finding("mixed", "note", f"The sentences have masks of different kinds: {', '.join(listed)}.", "")
    if judged.others is not None:
        for finding in findings(laid, judged.others):
            yield replace(finding, severity="warning") if finding.rule == "ambiguous" else finding
    if grids.left_out:
        message = f"Of {grids.left_out + MOST:,} different masks the first {MOST:,} were compared with known ones."
        yield Finding("ambiguous", "note", message, "Check the others apart.")


def _sentences(which: Sequence[int]) -> str:
    """Their numbers: "sentence 3", "sentences 0, 1 and 4 more"."""
    first = ", ".join(map(str, which[:5]))
    if len(which) == 1:
        return f"sentence {first} has"
    more = f" and {len(which) - 5:,} more" if len(which) > 5 else ""
    return f"sentences {first}{more} have"


def _near(laid: Laid, judged: Judged) -> Iterator[Finding]:
    """The plain mask that was meant perhaps, with the cells that differ from it."""
    close = near(judged.grids.each, judged.judgement) if len(judged.grids.each) == 1 else Judgement()
    for explanation in close.explanations if not judged.judgement.mistake else ():
        yield laid.finding("near-miss", "note", words.near(explanation), ASK, judged.grids.spread([explanation.wrong]))


def _not_it(laid: Laid, meant: Intent) -> Iterator[Finding]:
    message = f"It is not {meant.title}, whatever its numbers."
    yield laid.finding("deviation", "error", message, "Compare it with one, cell by cell: say a mask with its numbers.")


def _mistake(laid: Laid, judged: Judged) -> Finding:
    """A mistake in the whole mask, with the cells that are open by it, or else blocked."""
    judgement, stated = judged.judgement, judged.meant is not None
    message, unless = words.mistaken(judgement, judged.grids.each[0]), "" if stated else words.otherwise(judgement)
    rule, fix = judgement.mistake, remedy(laid.values, judged.grids.each, judgement)
    if rule == "shifted" and judged.hides_future:
        rule = "future-leak" if judgement.explanations[0].reading.by > 0 else "blocks-itself"
    if unless:
        message = f"{message.removesuffix('.')}; unless it is {unless}."
    plain = judgement.is_certain and all(explanation.kind.name == "causal" for explanation in judgement.explanations)
    is_sure = (~judged.may_attend & judged.part).all(-1).any()  # a row without a key settles it
    is_sure |= not (unless or (judgement.mistake == "shifted" and not stated and not plain))
    spoiled = judged.may_attend & ~judged.expected & judged.part
    chosen = spoiled if spoiled.any() else judged.expected & ~judged.may_attend
    return laid.finding(rule, "error" if is_sure else "warning", message, fix, chosen)


def _differing(laid: Laid, judged: Judged) -> Iterator[Finding]:
    """Single cells that differ from what the mask is else; of the future apart, where that is to be hidden."""
    judgement, stated, is_open = judged.judgement, judged.meant is not None, judged.may_attend
    severity, what = "error" if stated else "warning", words.is_what(judgement)
    meant = "" if stated else f" If that is meant, {small(ASK)}"
    hidden = not judgement.mistake and all(
        explanation.kind.is_causal is not False for explanation in judgement.explanations
    )
    ahead = judged.wrong & is_open & future(*is_open.shape[2:]) & hidden
    if ahead.any():
        message = f"{what}: {_are(ahead)} open in the future, and {saw(ahead)}."
        yield laid.finding("future-leak", severity, message, block_future(*is_open.shape[2:]) + meant, ahead)
    if (more := judged.wrong & is_open & ~ahead).any():
        yield laid.finding(
            "deviation", severity, f"{what}: {_are(more)} open instead.", f"Block {_it(more)}.{meant}", more
        )
    reported = ~is_open.any(-1, keepdim=True) & (not stated)  # a row without a key is a finding of its own
    if (less := judged.wrong & ~is_open & ~reported).any():
        yield laid.finding(
            "deviation", severity, f"{what}: {_are(less)} blocked instead.", f"Open {_it(less)}.{meant}", less
        )


def _are(cells: Tensor) -> str:
    count = int(cells.count_nonzero())
    return f"{count:,} {'is' if count == 1 else 'are'}"


def _it(cells: Tensor) -> str:
    return "it" if int(cells.count_nonzero()) == 1 else "them"


def _unknown(laid: Laid, judged: Judged) -> Iterator[Finding]:
    """A mask that nothing explains: by what it looks like, or as no known mask."""
    looks = _without_own_keys(laid, judged.may_attend) or _with_some_future(laid, judged.may_attend)
    if looks is not None:
        yield looks
        return
    queries, keys = judged.may_attend.shape[2:]
    message = f"It is no mask that is known here: {in_numbers(judged.may_attend)}."
    if queries * keys > LARGE:
        message += f" {_not_compared(queries)}"
    yield laid.finding("ambiguous", "note", message, ASK)
    yield from _near(laid, judged)


def _not_compared(queries: int) -> str:
    """The known masks that a large one is not compared with, or not in full."""
    message = f"With more than {LARGE:,} cells it is not compared with masks that have random keys, as BigBird has"
    step = row_step(queries)
    others = f", and with others in full only where 1 row of {step} comes near to theirs" if step > 1 else ""
    return f"{message}{others}."


def _without_own_keys(laid: Laid, may_attend: Tensor) -> Finding | None:
    """A mask that blocks each query's own key: with all of the future, or with most of what is usually open."""
    queries, keys = may_attend.shape[2:]
    offset = max(0, keys - queries)
    used = may_attend.any(2)[..., offset : offset + queries]
    if queries < 3 or not used.any() or may_attend.diagonal(offset, 2, 3).any():
        return None
    ahead, behind = may_attend.triu(offset + 1), may_attend.tril(offset - 1)
    cells = may_attend.new_ones(may_attend.shape)
    own = cells.tril(offset) & cells.triu(offset)
    if not ahead.any() and 2 * int(behind.count_nonzero()) >= int(cells.tril(offset - 1).count_nonzero()):
        none = "" if may_attend[:, :, 0].any() else ": query 0 has none at all"
        message = f"The future is hidden, and so is each query's own key{none}."
        return laid.finding("blocks-itself", "warning", message, open_own(offset), own)
    empty = int((~may_attend.any(-1)).count_nonzero())
    if not ahead.any() or not (empty or 2 * int(may_attend.count_nonzero()) >= may_attend.numel()):
        return None
    rows = ""
    if empty:
        rows = f", and {counted(empty, 'row')} sees nothing" if empty == 1 else f", and {empty:,} rows see nothing"
    message = f"No query sees itself{rows}: {in_numbers(may_attend)}."
    message = f"Open and blocked are probably swapped. {message}"
    return laid.finding("inverted", "warning", message, f"{words.FIXES['inverted']} {ASK}", own)


def _with_some_future(laid: Laid, may_attend: Tensor) -> Finding | None:
    """A mask that opens all of the past, and less than half of the future."""
    queries, keys = may_attend.shape[2:]
    after = future(queries, keys)
    ahead, cells = may_attend & after, int(after.count_nonzero()) * may_attend.shape[0] * may_attend.shape[1]
    if queries < 3 or not may_attend[..., ~after].all() or not ahead.any() or 2 * int(ahead.count_nonzero()) >= cells:
        return None
    _, _, query, key = ahead.nonzero()[0].tolist()
    message = f"All of the past is open and, of the future, {int(ahead.count_nonzero()):,} of {cells:,} cells"
    message = f"{message}: query {query} sees key {key}. The mask alone does not tell whether that is meant."
    fix = f"{block_future(queries, keys)} If they are meant, {small(ASK)}"
    return laid.finding("future-leak", "warning", message, fix, ahead)
