"""The intended mask, stated or a usual kind, and the mistakes in its parts that give exactly a mask.

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
from itertools import combinations, pairwise, product
from operator import and_, or_

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnviz.check.findings import future
from attnviz.core.errors import InputError, MaskError, did_you_mean, quoted
from attnviz.core.masks import And, Documents, Full, Mask, Not, Or, Padding, Prefix, Subsequent, Window, mask_from_text
from attnviz.core.masks.base import KEYWORDS
from attnviz.core.stack import Stack

MEANT = {"causal": "causal mask", "two-way": "mask that blocks nothing but padding"}
"""Titles of the masks that have a name as an intent; all others are stated as text."""

ASSUMED = {
    "two-way": "a two-way encoder",
    "causal": "a causal decoder",
    "causal-window": "a causal decoder with a window ({number} before)",
    "prefix-lm": "a prefix-LM (prefix of {number})",
    "causal-documents": "a causal decoder of packed documents",
    "documents": "a two-way encoder of packed documents",
}
"""Masks that are known without an intent, in the order in which they are tried; numbers are read off the mask."""


@dataclass(frozen=True)
class PerText(Mask):
    """A mask of a batch: each text has its own."""

    masks: tuple[Mask, ...]

    @property
    def batch_size(self) -> int:
        return len(self.masks)

    def allows(self, query: Tensor, key: Tensor, sentence: Tensor) -> Tensor:
        cells = [self.masks[text].allows(query, key, sentence[:1]) for text in sentence.flatten().tolist()]
        return torch.cat(torch.broadcast_tensors(*cells))

    def of_sentence(self, sentence: int) -> Mask:
        self._check_sentence(sentence)
        return self.masks[sentence]


@dataclass(frozen=True)
class Intent:
    """Intended mask.

    Attributes:
        title: in words, with an article.
        mask: what it must be, cell by cell but for padding; None if it follows from the kind.
        kind: a name of `ASSUMED`; "" where a mask was stated.
    """

    title: str
    mask: Mask | None = None
    kind: str = ""

    @classmethod
    def of(cls, meant: str | Mask | Stack) -> "Intent":
        """Intent of a name of `MEANT`, a mask, its text or a stack.

        Raises:
            AttnvizError: if there is no such name, and it is not the text of a mask.
        """
        if isinstance(meant, Stack):
            meant = meant.mask() or Full()
        kind = meant if isinstance(meant, Mask) else kind_or_mask(meant)
        if isinstance(kind, Mask):
            return cls(f"the mask that is meant ({kind})", kind)
        return cls(f"a {MEANT[kind]}", kind=kind)

    def rules(self, may_attend: Tensor, tokens: Tensor | None, offset: int) -> Mask | None:
        """The mask that is meant, without padding; None if the kind has a number that the array does not show.

        Args:
            may_attend: (B, H, Q, K), True = may attend.
            tokens: (B, K), True at tokens; None without padding.
            offset: position of the first query.
        """
        if self.mask is not None or self.kind in MEANT:
            return self.mask or (Full() if self.kind == "two-way" else Subsequent())
        queries, keys = may_attend.shape[2:]
        rows, last, first = may_attend.any(1), queries - 1 + offset, 0
        if tokens is not None and queries == keys:  # of the longest text
            longest = int(tokens.sum(1).argmax())
            places = tokens[longest].nonzero().flatten().tolist() or [0]
            first, last = places[0], places[-1]
            rows = rows[longest : longest + 1]
        match self.kind:
            case "causal-window":
                before = last - _first_open(rows[:, last - offset])
                return Subsequent() & Window(before) if 0 <= before < last - first else None
            case "prefix-lm":
                length = keys - _first_open(rows[:, first].flip(1))
                return Subsequent() | Prefix(length) if first + offset + 1 < length < keys else None
        documents = _documents(may_attend.any(1), tokens, offset)
        return documents and (Subsequent() & documents if self.kind == "causal-documents" else documents)


def kind_or_mask(text: str) -> str | Mask:
    """The name of `MEANT` that a text is, or the mask that it writes.

    Raises:
        AttnvizError: names what there is, or what in the text cannot be read.
    """
    if text == "full":
        return "two-way"
    if not isinstance(text, str) or (text.replace("-", "").isidentifier() and text not in (*MEANT, *KEYWORDS)):
        near = did_you_mean(str(text), MEANT)
        message = f"No mask is called {quoted(text)}.{near} Say causal or two-way, or write a mask, such as "
        raise InputError(f"{message}'causal & window(4)', 'causal | prefix(3)' or 'causal & documents(3, 4)'.")
    return text if text in MEANT else mask_from_text(text)


def check_fits(intended: Mask, batch: int) -> None:
    """Refuse, by an `InputError`, an intended mask of fewer texts."""
    try:
        intended.of_sentence(batch - 1)
    except MaskError as error:
        raise InputError(f"What is meant does not fit: {error}") from None


def _first_open(rows: Tensor) -> int:
    """First key that is open in one of the rows, (B, K); beyond the last if none is."""
    return min(rows.any(0).nonzero().flatten().tolist(), default=rows.shape[1])


def _documents(rows: Tensor, tokens: Tensor | None, offset: int) -> Mask | None:
    """Documents, each of which begins where a query does not see the key before its own; None if there is one only."""
    if not 1 < rows.shape[1] <= rows.shape[2]:
        return None
    begins, first, masks = ~rows.diagonal(offset - 1, 1, 2), max(1, offset), []
    if tokens is not None:  # padding belongs to the document beside it
        begins = begins & (tokens[:, 1:] & tokens[:, :-1])[:, first - 1 : first - 1 + begins.shape[1]]
    for text in begins:
        starts = (text.nonzero().flatten() + first).tolist()
        masks.append(Documents(tuple(end - start for start, end in pairwise([0, *starts, rows.shape[2]]))))
    if all(len(mask.lengths) == 1 for mask in masks):
        return None
    return masks[0] if len(set(masks)) == 1 else PerText(tuple(masks))


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
