"""Explain a mask as its intended mask, stated or usual, with mistakes in some parts.

The parts are the rules of the intended mask and its padding. Each part is right or has one mistake, and the whole mask
may be inverted or transposed. The explanation is the combination of the fewest mistakes, at most two, that gives every
cell; else one that gives every row that counts, because the outputs of queries that are padding are not used. A mistake
that alone changes no row that counts, such as padding that no token sees, is not reported beside another mistake.

Among combinations with equally few mistakes, the first in this order is chosen: True = may attend before True = masked;
the last query at the last key before the first query at the first key; no padding before padding inferred from the
mask; mistakes in parts before mistakes of the whole mask; parts in the order of the intent, then padding, then an
unintended causal part; mistakes in the order of `rule_part` and `padding_part`; inverted before transposed. If no
combination gives all rows that count, the nearest one is chosen, with the cells that differ.
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
from attnviz.core.errors import InputError, did_you_mean, quoted
from attnviz.core.masks import And, Documents, Full, Mask, Not, Or, Padding, Prefix, Subsequent, Window, mask_from_text
from attnviz.core.masks.base import KEYWORDS, PerText

MEANT = {"causal": "causal mask", "two-way": "mask that blocks nothing but padding"}
"""Intents with a name, and their titles; all other intents are masks or texts of masks."""

MISTAKES = {
    "ahead": ("shifted", "off by one: each query has the keys of the next one"),
    "behind": ("shifted", "off by one: each query has the keys of the one before"),
    "next-key": ("future-leak", "off by one: it opens the next key"),
    "own-key": ("blocks-itself", "off by one: it blocks each query's own key"),
    "longer": ("deviation", "off by one: it is one key too long"),
    "shorter": ("deviation", "off by one: it is one key too short"),
    "opens-padding": ("shifted", "off by one: it opens the first key of padding"),
    "blocks-token": ("shifted", "off by one: it blocks a token at its edge"),
    "transposed": ("transposed", "transposed"),
    "inverted": ("inverted", "inverted"),
    "wrong-axis": ("wrong-axis", "blocks queries instead of keys"),
    "as-heads": ("broadcast", "of (B, K) is broadcast as (H, K): head i has the padding of text i"),
    "as-queries": ("broadcast", "of (B, K) is broadcast as (Q, K): query i has the padding of text i"),
    "repeat": ("broadcast", "made by repeat instead of repeat_interleave: heads have the padding of other texts"),
    "missing": ("deviation", "missing"),
    "open-future": ("future-leak", "missing"),
    "extra": ("deviation", "that is not intended: it hides the future"),
}
"""Rule of the finding for each mistake, and the rest of the sentence that begins with the name of the part."""

SAMPLE = 32
"""Number of rows to compare first; only combinations that give these rows are compared in full."""

ALL = slice(None)


@dataclass(frozen=True)
class Intent:
    """Intended mask.

    Attributes:
        title: description with an article.
        mask: intended mask in every cell.
        is_usual: whether it is a usual mask, which may be combined with padding; False if the whole mask was stated.
    """

    title: str
    mask: Mask
    is_usual: bool = True

    @classmethod
    def of(cls, meant: str | Mask) -> "Intent":
        """Make the intent from a name in `MEANT`, a mask, or the text of a mask; raise AttnvizError for other texts."""
        intended = meant if isinstance(meant, Mask) else kind_or_mask(meant)
        if isinstance(intended, Mask):
            return cls(f"the intended mask ({intended})", intended, is_usual=False)
        return cls(f"a {MEANT[intended]}", Full() if intended == "two-way" else Subsequent())


def kind_or_mask(text: str) -> str | Mask:
    """Read a text as a name in `MEANT` or as a mask; raise AttnvizError if it is neither."""
    if text == "full":
        return "two-way"
    if not isinstance(text, str) or (text.replace("-", "").isidentifier() and text not in (*MEANT, *KEYWORDS)):
        message = f"No mask is called {quoted(text)}.{did_you_mean(str(text), MEANT)} Say causal or two-way, or write"
        raise InputError(f"{message} a mask, such as 'causal & window(4)', 'causal | prefix(3)' or 'documents(3, 4)'.")
    return text if text in MEANT else mask_from_text(text)


def usual_masks(may_attend: Tensor, tokens: Tensor | None, offset: int) -> list[Intent | None]:
    """List the usual masks in the order in which they are tried, with parameters inferred from the given mask.

    Args:
        may_attend: (B, H, Q, K), True = may attend.
        tokens: (B, K), True at tokens; None without padding.
        offset: position of the first query.

    Returns:
        Six intents, with None where the mask does not determine the parameter.
    """
    (queries, keys), rows, causal = may_attend.shape[2:], may_attend.any(1), Subsequent()
    window, prefix, packed = None, None, [None, None]
    first, last, text_rows = 0, queries - 1 + offset, rows
    if tokens is not None and queries == keys:  # infer parameters from the longest text
        longest = int(tokens.sum(1).argmax())
        positions = tokens[longest].nonzero().flatten().tolist() or [0]
        first, last, text_rows = positions[0], positions[-1], rows[longest : longest + 1]
    before = last - min(text_rows[:, last - offset].any(0).nonzero().flatten().tolist(), default=keys)
    if 0 <= before < last - first:
        window = Intent(f"a causal decoder with a window ({before} before)", causal & Window(before))
    length = 1 + max(text_rows[:, first].any(0).nonzero().flatten().tolist(), default=-1)
    if first + offset + 1 < length < keys:
        prefix = Intent(f"a prefix-LM (prefix of {length})", causal | Prefix(length))
    if 1 < queries <= keys:  # a document starts where the previous key is blocked
        breaks, second = ~rows.diagonal(offset - 1, 1, 2), max(1, offset)
        if tokens is not None:  # padding belongs to the adjacent document
            breaks = breaks & (tokens[:, 1:] & tokens[:, :-1])[:, second - 1 : second - 1 + breaks.shape[1]]
        starts = [[0, *(text.nonzero().flatten() + second).tolist(), keys] for text in breaks]
        texts = [Documents(tuple(end - start for start, end in pairwise(edges))) for edges in starts]
        documents = texts[0] if len({*texts}) == 1 else PerText(tuple(texts))
        if breaks.any():
            packed = [Intent("a causal decoder of packed documents", causal & documents)]
            packed += [Intent("a two-way encoder of packed documents", documents)]
    encoder, decoder = Intent("a two-way encoder", Full()), Intent("a causal decoder", causal)
    return [encoder, decoder, window, prefix, *packed]


@dataclass(frozen=True, eq=False)
class Part:
    """A part of the intended mask, with its possible mistakes.

    Attributes:
        name: name of the part, at the beginning of a sentence.
        shape: (B, H, Q, K) of the whole mask.
        states: mask, or cells that broadcast to (B, H, Q, K), per mistake, in the order in which they are tried; the
            first, "", is the correct part.
        rule: rule in the intent; None for padding, and for an unintended causal part.
        offset: position of the first query.
        when_missing: whether all cells are open without the part (an operand of "&") or blocked (of "|").
        computed: cache of cells, by mistake and step of the rows.
    """

    name: str
    shape: Sequence[int]
    states: dict[str, Mask | Tensor]
    rule: Mask | None = None
    offset: int = 0
    when_missing: bool = True
    computed: dict[tuple[str, int | None], Tensor] = field(default_factory=dict)

    def cells(self, mistake: str, rows: slice = ALL) -> Tensor:
        """Compute the cells of the part with a mistake, which broadcast to (B, H, rows, K)."""
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


def rule_part(shape: Sequence[int], rule: Mask, offset: int, when_missing: bool, *, is_whole: bool) -> Part:
    """Make the part for a rule, with its possible mistakes; if it `is_whole`, inverting it is `Combination.whole`."""
    name, is_causal = getattr(rule, "keyword", "") or "other", isinstance(rule, Subsequent)
    ahead, behind, missing = ("next-key", "own-key", "open-future") if is_causal else ("ahead", "behind", "missing")
    states = {"": rule, ahead: rule.shifted(1), behind: rule.shifted(-1)}
    if parameter := {Window: "before", Prefix: "length"}.get(type(rule)):  # often off by one
        number = getattr(rule, parameter)
        states["longer"] = replace(rule, **{parameter: number + 1})
        if number:
            states["shorter"] = replace(rule, **{parameter: number - 1})
    if not is_whole and shape[2] == shape[3]:
        states["transposed"] = rule
    if not is_whole:
        states["inverted"] = ~rule
    states[missing] = Full() if when_missing else ~Full()
    states = {"": rule} if isinstance(rule, Full) else states
    states = {mistake: mask.shifted(offset) for mistake, mask in states.items()}
    return Part(f"{name.capitalize()} part", shape, states, rule, offset, when_missing)


def padding_part(shape: Sequence[int], tokens: Tensor) -> Part:
    """Make the part for padding, with its possible mistakes; `tokens` is boolean (B, K), True at tokens."""
    (batch, heads, queries, keys), real = shape, tokens[:, None, None]
    states = {"": real, "wrong-axis": real.mT} if queries == keys else {"": real}
    states["missing"] = torch.ones_like(real)  # before off by one, which may give the same cells
    states["opens-padding"] = pad(real, (0, 1))[..., 1:] | real | pad(real, (1, 0))[..., :-1]
    states["blocks-token"] = ~(pad(~real, (0, 1))[..., 1:] | ~real | pad(~real, (1, 0))[..., :-1])
    states["inverted"] = ~real
    if batch == queries > 1:
        states["as-queries"] = tokens[None, None]
    if batch == heads > 1:
        states["as-heads"] = tokens[None, :, None]
    if batch > 1 and heads > 1:
        states["repeat"] = tokens[torch.arange(batch * heads).view(batch, heads) % batch][:, :, None]
    return Part("Padding", shape, states)


@dataclass(frozen=True, eq=False)
class Combination:
    """An explanation of a mask: its convention, the intent, and a set of mistakes.

    Attributes:
        may_attend: checked mask, (B, H, Q, K), True = may attend; a mistake of the whole mask (`whole`) is undone.
        counts: cells that are compared, boolean (B or 1, 1, Q, K).
        rules: intended mask without padding.
        offset: position of the first query.
        tokens: (B, K), True at tokens; None without padding.
        mistakes: index in `parts` of each part with a mistake, and the mistake.
        whole: mistake of the whole mask, "inverted" or "transposed"; "" for none.
    """

    intent: Intent
    convention: str
    may_attend: Tensor
    counts: Tensor
    rules: Mask
    offset: int
    tokens: Tensor | None
    parts: Sequence[Part]
    mistakes: dict[int, str] = field(default_factory=dict)
    whole: str = ""

    @property
    def sample(self) -> slice:
        """Slice of the rows to compare first."""
        return slice(None, None, max(1, self.may_attend.shape[2] // SAMPLE))

    @property
    def is_right(self) -> bool:
        """Whether the combination reproduces every cell that counts."""
        return not any(self.differences(rows)[1].any() for rows in (self.sample, ALL))

    @property
    def expected(self) -> Tensor:
        """Intended mask without mistakes, (B, H, Q, K)."""
        return self.cells({}).expand_as(self.may_attend)

    def cells(self, mistakes: dict[int, str], rows: slice = ALL) -> Tensor:
        """Compute the intended mask with the given mistakes, which broadcasts to (B, H, rows, K)."""
        cells = iter([part.cells(mistakes.get(index, ""), rows) for index, part in enumerate(self.parts)])
        joined = fold(self.rules, lambda *_: next(cells))
        return reduce(and_, cells, joined)

    def differences(self, rows: slice = ALL) -> tuple[Tensor, Tensor]:
        """Compare with the checked mask: return all cells that differ, and only those that count, (B, H, rows, K)."""
        wrong = self.may_attend[:, :, rows] ^ self.cells(self.mistakes, rows)
        return wrong, wrong & self.counts[:, :, rows]

    def with_faults(self, number: int) -> Iterator["Combination"]:
        """Yield all combinations with `number` mistakes, in order; a mistake of the whole mask counts as one."""
        for indices in combinations(range(len(self.parts)), number - bool(self.whole)):
            for names in product(*[[*self.parts[index].states][1:] for index in indices]):
                yield replace(self, mistakes=dict(zip(indices, names, strict=True)))

    def upright(self, cells: Tensor) -> Tensor:
        """Transpose cells back if the whole mask is transposed."""
        return cells.mT if self.whole == "transposed" else cells

    def faults(self) -> Iterator[tuple[Part | None, str, Tensor]]:
        """Yield each mistake that changes a cell that counts: its part (None: the whole mask), name and wrong cells."""
        counts, mistakes = self.upright(self.counts), self.mistakes
        mask = self.cells(mistakes).expand_as(self.may_attend)
        changes = {index: self.cells({index: mistakes[index]}) ^ self.expected for index in mistakes}
        relevant = [index for index, cells in changes.items() if (cells & counts).any()]
        for index in relevant if relevant or self.whole else mistakes:
            others = {other: mistake for other, mistake in mistakes.items() if other != index}
            yield self.parts[index], mistakes[index], self.upright(mask ^ self.cells(others))
        if self.whole:
            yield None, self.whole, mask ^ (mask.mT if self.whole == "transposed" else ~mask)


def explain(readings: Sequence[Combination]) -> Combination:
    """Find the combination with the fewest mistakes that reproduces the mask, or else the nearest one."""
    is_stated = len({reading.convention for reading in readings}) == 1
    candidates = []
    for reading in readings:
        mask, counts = reading.may_attend, reading.counts
        candidates += [reading, *([replace(reading, may_attend=~mask, whole="inverted")] if is_stated else [])]
        if mask.shape[2] == mask.shape[3]:
            candidates.append(replace(reading, may_attend=mask.mT, counts=counts.mT, whole="transposed"))
    distances = {reading: int(reading.differences(reading.sample)[1].count_nonzero()) for reading in readings}
    for number, reading in product((1, 2), candidates):
        for combination in reading.with_faults(number):
            wrong, of_read_rows = combination.differences(reading.sample)
            distances[combination] = int(of_read_rows.count_nonzero()) * 4**number  # a mistake must explain many cells
            if not wrong.any() and not combination.differences()[0].any():
                return combination
    for combination, distance in distances.items():
        if not distance and not combination.differences()[1].any():
            return combination
    return min(distances, key=distances.__getitem__)


def mask_readings(masks: dict[str, Tensor], intent: Intent | None, tokens: Tensor | None) -> Iterator[Combination]:
    """Yield the possible readings of a mask (convention, offset, intent and padding) in order, still without mistakes.

    Args:
        masks: boolean mask per convention, (B, H, Q, K), True = may attend.
        intent: intended mask, which may include padding; None to try each of the usual masks.
        tokens: (B, K), True at tokens, if padding was given; else a usual mask is also tried with inferred padding.
    """
    batch, _, queries, keys = shape = next(iter(masks.values())).shape
    intended = Full() if intent is None else intent.mask
    joined = intended.masks if isinstance(intended, And) else [intended]
    of_padding = [rule for rule in joined if isinstance(rule, Padding)]
    stated = [rule.tensor(1, keys)[:batch, 0, 0] for rule in of_padding] + ([] if tokens is None else [tokens])
    for convention, mask in masks.items():
        paddings = [reduce(and_, stated) if stated else None]
        if not stated and (intent is None or intent.is_usual):  # padding at one end may be keys that no query sees
            used = mask.any((1, 2)).int()
            real = (used.cummax(1).values & used.flip(1).cummax(1).values.flip(1)).bool() | ~used.any(1, keepdim=True)
            paddings += [real] if (real[:, 0] | real[:, -1]).all() and not real.all() else []
        alignments = [*product(dict.fromkeys((max(0, keys - queries), 0)), paddings)]
        intents = [usual_masks(mask, real, offset) if intent is None else [intent] for offset, real in alignments]
        pairs = [*zip(intents, alignments, strict=True)]
        for kind, (candidates, (offset, real)) in product(range(len(intents[0])), pairs):
            if (choice := candidates[kind]) is None:
                continue
            counts = torch.ones(1, queries, dtype=torch.bool)
            if real is not None and queries == keys:
                counts = real if stated else real | mask.any((1, 3))
            counts = counts[:, None, :, None].expand(-1, -1, -1, keys)
            rest = [rule for rule in joined if rule not in of_padding] if choice is intent else [choice.mask]
            rules = reduce(and_, rest or [Full()])
            parts = _parts(rules, shape, offset, real)
            yield Combination(choice, convention, mask, counts, rules, offset, real, parts)


def hides_future(rules: Mask, offset: int, shape: Sequence[int], rows: slice = ALL) -> bool:
    """Whether rules block every future key; False if there are no future keys."""
    ahead = future(*shape[2:])[rows]
    return bool(ahead.any()) and not bool((rules.shifted(offset).tensor(*shape[2:], rows=rows) & ahead).any())


def _parts(rules: Mask, shape: Sequence[int], offset: int, tokens: Tensor | None) -> list[Part]:
    """List the parts: the rules of the intent, padding, and a causal part as a possible mistake if none is intended."""
    leaves: list[tuple[Mask, bool]] = []
    fold(rules, lambda *leaf: leaves.append(leaf) or torch.ones(1, dtype=torch.bool))
    is_whole = len(leaves) == 1 and tokens is None
    parts = [rule_part(shape, rule, offset, missing, is_whole=is_whole) for rule, missing in leaves]
    parts += [] if tokens is None else [padding_part(shape, tokens)]
    if not hides_future(rules, offset, shape, slice(None, None, max(1, shape[2] // SAMPLE))):
        parts.append(Part("Causal part", shape, {"": Full(), "extra": Subsequent().shifted(offset)}))
    return parts


def fold(mask: Mask, leaf: Callable[[Mask, bool], Tensor], when_missing: bool = True) -> Tensor:
    """Compute the cells of each rule of a mask by `leaf`, and combine them with the operators of the mask.

    Args:
        leaf: function that returns the cells of a rule; its second argument is `when_missing` of the rule.
        when_missing: see `Part`.
    """
    match mask:
        case And(masks) | Or(masks):
            is_and = isinstance(mask, And)
            return reduce(and_ if is_and else or_, [fold(inner, leaf, is_and) for inner in masks])
        case Not(inner):
            return ~fold(inner, leaf, not when_missing)
    return leaf(mask, when_missing)
