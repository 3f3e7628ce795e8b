"""A mask written as lines of plain PyTorch that a person can paste: each rule in its idiom, joined by `&`, `|`, `~`.

What is written needs `torch`, and the whole numbers `queries` and `keys`; a predicate is written over `b`, `q_idx` and
`kv_idx`, as FlexAttention calls them. Every name that it makes holds True = may attend.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from attnviz.core.errors import MaskError
from attnviz.core.masks import (
    And,
    Blocks,
    Dilated,
    Documents,
    Full,
    Global,
    Mask,
    Not,
    Opened,
    Or,
    Padding,
    Painted,
    Prefix,
    Shifted,
    Strided,
    Subsequent,
    Window,
)

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
        part = self._idiom(mask, shift, name, number) or self._cells(mask, shift, name)
        if alone or self.style == PREDICATE or part.text == name:
            return part
        self.lines.append(f"{name} = {part.text}")
        return Part(name, part.axes)

    def _idiom(self, mask: Mask, shift: int, name: str, number: str) -> Part | None:
        """How people write a rule, under its name or with names that end in its number; None if there is no idiom."""
        match mask:
            case Full():
                return self._over_keys(
                    {GRID: "torch.ones(queries, keys, dtype=torch.bool, device=query.device)"}.get(self.style, "")
                )
            case Prefix(length):
                return self._over_keys(f"{self._key(True)} < {length}")
            case Padding(lengths, left):
                return self._padding(lengths, left, f"lengths{number}")
            case Subsequent(offset):
                return self._band(None, self._diagonal(offset + shift), shift)
            case Window(before, after):
                return self._band(str(shift - before), str(shift + after), shift)
            case Documents(lengths):
                return self._documents(lengths, shift, number)
            case Global(positions):
                return self._global(positions, shift, number)
            case Painted(cells) | Opened(cells):
                return self._painted(cells, shift, name, isinstance(mask, Opened))
        return self._arithmetic(mask, shift)

    def _over_keys(self, text: str) -> Part:
        """What is the same for every query and every sentence."""
        if not text:
            return Part(f"{self._key(True)} >= 0", frozenset("K"), True)
        if self.style == GRID and "queries" not in text:
            return Part(f"({text}).expand(queries, keys)", frozenset("K"))
        return Part(text, frozenset("K"), " < " in text)

    def _padding(self, lengths: tuple[int, ...], left: int | None, name: str) -> Part:
        axis = {GRID: "[:, None, None, None]", ROW: "[:, None]", PREDICATE: "[b]"}[self.style]
        self.lines.append(f"{name} = {_numbers(lengths)}")
        compared = f"< {name}{axis}" if left is None else f">= {left} - {name}{axis}"
        return Part(f"{self._key(True)} {compared}", frozenset("BK"), True)

    def _band(self, lowest: str | None, highest: str, shift: int) -> Part:
        """The cells whose key - query is from `lowest` to `highest`."""
        if self.style != PREDICATE:
            above = "" if lowest is None else f".triu({_argument(lowest)})"
            return Part(
                f"torch.ones(queries, keys, dtype=torch.bool, device=query.device){above}.tril({_argument(highest)})",
                frozenset("QK"),
            )
        upper = f"kv_idx <= {_plus('q_idx', highest)}"
        text = upper if lowest is None else f"(kv_idx >= {_plus('q_idx', lowest)}) & ({upper})"
        return Part(text, frozenset("QK"), True)

    def _documents(self, lengths: tuple[int, ...], shift: int, number: str) -> Part:
        """By the number of the document that each position is in; positions beyond the last are in none."""
        ends, ours, theirs = f"ends{number}", f"query_document{number}", f"key_document{number}"
        self.lines.append(f"{ends} = {_numbers(lengths)}.cumsum(0)  # where each document ends")
        if self.queries == self.keys and not shift:
            ours = theirs = f"document{number}"
        else:
            positions = _plus(QUERIES, str(shift))
            self.lines.append(f"{ours} = torch.bucketize({positions}, {ends}, right=True)")
        self.lines.append(f"{theirs} = torch.bucketize({KEYS}, {ends}, right=True)")
        query, key = self._looked_up(ours, theirs)
        limits = [f" & ({key} < {len(lengths)})"] if sum(lengths) < self.keys else []
        limits += [f" & ({self._query(shift)} >= 0)"] if shift < 0 else []
        same = f"{query} == {key}"
        return Part(f"({same}){''.join(limits)}" if limits else same, frozenset("QK"), True)

    def _global(self, positions: tuple[int, ...], shift: int, number: str) -> Part:
        name, ours, theirs = f"positions{number}", f"global_queries{number}", f"global_keys{number}"
        self.lines += [
            f"{name} = {_numbers(positions)}",
            f"{ours} = torch.isin({_plus(QUERIES, str(shift))}, {name})",
            f"{theirs} = torch.isin({KEYS}, {name})",
        ]
        return Part(" | ".join(self._looked_up(ours, theirs)), frozenset("QK"), True)

    def _painted(self, cells: tuple[tuple[int, int], ...], shift: int, name: str, opened: bool) -> Part:
        inside = [(q - shift, k) for q, k in cells if 0 <= q - shift < self.queries and 0 <= k < self.keys]
        start = "zeros" if opened else "ones"
        self.lines.append(f"{name} = torch.{start}(queries, keys, dtype=torch.bool, device=query.device)")
        if inside:
            queries, keys = (list(side) for side in zip(*inside, strict=True))
            self.lines.append(f"{name}[{queries}, {keys}] = {opened}")
        return Part(f"{name}[q_idx, kv_idx]" if self.style == PREDICATE else name, frozenset("QK"))

    def _arithmetic(self, mask: Mask, shift: int) -> Part | None:
        """The rules that are arithmetic of a query's and a key's number."""
        query, key = self._query(shift), self._key(False)
        match mask:
            case Dilated(before, after, step):
                distance = f"({key} - {query})"
                near = f"({distance} >= {-before * step}) & ({distance} <= {after * step})"
                return Part(f"{near} & ({distance} % {step} == 0)", frozenset("QK"), True)
            case Strided(stride):
                distance = f"({query} - {key})"
                seen = f"({distance} <= {stride}) | ({distance} % {stride} == 0)"
                return Part(f"({distance} >= 0) & ({seen})", frozenset("QK"), True)
            case Blocks(size, before, after, first):
                looking, seen = f"{query} // {size}", f"{key} // {size}"
                near = f"({seen} >= {_plus(looking, str(-before))}) & ({seen} <= {_plus(looking, str(after))})"
                if first:
                    near = f"({near}) | ({seen} < {first}) | (({looking} >= 0) & ({looking} < {first}))"
                return Part(near, frozenset("QK"), True)
        return None

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

    def _looked_up(self, ours: str, theirs: str) -> tuple[str, str]:
        if self.style == PREDICATE:
            return f"{ours}[q_idx]", f"{theirs}[kv_idx]"
        return f"{ours}[:, None]", theirs

    def _query(self, shift: int) -> str:
        name = _plus("q_idx" if self.style == PREDICATE else "i", str(shift))
        return f"({name})" if shift else name

    def _key(self, by_itself: bool) -> str:
        if self.style == PREDICATE:
            return "kv_idx"
        return KEYS if by_itself else "j"

    def _diagonal(self, offset: int) -> str:
        """A number, or the difference of the lengths where it is that: then the code holds for other lengths too."""
        return "keys - queries" if offset and offset == self.keys - self.queries else str(offset)


def in_rows(mask: Mask, queries: int, keys: int) -> bool:
    """Whether the mask is written without looking at the query, so that it holds for any number of queries."""
    return "Q" not in Writer(queries, keys).write(mask).axes


def _is_one_rule(mask: Mask) -> bool:
    while isinstance(mask, Not | Shifted):
        mask = mask.mask
    return not isinstance(mask, And | Or)


def _numbers(numbers: Iterable[int]) -> str:
    listed = list(numbers)
    return f"torch.tensor({listed}{'' if listed else ', dtype=torch.int64'}, device=query.device)"


def _plus(text: str, number: str) -> str:
    if number == "0":
        return text
    return f"{text} - {number[1:]}" if number.startswith("-") else f"{text} + {number}"


def _argument(number: str) -> str:
    return "" if number == "0" else number


def _rows(rows: list[list[int]]) -> str:
    return f"[{', '.join(str(row).replace(' ', '') for row in rows)}]"
