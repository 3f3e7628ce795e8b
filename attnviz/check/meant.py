"""Check a mask whose intent is stated: find the mistakes in its parts that give exactly this mask.

The parts are the rules of the intended mask and its padding. Each is right or has one mistake, and the whole mask may
be inverted or transposed. The answer is the combination of the fewest faults, at most two, that gives every cell; else
that gives all rows that are read, since nobody reads queries that are padding. A mask that is right in these is right,
so a mistake that alone leaves them right, such as padding that no token sees, is not reported beside another.

Several combinations may have as few faults. The first in this order is named: True = may attend before True = masked;
the last query at the last key before the first query at the first key; no padding before padding that is read off the
mask; faults in parts before those of the whole mask; parts as the intent writes them, then padding, then a causal part
that is not meant; mistakes as `Part` lists them; inverted before transposed. If none gives all rows that are read,
the nearest is named, with the cells that differ.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations, product
from operator import and_, or_

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnviz.check.findings import future
from attnviz.check.intent import Intent, check_fits
from attnviz.core.masks import And, Full, Mask, Not, Or, Padding, Prefix, Subsequent, Window

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
    """A part of the intended mask, as it should be ("") and with each mistake, in the order in which they are tried.

    Attributes:
        shape: (B, H, Q, K) of the whole mask.
        states: masks, or cells that broadcast to (B, H, Q, K), by mistake.
        rule: the rule as it is written; None for padding, and for a causal part that is not meant.
        offset: position of the first query.
        when_missing: whether all is open without it, as beside "&", or blocked, as beside "|".
        is_padding: whether it is the padding.
        computed: cells by mistake and step of rows.
    """

    shape: Sequence[int]
    states: dict[str, Mask | Tensor]
    rule: Mask | None = None
    offset: int = 0
    when_missing: bool = True
    is_padding: bool = False
    computed: dict[tuple[str, int | None], Tensor] = field(default_factory=dict)

    @classmethod
    def of_rule(cls, shape: Sequence[int], rule: Mask, offset: int, when_missing: bool, *, is_whole: bool) -> "Part":
        """Part of a rule; `is_whole` if it is the whole mask, whose own faults are then those of the rule."""
        if isinstance(rule, Full):
            return cls(shape, {"": rule}, rule, offset, when_missing)
        wrong = {"ahead": rule.shifted(1), "behind": rule.shifted(-1)}
        if type(rule) in COUNTED:
            name = COUNTED[type(rule)]
            number = getattr(rule, name)
            wrong["longer"] = replace(rule, **{name: number + 1})
            if number:
                wrong["shorter"] = replace(rule, **{name: number - 1})
        if not is_whole and shape[2] == shape[3]:
            wrong["transposed"] = rule
        if not is_whole:
            wrong["inverted"] = ~rule
        wrong["missing"] = Full() if when_missing else ~Full()
        states = {"": rule} | wrong
        states = {name: mask if name == "transposed" else mask.shifted(offset) for name, mask in states.items()}
        return cls(shape, states, rule, offset, when_missing)

    @classmethod
    def of_padding(cls, shape: Sequence[int], tokens: Tensor) -> "Part":
        """Part of padding; `tokens` is boolean (B, K)."""
        (batch, heads, queries, keys), real = shape, tokens[:, None, None]
        states = {"": real, "ahead": pad(real, (0, 1))[..., 1:] | real | pad(real, (1, 0))[..., :-1]}
        states["behind"] = ~(pad(~real, (0, 1))[..., 1:] | ~real | pad(~real, (1, 0))[..., :-1])
        states["inverted"] = ~real
        if queries == keys:
            states["wrong-axis"] = real.mT
        if batch == queries > 1:
            states["as-queries"] = tokens[None, None]
        if batch == heads > 1:
            states["as-heads"] = tokens[None, :, None]
        if batch > 1 and heads > 1:
            states["repeat"] = tokens[torch.arange(batch * heads).view(batch, heads) % batch][:, :, None]
        return cls(shape, states | {"missing": torch.ones_like(real)}, is_padding=True)

    def cells(self, mistake: str, rows: slice = ALL) -> Tensor:
        """The part with a mistake, broadcasts to (B, H, rows, K)."""
        if (mistake, rows.step) not in self.computed:
            (batch, _, queries, keys), state = self.shape, self.states[mistake]
            if isinstance(state, Tensor):
                cells = state[:, :, rows] if state.shape[2] > 1 else state
            elif mistake == "transposed":
                cells = state.tensor(queries, keys, columns=rows)[:batch].mT
            else:
                cells = state.tensor(queries, keys, rows=rows)[:batch]
            self.computed[mistake, rows.step] = cells
        return self.computed[mistake, rows.step]


@dataclass(frozen=True, eq=False)
class Combination:
    """Mistakes that may give a mask, in one of its conventions.

    Attributes:
        convention: one of `CONVENTIONS`.
        may_attend: (B, H, Q, K), True = may attend, without the fault of the whole.
        counts: cells of it that must be right, (B or 1, 1, Q, K).
        rules: the intended mask without padding.
        offset: position of the first query.
        tokens: (B, K), True at tokens; None without padding.
        parts: rules as the intent writes them, padding, and a causal part that is not meant.
        mistakes: of each part, "" for none.
        whole: fault of the whole mask, "" for none.
    """

    convention: str
    may_attend: Tensor
    counts: Tensor
    rules: Mask
    offset: int
    tokens: Tensor | None
    parts: Sequence[Part]
    mistakes: tuple[str, ...]
    whole: str = ""

    @property
    def sample(self) -> slice:
        """Rows that are compared first."""
        return slice(None, None, max(1, self.may_attend.shape[2] // SAMPLE))

    @property
    def is_right(self) -> bool:
        """Whether the mask has the intended cells in every row that is read."""
        return not (self.mistakes_in(self.sample)[1].any() or self.mistakes_in()[1].any())

    @property
    def right(self) -> Tensor:
        """The intended mask, (B, H, Q, K)."""
        return self._only([])

    @property
    def differing(self) -> Tensor:
        """Cells that count and that it does not give, (B, H, Q, K)."""
        return self.upright(self.mistakes_in()[1])

    def with_faults(self, number: int) -> Iterator["Combination"]:
        """Combinations of a number of faults besides that of the whole, in their order."""
        for places in combinations(range(len(self.parts)), number):
            for names in product(*[[*self.parts[place].states][1:] for place in places]):
                mistakes = dict(zip(places, names, strict=True))
                yield replace(self, mistakes=tuple(mistakes.get(place, "") for place in range(len(self.parts))))

    def compose(self, mistakes: Sequence[str], rows: slice = ALL) -> Tensor:
        """The mask whose parts have these mistakes, broadcasts to (B, H, rows, K)."""
        cells = iter([part.cells(mistake, rows) for part, mistake in zip(self.parts, mistakes, strict=True)])
        joined = fold(self.rules, lambda *_: next(cells))
        return reduce(and_, cells, joined)

    def mistakes_in(self, rows: slice = ALL) -> tuple[Tensor, Tensor]:
        """Cells that it does not give, and which of them count."""
        wrong = self.may_attend[:, :, rows] ^ self.compose(self.mistakes, rows)
        return wrong, wrong & self.counts[:, :, rows]

    def weighed(self, cells: Tensor) -> int:
        """Number of cells that differ, times `MORE` for each fault."""
        return int(cells.count_nonzero()) * MORE ** sum(map(bool, (*self.mistakes, self.whole)))

    def faults(self) -> Iterator[tuple[Part | None, str, Tensor]]:
        """Part of each fault that matters (None: the whole mask), the mistake, and the cells that a repair changes."""
        mask = self.compose(self.mistakes).expand_as(self.may_attend)
        places = [place for place, mistake in enumerate(self.mistakes) if mistake]
        matter = [place for place in places if ((self._only([place]) ^ self.right) & self.upright(self.counts)).any()]
        for place in matter if matter or self.whole else places:
            cells = mask ^ self._only([other for other in places if other != place])
            yield self.parts[place], self.mistakes[place], self.upright(cells)
        if self.whole:
            yield None, self.whole, mask ^ (mask.mT if self.whole == "transposed" else ~mask)

    def _only(self, places: Sequence[int]) -> Tensor:
        """The mask with the mistakes of these parts alone."""
        mistakes = [mistake if place in places else "" for place, mistake in enumerate(self.mistakes)]
        return self.compose(mistakes).expand_as(self.may_attend)

    def upright(self, cells: Tensor) -> Tensor:
        """Cells where they stand in the mask as it was given."""
        return cells.mT if self.whole == "transposed" else cells


def explain(readings: Sequence[Combination]) -> Combination:
    """The combination of the fewest faults that gives the mask in one of its readings, or the nearest one."""
    upright = [reading for reading in readings if not reading.whole]
    for reading in upright:
        if reading.is_right:
            return reading
    distances = {}
    for number, reading in product((1, 2), readings):
        for combination in reading.with_faults(number - bool(reading.whole)):
            wrong, of_read_rows = combination.mistakes_in(reading.sample)
            distances[combination] = combination.weighed(of_read_rows)
            if not wrong.any() and not combination.mistakes_in()[0].any():
                return combination
    for combination, distance in distances.items():
        if not distance and not combination.differing.any():
            return combination
    near = sorted(distances, key=distances.__getitem__)[:MOST_NEAR]
    return min([*upright, *near], key=lambda each: each.weighed(each.differing))


def mask_readings(masks: dict[str, Tensor], intent: Intent, tokens: Tensor | None) -> Iterator[Combination]:
    """Readings of a mask, each without a mistake in its parts, in their order.

    There is none if the number of a kind does not follow from the mask.

    Args:
        masks: by convention, (B, H, Q, K), True = may attend.
        intent: what it is meant to be. Padding may be among its rules; of a kind it is read off the mask, too.
        tokens: (B, K), True at tokens, if padding was stated.
    """
    intended = intent.mask or Full()
    joined = intended.masks if isinstance(intended, And) else [intended]
    of_padding = [rule for rule in joined if isinstance(rule, Padding)]
    for convention, mask in masks.items():
        batch, _, queries, keys = mask.shape
        check_fits(intended, batch)
        stated = [rule.tensor(1, keys)[:batch, 0, 0] for rule in of_padding] + ([] if tokens is None else [tokens])
        paddings = [reduce(and_, stated) if stated else None]
        if intent.kind and not stated and (unstated := _padding_in(mask)) is not None:
            paddings.append(unstated)
        for offset, real in product(dict.fromkeys((max(0, keys - queries), 0)), paddings):
            rules = intent.rules(mask, real, offset)
            if rules is None:
                continue
            rest = [rule for rule in (rules.masks if isinstance(rules, And) else [rules]) if rule not in of_padding]
            rules, counts = reduce(and_, rest or [Full()]), torch.ones(1, queries, dtype=torch.bool)
            if real is not None and queries == keys:
                counts = real if stated else real | mask.any((1, 3))
            counts, parts = counts[:, None, :, None].expand(-1, -1, -1, keys), _parts(rules, mask.shape, offset, real)
            right = Combination(convention, mask, counts, rules, offset, real, parts, ("",) * len(parts))
            yield right
            if len(masks) == 1:
                yield replace(right, may_attend=~mask, whole="inverted")
            if queries == keys:
                yield replace(right, may_attend=mask.mT, counts=counts.mT, whole="transposed")


def hides_future(rules: Mask, offset: int, shape: Sequence[int], rows: slice = ALL) -> bool:
    """Whether rules block the future; False if there is none."""
    ahead = future(*shape[2:])[rows]
    return bool(ahead.any()) and not bool((rules.shifted(offset).tensor(*shape[2:], rows=rows) & ahead).any())


def _parts(rules: Mask, shape: Sequence[int], offset: int, tokens: Tensor | None) -> list[Part]:
    leaves: list[tuple[Mask, bool]] = []

    def add(rule: Mask, when_missing: bool) -> Tensor:
        leaves.append((rule, when_missing))
        return torch.ones(1, dtype=torch.bool)

    fold(rules, add)
    is_whole = len(leaves) == 1 and tokens is None
    parts = [Part.of_rule(shape, rule, offset, missing, is_whole=is_whole) for rule, missing in leaves]
    parts += [] if tokens is None else [Part.of_padding(shape, tokens)]
    if not hides_future(rules, offset, shape, slice(None, None, max(1, shape[2] // SAMPLE))):
        parts.append(Part(shape, {"": Full(), "extra": Subsequent().shifted(offset)}))
    return parts


def fold(mask: Mask, leaf: Callable[[Mask, bool], Tensor], when_missing: bool = True) -> Tensor:
    """Cells of the rules of a mask joined as the mask joins them.

    Args:
        leaf: gives the cells of a rule, and is told whether all is open without it.
    """
    match mask:
        case And(masks) | Or(masks):
            is_and = isinstance(mask, And)
            return reduce(and_ if is_and else or_, [fold(inner, leaf, is_and) for inner in masks])
        case Not(inner):
            return ~fold(inner, leaf, not when_missing)
    return leaf(mask, when_missing)


def _padding_in(mask: Tensor) -> Tensor | None:
    """Tokens, (B, K), if the keys that nobody sees in a text stand at one of its ends; None if all keys are seen."""
    used = mask.any((1, 2)).int()
    tokens = (used.cummax(1).values & used.flip(1).cummax(1).values.flip(1)).bool() | ~used.any(1, keepdim=True)
    return tokens if (tokens[:, 0] | tokens[:, -1]).all() and not tokens.all() else None
