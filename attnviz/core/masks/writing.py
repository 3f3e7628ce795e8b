"""A mask written as lines of plain PyTorch that a person can paste: each rule in its idiom, joined by `&`, `|`, `~`.

What is written needs `torch`, and the whole numbers `queries` and `keys`; a predicate is written over `b`, `q_idx` and
`kv_idx`, as FlexAttention calls them. Every name that it makes holds True = may attend.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from attnviz.core.errors import MaskError
from attnviz.core.masks.base import And, Mask, Not, Or, Shifted
from attnviz.core.masks.symbols import Symbol, plus

LITERAL = 64 * 64
"""Up to how many cells a rule that has no idiom is written out, cell by cell."""

QUERIES, KEYS = (f"torch.arange({number}, device=query.device)" for number in ("queries", "keys"))

GRID, ROW, PREDICATE = "grid", "row", "predicate"
"""Over all queries and keys, (Q, K), (B, 1, 1, K) or (B, 1, Q, K); over keys alone, (K,) or (B, K); over one cell."""


class Part(NamedTuple):
    """An expression, and which of the axes B, Q and K its value depends on."""

    text: str
    axes: frozenset[str]
    loose: bool = False
    """Whether it needs parentheses beside &, | and ~."""
    opposite: str = ""
    """What it denies, if it does."""

    @property
    def tight(self) -> str:
        return f"({self.text})" if self.loose else self.text

    @property
    def called(self) -> str:
        """With parentheses where a method follows."""
        return f"({self.text})" if self.loose or self.opposite else self.text

    @property
    def denied(self) -> str:
        """The opposite, without a double ~."""
        return self.opposite or f"~{self.tight}"


@dataclass
class Writer:
    """Writes masks for queries and keys of given numbers, in one style; collects the lines that must come first."""

    queries: int
    keys: int
    style: str = GRID
    lines: list[str] = field(default_factory=list)
    written: dict[tuple[Mask, int], Part] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)

    def write(self, mask: Mask) -> Part:
        """The expression of a mask; what it needs is in `lines` afterwards.

        Raises:
            MaskError: for a rule without an idiom that is too large to be written out.
        """
        part = self._tree(mask, 0, alone=_is_one_rule(mask))
        if self.style != PREDICATE:
            numbers = (f"i = {QUERIES}[:, None]  # queries down, keys across", f"j = {KEYS}")
            used = "\n".join([*self.lines, part.text])
            self.lines[:0] = [line for line in numbers if re.search(rf"\b{line[0]}\b", used)]
        return part

    def _tree(self, mask: Mask, shift: int, alone: bool) -> Part:
        match mask:
            case And(masks) | Or(masks):
                sign = " & " if isinstance(mask, And) else " | "
                parts = list(dict.fromkeys(self._tree(inner, shift, alone) for inner in masks))
                if len(parts) == 1:
                    return parts[0]
                return Part(sign.join(part.tight for part in parts), frozenset().union(*(p.axes for p in parts)), True)
            case Not(inner):
                part = self._tree(inner, shift, alone)
                return Part(part.denied, part.axes, loose=bool(part.opposite), opposite=part.text)
            case Shifted(inner, offset):
                return self._tree(inner, shift + offset, alone)
        if (mask, shift) not in self.written:
            self.written[mask, shift] = self._rule(mask, shift, alone)
        return self.written[mask, shift]

    def _rule(self, mask: Mask, shift: int, alone: bool) -> Part:
        """One rule: where several are joined and it is no predicate, a line of its own that gives it a name."""
        name = {"global": "global_tokens"}.get(getattr(mask, "rule", ""), getattr(mask, "rule", "other"))
        self.taken[name] = self.taken.get(name, 0) + 1
        number = f"_{self.taken[name]}" if self.taken[name] > 1 else ""
        name += number
        part = mask.code(Pen(self, shift, name, number)) or self._cells(mask, shift, name)
        if alone or self.style == PREDICATE or part.text == name:
            return part
        self.lines.append(f"{name} = {part.text}")
        return Part(name, part.axes)

    def _cells(self, mask: Mask, shift: int, name: str) -> Part:
        """A rule without an idiom, written out cell by cell."""
        if self.queries * self.keys > LITERAL:
            raise MaskError(
                f"The rule '{mask}' has no short code, and {self.queries:,} x {self.keys:,} cells are too many to be "
                f"written out (the most is {LITERAL:,}). Take its tensor: mask.tensor({self.queries}, {self.keys})."
            )
        batch = mask.batch_size
        tensor = mask.shifted(shift).tensor(self.queries, self.keys)
        sentences = [_rows(sentence) for sentence in tensor[:, 0].int().tolist()]
        written = f"[{', '.join(sentences)}]" if batch else sentences[0]
        self.lines += [
            f"# '{mask}' has no short formula: cell by cell, for {self.queries} queries and {self.keys} keys.",
            f"{name} = torch.tensor({written}, device=query.device).bool(){'[:, None]' if batch else ''}",
        ]
        axes = frozenset("BQK" if batch else "QK")
        if self.style == PREDICATE:
            return Part(f"{name}[{'b, 0, ' if batch else ''}q_idx, kv_idx]", axes)
        return Part(name, axes)


@dataclass(frozen=True)
class Pen:
    """What a rule is written with: the style, the places of its queries and keys, and lines before it.

    Attributes:
        writer: of the whole mask.
        shift: by how many positions its queries are further on; see `Mask.shifted`.
        name: what a line of the rule is called.
        number: what other names of it end in, where the rule comes twice.
    """

    writer: Writer
    shift: int
    name: str
    number: str

    @property
    def style(self) -> str:
        return self.writer.style

    @property
    def query(self) -> Symbol:
        """The number of a query, (Q, 1) where it is no predicate."""
        return Symbol("q_idx" if self.style == PREDICATE else "i", frozenset("Q")) + self.shift

    @property
    def key(self) -> Symbol:
        """The number of a key, (K,) where it is no predicate."""
        return Symbol("kv_idx" if self.style == PREDICATE else "j", frozenset("K"))

    @property
    def lone_key(self) -> str:
        """The numbers of the keys where no query stands beside them."""
        return "kv_idx" if self.style == PREDICATE else KEYS

    def traced(self, mask: Mask) -> Part:
        """The predicate of a rule as it prints itself."""
        found = mask.allows(self.query, self.key, Symbol("b", frozenset("B")))
        return Part(found.text, found.axes, found.is_loose)

    def over_keys(self, text: str) -> Part:
        """What is the same for every query and every sentence."""
        if self.style == GRID:
            return Part(f"({text}).expand(queries, keys)", frozenset("K"))
        return Part(text, frozenset("K"), True)

    def band(self, lowest: str | None, highest: str) -> Part:
        """The cells whose key - query is from `lowest` to `highest`."""
        if self.style != PREDICATE:
            above = "" if lowest is None else f".triu({_argument(lowest)})"
            return Part(
                f"torch.ones(queries, keys, dtype=torch.bool, device=query.device){above}.tril({_argument(highest)})",
                frozenset("QK"),
            )
        upper = f"kv_idx <= {plus('q_idx', highest)}"
        text = upper if lowest is None else f"(kv_idx >= {plus('q_idx', lowest)}) & ({upper})"
        return Part(text, frozenset("QK"), True)

    def diagonal(self, offset: int) -> str:
        """A number, or the difference of the lengths where it is that: then the code holds for other lengths too."""
        offset += self.shift
        return "keys - queries" if offset and offset == self.writer.keys - self.writer.queries else str(offset)

    def line(self, name: str, text: str) -> str:
        """A line before, under a name that is given back."""
        name += self.number
        self.writer.lines.append(f"{name} = {text}")
        return name

    def numbers(self, name: str, numbers: Iterable[int], then: str = "") -> str:
        """A line with whole numbers, under a name that is given back."""
        listed = list(numbers)
        dtype = "" if listed else ", dtype=torch.int64"
        return self.line(name, f"torch.tensor({listed}{dtype}, device=query.device){then}")

    def of_queries(self, name: str, of: Callable[[str], str]) -> str:
        """What `of` makes of the positions of the queries, (Q, 1)."""
        found = self.line(name, of(plus(QUERIES, str(self.shift))))
        return f"{found}[q_idx]" if self.style == PREDICATE else f"{found}[:, None]"

    def looked_up(self, name: str, of: Callable[[str], str]) -> tuple[str, str]:
        """What `of` makes of the positions of the queries, (Q, 1), and of the keys, (K,); one line if they are alike.

        Args:
            of: takes code for positions, and gives code for what belongs to each.
        """
        if self.writer.queries == self.writer.keys and not self.shift:
            ours = theirs = self.line(name, of(KEYS))
        else:
            ours = self.line(f"query_{name}", of(plus(QUERIES, str(self.shift))))
            theirs = self.line(f"key_{name}", of(KEYS))
        return (f"{ours}[q_idx]", f"{theirs}[kv_idx]") if self.style == PREDICATE else (f"{ours}[:, None]", theirs)


def in_rows(mask: Mask, queries: int, keys: int) -> bool:
    """Whether the mask is written without looking at the query, so that it holds for any number of queries."""
    return "Q" not in Writer(queries, keys).write(mask).axes


def _is_one_rule(mask: Mask) -> bool:
    while isinstance(mask, Not | Shifted):
        mask = mask.mask
    return not isinstance(mask, And | Or)


def _argument(number: str) -> str:
    return "" if number == "0" else number


def _rows(rows: list[list[int]]) -> str:
    return f"[{', '.join(str(row).replace(' ', '') for row in rows)}]"
