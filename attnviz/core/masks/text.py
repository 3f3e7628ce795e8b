"""Parse masks from text, in the syntax of links, the shell, lessons and Python: ``causal & (window(4) | global(0))``.

``~`` (not) binds closer than ``&``, and ``&`` closer than ``|``. Parameters are given by position or by name,
``window(2, after=1)``; a list takes all positional numbers, ``documents(3, 5)``, or is in brackets,
``padding([5, 3], 7)``. Cells are written query:key, ``blocked(3:0, 4-6:0-2)``. `Mask.text` writes this syntax.
A `Stack` is a mask as a list of rules, joined one after the other; in its text a rule may be off: ``off: window(4)``.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import and_, or_
from typing import Any, NoReturn

from attnviz.core.errors import MaskError, did_you_mean, quoted
from attnviz.core.masks.base import KEYWORDS, Mask, operand
from attnviz.core.parameters import Parameter

DEEPEST = 32
LARGEST = 100_000
"""Limits of a text: levels of nesting; size of a number, and number of listed cells."""

SPACES = re.compile(r"\s*", re.ASCII)

SIGNS = {"and": "&", "or": "|", "not": "~"}

JOINS = ("and", "or")
NONE = "none"
"""The text of a stack without entries."""
MOST = 24
"""Maximum number of entries, so that the mask is not nested deeper than the text parser allows."""


@dataclass(frozen=True)
class Node:
    """A node of the syntax tree: an operator and its operands.

    Attributes:
        kind: "and", "or", "not" or "off"; "off" is allowed only in the rule list of the app.
        parts: operands.
        start: index of the first character in the text.
    """

    kind: str
    parts: "tuple[Node | Mask, ...]"
    start: int


def mask_from_text(text: str) -> Mask:
    """Parse a mask from text: "causal & window(4)", "~(prefix(3) | window(2, 1))".

    Raises:
        MaskError: if the text cannot be parsed; the message has the position of the error and a suggestion.
    """
    reader = MaskParser(text)
    return reader.mask(reader.tree())


def form(rule: type[Mask]) -> str:
    """Write the signature of a rule: "window(before, after=0)"."""
    names = []
    for parameter in rule.parameters():
        name = parameter.name if parameter.required else f"{parameter.name}={parameter.default}"
        names.append({"numbers": f"{name}, ...", "cells": "query:key, ..."}.get(parameter.kind, name))
    if any(parameter.required or parameter.kind == "cells" for parameter in rule.parameters()):
        return f"{rule.keyword}({', '.join(names)})"
    return f"{rule.keyword} or {rule.keyword}({', '.join(names)})" if names else rule.keyword


class MaskParser:
    """Recursive-descent parser of one text.

    Attributes:
        index: index of the next character.
        cells: number of cells listed so far.
    """

    def __init__(self, text: str):
        self.text, self.index, self.cells = text, 0, 0

    def tree(self) -> Node | Mask:
        """Parse the whole text into a tree; raise MaskError if it cannot be parsed."""
        if self.text.lstrip().startswith("{"):
            raise MaskError("A mask is not read as JSON any more; write it as text, such as causal & window(4).")
        tree = self._either(0)
        if rest := self._take(r"\w+|\S"):
            hint = f" Write {SIGNS[rest]} for it." if rest in SIGNS else " Rules are joined by & and |."
            self._refuse(f"{quoted(rest)} cannot stand here", self.index - len(rest), hint)
        return tree

    def mask(self, tree: Node | Mask) -> Mask:
        """Convert a tree to a mask; raise MaskError if a rule is off, or masks have different numbers of sentences."""
        if isinstance(tree, Mask):
            return tree
        if tree.kind == "off":
            self._refuse("only a rule of the app's list can be off", tree.start)
        parts = map(self.mask, tree.parts)
        if tree.kind == "not":
            return ~next(parts)
        return reduce(and_ if tree.kind == "and" else or_, parts)

    def _either(self, depth: int) -> Node | Mask:
        """Parse operands joined by "&" and "|", within `depth` parentheses or negations."""
        return self._join("or", lambda: self._join("and", lambda: self._operand(depth)))

    def _join(self, kind: str, parse_part: Callable[[], Node | Mask]) -> Node | Mask:
        """Parse one part, or several with the sign of "and" or "or" between them."""
        start, parts = self._start(), [parse_part()]
        while self._take(re.escape(SIGNS[kind])):
            parts.append(parse_part())
        return Node(kind, tuple(parts), start) if len(parts) > 1 else parts[0]

    def _operand(self, depth: int) -> Node | Mask:
        """Parse a rule, a mask in parentheses, or an operand after "~" or "off:"."""
        start = self._start()
        if depth > DEEPEST:
            self._refuse(f"the mask is nested more than {DEEPEST} deep", start)
        if sign := self._take(r"off\s*:|~"):
            return Node("not" if sign == "~" else "off", (self._operand(depth + 1),), start)
        if self._take(r"\("):
            inner = self._either(depth + 1)
            if not self._take(r"\)"):
                self._refuse(f"the parenthesis that opens at character {start + 1} is not closed")
            return inner
        name = self._take(r"[A-Za-z_]\w*")
        if not name:
            self._refuse("a rule is missing; write one, such as causal or window(2)")
        if name == "shifted":
            return self._shift(depth)
        if name not in KEYWORDS:
            names = sorted({rule.keyword for rule in KEYWORDS.values()})
            near = f" Write {SIGNS[name]} for it." if name in SIGNS else did_you_mean(name, names)
            self._refuse(f"there is no rule {quoted(name)}", start, near or f" There are: {', '.join(names)}.")
        return self._rule(KEYWORDS[name], start)

    def _shift(self, depth: int) -> Mask:
        """Parse a shifted mask after the word "shifted": "shifted(window(2), 3)"."""
        inner = self._either(depth + 1) if self._take(r"\(") else None
        offset = self._take(r",\s*-?\d{1,6}\s*\)") if inner else ""
        if not offset:
            self._refuse("a mask and a number of positions are missing; write shifted(window(2), 3)")
        return self.mask(inner).shifted(int(offset.strip(",) ")))

    def _rule(self, rule: type[Mask], start: int) -> Mask:
        """Parse the parameters of a rule."""
        values: dict[str, Any] = {}
        is_open = bool(self._take(r"\("))
        while is_open and not self._take(r"\)"):
            self._argument(rule, values)
            if not self._take(","):
                is_open = False
                if not self._take(r"\)"):
                    self._refuse(f"a comma or a parenthesis is missing; write {form(rule)}")
        if missing := [p.name for p in rule.parameters() if p.required and p.name not in values]:
            self._refuse(f"{quoted(rule.keyword)} needs {quoted(missing[0])}; write {form(rule)}", start)
        try:
            return rule(**values)
        except MaskError as error:
            self._refuse(str(error).rstrip("."), start)

    def _argument(self, rule: type[Mask], values: dict[str, Any]) -> None:
        """Parse the next parameter, by position or by name. A list grows as a list; a finished list is a tuple."""
        start = self._start()
        name = self._take(r"[A-Za-z_]\w*(?=\s*=)")
        free = [parameter for parameter in rule.parameters() if isinstance(values.get(parameter.name, []), list)]
        parameter = next((parameter for parameter in free if name in ("", parameter.name)), None)
        if parameter is None:
            near = did_you_mean(name, [parameter.name for parameter in free]) if name else ""
            self._refuse(f"{quoted(rule.keyword)} does not take this; write {form(rule)}", start, near)
        if name:
            self._take("=")
        if parameter.kind == "number":
            values[parameter.name] = self._number(parameter)
        elif parameter.kind == "numbers" and self._take(r"\["):
            numbers = []
            while not self._take("]"):
                numbers.append(self._number(parameter))
                self._take(",")
            values[parameter.name] = tuple(numbers)
        else:
            items = self._cells() if parameter.kind == "cells" else [self._number(parameter)]
            values.setdefault(parameter.name, []).extend(items)

    def _number(self, parameter: Parameter) -> int | None:
        """Parse an integer within the bounds of a parameter; None for the word "None" if that is allowed."""
        start = self._start()
        if not parameter.needed and self._take("None"):
            return None
        digits = self._take(r"-?\d+")
        if not digits or len(digits) > 7 or not parameter.least <= int(digits) <= LARGEST:
            wrong = digits or self._take(r"[^,()\[\]]*")
            value = quoted(wrong, 20) if wrong else "missing"
            bounds = f"a whole number from {parameter.least:,} to {LARGEST:,}"
            self._refuse(f"{quoted(parameter.name)} is {value}; it must be {bounds}", start)
        return int(digits)

    def _cells(self) -> Iterable[tuple[int, int]]:
        """Parse one cell or a rectangle of cells: "3:0", "4-6:0-2"."""
        start = self._start()
        box = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?:(\d{1,5})(?:-(\d{1,5}))?", self._take(r"[\d:-]+"))
        if not box:
            self._refuse("cells are written query:key, such as 3:0 or, for several, 4-6:0-2", start)
        top, left = int(box[1]), int(box[3])
        queries, keys = range(top, int(box[2] or top) + 1), range(left, int(box[4] or left) + 1)
        self.cells += len(queries) * len(keys)
        if not queries or not keys or self.cells > LARGEST:
            self._refuse(f"{quoted(box[0])} holds no cell, or there are more than {LARGEST:,}", start)
        return product(queries, keys)

    def _take(self, pattern: str) -> str:
        """Consume the next characters, after spaces, if they match a pattern; else return ""."""
        match = re.compile(rf"\s*({pattern})", re.ASCII).match(self.text, self.index)
        self.index = match.end() if match else self.index
        return match[1] if match else ""

    def _start(self) -> int:
        """Return the index of the next character that is not a space."""
        return SPACES.match(self.text, self.index).end()

    def _refuse(self, why: str, index: int | None = None, hint: str = "") -> NoReturn:
        """Raise MaskError with the character at an index, by default the next one, and the reason."""
        index = self._start() if index is None else index
        raise MaskError(f"Character {index + 1} of the mask {quoted(self.text, 60)}: {why}.{hint}") from None


@dataclass(frozen=True)
class Entry:
    """One rule of a stack.

    Attributes:
        mask: a rule, or a mask joined from several rules.
        join: "and" or "or", the operator between all entries before this one and this one; ignored for the first entry
            that is on.
        negated: whether the mask is negated.
        on: whether the entry is part of the mask of the stack.
    """

    mask: Mask
    join: str = "and"
    negated: bool = False
    on: bool = True

    @property
    def text(self) -> str:
        """The rule as text; with "off:" before it if the entry is off."""
        text = operand(self.mask)
        if self.negated:
            text = f"~{text}"
        return text if self.on else f"off: {text}"


@dataclass(frozen=True)
class Stack:
    """Entries joined from first to last, without operator precedence: ((a join b) join c) join d.

    Raises:
        MaskError: if there are more than `MOST` entries, or if masks are for different numbers of sentences.
    """

    entries: tuple[Entry, ...] = ()

    def __post_init__(self):
        if len(self.entries) > MOST:
            raise MaskError(f"A stack has at most {MOST} entries; given {len(self.entries)}.")
        self.mask()

    def mask(self) -> Mask | None:
        """The joined mask of all entries that are on; None if all are off."""
        mask = None
        for entry in (entry for entry in self.entries if entry.on):
            rule = ~entry.mask if entry.negated else entry.mask
            if mask is not None:
                rule = mask | rule if entry.join == "or" else mask & rule
            mask = rule
        return mask

    @property
    def text(self) -> str:
        """The stack as text for `stack_from_text`: "(causal | prefix(3)) & off: ~window(2)", or "none".

        The text omits the join of the first entry; parsing it gives the default join of the rule.
        """
        text, last_join = "", "and"
        for entry in self.entries:
            if text and entry.join == "and" and last_join == "or":
                text = f"({text})"
            last_join = entry.join if text else "and"
            text = f"{text} {SIGNS[entry.join]} {entry.text}" if text else entry.text
        return text or NONE

    def added(self, entry: Entry) -> "Stack":
        """Return a stack with an entry appended."""
        return Stack((*self.entries, entry))

    def removed(self, index: int) -> "Stack":
        """Return a stack without one entry."""
        self._check(index)
        return Stack(self.entries[:index] + self.entries[index + 1 :])

    def moved(self, index: int, to: int) -> "Stack":
        """Return a stack with one entry moved to another index; all others keep their order."""
        self._check(index), self._check(to)
        others = self.removed(index).entries
        return Stack((*others[:to], self.entries[index], *others[to:]))

    def replaced(self, index: int, entry: Entry) -> "Stack":
        """Return a stack with one entry replaced."""
        self._check(index)
        return Stack((*self.entries[:index], entry, *self.entries[index + 1 :]))

    def _check(self, index: int) -> None:
        """Raise MaskError unless there is an entry with this index."""
        if not 0 <= index < len(self.entries):
            raise MaskError(f"There is no entry {index}; there are {len(self.entries)}, counted from 0.")


def stack_from_text(text: str) -> Stack:
    """Parse a stack: the text of a mask in which rules may be "off:"; nested parts become masks of single entries.

    Raise MaskError as `mask_from_text`, and if there are too many entries.
    """
    if text.strip() == NONE:
        return Stack()
    reader = MaskParser(text)
    return Stack(tuple(_entries(reader, reader.tree())))


def _entries(reader: MaskParser, tree: Node | Mask) -> list[Entry]:
    """Convert a parsed text to entries by following its first operands: ((a & b) | c) becomes a, b, c."""
    if isinstance(tree, Node) and tree.kind in JOINS:
        first, *rest = tree.parts
        return [*_entries(reader, first), *(_entry(reader, part, tree.kind) for part in rest)]
    return [_entry(reader, tree)]


def _entry(reader: MaskParser, tree: Node | Mask, join: str = "") -> Entry:
    """Convert one node of the parsed text to an entry; without `join`, with the default join of its rule."""
    flags = set()
    for flag in ("off", "not"):
        if isinstance(tree, Node) and tree.kind == flag:
            flags.add(flag)
            tree = tree.parts[0]
    mask = reader.mask(tree)
    return Entry(mask, join or mask.join, "not" in flags, "off" not in flags)
