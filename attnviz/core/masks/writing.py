"""A mask written as lines of plain PyTorch that a person can paste: each rule in its idiom, joined by `&`, `|`, `~`.

What is written needs `torch`, and the whole numbers `queries` and `keys`; a predicate is written over `b`, `q_idx` and
`kv_idx`, as FlexAttention calls them. Every name that it makes holds True = may attend.
"""

import re
from dataclasses import dataclass, field

from attnviz.core.errors import MaskError
from attnviz.core.masks.base import And, Mask, Not, Or, Shifted
from attnviz.core.masks.pen import GRID, KEYS, PREDICATE, QUERIES, Expression, Pen

LITERAL = 64 * 64
"""Up to how many cells a rule that has no idiom is written out, cell by cell."""


@dataclass
class MaskWriter:
    """Writes masks for queries and keys of given numbers, in one style; collects the lines that must come first."""

    queries: int
    keys: int
    style: str = GRID
    lines: list[str] = field(default_factory=list)
    written: dict[tuple[Mask, int], Expression] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)

    def write(self, mask: Mask) -> Expression:
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

    def _tree(self, mask: Mask, shift: int, alone: bool) -> Expression:
        match mask:
            case And(masks) | Or(masks):
                sign = " & " if isinstance(mask, And) else " | "
                parts = list(dict.fromkeys(self._tree(inner, shift, alone) for inner in masks))
                if len(parts) == 1:
                    return parts[0]
                return Expression(
                    sign.join(part.tight for part in parts), frozenset().union(*(p.axes for p in parts)), True
                )
            case Not(inner):
                part = self._tree(inner, shift, alone)
                return Expression(part.denied, part.axes, loose=bool(part.opposite), opposite=part.text)
            case Shifted(inner, offset):
                return self._tree(inner, shift + offset, alone)
        if (mask, shift) not in self.written:
            self.written[mask, shift] = self._rule(mask, shift, alone)
        return self.written[mask, shift]

    def _rule(self, mask: Mask, shift: int, alone: bool) -> Expression:
        """One rule: where several are joined and it is no predicate, a line of its own that gives it a name."""
        name = getattr(mask, "keyword", "other")
        name = "global_tokens" if name == "global" else name
        self.taken[name] = self.taken.get(name, 0) + 1
        number = f"_{self.taken[name]}" if self.taken[name] > 1 else ""
        name += number
        part = mask.code(Pen(self.style, self.queries, self.keys, self.lines, shift, name, number)) or self._cells(
            mask, shift, name
        )
        if alone or self.style == PREDICATE or part.text == name:
            return part
        self.lines.append(f"{name} = {part.text}")
        return Expression(name, part.axes)

    def _cells(self, mask: Mask, shift: int, name: str) -> Expression:
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
            return Expression(f"{name}[{'b, 0, ' if batch else ''}q_idx, kv_idx]", axes)
        return Expression(name, axes)


def in_rows(mask: Mask, queries: int, keys: int) -> bool:
    """Whether the mask is written without looking at the query, so that it holds for any number of queries."""
    return "Q" not in MaskWriter(queries, keys).write(mask).axes


def _is_one_rule(mask: Mask) -> bool:
    while isinstance(mask, Not | Shifted):
        mask = mask.mask
    return not isinstance(mask, And | Or)


def _rows(rows: list[list[int]]) -> str:
    return f"[{', '.join(str(row).replace(' ', '') for row in rows)}]"
