"""A mask that a user builds rule by rule.

stack = Stack((Entry(Subsequent()), Entry(Prefix(3), "or"), Entry(Padding((5,)))))
stack.mask()                                    # (causal or prefix of 3) and padding
stack.text                                      # "(causal | prefix(3)) & padding(5)"
"""

from dataclasses import dataclass
from functools import reduce

from attnviz.core.errors import MaskError, quoted
from attnviz.core.masks import Mask
from attnviz.core.masks.base import operand
from attnviz.core.masks.text import SIGNS, MaskParser, Node

JOINS = ("and", "or")
NONE = "none"
"""Text of a stack without entries."""
MOST = 24
"""Maximum number of entries, so that the parser of masks accepts the nesting."""


@dataclass(frozen=True)
class Entry:
    """One rule of a stack.

    Attributes:
        mask: a rule, or masks that are joined already.
        join: operator that joins it to all entries before it: "and" or "or"; unused for the first entry that is on.
        negated: whether the mask is negated.
        on: whether the entry is used.
    """

    mask: Mask
    join: str = "and"
    negated: bool = False
    on: bool = True

    def __post_init__(self):
        if self.join not in JOINS:
            raise MaskError(f"An entry is joined by {quoted(self.join)}; it must be one of {', '.join(JOINS)}.")
        if not isinstance(self.mask, Mask):
            raise MaskError(f"An entry holds a mask; given {quoted(self.mask)}.")

    def rule(self) -> Mask:
        """Return the mask, negated if `negated` is True."""
        return ~self.mask if self.negated else self.mask

    @property
    def text(self) -> str:
        """Text of the rule, with "off:" before it if the entry is off."""
        text = operand(self.mask)
        if self.negated:
            text = f"~{text}"
        return text if self.on else f"off: {text}"


@dataclass(frozen=True)
class Stack:
    """A list of entries that are joined from first to last, without precedence: ((a join b) join c) join d.

    Raises:
        MaskError: if there are more than `MOST` entries, or masks for different numbers of sentences.
    """

    entries: tuple[Entry, ...] = ()

    def __post_init__(self):
        object.__setattr__(self, "entries", tuple(self.entries))
        if len(self.entries) > MOST:
            raise MaskError(f"A stack has at most {MOST} entries; given {len(self.entries)}.")
        self.mask()

    def mask(self) -> Mask | None:
        """Join the masks of all entries that are on; None if every entry is off."""
        on = [entry for entry in self.entries if entry.on]
        return reduce(_join, on[1:], on[0].rule()) if on else None

    @property
    def text(self) -> str:
        """Text from which `stack_from_text` makes the stack: "(causal | prefix(3)) & off: ~window(2)"; or "none".

        The text does not hold the join of the first entry, which has no effect; it becomes the default of its rule.
        """
        text, last = "", "and"
        for entry in self.entries:
            if text and entry.join == "and" and last == "or":
                text = f"({text})"
            last = entry.join if text else "and"
            text = f"{text} {SIGNS[entry.join]} {entry.text}" if text else entry.text
        return text or NONE

    def rules(self) -> tuple[str, ...]:
        """Return, per entry, its name in `Mask.rules`, or "" if off; entries up to the last "or" share one name."""
        on = [i for i, entry in enumerate(self.entries) if entry.on]
        last = max((i for i in on[1:] if self.entries[i].join == "or"), default=-1)
        names = [entry.rule().rules()[0] if entry.on else "" for entry in self.entries]
        if (joined := Stack(self.entries[: last + 1]).mask()) is not None:
            names = [joined.rules()[0] if name and i <= last else name for i, name in enumerate(names)]
        return tuple(names)

    def added(self, entry: Entry) -> "Stack":
        """Return the stack with one more entry at its end."""
        return Stack((*self.entries, entry))

    def removed(self, index: int) -> "Stack":
        """Return the stack without one entry."""
        self._check(index)
        return Stack(self.entries[:index] + self.entries[index + 1 :])

    def moved(self, index: int, to: int) -> "Stack":
        """Return the stack with one entry moved to another index; other entries keep their order."""
        self._check(index), self._check(to)
        others = self.removed(index).entries
        return Stack((*others[:to], self.entries[index], *others[to:]))

    def replaced(self, index: int, entry: Entry) -> "Stack":
        """Return the stack with the entry at an index replaced."""
        self._check(index)
        return Stack((*self.entries[:index], entry, *self.entries[index + 1 :]))

    def _check(self, index: int) -> None:
        if not 0 <= index < len(self.entries):
            raise MaskError(f"There is no entry {index}; there are {len(self.entries)}, counted from 0.")


def stack_from_text(text: str) -> Stack:
    """Parse a stack from the text of a mask, in which rules may be off; the operands of the tree become entries.

    Raises:
        MaskError: if the text cannot be parsed, or has too many entries.
    """
    if text.strip() == NONE:
        return Stack()
    reader = MaskParser(text)
    return Stack(tuple(_entries(reader, reader.tree())))


def _entries(reader: MaskParser, tree: Node | Mask) -> list[Entry]:
    if isinstance(tree, Node) and tree.kind in JOINS:
        first, *rest = tree.parts
        return [*_entries(reader, first), *(_entry(reader, part, tree.kind) for part in rest)]
    return [_entry(reader, tree)]


def _entry(reader: MaskParser, tree: Node | Mask, join: str = "") -> Entry:
    """Make an entry from a tree, with the default join of its rule if `join` is ""."""
    flags = set()
    for flag in ("off", "not"):
        if isinstance(tree, Node) and tree.kind == flag:
            flags.add(flag)
            tree = tree.parts[0]
    mask = reader.mask(tree)
    return Entry(mask, join or mask.join, "not" in flags, "off" not in flags)


def _join(before: Mask, entry: Entry) -> Mask:
    return before | entry.rule() if entry.join == "or" else before & entry.rule()
