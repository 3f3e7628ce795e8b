"""Explain a mask as its intended mask, stated or usual, with mistakes in some parts.

The parts are the rules of the intended mask and its padding. Each part is right or has one mistake, and the whole mask
may be inverted or transposed. The explanation is the combination of the fewest mistakes, at most two, that gives every
cell; else one that gives every row of a token, because the outputs of queries that are padding are not used.

Among combinations with equally few mistakes, the first is chosen, in the order of `mask_readings`. Mistakes in parts
come before mistakes of the whole mask, in the order of `_parts`, `rule_part` and `padding_part`. If none gives
all rows of tokens, the nearest one is chosen, with the cells that differ."""

from collections.abc import Iterator, Sequence
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
COST = 4
"""Factor of the number of wrong cells per mistake, so that a mistake must explain many cells."""
ALL = slice(None)


@dataclass(frozen=True)
class Intent:
    """Intended mask."""

    title: str  # description with an article
    mask: Mask  # intended mask in every cell
    is_usual: bool = True  # whether it may be combined with padding; False if the whole mask was stated

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
    """List the six usual masks in the order in which they are tried, with parameters inferred from `may_attend`,
    (B, H, Q, K); None where it does not determine them. `tokens` is (B, K); `offset` is the position of query 0."""
    (queries, keys), causal = may_attend.shape[2:], Subsequent()
    is_open = may_attend.any(1)  # in any head, (B, Q, K)
    window = prefix = packed_decoder = packed_encoder = None
    first, last, text_rows = 0, queries - 1 + offset, is_open
    if tokens is not None and queries == keys:  # infer parameters from the longest text
        longest = int(tokens.sum(1).argmax())
        positions = tokens[longest].nonzero().flatten().tolist() or [0]
        first, last, text_rows = positions[0], positions[-1], is_open[longest : longest + 1]
    keys_of_last = text_rows[:, last - offset].any(0).nonzero().flatten().tolist()
    before = last - min(keys_of_last, default=keys)
    if 0 <= before < last - first:
        window = Intent(f"a causal decoder with a window ({before} before)", causal & Window(before))
    keys_of_first = text_rows[:, first].any(0).nonzero().flatten().tolist()
    length = 1 + max(keys_of_first, default=-1)
    if first + offset + 1 < length < keys:
        prefix = Intent(f"a prefix-LM (prefix of {length})", causal | Prefix(length))
    if 1 < queries <= keys:  # a document starts where the previous key is blocked
        is_start = ~is_open.diagonal(offset - 1, 1, 2)  # of the positions from `first_start` on
        first_start = max(1, offset)
        if tokens is not None:  # padding belongs to the adjacent document
            are_both_tokens = tokens[:, 1:] & tokens[:, :-1]
            is_start = is_start & are_both_tokens[:, first_start - 1 : first_start - 1 + is_start.shape[1]]
        edges_per_text = [[0, *(text.nonzero().flatten() + first_start).tolist(), keys] for text in is_start]
        masks = [Documents(tuple(end - start for start, end in pairwise(edges))) for edges in edges_per_text]
        documents = masks[0] if len({*masks}) == 1 else PerText(tuple(masks))
        if is_start.any():
            packed_decoder = Intent("a causal decoder of packed documents", causal & documents)
            packed_encoder = Intent("a two-way encoder of packed documents", documents)
    encoder, decoder = Intent("a two-way encoder", Full()), Intent("a causal decoder", causal)
    return [encoder, decoder, window, prefix, packed_decoder, packed_encoder]


@dataclass(frozen=True, eq=False)
class Part:
    """A rule of the intended mask, or its padding, with the mistakes that it may have."""

    name: str  # name of the part, at the beginning of a sentence
    shape: Sequence[int]  # (B, H, Q, K) of the whole mask
    # mask, or cells that broadcast to (B, H, Q, K), per mistake, in the order of trying; "" (the first) has no mistake
    states: dict[str, Mask | Tensor]
    rule: Mask | None = None  # rule of the intended mask; None for padding, and for an unintended causal part
    offset: int = 0  # position of the first query
    blocks: bool = True  # whether the part blocks cells (an operand of "&"); else it opens cells (an operand of "|")
    computed: dict[tuple[str, int | None], Tensor] = field(default_factory=dict)  # cache of `cells`

    def cells(self, mistake: str, rows: slice = ALL) -> Tensor:
        """Compute the cells of the part with a mistake ("" for none), which broadcast to (B, H, rows, K)."""
        key = mistake, rows.step  # `rows` are all rows (step None), or every n-th row
        if key not in self.computed:
            (batch, _, queries, keys), state = self.shape, self.states[mistake]
            if isinstance(state, Tensor):
                self.computed[key] = state[:, :, rows] if state.shape[2] > 1 else state
            elif mistake == "transposed":
                self.computed[key] = state.tensor(queries, keys, columns=rows)[:batch].mT
            else:
                self.computed[key] = state.tensor(queries, keys, rows=rows)[:batch]
        return self.computed[key]


def rule_part(shape: Sequence[int], rule: Mask, offset: int, blocks: bool, *, is_whole: bool) -> Part:
    """Make the part for a rule, with its possible mistakes. If the rule `is_whole`, the whole intended mask,
    transposing and inverting it are mistakes of the whole mask."""
    if isinstance(rule, Full):
        states = {"": rule}
    else:
        is_causal = isinstance(rule, Subsequent)
        names = ("next-key", "own-key", "open-future") if is_causal else ("ahead", "behind", "missing")
        ahead, behind, missing = names
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
        states[missing] = Full() if blocks else ~Full()
    states = {mistake: mask.shifted(offset) for mistake, mask in states.items()}
    name = getattr(rule, "keyword", "") or "other"
    return Part(f"{name.capitalize()} part", shape, states, rule, offset, blocks)


def padding_part(shape: Sequence[int], tokens: Tensor) -> Part:
    """Make the part for padding, with its possible mistakes; `tokens` is boolean (B, K), True at tokens."""
    (batch, heads, queries, keys), is_token = shape, tokens[:, None, None]
    after, before = pad(is_token, (0, 1), value=False)[..., 1:], pad(is_token, (1, 0), value=False)[..., :-1]
    beside_padding = pad(~is_token, (0, 1))[..., 1:] | pad(~is_token, (1, 0))[..., :-1]
    states = {"": is_token, "wrong-axis": is_token.mT} if queries == keys else {"": is_token}
    states["missing"] = torch.ones_like(is_token)  # before off by one, which may give the same cells
    states["opens-padding"] = is_token | after | before
    states["blocks-token"] = is_token & ~beside_padding
    states["inverted"] = ~is_token
    if batch == queries > 1:
        states["as-queries"] = tokens[None, None]
    if batch == heads > 1:
        states["as-heads"] = tokens[None, :, None]
    if batch > 1 and heads > 1:
        states["repeat"] = tokens[torch.arange(batch * heads).view(batch, heads) % batch][:, :, None]
    return Part("Padding", shape, states)


@dataclass(frozen=True, eq=False)
class Combination:
    """An explanation of a mask: its convention, its intended mask, and a set of mistakes."""

    intent: Intent
    convention: str
    may_attend: Tensor  # checked mask, (B, H, Q, K), True = may attend; if `whole`, inverted or transposed back
    counts: Tensor  # compared cells, boolean (B or 1, 1, Q, K): rows of queries that are not padding
    rules: Mask  # intended mask without padding
    offset: int  # position of the first query
    tokens: Tensor | None  # (B, K), True at tokens; None without padding
    parts: Sequence[Part]  # rules of the intended mask, then padding, then a causal part that is not intended
    mistakes: dict[int, str] = field(default_factory=dict)  # by the index of the part in `parts`
    whole: str = ""  # mistake of the whole mask, "inverted" or "transposed"; "" for none

    @property
    def sample(self) -> slice:
        """Slice of the rows to compare first."""
        return slice(None, None, max(1, self.may_attend.shape[2] // SAMPLE))

    @property
    def is_right(self) -> bool:
        """Whether the combination gives the right value in every compared cell."""
        return not any(self.differences(rows)[1].any() for rows in (self.sample, ALL))

    @property
    def expected(self) -> Tensor:
        """Intended mask without mistakes, (B, H, Q, K)."""
        return self.cells({}).expand_as(self.may_attend)

    def cells(self, mistakes: dict[int, str], rows: slice = ALL) -> Tensor:
        """Compute the intended mask with the given mistakes, which broadcasts to (B, H, rows, K)."""
        cells = iter([part.cells(mistakes.get(index, ""), rows) for index, part in enumerate(self.parts)])
        rule_cells = join_cells(self.rules, cells)
        return reduce(and_, cells, rule_cells)  # the remaining parts, such as padding, are joined with "&"

    def differences(self, rows: slice = ALL) -> tuple[Tensor, Tensor]:
        """Find the cells that differ from the checked mask, (B, H, rows, K): all, and only those in `counts`."""
        wrong = self.may_attend[:, :, rows] ^ self.cells(self.mistakes, rows)
        return wrong, wrong & self.counts[:, :, rows]

    def with_faults(self, number: int) -> Iterator["Combination"]:
        """Yield all combinations with `number` mistakes, in order; a mistake of the whole mask counts as one."""
        for indices in combinations(range(len(self.parts)), number - bool(self.whole)):
            mistakes_per_part = [[mistake for mistake in self.parts[index].states if mistake] for index in indices]
            for mistakes in product(*mistakes_per_part):
                yield replace(self, mistakes=dict(zip(indices, mistakes, strict=True)))

    def upright(self, cells: Tensor) -> Tensor:
        """Transpose cells back if the whole mask is transposed."""
        return cells.mT if self.whole == "transposed" else cells

    def faults(self) -> Iterator[tuple[Part | None, str, Tensor]]:
        """Yield part (None: the whole mask), name and wrong cells, (B, H, Q, K), of each mistake. A mistake that
        changes no compared cell is left out if there is another mistake."""
        counts, mistakes = self.upright(self.counts), self.mistakes
        mask = self.cells(mistakes).expand_as(self.may_attend)
        changes = {index: self.cells({index: mistakes[index]}) ^ self.expected for index in mistakes}
        relevant = [index for index, cells in changes.items() if (cells & counts).any()]
        if not relevant and not self.whole:
            relevant = [*mistakes]
        for index in relevant:
            others = {other: mistake for other, mistake in mistakes.items() if other != index}
            yield self.parts[index], mistakes[index], self.upright(mask ^ self.cells(others))
        if self.whole:
            yield None, self.whole, mask ^ (mask.mT if self.whole == "transposed" else ~mask)


def explain(readings: Sequence[Combination]) -> Combination:
    """Find the combination of one or two mistakes that gives the checked mask, or else the nearest combination.
    `readings` are the combinations without mistakes, in order; see `mask_readings`."""
    has_one_convention = len({reading.convention for reading in readings}) == 1
    candidates = []
    for reading in readings:
        mask, counts = reading.may_attend, reading.counts
        candidates.append(reading)
        if has_one_convention:  # else the inverted mask is a reading, too
            candidates.append(replace(reading, may_attend=~mask, whole="inverted"))
        if mask.shape[2] == mask.shape[3]:
            candidates.append(replace(reading, may_attend=mask.mT, counts=counts.mT, whole="transposed"))
    distances = {reading: int(reading.differences(reading.sample)[1].count_nonzero()) for reading in readings}
    for number, candidate in product((1, 2), candidates):
        for combination in candidate.with_faults(number):
            all_wrong, wrong = combination.differences(combination.sample)
            distances[combination] = int(wrong.count_nonzero()) * COST**number
            if not all_wrong.any() and not combination.differences()[0].any():
                return combination
    for combination, distance in distances.items():
        if not distance and not combination.differences()[1].any():
            return combination
    return min(distances, key=distances.__getitem__)


def mask_readings(masks: dict[str, Tensor], intent: Intent | None, tokens: Tensor | None) -> Iterator[Combination]:
    """Yield the possible readings of a mask (convention, offset, intent and padding) in order, still without mistakes.
    `masks` has the mask per possible convention, (B, H, Q, K), True = may attend. Without an intent, usual masks are
    tried; without `tokens`, (B, K), they are also tried with padding inferred from the mask."""
    batch, _, queries, keys = shape = next(iter(masks.values())).shape
    intended = Full() if intent is None else intent.mask
    operands = intended.masks if isinstance(intended, And) else [intended]
    stated = [mask.tensor(1, keys)[:batch, 0, 0] for mask in operands if isinstance(mask, Padding)]
    rules = [mask for mask in operands if not isinstance(mask, Padding)] or [Full()]
    stated += [] if tokens is None else [tokens]
    for convention, mask in masks.items():
        paddings = [reduce(and_, stated) if stated else None]
        if not stated and (intent is None or intent.is_usual):  # padding at one end may be keys that no query sees
            is_seen = mask.any((1, 2)).int()
            from_left, from_right = is_seen.cummax(1).values, is_seen.flip(1).cummax(1).values.flip(1)
            is_token = (from_left & from_right).bool() | ~is_seen.bool().any(1, keepdim=True)
            if (is_token[:, 0] | is_token[:, -1]).all() and not is_token.all():
                paddings.append(is_token)
        offsets = dict.fromkeys((max(0, keys - queries), 0))  # last query at the last key, or first at the first
        alignments = [*product(offsets, paddings)]
        intents = [usual_masks(mask, is_real, offset) if intent is None else [intent] for offset, is_real in alignments]
        for same_intent in zip(*intents, strict=True):  # a usual mask, with its parameters for each alignment
            for choice, (offset, is_real) in zip(same_intent, alignments, strict=True):
                if choice is None:
                    continue
                is_compared = torch.ones(1, queries, dtype=torch.bool)
                if is_real is not None and queries == keys:
                    is_compared = is_real if stated else is_real | mask.any((1, 3))
                counts = is_compared[:, None, :, None].expand(-1, -1, -1, keys)
                chosen_rules = reduce(and_, rules) if choice is intent else choice.mask
                parts = _parts(chosen_rules, shape, offset, is_real)
                yield Combination(choice, convention, mask, counts, chosen_rules, offset, is_real, parts)


def hides_future(rules: Mask, offset: int, shape: Sequence[int], rows: slice = ALL) -> bool:
    """Whether a mask on (B, H, Q, K) blocks every future key of the rows; False if there are no future keys."""
    queries, keys = shape[2:]
    ahead = future(queries, keys)[rows]
    cells = rules.shifted(offset).tensor(queries, keys, rows=rows)
    return bool(ahead.any()) and not bool((cells & ahead).any())


def _parts(rules: Mask, shape: Sequence[int], offset: int, tokens: Tensor | None) -> list[Part]:
    """List the parts: the rules of the intent, padding, and a causal part as a possible mistake if none is intended."""
    leaves = rules_of(rules)
    is_whole = len(leaves) == 1 and tokens is None
    parts = [rule_part(shape, rule, offset, blocks, is_whole=is_whole) for rule, blocks in leaves]
    parts += [] if tokens is None else [padding_part(shape, tokens)]
    sample = slice(None, None, max(1, shape[2] // SAMPLE))
    if not hides_future(rules, offset, shape, sample):
        parts.append(Part("Causal part", shape, {"": Full(), "extra": Subsequent().shifted(offset)}))
    return parts


def rules_of(mask: Mask, blocks: bool = True) -> list[tuple[Mask, bool]]:
    """List the rules that "&", "|" and "~" combine to a mask, from left to right, each with `Part.blocks`."""
    match mask:
        case And(masks) | Or(masks):
            return [pair for operand in masks for pair in rules_of(operand, isinstance(mask, And))]
        case Not(operand):
            return rules_of(operand, not blocks)
    return [(mask, blocks)]


def join_cells(mask: Mask, cells: Iterator[Tensor]) -> Tensor:
    """Combine the cells of each rule, in the order of `rules_of`, with the operators of the mask."""
    match mask:
        case And(masks) | Or(masks):
            return reduce(and_ if isinstance(mask, And) else or_, [join_cells(operand, cells) for operand in masks])
        case Not(operand):
            return ~join_cells(operand, cells)
    return next(cells)
