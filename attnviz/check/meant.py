"""Check a mask whose intent is stated: find the mistakes in its parts that give exactly this mask.

The parts are the rules of the intended mask and its padding. Each is right or has one mistake, and the whole mask may
be inverted or transposed. The answer is the combination of the fewest faults, at most two, that gives every cell; else
that gives all rows that are read, since nobody reads queries that are padding. A mask that is right in these is right,
so a mistake that alone leaves them right, such as padding that no token sees, is not reported beside another.

Several combinations may have as few faults. The first in this order is named: True = may attend before True = masked;
the last query at the last key before the first query at the first key; no padding before padding that is read off the
mask; faults in parts before those of the whole mask; parts as the intent writes them, then padding, then a causal part
that is not meant; mistakes as `OF_RULE`, `OF_PADDING` and `OF_WHOLE` list them. If none gives all rows that are read,
the nearest is named, with the cells that differ.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import combinations, product
from operator import and_, or_

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnviz.check.findings import future
from attnviz.check.intent import Intent, check_fits
from attnviz.core.masks import And, Full, Mask, Not, Or, Padding, Prefix, Subsequent, Window

OF_RULE = ("ahead", "behind", "longer", "shorter", "transposed", "inverted", "missing")
OF_PADDING = ("ahead", "behind", "inverted", "wrong-axis", "as-queries", "as-heads", "repeat", "missing")
OF_WHOLE = ("inverted", "transposed")
"""Mistakes in the order in which they are tried; `masks` has their words."""

COUNTED = {Window: "before", Prefix: "length"}
"""Number of a rule that is easily wrong by one."""

SAMPLE = 32
"""Rows that are compared first: the whole mask is compared with combinations that give these."""

MORE = 4
"""Factor by which a fault must lessen the number of cells that differ, if some remain."""

MOST_NEAR = 8
"""Combinations whose distance is counted in the whole mask."""

ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Part:
    """A part of the intended mask.

    Attributes:
        shape: (B, H, Q, K) of the whole mask.
        mistakes: those that are tried, in order.
        mask: the rule; `Full` for padding and for a causal part that is not meant.
        offset: position of the first query.
        when_missing: whether all is open without it, as beside "&", or blocked, as beside "|".
        tokens: boolean (B, K), of padding; None for a rule.
        computed: cells by mistake and step of rows.
    """

    shape: Sequence[int]
    mistakes: Sequence[str]
    mask: Mask = Full()
    offset: int = 0
    when_missing: bool = True
    tokens: Tensor | None = None
    computed: dict[tuple[str, int | None], Tensor | None] = field(default_factory=dict)

    def cells(self, mistake: str, rows: slice = ALL) -> Tensor | None:
        """The part with a mistake ("" for none), broadcasts to (B, H, rows, K); None if it cannot be made so."""
        if (mistake, rows.step) not in self.computed:
            make = self._rule if self.tokens is None else self._padding
            self.computed[mistake, rows.step] = make(mistake, rows)
        return self.computed[mistake, rows.step]

    def _rule(self, mistake: str, rows: slice) -> Tensor | None:
        (batch, _, queries, keys), mask, offset = self.shape, self.mask, self.offset
        match mistake:
            case "missing":
                return torch.tensor(self.when_missing).view(1, 1, 1, 1)
            case "extra":
                mask = Subsequent()
            case "ahead" | "behind":
                offset += 1 if mistake == "ahead" else -1
            case "longer" | "shorter":
                name = COUNTED.get(type(mask), "")
                number = getattr(mask, name, 0) + (1 if mistake == "longer" else -1)
                if not name or number < 0:
                    return None
                mask = replace(mask, **{name: number})
            case "transposed":
                return mask.tensor(queries, keys, columns=rows)[:batch].mT if queries == keys else None
        cells = mask.shifted(offset).tensor(queries, keys, rows=rows)[:batch]
        return ~cells if mistake == "inverted" else cells

    def _padding(self, mistake: str, rows: slice) -> Tensor | None:
        (batch, heads, queries, keys), tokens = self.shape, self.tokens
        real = tokens[:, None, None]
        match mistake:
            case "missing":
                return torch.ones_like(real)
            case "inverted":
                return ~real
            case "ahead":
                return pad(real, (0, 1))[..., 1:] | real | pad(real, (1, 0))[..., :-1]
            case "behind":
                return ~(pad(~real, (0, 1))[..., 1:] | ~real | pad(~real, (1, 0))[..., :-1])
            case "wrong-axis":
                return real.mT[:, :, rows] if queries == keys else None
            case "as-queries":
                return tokens[None, None, rows] if batch == queries > 1 else None
            case "as-heads":
                return tokens[None, :, None] if batch == heads > 1 else None
            case "repeat":
                order = torch.arange(batch * heads).view(batch, heads) % batch
                return tokens[order][:, :, None] if batch > 1 and heads > 1 else None
        return real


@dataclass(frozen=True, eq=False)
class MaskReading:
    """A mask in one convention, and what it is meant to be.

    Attributes:
        convention: one of `CONVENTIONS`.
        may_attend: (B, H, Q, K), True = may attend.
        rules: the intended mask without padding.
        offset: position of the first query.
        tokens: (B, K), True at tokens; None without padding.
        counts: cells that must be right, (B or 1, 1, Q, K).
        wholes: faults of the whole mask that are tried.
    """

    convention: str
    may_attend: Tensor
    rules: Mask
    offset: int
    tokens: Tensor | None
    counts: Tensor
    wholes: Sequence[str]

    @cached_property
    def parts(self) -> list[Part]:
        """Rules as the intent writes them, padding, and a causal part that is not meant."""
        shape, leaves, parts = self.may_attend.shape, list(_leaves(self.rules)), []
        for rule, when_missing in leaves:
            mistakes = () if isinstance(rule, Full) else OF_RULE
            if len(leaves) == 1 and self.tokens is None:  # it is the whole mask
                mistakes = [mistake for mistake in mistakes if mistake not in OF_WHOLE]
            parts.append(Part(shape, mistakes, rule, self.offset, when_missing))
        if self.tokens is not None:
            parts.append(Part(shape, OF_PADDING, tokens=self.tokens))
        if not self.hides_future(self.sample):
            parts.append(Part(shape, ["extra"], offset=self.offset))
        can_be = [[name for name in part.mistakes if part.cells(name, self.sample) is not None] for part in parts]
        return [replace(part, mistakes=mistakes) for part, mistakes in zip(parts, can_be, strict=True)]

    def hides_future(self, rows: slice = ALL) -> bool:
        """Whether the rules block the future, without padding; False if there is none."""
        cells = self.rules.shifted(self.offset).tensor(*self.may_attend.shape[2:], rows=rows)
        ahead = future(*self.may_attend.shape[2:])[rows]
        return bool(ahead.any()) and not bool((cells & ahead).any())

    @property
    def sample(self) -> slice:
        """Rows that are compared first."""
        return slice(None, None, max(1, self.may_attend.shape[2] // SAMPLE))

    @property
    def is_right(self) -> bool:
        """Whether it has the intended cells in every row that is read."""
        right = Combination(self, ("",) * len(self.parts))
        return not (right.wrong(self.sample)[1].any() or right.wrong()[1].any())

    def compose(self, mistakes: Sequence[str], rows: slice = ALL) -> Tensor:
        """The mask whose parts have these mistakes, broadcasts to (B, H, rows, K)."""
        cells = iter([part.cells(mistake, rows) for part, mistake in zip(self.parts, mistakes, strict=True)])
        return reduce(and_, cells, _joined(self.rules, cells))

    def combinations(self, faults: int) -> Iterator["Combination"]:
        """Combinations of a number of faults, in their order."""
        for whole in ("", *self.wholes):
            for places in combinations(range(len(self.parts)), faults - bool(whole)):
                for names in product(*[self.parts[place].mistakes for place in places]):
                    mistakes = dict(zip(places, names, strict=True))
                    yield Combination(self, tuple(mistakes.get(place, "") for place in range(len(self.parts))), whole)


@dataclass(frozen=True, eq=False)
class Combination:
    """Mistakes that may give a mask.

    Attributes:
        reading: the mask and its parts.
        mistakes: of each part, "" for none.
        whole: fault of the whole mask, "" for none.
    """

    reading: MaskReading
    mistakes: tuple[str, ...]
    whole: str = ""

    @property
    def num_faults(self) -> int:
        return sum(map(bool, (*self.mistakes, self.whole)))

    def wrong(self, rows: slice = ALL) -> tuple[Tensor, Tensor]:
        """Cells that it does not give, and which of them count; rows of the mask without the fault of the whole."""
        mask, counts = self._upright(self.reading.may_attend), self._upright(self.reading.counts)
        wrong = mask[:, :, rows] ^ self.reading.compose(self.mistakes, rows)
        wrong = ~wrong if self.whole == "inverted" else wrong
        return wrong, wrong & counts[:, :, rows]

    @property
    def differing(self) -> Tensor:
        """Cells that count and that it does not give, (B, H, Q, K)."""
        return self._upright(self.wrong()[1])

    @property
    def right(self) -> Tensor:
        """The intended mask, (B, H, Q, K)."""
        return self._only([])

    def faults(self) -> Iterator[tuple[Part | None, str, Tensor]]:
        """Part of each fault that matters (None: the whole mask), the mistake, and the cells that a repair changes."""
        mask = self.reading.compose(self.mistakes).expand_as(self.reading.may_attend)
        places = [place for place, mistake in enumerate(self.mistakes) if mistake]
        wrong = {place: (self._only([place]) ^ self.right) & self.reading.counts for place in places}
        matter = [place for place in places if wrong[place].any()]
        for place in matter if matter or self.whole else places:
            cells = mask ^ self._only([other for other in places if other != place])
            yield self.reading.parts[place], self.mistakes[place], self._upright(cells)
        if self.whole:
            yield None, self.whole, mask ^ (mask.mT if self.whole == "transposed" else ~mask)

    def _only(self, places: Sequence[int]) -> Tensor:
        """The mask with the mistakes of these parts alone."""
        mistakes = [mistake if place in places else "" for place, mistake in enumerate(self.mistakes)]
        return self.reading.compose(mistakes).expand_as(self.reading.may_attend)

    def _upright(self, cells: Tensor) -> Tensor:
        return cells.mT if self.whole == "transposed" else cells


def explain(readings: Sequence[MaskReading]) -> Combination:
    """The combination of the fewest faults that gives the mask in one of its readings, or the nearest one."""
    right = [Combination(reading, ("",) * len(reading.parts)) for reading in readings]
    for combination in right:
        if combination.reading.is_right:
            return combination
    distances = {}
    for faults, reading in product((1, 2), readings):
        for combination in reading.combinations(faults):
            wrong, of_read_rows = combination.wrong(reading.sample)
            distances[combination] = int(of_read_rows.count_nonzero()) * MORE**faults
            if not wrong.any() and not combination.wrong()[0].any():
                return combination
    for combination, distance in distances.items():
        if not distance and not combination.differing.any():
            return combination
    near = sorted(distances, key=distances.__getitem__)[:MOST_NEAR]
    return min([*right, *near], key=lambda each: int(each.differing.count_nonzero()) * MORE**each.num_faults)


def mask_readings(
    masks: dict[str, Tensor], intent: Intent, tokens: Tensor | None, *, padding_may_be: bool
) -> Iterator[MaskReading]:
    """Readings of a mask, in their order; none if the number of a kind does not follow from it.

    Args:
        masks: by convention, (B, H, Q, K), True = may attend.
        intent: what it is meant to be; padding may be among its rules.
        tokens: (B, K), True at tokens, if padding was stated.
        padding_may_be: whether padding that nobody stated is read off the mask.
    """
    for convention, mask in masks.items():
        batch, _, queries, keys = mask.shape
        whole = intent.mask or Full()
        check_fits(whole, batch)
        joined = whole.masks if isinstance(whole, And) else [whole]
        of_padding = [rule for rule in joined if isinstance(rule, Padding)]
        padding = [rule.tensor(1, keys)[:batch, 0, 0] for rule in of_padding] + ([] if tokens is None else [tokens])
        paddings = [reduce(and_, padding) if padding else None]
        if padding_may_be and not padding and (unstated := _padding_in(mask)) is not None:
            paddings.append(unstated)
        wholes = [name for name in OF_WHOLE if (len(masks) == 1 if name == "inverted" else queries == keys)]
        for offset, real in product(dict.fromkeys((max(0, keys - queries), 0)), paddings):
            rules = intent.rules(mask, real, offset)
            if rules is None:
                continue
            joined = rules.masks if isinstance(rules, And) else [rules]
            rest = reduce(and_, [rule for rule in joined if rule not in of_padding] or [Full()])
            counts = torch.ones(1, queries, dtype=torch.bool)
            if real is not None and queries == keys:
                counts = real if padding else real | mask.any((1, 3))
            cells = counts[:, None, :, None].expand(-1, -1, -1, keys)
            yield MaskReading(convention, mask, rest, offset, real, cells, wholes)


def _leaves(mask: Mask, when_missing: bool = True) -> Iterator[tuple[Mask, bool]]:
    """Rules that are joined, in their order, and whether all is open without each."""
    match mask:
        case And(masks) | Or(masks):
            for inner in masks:
                yield from _leaves(inner, isinstance(mask, And))
        case Not(inner):
            yield from _leaves(inner, not when_missing)
        case _:
            yield mask, when_missing


def _joined(mask: Mask, cells: Iterator[Tensor]) -> Tensor:
    """Cells of the rules of a mask joined as the mask joins them."""
    match mask:
        case And(masks) | Or(masks):
            return reduce(and_ if isinstance(mask, And) else or_, [_joined(inner, cells) for inner in masks])
        case Not(inner):
            return ~_joined(inner, cells)
    return next(cells)


def _padding_in(mask: Tensor) -> Tensor | None:
    """Tokens, (B, K), if the keys that nobody sees in a text stand at one of its ends; None if all keys are seen."""
    used = mask.any((1, 2)).int()
    tokens = (used.cummax(1).values & used.flip(1).cummax(1).values.flip(1)).bool() | ~used.any(1, keepdim=True)
    return tokens if (tokens[:, 0] | tokens[:, -1]).all() and not tokens.all() else None
