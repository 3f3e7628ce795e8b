"""Parse masks from text, in the syntax of links, the shell, lessons and Python: ``causal & (window(4) | global(0))``.

``~`` (not) binds closer than ``&``, and ``&`` closer than ``|``. Parameters are given by position or by name,
``window(2, after=1)``; a list takes all positional numbers, ``documents(3, 5)``, or is in brackets,
``padding([5, 3], 7)``. Cells are written query:key, ``blocked(3:0, 4-6:0-2)``. `Mask.text` writes this syntax.
A `Stack` is a mask as a list of rules, joined one after the other; in its text a rule may be off: ``off: window(4)``.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial, reduce
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
        kind: operator: "and", "or", "not" or "off"; "off" is allowed only in the text of a `Stack`.
        operands: nodes, or masks of single rules.
        start: index of the first character in the text.
    """

    kind: str
    operands: "tuple[Node | Mask, ...]"
    start: int


def mask_from_text(text: str) -> Mask:
    """Parse a mask from text: "causal & window(4)", "~(prefix(3) | window(2, 1))".

    Raises:
        MaskError: if the text cannot be parsed; the message has the position of the error and a suggestion.
    """
    parser = MaskParser(text)
    return parser.mask(parser.tree())


def form(rule: type[Mask]) -> str:
    """Write how the text of a rule looks: "window(before, after=0)", "documents(lengths, ...)", "full"."""
    arguments, needs_arguments = [], False
    for parameter in rule.parameters():
        name = parameter.name if parameter.required else f"{parameter.name}={parameter.default}"
        arguments.append({"numbers": f"{name}, ...", "cells": "query:key, ..."}.get(parameter.kind, name))
        needs_arguments |= parameter.required or parameter.kind == "cells"
    text = f"{rule.keyword}({', '.join(arguments)})" if arguments else rule.keyword
    return text if needs_arguments or not arguments else f"{rule.keyword} or {text}"


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
        tree = self._expression(0)
        if word := self._take(r"\w+|\S"):
            hint = f" Write {SIGNS[word]} for it." if word in SIGNS else " Rules are joined by & and |."
            self._refuse(f"{quoted(word)} cannot stand here", self.index - len(word), hint)
        return tree

    def mask(self, tree: Node | Mask) -> Mask:
        """Convert a tree to a mask; raise MaskError if a rule is off, or masks are for different batch sizes."""
        if isinstance(tree, Mask):
            return tree
        if tree.kind == "off":
            self._refuse("only a rule of the app's list can be off", tree.start)
        masks = [self.mask(operand) for operand in tree.operands]
        if tree.kind == "not":
            return ~masks[0]
        return reduce(and_ if tree.kind == "and" else or_, masks)

    def _expression(self, depth: int) -> Node | Mask:
        """Parse operands joined by "&" and "|", within `depth` parentheses or negations."""
        return self._parse_joined("or", partial(self._parse_joined, "and", partial(self._operand, depth)))

    def _parse_joined(self, kind: str, parse_operand: Callable[[], Node | Mask]) -> Node | Mask:
        """Parse one operand, or several operands joined by "&" (kind "and") or by "|" (kind "or")."""
        start, operands = self._start(), [parse_operand()]
        while self._take(re.escape(SIGNS[kind])):
            operands.append(parse_operand())
        return Node(kind, tuple(operands), start) if len(operands) > 1 else operands[0]

    def _operand(self, depth: int) -> Node | Mask:
        """Parse a rule, a mask in parentheses, or an operand after "~" or "off:"."""
        start = self._start()
        if depth > DEEPEST:
            self._refuse(f"the mask is nested more than {DEEPEST} deep", start)
        if sign := self._take(r"off\s*:|~"):
            return Node("not" if sign == "~" else "off", (self._operand(depth + 1),), start)
        if self._take(r"\("):
            tree = self._expression(depth + 1)
            if not self._take(r"\)"):
                self._refuse(f"the parenthesis that opens at character {start + 1} is not closed")
            return tree
        name = self._take(r"[A-Za-z_]\w*")
        if not name:
            self._refuse("a rule is missing; write one, such as causal or window(2)")
        if name == "shifted":
            return self._shift(depth)
        if name not in KEYWORDS:
            names = sorted({rule.keyword for rule in KEYWORDS.values()})
            hint = f" Write {SIGNS[name]} for it." if name in SIGNS else did_you_mean(name, names)
            self._refuse(f"there is no rule {quoted(name)}", start, hint or f" Available rules: {', '.join(names)}.")
        return self._rule(KEYWORDS[name], start)

    def _shift(self, depth: int) -> Mask:
        """Parse the rest of a shifted mask after the word "shifted": "(window(2), 3)"."""
        tree = self._expression(depth + 1) if self._take(r"\(") else None
        offset = self._take(r",\s*-?\d{1,6}\s*\)") if tree else ""
        if not offset:
            self._refuse("a mask and a number of positions are missing; write shifted(window(2), 3)")
        return self.mask(tree).shifted(int(offset.strip(",) ")))

    def _rule(self, rule: type[Mask], start: int) -> Mask:
        """Parse the arguments of a rule in parentheses, if there are any, and create the rule."""
        values: dict[str, Any] = {}
        if self._take(r"\("):
            while not self._take(r"\)"):
                self._argument(rule, values)
                if not self._take(",") and not self.text.startswith(")", self._start()):
                    self._refuse(f"a comma or a parenthesis is missing; write {form(rule)}")
        if missing := [p.name for p in rule.parameters() if p.required and p.name not in values]:
            self._refuse(f"{quoted(rule.keyword)} needs {quoted(missing[0])}; write {form(rule)}", start)
        try:
            return rule(**values)
        except MaskError as error:
            self._refuse(str(error).rstrip("."), start)

    def _argument(self, rule: type[Mask], values: dict[str, Any]) -> None:
        """Parse one argument, by position or by name, into `values`; an open list in `values` takes further items."""
        start = self._start()
        name = self._take(r"[A-Za-z_]\w*(?=\s*=)")
        unset = [p for p in rule.parameters() if p.name not in values or isinstance(values[p.name], list)]
        matching = [parameter for parameter in unset if name in ("", parameter.name)]
        if not matching:
            hint = did_you_mean(name, [parameter.name for parameter in unset]) if name else ""
            self._refuse(f"{quoted(rule.keyword)} does not take this; write {form(rule)}", start, hint)
        parameter = matching[0]
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
        if not digits or len(digits) > 7 or not parameter.least <= int(digits) <= LARGEST:  # LARGEST has 6 digits
            wrong_text = digits or self._take(r"[^,()\[\]]*")
            value = quoted(wrong_text, 20) if wrong_text else "missing"
            bounds = f"a whole number from {parameter.least:,} to {LARGEST:,}"
            self._refuse(f"{quoted(parameter.name)} is {value}; it must be {bounds}", start)
        return int(digits)

    def _cells(self) -> Iterable[tuple[int, int]]:
        """Parse one cell, query:key, or a rectangle of cells: "3:0", "4-6:0-2"."""
        start = self._start()
        match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?:(\d{1,5})(?:-(\d{1,5}))?", self._take(r"[\d:-]+"))
        if not match:
            self._refuse("cells are written query:key, such as 3:0 or, for several, 4-6:0-2", start)
        first_query, last_query, first_key, last_key = match.groups()
        queries = range(int(first_query), int(last_query or first_query) + 1)
        keys = range(int(first_key), int(last_key or first_key) + 1)
        self.cells += len(queries) * len(keys)
        if not queries or not keys or self.cells > LARGEST:
            self._refuse(f"{quoted(match[0])} holds no cell, or there are more than {LARGEST:,}", start)
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
        join: "and" or "or", which joins this entry to the mask of all entries before it; ignored for the first entry
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
    """A mask as a list of at most `MOST` rules, joined from first to last: ((a join b) join c) join d."""

    entries: tuple[Entry, ...] = ()

    def __post_init__(self):
        if len(self.entries) > MOST:
            raise MaskError(f"A stack has at most {MOST} entries; given {len(self.entries)}.")
        self.mask()

    def mask(self) -> Mask | None:
        """The joined mask of all entries that are on; None if all are off."""
        mask = None
        for entry in self.entries:
            if entry.on:
                rule = ~entry.mask if entry.negated else entry.mask
                if mask is not None:
                    rule = mask | rule if entry.join == "or" else mask & rule
                mask = rule
        return mask

    @property
    def text(self) -> str:
        """Text for `stack_from_text`, "(causal | prefix(3)) & off: ~window(2)" or "none"; omits the first join."""
        text, last_join = "", "and"
        for entry in self.entries:
            if not text:
                text = entry.text
                continue
            if entry.join == "and" and last_join == "or":
                text = f"({text})"
            text, last_join = f"{text} {SIGNS[entry.join]} {entry.text}", entry.join
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
        self._check(index)
        self._check(to)
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
    """Parse the text of a stack: a mask with "off:" before rules that are off; ((a & b) | c) has entries a, b and c.

    Raises:
        MaskError: if the text is not a mask, there are too many entries, or the masks do not fit together.
    """
    if text.strip() == NONE:
        return Stack()
    parser = MaskParser(text)
    return Stack(tuple(_entries(parser, parser.tree())))


def _entries(parser: MaskParser, tree: Node | Mask) -> list[Entry]:
    """Convert a syntax tree to entries: all entries of the first operand, then one entry per further operand."""
    if isinstance(tree, Node) and tree.kind in JOINS:
        first, *others = tree.operands
        return [*_entries(parser, first), *(_entry(parser, operand, tree.kind) for operand in others)]
    return [_entry(parser, tree)]


def _entry(parser: MaskParser, tree: Node | Mask, join: str = "") -> Entry:
    """Convert an operand to an entry; if `join` is empty, the entry has the default join of its rule."""
    flags = set()
    for flag in ("off", "not"):
        if isinstance(tree, Node) and tree.kind == flag:
            flags.add(flag)
            tree = tree.operands[0]
    mask = parser.mask(tree)
    return Entry(mask, join or mask.join, negated="not" in flags, on="off" not in flags)
