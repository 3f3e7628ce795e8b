"""A mask as a composition: padding and the rest, each with its own faults.

A mask is taken apart into padding, (B, K), and a rest that sentences share, (Q, K). Each is tried as it should be and
with each fault in it; what gives the mask to the last cell is named, part by part, with what mends that part and leaves
the others.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnviz.core.errors import MaskError
from attnviz.core.explain import MISTAKEN, TELLING, Judgement, is_noise, lengths, under, words
from attnviz.core.explain.readings import MISTAKES
from attnviz.core.masks import Mask, Subsequent
from attnviz.core.masks.published import BY_NAME, PADDING, PUBLISHED, Kind
from attnviz.core.masks.writing import MaskWriter

RULES = {
    "missing": "deviation",
    "inverted": "inverted",
    "transposed": "transposed",
    "wrong-axis": "wrong-axis",
    "ahead": "shifted",
    "behind": "shifted",
    "broadcast": "broadcast",
    "heads-first": "broadcast",
}
"""The rule of `CHECKS` for each fault."""

OF_CAUSAL = {"missing": "future-leak", "ahead": "future-leak", "behind": "blocks-itself"}
"""The rule of `CHECKS` for a fault of a part that hides the future."""

IS = {
    "missing": "is missing",
    "inverted": "is inverted",
    "transposed": "has rows and columns swapped",
    "wrong-axis": "blocks queries instead of keys",
    "ahead": "is off by one and opens the next key",
    "behind": "is off by one and blocks each query's own key",
    "broadcast": "is (B, K) and read as (Q, K): query i has the padding of sentence i",
    "heads-first": "gives heads the masks of other sentences: it was made by repeat",
}
OF_PADDING = IS | {
    "ahead": "is off by one: the first key of padding is open",
    "behind": "is off by one: a token at its edge is blocked",
}

OTHERWISE = 4.5
"""Bits of a fault of a part that is no mistake of a whole mask."""

TURNED = 2.0
"""Bits of a fault in all of a mask beside another in a part: faults in two parts are more usual."""

AT_TOKENS = "tokens[:, None, None, :], where tokens is (B, K) and True at tokens, such as ids != pad"

WITHIN = {
    "causal": ("full",),
    "causal-window": ("window",),
    "causal-documents": ("documents",),
    "causal-blocks": ("blocks",),
}
"""Kinds that stand beside a causal part, by the kind that both make."""


@dataclass(frozen=True)
class PartFault:
    """A fault in one part of a mask.

    Attributes:
        part: its name in a sentence: "padding", or the rule.
        fault: of `IS`.
        fix: what mends this part and leaves the others.
        is_causal: whether the part hides the future.
    """

    part: str
    fault: str
    fix: str
    is_causal: bool = False

    @property
    def rule(self) -> str:
        """Name of the rule in `CHECKS`."""
        return (OF_CAUSAL if self.is_causal else {}).get(self.fault, RULES[self.fault])

    @property
    def description(self) -> str:
        """The fault in words: "its padding is inverted"."""
        is_what = (OF_PADDING if self.part == "padding" else IS)[self.fault]
        return f"{'the' if self.part == 'mask' else 'its'} {self.part} {is_what}"


@dataclass(frozen=True, eq=False)
class Composition:
    """Parts of a mask that explain its every cell.

    Attributes:
        faults: in its parts; none if it is right.
        right: the mask without them, (B, H, Q, K).
        rest: what it is beside padding.
        tokens: which keys are no padding, (B, K), where that was said or follows.
        uncounted: bits of padding that was not said, and of its rows, where these are not explained.
    """

    faults: tuple[PartFault, ...]
    right: Tensor
    rest: Judgement = Judgement()
    tokens: Tensor | None = None
    uncounted: float = 0.0

    @property
    def bits(self) -> float:
        """Length of the description: of the rest, of each fault that is not in it, and of cells that do not count."""
        of_faults = sum(MISTAKES.get(fault.fault, OTHERWISE) for fault in self.faults)
        turned_twice = TURNED if len(self.faults) > 1 and any(fault.part == "mask" for fault in self.faults) else 0.0
        return self.rest.bits + of_faults - MISTAKES[self.rest.mistake] + self.uncounted + turned_twice


def _of_padding(fault: str) -> PartFault:
    fixes = {
        "missing": f"Join it: mask = mask & {AT_TOKENS}.",
        "inverted": f"Join its opposite: {AT_TOKENS}.",
        "wrong-axis": f"Give it the axis of the keys: {AT_TOKENS}.",
        "broadcast": f"Give it the axes (B, 1, 1, K): {AT_TOKENS}.",
    }
    return PartFault("padding", fault, fixes.get(fault, f"Let it end with the last token: {AT_TOKENS}."))


def _of_rest(name: str, mask: Mask, fault: str, place: tuple[int, int, int], *, is_causal: bool) -> PartFault:
    """A fault in a part beside padding.

    Args:
        place: queries, keys, and the position of the first query.
    """
    queries, keys, first = place
    writer = MaskWriter(queries, keys)
    try:
        code = writer.write(mask.shifted(first)).text.replace("queries", str(queries)).replace("keys", str(keys))
        code = code.replace(", device=query.device", "")
    except MaskError:
        code, writer.lines = "", [""]
    tril = f"tril(diagonal={first})" if mask == Subsequent() else ""
    anew = f": {code}" if code and not writer.lines else ""
    with_tril = f", with {tril}" if tril and tril not in anew else ""
    before = "before it is joined to the rest"
    fixes = {
        "missing": f"Join it to the rest with &{anew}.",
        "inverted": f"Invert this part with ~ {before}{anew}.",
        "transposed": f"Turn this part with .mT {before}{anew}.",
    }
    fix = fixes.get(fault, f"Move this part by one query{with_tril}{anew}.")
    return PartFault(name, fault, fix, is_causal)


def _moved(tokens: Tensor, by: int) -> Tensor:
    """Tokens, (..., K), with one place more open beside them, or one less, where padding begins."""
    left = torch.nn.functional.pad(tokens, (0, 1))[..., 1:]
    right = torch.nn.functional.pad(tokens, (1, 0))[..., :-1]
    if by > 0:
        return tokens | left | right
    ends = torch.nn.functional.pad(tokens, (1, 1), value=True)
    return tokens & ends[..., 2:] & ends[..., :-2]


def compose(
    mask: Tensor,
    tokens: Tensor | None = None,
    kind: Kind | None = None,
    causal: bool | None = None,
    mistakes: Sequence[str] = MISTAKEN,
) -> Composition | None:
    """The parts of a mask with the fewest faults in them; None if no two faults make it.

    Args:
        mask: (B, H, Q, K), True = may attend.
        tokens: (B, K), where it is known which keys are no padding.
        kind: what the mask must be beside padding.
        causal: whether the future must be blocked.
        mistakes: what may be wrong with all of it; nothing at all may be wrong if there are none.
    """
    if is_noise(mask[0, 0]):
        return None
    rest = _Rest(BY_NAME["full"] if kind in PADDING else kind, causal)
    if tokens is not None and (right := rest.without_fault(mask, tokens)):
        return right
    if not mistakes:
        return None
    tried = [composition for padded in _hypotheses(mask, tokens, mistakes) for composition in rest.compositions(padded)]
    return min(tried, key=lambda composition: composition.bits, default=None)


@dataclass(frozen=True, eq=False)
class _Padded:
    """A mask with some faults undone, and how padding is in it.

    Attributes:
        mask: (B, H, Q, K).
        tokens: (B, K), which keys are no padding.
        cells: what padding leaves open in the mask, broadcasts to it.
        faults: those that are undone, and that of padding.
        rows: (B, 1, Q, 1), the rows that count; all if None.
        bits: that say where padding begins, if that was not said.
    """

    mask: Tensor
    tokens: Tensor
    cells: Tensor
    faults: tuple[PartFault, ...] = ()
    rows: Tensor | None = None
    bits: float = 0.0

    @property
    def uncounted(self) -> float:
        """Bits of the padding, and of the rows that do not count."""
        if self.rows is None:
            return self.bits
        return self.bits + lengths.of_grid(self.mask[:, :1][~self.rows.expand(-1, 1, -1, self.mask.shape[3])])

    def rests(self) -> Iterator[tuple[list[Tensor], list[Tensor], Tensor]]:
        """Grids that are left beside padding: different ones, the cells that count of each, and which has which (B, H);
        first as all sentences have it, and else of each its own. Nothing if padding is not in the mask in this way."""
        counting = torch.ones_like(self.mask) if self.rows is None else self.rows.expand_as(self.mask)
        visible = self.cells & counting
        seen = self.mask & visible
        if (self.mask & counting & ~self.cells).any() or not seen.any():
            return
        shared, usable = seen.any(0, keepdim=True), visible.any(0, keepdim=True)
        if torch.equal(shared & visible, seen):
            yield _different(shared, usable, len(self.mask))
        elif len(self.mask) > 1:
            yield _different(seen, visible, 1)


def _different(grids: Tensor, usable: Tensor, batch: int) -> tuple[list[Tensor], list[Tensor], Tensor]:
    pairs, places, number = [], {}, []
    for grid, cells in zip(grids.flatten(0, 1), usable.flatten(0, 1), strict=True):
        place = places.setdefault((grid.numpy().tobytes(), cells.numpy().tobytes()), len(places))
        pairs += [(grid, cells)] if place == len(pairs) else []
        number.append(place)
    each, cells = zip(*pairs, strict=True)
    return [*each], [*cells], torch.tensor(number).view(grids.shape[:2]).repeat(batch, 1)


def _hypotheses(mask: Tensor, tokens: Tensor | None, mistakes: Sequence[str]) -> Iterator[_Padded]:
    """Ways in which padding, or all of a mask, may be at fault."""
    batch, heads, queries, keys = mask.shape
    yield from _paddings(mask, tokens)
    by_sentence = mask.flatten(0, 1)[:batch]
    is_repeated = not torch.equal(mask, mask[:, :1].expand_as(mask))  # as one sentence of many heads never is
    if is_repeated and torch.equal(by_sentence.repeat(heads, 1, 1).view_as(mask), mask):
        fault = PartFault("mask", "heads-first", f"Make it with repeat_interleave({heads}, 0), sentence by sentence.")
        for padded in _paddings(by_sentence[:, None].expand_as(mask), tokens):
            yield replace(padded, faults=(fault, *padded.faults))
    turned = {"inverted": ~mask} | ({"transposed": mask.mT} if queries == keys else {})
    for name, undone in turned.items():
        if name not in mistakes or torch.equal(undone, mask):
            continue
        yield from (
            replace(padded, faults=(PartFault("mask", name, words.FIXES[name]),))
            for padded in _paddings(undone, tokens)
            if not padded.faults
        )


def _paddings(mask: Tensor, tokens: Tensor | None) -> Iterator[_Padded]:
    """Faults in the padding of a mask, of known tokens or those that it leaves possible."""
    batch, heads, queries, keys = mask.shape
    if tokens is None:
        for fault, real in _inferred(mask):
            cells = {"inverted": ~real[:, None, None], "wrong-axis": real[:, None, :, None]}
            faults = (_of_padding(fault),) if fault else ()
            bits = int((~real).any(1).sum()) * (2 + math.log2(keys + 1))
            yield _Padded(mask, real, cells.get(fault, real[:, None, None]), faults, bits=bits)
            if not fault and queries == keys and not real.all():
                yield _Padded(mask, real, real[:, None, None] & real[:, None, :, None], bits=bits + 1)
        return
    right = tokens[:, None, None]
    states = {
        "": right,
        "missing": torch.ones_like(right),
        "inverted": ~right,
        "ahead": _moved(right, 1),
        "behind": _moved(right, -1),
    }
    if queries == keys:
        states["wrong-axis"] = tokens[:, None, :, None]
    if batch > 1 and batch in (queries, heads):
        states["broadcast"] = tokens[None, None] if batch == queries else tokens[None, :, None]
    for fault, cells in states.items():
        if fault and torch.equal(cells.expand(batch, heads, queries, keys), right.expand(batch, heads, queries, keys)):
            continue
        faults = (_of_padding(fault),) if fault else ()
        yield _Padded(mask, tokens, cells, faults)
        if queries == keys and fault not in ("wrong-axis", "inverted") and not tokens.all():
            yield _Padded(mask, tokens, cells, faults, tokens[:, None, :, None])


def _inferred(mask: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Faults of padding, "" for none, with tokens, (B, K), that a mask leaves possible: each sentence has its own."""
    yield "", torch.ones(1, mask.shape[3], dtype=torch.bool)
    yield from ((fault, tokens) for fault, tokens in _of_runs(mask) if tokens.any(1).all() and not tokens.all())


def _of_runs(mask: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Faults with tokens, (B, K), that begin or end where the keys do that a sentence sees."""
    used, keys = mask.any(1).any(1), mask.shape[3]
    place, empty = torch.arange(keys), ~used.any(1, keepdim=True)
    starts = used.int().argmax(1, keepdim=True)
    ends = keys - 1 - used.flip(1).int().argmax(1, keepdim=True)
    if empty.any():
        yield "inverted", (place < starts) | empty
        yield "inverted", (place > ends) | empty
    elif len(used) > 1:
        yield "", (place <= ends) | (ends == ends.max())
        yield "", (place >= starts) | (starts == starts.min())
    rows = mask.any(3).any(1)  # (B, Q)
    steps = rows.int().diff(dim=1)
    if mask.shape[2] == keys and ((steps <= 0).all() or (steps >= 0).all()):
        yield "wrong-axis", rows


@dataclass(frozen=True)
class _Rest:
    """Kinds of mask that may stand beside padding.

    Attributes:
        kind: the only one that it may be, if that was said.
        causal: whether the future must be blocked.
    """

    kind: Kind | None
    causal: bool | None

    @property
    def kinds(self) -> Sequence[Kind]:
        if self.kind is not None:
            return (self.kind,)
        return [kind for kind in PUBLISHED if kind.is_causal] if self.causal else PUBLISHED

    def without_fault(self, mask: Tensor, tokens: Tensor) -> Composition | None:
        """A mask that is right for queries that are tokens: what padding sees is read by nobody."""
        rows = tokens[:, None, :, None] if mask.shape[2] == mask.shape[3] else None
        for each, usable, _ in _Padded(mask, tokens, tokens[:, None, None], (), rows).rests():
            judgement = self._right(each, usable)
            if judgement.explanations:
                return Composition((), mask, judgement, tokens)
        return None

    def _right(self, each: list[Tensor], usable: list[Tensor]) -> Judgement:
        """Judgement of a rest without a fault; one that is symmetric may be read off it turned."""
        for mistake in ("", "transposed"):
            judgement = under(each, mistake, self.kinds, differ=0, usable=usable)
            if judgement.explanations and (not mistake or not _differs(judgement, each, usable)):
                return judgement
        return Judgement()

    def compositions(self, padded: _Padded) -> Iterator[Composition]:
        for each, usable, number in padded.rests():
            most = TELLING * sum(lengths.of_grid(grid[cells]) for grid, cells in zip(each, usable, strict=True))
            for fault, judgement, right in self._explained(each, usable, len(padded.faults)):
                if (not fault and judgement.is_certain) or judgement.bits <= most:
                    faults = (*padded.faults, *([fault] if fault else []))
                    whole = torch.stack(right)[number] & padded.tokens[:, None, None]
                    yield Composition(faults, whole, judgement, padded.tokens, padded.uncounted)

    def _explained(
        self, each: list[Tensor], usable: list[Tensor], faults: int
    ) -> Iterator[tuple[PartFault | None, Judgement, list[Tensor]]]:
        """A rest without a fault, and with one, if there is one at most beside it."""
        judgement = self._right(each, usable)
        if judgement.is_certain:
            yield None, judgement, [explanation.grid() for explanation in judgement.explanations]
        elif judgement.explanations and not faults:  # random keys, which explain much
            yield None, judgement, each
        if faults > 1:
            return
        for mistake in ("inverted", "transposed", "shifted"):
            judgement = under(each, mistake, self.kinds, differ=0, usable=usable)
            if judgement.is_certain and _differs(judgement, each, usable):
                first = judgement.explanations[0]
                fault = {1: "ahead", -1: "behind"}.get(first.reading.moved, mistake)
                name = "causal part" if first.kind.name == "causal" else first.kind.title
                place = (*each[0].shape, first.reading.seen.first - first.reading.moved)
                found = _of_rest(name, first.base, fault, place, is_causal=bool(first.kind.is_causal))
                yield found, judgement, [explanation.grid() for explanation in judgement.explanations]
        yield from self._beside_causal(each, usable)

    def _beside_causal(
        self, each: list[Tensor], usable: list[Tensor]
    ) -> Iterator[tuple[PartFault, Judgement, list[Tensor]]]:
        """A fault in the causal part alone, beside another that stays."""
        inside = WITHIN.get(self.kind.name, ()) if self.kind is not None else ("full", "documents", "window", "blocks")
        queries, keys = each[0].shape
        for first in dict.fromkeys((max(0, keys - queries), 0)):
            right = Subsequent().shifted(first).grid(queries, keys)
            states = {"missing": right | True} if self.causal or self.kind is not None else {}
            states["inverted"] = ~right
            if queries == keys:
                states["transposed"] = right.mT
            for name, by in (("ahead", 1), ("behind", -1)):
                states[name] = Subsequent().shifted(first + by).grid(queries, keys)
            for name, cells in states.items():
                kinds = [BY_NAME[kind] for kind in inside if kind != "full" or name == "missing"]
                if any((grid & is_known & ~cells).any() for grid, is_known in zip(each, usable, strict=True)):
                    continue
                grids, counting = each, [is_known & cells for is_known in usable]
                if name in ("inverted", "transposed") and queries == keys:  # what stands beside it is the same turned
                    grids = [grid & of_it | (grid & of_it).mT for grid, of_it in zip(each, counting, strict=True)]
                    counting = [of_it | of_it.mT for of_it in counting]
                judgement = under(grids, "", kinds, differ=0, usable=counting)
                if judgement.is_certain:
                    fault = _of_rest("causal part", Subsequent(), name, (queries, keys, first), is_causal=True)
                    yield fault, judgement, [explanation.grid() & right for explanation in judgement.explanations]


def _differs(judgement: Judgement, each: Sequence[Tensor], usable: Sequence[Tensor]) -> bool:
    """Whether grids are not what was meant, in the cells that count."""
    triples = zip(judgement.explanations, each, usable, strict=True)
    return any(bool(((explanation.grid() ^ grid) & counting).any()) for explanation, grid, counting in triples)
