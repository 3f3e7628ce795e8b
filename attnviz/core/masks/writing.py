"""Masks written as code: plain PyTorch, a predicate of FlexAttention, or JavaScript, printed from their predicates.

A predicate that is asked with symbols prints itself, as it would be typed. Code in PyTorch needs `torch`, and the whole
numbers `queries` and `keys`; a predicate is written over `b`, `q_idx` and `kv_idx`, as FlexAttention calls them. Every
name that it makes holds True = may attend.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partialmethod
from itertools import accumulate

from attnviz.core.masks.base import And, Mask, Not, Or, Shifted

QUERIES, KEYS = (f"torch.arange({number}, device=query.device)" for number in ("queries", "keys"))
ALL = "torch.ones(queries, keys, dtype=torch.bool, device=query.device)"

GRID, ROW, PREDICATE, SCRIPT = "grid", "row", "predicate", "script"
"""Over all queries and keys, (Q, K), (B, 1, 1, K) or (B, 1, Q, K); over keys alone, (K,) or (B, K); over one cell; over
one cell in JavaScript."""

COMPARED, EITHER, BOTH, SUM, PRODUCT, DENIED, ATOM = range(7)
"""How tightly an expression holds together, from comparisons to single names, as Python reads it."""


@dataclass(frozen=True, eq=False)
class Symbol:
    """A number or a truth as text: what Python's operators do to it is printed.

    Attributes:
        text: the expression.
        axes: the axes, of B, Q and K, that its value depends on.
        writer: that of its mask.
        rank: how tightly it holds together.
        bounds: the least and the most that it can be.
        certain: whether it is always true, so that it is left out beside others.
        opposite: the expression that it negates, if it does.
    """

    text: str
    axes: frozenset[str]
    writer: "MaskWriter"
    rank: int = ATOM
    bounds: tuple[float, float] = (-math.inf, math.inf)
    certain: bool = False
    opposite: "Symbol | None" = None

    def beside(self, rank: int) -> str:
        """Its text, in parentheses if it holds together less tightly."""
        return self.text if self.rank >= rank else f"({self.text})"

    def derive(self, text: str, other: "Symbol | int" = 0, rank: int = ATOM, **facts: bool) -> "Symbol":
        """Make an expression that depends on this one, and on the other."""
        return Symbol(text, self.axes | getattr(other, "axes", set()), self.writer, rank, **facts)

    def _binary(self, sign: str, other: "Symbol | int", rank: int, **facts: bool) -> "Symbol":
        right = other.beside(rank + 1) if isinstance(other, Symbol) else other
        return self.derive(f"{self.beside(rank + (rank == COMPARED))} {sign} {right}", other, rank, **facts)

    def __add__(self, other: "Symbol | int") -> "Symbol":
        if isinstance(other, int):
            return self.derive(plus(self.text, str(other)), rank=SUM) if other else self
        return self._binary("+", other, SUM)

    def __sub__(self, other: "Symbol | int") -> "Symbol":
        return self + -other if isinstance(other, int) else self._binary("-", other, SUM)

    def __rsub__(self, other: int) -> "Symbol":
        return Symbol(str(other), frozenset(), self.writer) - self

    def __neg__(self) -> "Symbol":
        return self.derive(f"-{self.beside(ATOM)}", rank=PRODUCT)

    def __floordiv__(self, other: "Symbol | int") -> "Symbol":
        if self.writer.style == SCRIPT:
            return self.derive(f"Math.floor({self._binary('/', other, PRODUCT).text})", other)
        return self._binary("//", other, PRODUCT)

    def __mod__(self, other: "Symbol | int") -> "Symbol":
        if self.writer.style == SCRIPT:
            return self.derive(f"mod({self.text}, {getattr(other, 'text', other)})", other)
        return self._binary("%", other, PRODUCT)

    def __invert__(self) -> "Symbol":
        sign = "!" if self.writer.style == SCRIPT else "~"
        return self.opposite or replace(self.derive(f"{sign}{self.beside(DENIED)}", rank=DENIED), opposite=self)

    def __and__(self, other: "Symbol") -> "Symbol":
        if self.certain or other.certain:
            return other if self.certain else self
        return self._binary("&", other, BOTH)

    def __lt__(self, other: "Symbol | int") -> "Symbol":
        return self._binary("<", other, COMPARED, certain=isinstance(other, int) and self.bounds[1] < other)

    def __ge__(self, other: "Symbol | int") -> "Symbol":
        return self._binary(">=", other, COMPARED, certain=isinstance(other, int) and self.bounds[0] >= other)

    __mul__ = partialmethod(_binary, "*", rank=PRODUCT)
    __or__ = partialmethod(_binary, "|", rank=EITHER)
    __le__ = partialmethod(_binary, "<=", rank=COMPARED)
    __gt__ = partialmethod(_binary, ">", rank=COMPARED)
    __eq__ = partialmethod(_binary, "==", rank=COMPARED)
    __hash__ = None

    def is_in(self, numbers: "Sequence[int] | Symbol") -> "Symbol":
        if self.writer.style == SCRIPT:
            return self.derive(f"{numbers.text}.includes({self.text})")
        name = f"is_{self.writer.name.removesuffix('_tokens')}"
        return self.writer.looked_up(self, name, f"torch.isin({{}}, {self.writer.numbers('positions', numbers)})")

    def num_up_to(self, numbers: Sequence[int]) -> "Symbol":
        places = self.writer.numbers("places", numbers)
        return self.writer.looked_up(self, "images", f"torch.bucketize({{}}, {places}, right=True)", of_both=False)

    def num_ends(self, lengths: "Sequence[int] | Symbol") -> "Symbol":
        if self.writer.style == SCRIPT:
            return self.derive(f"numEnds({self.text}, {lengths.text})")
        ends = self.writer.numbers("ends", lengths, ".cumsum(0)  # where each document ends")
        document = self.writer.looked_up(self, "document", f"torch.bucketize({{}}, {ends}, right=True)")
        last = bisect_right([*accumulate(lengths)], self.writer.keys - 1)
        return replace(document, bounds=(0, last))

    def item_of(self, numbers: Sequence[int]) -> "Symbol":
        axis = {GRID: "[:, None, None, None]", ROW: "[:, None]", PREDICATE: f"[{self.text}]"}[self.writer.style]
        return self.derive(f"{self.writer.numbers('lengths', numbers)}{axis}")

    def is_cell(self, key: "Symbol", cells: "Symbol") -> "Symbol":
        return (self * 2**32 + key).is_in(cells)

    def size(self) -> "Symbol":
        return self.derive(f"{self.text}.length")


@dataclass
class MaskWriter:
    """Writes masks for queries and keys of given numbers, in one style.

    Attributes:
        lines: those that must come first.
        shift, name: of the rule that is being written: number of positions that its queries are further on, as in
            `Mask.shifted`, and name of a line for it.
        written: each rule that is written, by its shift.
        names: name of what each line holds.
        taken: number of times that each name is taken.
    """

    queries: int
    keys: int
    style: str = GRID
    shift: int = 0
    name: str = ""
    lines: list[str] = field(default_factory=list)
    written: dict[tuple[Mask, int], Symbol] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)

    def write(self, mask: Mask) -> Symbol:
        """The expression of a mask; what it needs is in `lines` afterwards.

        Raises:
            MaskError: for a rule that has neither a formula nor a text.
        """
        rule = mask
        while isinstance(rule, Not | Shifted):
            rule = rule.mask
        written = self._tree(mask, 0, alone=not isinstance(rule, And | Or))
        if self.style != PREDICATE:
            numbers = (f"i = {QUERIES}[:, None]  # queries down, keys across", f"j = {KEYS}")
            used = "\n".join([*self.lines, written.text])
            self.lines[:0] = [line for line in numbers if re.search(rf"\b{line[0]}\b", used)]
        return written

    def printed(self, allows: Callable[[Symbol, Symbol, Symbol], Symbol]) -> Symbol:
        """The predicate of a rule as it prints itself."""
        names = ("q_idx", "kv_idx") if self.style == PREDICATE else ("i", "j")
        query, key, sentence = (
            Symbol(name, frozenset(of), self) for name, of in zip((*names, "b"), "QKB", strict=True)
        )
        query, key = replace(query + self.shift, bounds=(self.shift, math.inf)), replace(key, bounds=(0, math.inf))
        printed = allows(query, key, sentence)
        if self.style != PREDICATE and "Q" not in printed.axes:
            printed = allows(query, replace(key, text=KEYS), sentence)
        if self.style == GRID and printed.certain:
            return printed.derive(ALL)
        if self.style == GRID and len(printed.axes) == 1:
            return printed.derive(f"{printed.beside(ATOM)}.expand(queries, keys)")
        return printed

    def band(self, before: int | None, after: int) -> Symbol:
        """The cells from `before` keys before the query, or from the first, to `after` keys after it.

        If the end is the difference of the lengths, that is written: then the code holds for other lengths, too.
        """
        end = self.shift + after
        as_lengths = before is None and end and end == self.keys - self.queries
        last, first = "keys - queries" if as_lengths else str(end), "" if before is None else str(self.shift - before)
        if self.style == PREDICATE:
            upper = f"kv_idx <= {plus('q_idx', last)}"
            text = f"(kv_idx >= {plus('q_idx', first)}) & ({upper})" if first else upper
            return Symbol(text, frozenset("QK"), self, COMPARED)
        cut = f".triu({first.lstrip('0')})" if first else ""
        return Symbol(f"{ALL}{cut}.tril({last.lstrip('0')})", frozenset("QK"), self)

    def painted(self, cells: Iterable[tuple[int, int]], *, opened: bool) -> Symbol:
        """All cells alike, and then these changed."""
        moved = [(query - self.shift, key) for query, key in cells]
        inside = [(query, key) for query, key in moved if 0 <= query < self.queries and key < self.keys]
        self.lines.append(f"{self.name} = {ALL.replace('ones', 'zeros') if opened else ALL}")
        if inside:
            queries, keys = (list(side) for side in zip(*inside, strict=True))
            self.lines.append(f"{self.name}[{queries}, {keys}] = {opened}")
        return self.cells_of(frozenset("QK"))

    def cells_of(self, axes: frozenset[str]) -> Symbol:
        """Cells that the line of a rule holds, (Q, K) or (B, 1, Q, K)."""
        cell = f"[{'b, 0, ' if 'B' in axes else ''}q_idx, kv_idx]"
        return Symbol(f"{self.name}{cell}" if self.style == PREDICATE else self.name, axes, self)

    def numbers(self, name: str, numbers: Sequence[int], then: str = "") -> str:
        """A line with whole numbers, under a name that is given back."""
        dtype = "" if numbers else ", dtype=torch.int64"
        return self.line(name, f"torch.tensor({[*numbers]}{dtype}, device=query.device){then}")

    def looked_up(self, position: Symbol, name: str, of: str, *, of_both: bool = True) -> Symbol:
        """Numbers of the positions of the queries, (Q, 1), or of the keys, (K,), from a line before.

        Args:
            of: code for it, with braces for the positions.
            of_both: whether queries and keys have it; if their positions are the same, one line is for both.
        """
        if "Q" in position.axes:
            of_one, places, index = f"query_{name}", plus(QUERIES, str(self.shift)), ("[:, None]", "[q_idx]")
        else:
            of_one, places, index = f"key_{name}", KEYS, ("", "[kv_idx]")
        if of_both and self.queries == self.keys and not self.shift:
            table = self.line(name, of.format(KEYS))
        else:
            table = self.line(of_one, of.format(places))
        return position.derive(f"{table}{index[self.style == PREDICATE]}")

    def line(self, name: str, text: str) -> str:
        """A line before, under a name that is given back; one line for the same text."""
        if text not in self.names:
            self.names[text] = self._free_name(name)
            self.lines.append(f"{self.names[text]} = {text}")
        return self.names[text]

    def _free_name(self, name: str) -> str:
        """The name, with a number behind it if it is taken."""
        self.taken[name] = self.taken.get(name, 0) + 1
        return f"{name}_{self.taken[name]}" if self.taken[name] > 1 else name

    def _tree(self, mask: Mask, shift: int, alone: bool) -> Symbol:
        match mask:
            case And(masks) | Or(masks):
                parts = {part.text: part for part in (self._tree(inner, shift, alone) for inner in masks)}.values()
                (first, *others), (sign, rank) = parts, (" & ", BOTH) if isinstance(mask, And) else (" | ", EITHER)
                axes = frozenset().union(*(part.axes for part in parts))
                text = sign.join(part.beside(DENIED) for part in parts)
                return Symbol(text, axes, first.writer, rank) if others else first
            case Not(inner):
                return ~self._tree(inner, shift, alone)
            case Shifted(inner, offset):
                return self._tree(inner, shift + offset, alone)
        if (mask, shift) not in self.written:
            self.written[mask, shift] = self._rule(mask, shift, alone)
        return self.written[mask, shift]

    def _rule(self, mask: Mask, shift: int, alone: bool) -> Symbol:
        """One rule: where several are joined and it is no predicate, a line of its own that gives it a name."""
        keyword = getattr(mask, "keyword", "other")
        name = self._free_name("global_tokens" if keyword == "global" else keyword)
        self.shift, self.name = shift, name
        written = mask.code(self) or self._tensor(mask.shifted(shift))
        if alone or self.style == PREDICATE or written.text == name:
            return written
        self.lines.append(f"{name} = {written.text}")
        return written.derive(name)

    def _tensor(self, mask: Mask) -> Symbol:
        """A rule without a formula, as its tensor."""
        part = "" if mask.batch_size else "[0, 0]"
        tensor = f'attnviz.mask("{mask.text}").tensor(queries, keys){part}.to(query.device)'
        self.lines += [f"import attnviz  # '{mask}' has no short formula", f"{self.name} = {tensor}"]
        return self.cells_of(frozenset("BQK" if mask.batch_size else "QK"))


def javascript(rule: type[Mask]) -> str:
    """JavaScript of a mask rule: a function of its numbers that gives one of a query `q` and a key `k`.

    Its predicate is asked with names in the place of numbers. It uses `mod` and `numEnds`, which the page of a live
    model defines.
    """
    writer, nameless = MaskWriter(0, 0, SCRIPT), object.__new__(rule)
    names = [parameter.name for parameter in rule.parameters()]
    for name in names:
        object.__setattr__(nameless, name, Symbol(name, frozenset(), writer))
    query, key, sentence = (Symbol(name, frozenset(), writer) for name in ("q", "k", "sentence"))
    return f"({', '.join(names)}) => (q, k) => {nameless.allows(query, key, sentence).text}"


def plus(text: str, number: str) -> str:
    """A sum in code, where the number may be 0 or begin with a minus."""
    if number == "0":
        return text
    return f"{text} - {number[1:]}" if number.startswith("-") else f"{text} + {number}"
