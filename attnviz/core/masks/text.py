"""Masks from text, which links, the shell, lessons and Python share: ``causal & (window(4) | global(0))``.

``&`` binds closer than ``|``, and ``~``, the opposite, closest. Numbers of a rule are given by position or by name,
``window(2, after=1)``; a list takes all that stand by position, ``documents(3, 5)``, or has brackets,
``padding([5, 3], 7)``. Single cells are queries and keys: ``blocked(3:0, 4-6:0-2)``. `Mask.text` writes what is read
here.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import and_, or_
from typing import Any, NoReturn

from attnviz.core.errors import MaskError, did_you_mean, quoted
from attnviz.core.masks.base import KEYWORDS, RULES, Mask
from attnviz.core.masks.reading import DEEPEST, LARGEST, from_json
from attnviz.core.parameters import Parameter

SPACES = re.compile(r"\s*", re.ASCII)

SIGNS = {"and": "&", "or": "|", "not": "~"}


@dataclass(frozen=True)
class Node:
    """Parts of a text that are joined or changed.

    Attributes:
        kind: "and", "or", "not", or "off", which only the rules of the app may be.
        at: the place of its first character.
    """

    kind: str
    parts: "tuple[Node | Mask, ...]"
    at: int


def mask_from_text(text: str) -> Mask:
    """Make the mask that a text says: "causal & window(4)", "~(prefix(3) | window(2, 1))".

    Raises:
        MaskError: names the character at which it cannot be read, and what may be meant.
    """
    reader = Reader(text)
    return reader.mask(reader.tree())


def form(rule: type[Mask]) -> str:
    """A rule with the names of its numbers, as it is written: "window(before, after=0)"."""
    names = []
    for one in rule.parameters():
        name = one.name if one.required else f"{one.name}={one.default}"
        names.append({"numbers": f"{name}, ...", "cells": "query:key, ..."}.get(one.kind, name))
    if any(one.required for one in rule.parameters()):
        return f"{rule.keyword}({', '.join(names)})"
    return f"{rule.keyword} or {rule.keyword}({', '.join(names)})" if names else rule.keyword


def keywords() -> list[str]:
    """The names of all rules in text, without those that join or change others."""
    return sorted(rule.keyword for rule in RULES.values() if _is_rule(rule))


class Reader:
    """One text, read from its start to its end.

    Attributes:
        at: the place of the next character.
    """

    def __init__(self, text: str):
        self.text = text
        self.at = 0

    def tree(self) -> Node | Mask:
        """The whole text.

        Raises:
            MaskError: as `mask_from_text`.
        """
        if self.text.lstrip().startswith("{"):
            raise MaskError(f"A mask is not given as JSON any more; write {quoted(_as_text(self.text), 200)}.")
        tree = self._either(0)
        if (sign := self._take(r"\w+")) in SIGNS:
            self._refuse(f"write {SIGNS[sign]} instead of {quoted(sign)}", self.at - len(sign))
        if sign or self._next():
            self._refuse("only &, | or the end can stand here", self.at - len(sign))
        return tree

    def mask(self, tree: Node | Mask) -> Mask:
        """The mask of a part of the text.

        Raises:
            MaskError: if a rule in it is off, or its masks are for different numbers of sentences.
        """
        if isinstance(tree, Mask):
            return tree
        if tree.kind == "off":
            self._refuse("only a rule of the app's list can be off", tree.at)
        parts = map(self.mask, tree.parts)
        return ~next(parts) if tree.kind == "not" else reduce(and_ if tree.kind == "and" else or_, parts)

    def _either(self, depth: int) -> Node | Mask:
        return self._joined("or", lambda: self._joined("and", lambda: self._one(depth)))

    def _joined(self, kind: str, part: Callable[[], Node | Mask]) -> Node | Mask:
        at, parts = self._start(), [part()]
        while self._take(re.escape(SIGNS[kind])):
            parts.append(part())
        return Node(kind, tuple(parts), at) if len(parts) > 1 else parts[0]

    def _one(self, depth: int) -> Node | Mask:
        at = self._start()
        if depth > DEEPEST:
            self._refuse(f"the mask is nested more than {DEEPEST} deep", at)
        if self._take(r"off\s*:"):
            return Node("off", (self._one(depth + 1),), at)
        if self._take("~"):
            return Node("not", (self._one(depth + 1),), at)
        if self._take(r"\("):
            inner = self._either(depth + 1)
            self._expect(")", f"the parenthesis that opens at character {at + 1} is not closed")
            return inner
        name = self._take(r"[A-Za-z_]\w*")
        if not name:
            self._refuse("a rule is missing; write one, such as causal or window(2)")
        if name == "shifted" and self._take(r"\("):
            return self._shifted(depth, at)
        rule = KEYWORDS.get(name)
        if rule is None or not _is_rule(rule):
            near = f" Write {SIGNS[name]} for it." if name in SIGNS else did_you_mean(name, keywords())
            self._refuse(f"there is no rule {quoted(name)}", at, near or f" There are: {', '.join(keywords())}.")
        return self._rule(rule, at)

    def _shifted(self, depth: int, at: int) -> Mask:
        """A mask whose queries stand further on: "shifted(window(2), 3)"."""
        inner = self.mask(self._either(depth + 1))
        self._expect(",", "write shifted(mask, offset)")
        offset = self._number(None)
        self._expect(")", "write shifted(mask, offset)")
        return RULES["shifted"](inner, offset)

    def _rule(self, rule: type[Mask], at: int) -> Mask:
        given: dict[str, Any] = {}
        if self._take(r"\("):
            if self._take(r"\)"):
                given = {one.name: () for one in rule.parameters() if one.kind == "cells"}
            else:
                given = self._arguments(rule)
                self._expect(")", f"a comma or a parenthesis is missing; write {form(rule)}")
        elif self._take("="):  # the former spelling of the shell: window=2,1
            given = self._arguments(rule)
        if lacks := next((one for one in rule.parameters() if one.required and one.name not in given), None):
            self._refuse(f"{quoted(rule.keyword)} needs its {lacks.label}; write {form(rule)}", at)
        try:
            return rule(**given)
        except MaskError as error:
            self._refuse(str(error).rstrip("."), at)

    def _arguments(self, rule: type[Mask]) -> dict[str, Any]:
        """The values of a rule's parameters, from those by position and by name."""
        given: dict[str, Any] = {}
        by_position = list(rule.parameters())
        while True:
            at = self._start()
            one = self._named(rule) or (by_position[0] if by_position else None)
            if one is None:
                self._refuse(f"{quoted(rule.keyword)} takes no more numbers; write {form(rule)}", at)
            if one.kind == "number" or (one.kind == "numbers" and self._next() == "["):
                if one.name in given:
                    self._refuse(f"{quoted(one.name)} is given twice; write {form(rule)}", at)
                by_position = [other for other in by_position if other != one]
                given[one.name] = self._number(one) if one.kind == "number" else self._numbers(one)
            else:  # one more of a list
                given.setdefault(one.name, [])
                given[one.name] += self._cells() if one.kind == "cells" else [self._number(one)]
                if len(given[one.name]) > LARGEST:
                    self._refuse(f"{quoted(rule.keyword)} takes at most {LARGEST:,} of them", at)
            if not self._take(","):
                return given

    def _named(self, rule: type[Mask]) -> Parameter | None:
        """The parameter whose name and "=" stand here."""
        at = self._start()
        name = self._take(r"[A-Za-z_]\w*(?=\s*=)")
        if not name:
            return None
        self._take("=")
        known = {one.name: one for one in rule.parameters()}
        if name not in known:
            near = did_you_mean(name, known)
            self._refuse(f"{quoted(rule.keyword)} has no {quoted(name)}; write {form(rule)}", at, near)
        return known[name]

    def _numbers(self, one: Parameter) -> list[int]:
        """A list in brackets."""
        self._take(r"\[")
        numbers: list[int] = []
        while not self._take("]"):
            if numbers:
                self._expect(",", "a comma or ] is missing")
            numbers.append(self._number(one))
        return numbers

    def _number(self, one: Parameter | None) -> int | None:
        """A whole number, in the bounds of a parameter if one is given; None where it may be nothing."""
        at = self._start()
        if one and not one.needed and self._take("None"):
            return None
        digits = self._take(r"-?\d+")
        what = quoted(one.name if one else "offset")
        if not digits:
            self._refuse(f"{what} must be a whole number")
        least = one.least if one else -LARGEST
        if len(digits) > 7 or not least <= int(digits) <= LARGEST:
            bounds = f"{least:,} to {LARGEST:,}"
            self._refuse(f"{what} is {digits[:20]}; it must be a whole number from {bounds}", at)
        return int(digits)

    def _cells(self) -> Iterable[tuple[int, int]]:
        """Single cells as a rectangle: "3:0", "4-6:0-2"."""
        at = self._start()
        box = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?:(\d{1,5})(?:-(\d{1,5}))?", self._take(r"[\d:-]+"))
        if not box:
            self._refuse("cells are written query:key, such as 3:0 or, for several, 4-6:0-2", at)
        top, left = int(box[1]), int(box[3])
        queries, keys = range(top, int(box[2] or top) + 1), range(left, int(box[4] or left) + 1)
        if not 0 < len(queries) * len(keys) <= LARGEST:
            self._refuse(f"{quoted(box[0])} holds no cell, or more than {LARGEST:,}", at)
        return product(queries, keys)

    def _take(self, pattern: str) -> str:
        """The characters that stand next, after spaces, if a pattern matches them; else none."""
        match = re.compile(rf"\s*({pattern})", re.ASCII).match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match[1] if match else ""

    def _start(self) -> int:
        """The place of the next character that is no space."""
        return SPACES.match(self.text, self.at).end()

    def _next(self) -> str:
        return self.text[self._start() : self._start() + 1]

    def _expect(self, character: str, why: str) -> None:
        if not self._take(re.escape(character)):
            self._refuse(why)

    def _refuse(self, why: str, at: int | None = None, hint: str = "") -> NoReturn:
        at = self._start() if at is None else at
        raise MaskError(f"Character {at + 1} of the mask {quoted(self.text, 60)}: {why}.{hint}") from None


def _is_rule(rule: type[Mask]) -> bool:
    """Whether a mask is a rule by itself, not others that are joined or changed."""
    return rule.rule not in (*SIGNS, "shifted")


def _as_text(data: str) -> str:
    """The text of a mask in JSON, or of another one if it cannot be read."""
    try:
        return from_json(data).text
    except MaskError:
        return "causal & window(4)"
