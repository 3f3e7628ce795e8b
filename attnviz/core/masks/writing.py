"""Write masks as code: plain PyTorch, a predicate for FlexAttention, or JavaScript.

A predicate that is called with symbols instead of tensors prints itself as code. PyTorch code uses `torch` and the
integers `queries` and `keys`; a predicate uses `b`, `q_idx` and `kv_idx`, as FlexAttention does. Every mask that the
code defines has True = may attend.
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
"""Styles of code: a mask (Q, K), (B, 1, 1, K) or (B, 1, Q, K); a row over keys only, (K,) or (B, K); a function of one
query and key for FlexAttention; the same function in JavaScript."""

COMPARED, EITHER, BOTH, SUM, PRODUCT, NEGATED, ATOM = range(7)
"""Operator precedence in Python, from comparisons (lowest) to names (highest)."""


@dataclass(frozen=True, eq=False)
class Symbol:
    """An expression as code: called with symbols, a predicate returns the symbol of its own code.

    Operators on symbols give the combined expression. The functions of `spans` call the methods from `is_in` to `size`.

    Attributes:
        text: code of the expression.
        axes: axes on which the value depends, out of B, Q and K.
        writer: writer of the mask.
        rank: operator precedence of the expression.
        bounds: minimum and maximum of the value.
        certain: whether it is always true, and therefore omitted as an operand of "&".
        opposite: the negated expression, if this is a negation.
    """

    text: str
    axes: frozenset[str]
    writer: "MaskWriter"
    rank: int = ATOM
    bounds: tuple[float, float] = (-math.inf, math.inf)
    certain: bool = False
    opposite: "Symbol | None" = None

    def operand(self, rank: int) -> str:
        """Write the expression as an operand, in parentheses if its precedence is lower than `rank`."""
        return self.text if self.rank >= rank else f"({self.text})"

    def derive(self, text: str, other: "Symbol | int" = 0, rank: int = ATOM, **facts: bool) -> "Symbol":
        """Make an expression that depends on the axes of this expression and of `other`."""
        axes = self.axes | other.axes if isinstance(other, Symbol) else self.axes
        return Symbol(text, axes, self.writer, rank, **facts)

    def _binary(self, sign: str, other: "Symbol | int", rank: int, **facts: bool) -> "Symbol":
        """Write an operator between two expressions, with parentheses where the precedence `rank` needs them."""
        right = other.operand(rank + 1) if isinstance(other, Symbol) else other
        # a comparison within a comparison needs parentheses also on the left
        left = self.operand(rank + 1 if rank == COMPARED else rank)
        return self.derive(f"{left} {sign} {right}", other, rank, **facts)

    def __add__(self, other: "Symbol | int") -> "Symbol":
        """Write a sum; if `other` is a number, as "i + 2", "i - 2" or, for 0, "i"."""
        if isinstance(other, int):
            return self.derive(plus(self.text, str(other)), rank=SUM) if other else self
        return self._binary("+", other, SUM)

    def __sub__(self, other: "Symbol | int") -> "Symbol":
        return self + -other if isinstance(other, int) else self._binary("-", other, SUM)

    def __rsub__(self, other: int) -> "Symbol":
        return Symbol(str(other), frozenset(), self.writer) - self

    def __neg__(self) -> "Symbol":
        return self.derive(f"-{self.operand(ATOM)}", rank=PRODUCT)

    def __floordiv__(self, other: "Symbol | int") -> "Symbol":
        if self.writer.style == SCRIPT:
            return self.derive(f"Math.floor({self._binary('/', other, PRODUCT).text})", other)
        return self._binary("//", other, PRODUCT)

    def __mod__(self, other: "Symbol | int") -> "Symbol":
        if self.writer.style == SCRIPT:
            return self.derive(f"mod({self.text}, {getattr(other, 'text', other)})", other)
        return self._binary("%", other, PRODUCT)

    def __invert__(self) -> "Symbol":
        if self.opposite:
            return self.opposite
        sign = "!" if self.writer.style == SCRIPT else "~"
        return replace(self.derive(f"{sign}{self.operand(NEGATED)}", rank=NEGATED), opposite=self)

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
        """Write whether the position is in a list, as a look-up in a table of all positions."""
        if self.writer.style == SCRIPT:
            return self.derive(f"{numbers.text}.includes({self.text})")
        name, table = f"is_{self.writer.name.removesuffix('_tokens')}", self.writer.numbers("positions", numbers)
        return self.writer.look_up(self, name, f"torch.isin({{}}, {table})")

    def num_up_to(self, numbers: Sequence[int]) -> "Symbol":
        """Write the number of images, at the positions `numbers`, that are at or before the position."""
        table = self.writer.numbers("places", numbers)
        return self.writer.look_up(self, "images", f"torch.bucketize({{}}, {table}, right=True)")

    def num_ends(self, lengths: "Sequence[int] | Symbol") -> "Symbol":
        """Write the number of documents that end at or before the position, which is the index of its document."""
        if self.writer.style == SCRIPT:
            return self.derive(f"numEnds({self.text}, {lengths.text})")
        ends = self.writer.numbers("ends", lengths, ".cumsum(0)  # where each document ends")
        document = self.writer.look_up(self, "document", f"torch.bucketize({{}}, {ends}, right=True)")
        last = bisect_right([*accumulate(lengths)], self.writer.keys - 1)
        return replace(document, bounds=(0, last))

    def item_of(self, numbers: Sequence[int]) -> "Symbol":
        """Write the entry of a list for each sentence, such as its length, with the axes that the style needs."""
        index = {GRID: "[:, None, None, None]", ROW: "[:, None]", PREDICATE: f"[{self.text}]"}[self.writer.style]
        return self.derive(f"{self.writer.numbers('lengths', numbers)}{index}")

    def is_cell(self, key: "Symbol", cells: "Symbol") -> "Symbol":
        return (self * 2**32 + key).is_in(cells)

    def size(self) -> "Symbol":
        """Write the length of a list, in JavaScript."""
        return self.derive(f"{self.text}.length")


@dataclass
class MaskWriter:
    """Writer of masks as code, in one style, for a number of queries and keys.

    Attributes:
        lines: lines of code that the expression needs before it.
        shift, name: offset of the queries (see `Mask.shifted`) and variable name of the current rule.
        expressions: expression of each written rule, by rule and offset.
        names: name of each variable, by the code of its value, so that no value is computed twice.
        uses: number of variables per name, which get the names "document", "document_2", ...
    """

    queries: int
    keys: int
    style: str = GRID
    shift: int = 0
    name: str = ""
    lines: list[str] = field(default_factory=list)
    expressions: dict[tuple[Mask, int], Symbol] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    uses: dict[str, int] = field(default_factory=dict)

    def write(self, mask: Mask) -> Symbol:
        """Write a mask as an expression and add its lines; raise MaskError if a rule has no formula and no text."""
        inner = mask
        while isinstance(inner, Not | Shifted):
            inner = inner.mask
        expression = self._tree(mask, 0, alone=not isinstance(inner, And | Or))
        if self.style != PREDICATE:
            code = "\n".join([*self.lines, expression.text])
            definitions = {"i": f"i = {QUERIES}[:, None]  # queries down, keys across", "j": f"j = {KEYS}"}
            used = [line for name, line in definitions.items() if re.search(rf"\b{name}\b", code)]
            self.lines = [*used, *self.lines]
        return expression

    def write_predicate(self, allows: Callable[[Symbol, Symbol, Symbol], Symbol]) -> Symbol:
        """Print the predicate of a rule by calling it with symbols."""
        query_name, key_name = ("q_idx", "kv_idx") if self.style == PREDICATE else ("i", "j")
        query = Symbol(query_name, frozenset("Q"), self) + self.shift
        query = replace(query, bounds=(self.shift, math.inf))
        key = Symbol(key_name, frozenset("K"), self, bounds=(0, math.inf))
        sentence = Symbol("b", frozenset("B"), self)
        code = allows(query, key, sentence)
        if self.style != PREDICATE and "Q" not in code.axes:  # short: torch.arange(keys, ...) in place of a variable j
            code = allows(query, replace(key, text=KEYS), sentence)
        if self.style == GRID and code.certain:
            return code.derive(ALL)
        if self.style == GRID and len(code.axes) == 1:
            return code.derive(f"{code.operand(ATOM)}.expand(queries, keys)")
        return code

    def band(self, before: int | None, after: int) -> Symbol:
        """Write a band of cells, from `before` keys before the query (None: the first key) to `after` keys after it.

        If the band ends keys - queries after the query, the code computes this difference from its lengths, and is
        correct for other lengths, too.
        """
        first = "" if before is None else str(self.shift - before)
        end = self.shift + after
        is_difference = before is None and end != 0 and end == self.keys - self.queries
        last = "keys - queries" if is_difference else str(end)
        if self.style == PREDICATE:
            upper = f"kv_idx <= {plus('q_idx', last)}"
            text = f"(kv_idx >= {plus('q_idx', first)}) & ({upper})" if first else upper
            return Symbol(text, frozenset("QK"), self, COMPARED)
        lower = f".triu({first.removeprefix('0')})" if first else ""  # triu() for triu(0)
        return Symbol(f"{ALL}{lower}.tril({last.removeprefix('0')})", frozenset("QK"), self)

    def write_cells(self, cells: Iterable[tuple[int, int]], *, opened: bool) -> Symbol:
        """Write a mask that has the value `opened` at the given cells, and the opposite value elsewhere."""
        shifted = [(query - self.shift, key) for query, key in cells]
        inside = [(query, key) for query, key in shifted if 0 <= query < self.queries and key < self.keys]
        self.lines.append(f"{self.name} = {ALL.replace('ones', 'zeros') if opened else ALL}")
        if inside:
            queries, keys = [query for query, _ in inside], [key for _, key in inside]
            self.lines.append(f"{self.name}[{queries}, {keys}] = {opened}")
        return self.cells_of(frozenset("QK"))

    def cells_of(self, axes: frozenset[str]) -> Symbol:
        """Refer to the variable of a rule, which holds a mask (Q, K) or (B, 1, Q, K)."""
        cell = f"[{'b, 0, ' if 'B' in axes else ''}q_idx, kv_idx]"
        return Symbol(f"{self.name}{cell}" if self.style == PREDICATE else self.name, axes, self)

    def numbers(self, name: str, numbers: Sequence[int], then: str = "") -> str:
        """Add a line that defines a tensor of integers; return its name."""
        dtype = "" if numbers else ", dtype=torch.int64"
        return self.line(name, f"torch.tensor({[*numbers]}{dtype}, device=query.device){then}")

    def look_up(self, position: Symbol, name: str, code: str) -> Symbol:
        """Look up a value per position of the queries, (Q, 1), or of the keys, (K,), in a table that a line defines.

        Args:
            name: name of the table; queries and keys share a table if their positions are equal.
            code: code of the table, with {} for the positions.
        """
        of_queries = "Q" in position.axes
        if self.queries == self.keys and not self.shift:
            table = self.line(name, code.format(KEYS))
        elif of_queries:
            table = self.line(f"query_{name}", code.format(plus(QUERIES, str(self.shift))))
        else:
            table = self.line(f"key_{name}", code.format(KEYS))
        if self.style == PREDICATE:
            return position.derive(f"{table}[q_idx]" if of_queries else f"{table}[kv_idx]")
        return position.derive(f"{table}[:, None]" if of_queries else table)

    def line(self, name: str, text: str) -> str:
        """Add a line that defines a variable, once for the same text; return its name."""
        if text not in self.names:
            self.names[text] = self._free_name(name)
            self.lines.append(f"{self.names[text]} = {text}")
        return self.names[text]

    def _free_name(self, name: str) -> str:
        """Make a variable name unique by a number, if it is taken."""
        self.uses[name] = self.uses.get(name, 0) + 1
        return f"{name}_{self.uses[name]}" if self.uses[name] > 1 else name

    def _tree(self, mask: Mask, shift: int, alone: bool) -> Symbol:
        """Write a mask and its inner masks, with queries shifted by `shift`; `alone` if there is only one rule."""
        match mask:
            case And(masks) | Or(masks):
                expressions = [self._tree(inner, shift, alone) for inner in masks]
                operands = [*{expression.text: expression for expression in expressions}.values()]  # distinct texts
                if len(operands) == 1:
                    return operands[0]
                sign, rank = (" & ", BOTH) if isinstance(mask, And) else (" | ", EITHER)
                axes = frozenset().union(*(operand.axes for operand in operands))
                return Symbol(sign.join(operand.operand(NEGATED) for operand in operands), axes, self, rank)
            case Not(inner):
                return ~self._tree(inner, shift, alone)
            case Shifted(inner, offset):
                return self._tree(inner, shift + offset, alone)
        if (mask, shift) not in self.expressions:
            self.expressions[mask, shift] = self._rule(mask, shift, alone)
        return self.expressions[mask, shift]

    def _rule(self, mask: Mask, shift: int, alone: bool) -> Symbol:
        """Write one rule, in a line of its own if several rules are joined and the style is not a predicate."""
        keyword = getattr(mask, "keyword", "other")
        name = self._free_name("global_tokens" if keyword == "global" else keyword)
        self.shift, self.name = shift, name
        expression = mask.code(self) or self._tensor(mask.shifted(shift))
        if alone or self.style == PREDICATE or expression.text == name:
            return expression
        self.lines.append(f"{name} = {expression.text}")
        return expression.derive(name)

    def _tensor(self, mask: Mask) -> Symbol:
        """Write a rule without a formula as a call of `Mask.tensor`."""
        index = "" if mask.batch_size else "[0, 0]"
        tensor = f'attnviz.mask("{mask.text}").tensor(queries, keys){index}.to(query.device)'
        self.lines += [f"import attnviz  # '{mask}' has no short formula", f"{self.name} = {tensor}"]
        return self.cells_of(frozenset("BQK" if mask.batch_size else "QK"))


def javascript(rule: type[Mask]) -> str:
    """Write a rule in JavaScript: a function of its parameters that returns a function of query `q` and key `k`.

    The code uses `mod` and `numEnds`, which the page of a live model defines.
    """
    writer, mask = MaskWriter(0, 0, SCRIPT), object.__new__(rule)  # a mask whose parameters are symbols
    names = [parameter.name for parameter in rule.parameters()]
    for name in names:
        object.__setattr__(mask, name, Symbol(name, frozenset(), writer))
    query, key, sentence = (Symbol(name, frozenset(), writer) for name in ("q", "k", "sentence"))
    return f"({', '.join(names)}) => (q, k) => {mask.allows(query, key, sentence).text}"


def plus(text: str, number: str) -> str:
    """Write a sum as code, where the number may be 0 or negative."""
    if number == "0":
        return text
    return f"{text} - {number[1:]}" if number.startswith("-") else f"{text} + {number}"
