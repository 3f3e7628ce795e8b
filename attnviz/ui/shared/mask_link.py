"""How a link writes a mask.

A mask is its rules, from the first to the last, with dots between them: ``subsequent.window-4-1.or-prefix-3``. Numbers
follow a rule's name, lists of them are joined with underscores (``documents-3_3``), a negative one begins with n, and
trailing ones that are as the rule begins with are left out. Before the name stand the join where it is not the usual
one of the rule, ``not`` and ``off``: ``and-not-off-window``. Painted cells are rectangles from query_key to query_key:
``painted-0_1-2_3_4_5``. No rule at all is ``none``.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import product

from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.masks import Mask, Parameter, composable
from attnviz.core.stack import JOINS, Entry, Stack
from attnviz.ui.shared import words

RULES = composable()
"""Every rule; the last two hold the cells that are painted on the picture."""

BY_NAME = {rule.rule: rule for rule in RULES}

MOST_ITEMS = 64
"""Lengths or positions that one rule may list."""

LONGEST = 6_000
"""How many characters of a link a mask may take."""

MOST_CELLS = 16_384
"""How many cells may be painted."""

Cells = Sequence[tuple[int, int]]


def usual(mask: Mask) -> Entry:
    """A mask joined as its rule usually is."""
    return Entry(mask, mask.join)


def encode_stack(stack: Stack | None) -> str:
    """Write a stack of rules.

    Raises:
        InputError: if it does not fit into a link.
    """
    if stack is None:
        return ""
    text = ".".join(map(_encode_entry, stack.entries)) or "none"
    if len(text) > LONGEST:
        raise InputError(words.MASK_TOO_LONG.format(characters=len(text), most=LONGEST))
    return text


def decode_stack(text: str) -> Stack | None:
    """Read what `encode_stack` wrote.

    Raises:
        InputError: if it is anything else.
    """
    if not text or text == "none":
        return Stack() if text else None
    if len(text) > LONGEST:
        raise InputError(words.MASK_UNREAD.format(characters=len(text), most=LONGEST))
    try:
        return Stack(tuple(map(_decode_entry, text.split("."))))
    except InputError:
        raise
    except AttnvizError as error:
        raise InputError(str(error)) from None


def _encode_entry(entry: Entry) -> str:
    mask = entry.mask
    before = [entry.join] if entry.join != mask.join else []
    before += ["not"] * entry.negated + ["off"] * (not entry.on)
    values = [(f, getattr(mask, f.name)) for f in mask.parameters()]
    while values and values[-1][0].kind == "number" and values[-1][1] == values[-1][0].default:
        values.pop()
    written = [_encode_value(f, value) for f, value in values if f.kind != "cells" or value]
    return "-".join([*before, mask.rule, *written])


def _encode_value(f: Parameter, value) -> str:
    if f.kind == "number":
        return "" if value is None else _number(value)
    if f.kind == "numbers":
        return "_".join(map(_number, value))
    return "-".join("_".join(map(str, rectangle)) for rectangle in rectangles(value))


def _number(value: int) -> str:
    return f"n{-value}" if value < 0 else str(value)


def _decode_entry(text: str) -> Entry:
    parts, said = text.split("-"), []
    while parts and parts[0] in (*JOINS, "not", "off"):
        said.append(parts.pop(0))
    rule = BY_NAME.get(parts[0]) if parts else None
    in_order = [word for word in (*JOINS, "not", "off") if word in said]
    if rule is None or said != in_order or set(JOINS) <= set(said):
        raise InputError(words.NO_RULE.format(text=text[:40]))
    join = next((word for word in said if word in JOINS), rule.join)
    return Entry(rule(**_decode_values(rule, parts[1:], text)), join, "not" in said, "off" not in said)


def _decode_values(rule: type[Mask], parts: list[str], text: str) -> dict[str, object]:
    known = rule.parameters()
    if known[0].kind == "cells":
        return {known[0].name: _decode_cells(parts, text)}
    if len(parts) > len(known):
        many = words.MANY_NUMBERS.format(text=text[:40], count=len(parts), rule=rule.rule, most=len(known))
        raise InputError(many)
    values = {f.name: _decode_value(f, part, rule, text) for f, part in zip(known, parts, strict=False)}
    for f in known[len(parts) :]:
        if f.kind == "numbers" and f.default is None:
            raise InputError(words.LACKS_NUMBERS.format(text=text[:40], label=f.label, rule=rule.rule))
        values[f.name] = f.default
    return values


def _decode_value(f: Parameter, part: str, rule: type[Mask], text: str) -> object:
    if f.kind == "number":
        return None if not part and not f.needed else _decode_number(f, part, rule, text)
    items = part.split("_") if part else []
    if len(items) > MOST_ITEMS:
        raise InputError(words.MANY_ITEMS.format(rule=rule.rule, count=len(items), most=MOST_ITEMS))
    return tuple(_decode_number(f, item, rule, text) for item in items)


def _decode_number(f: Parameter, part: str, rule: type[Mask], text: str) -> int:
    if not re.fullmatch(r"n?\d{1,6}", part, re.ASCII):
        raise InputError(words.NO_NUMBER.format(text=text[:40], label=f.label))
    value = int(part.replace("n", "-"))
    if not f.least <= value <= f.most:
        raise InputError(
            words.OUT_OF_BOUNDS.format(label=f.label, rule=rule.rule, value=value, least=f.least, most=f.most)
        )
    return value


def _decode_cells(parts: list[str], text: str) -> Cells:
    cells: set[tuple[int, int]] = set()
    for part in filter(None, parts):
        found = re.fullmatch(r"(\d{1,5})_(\d{1,5})(?:_(\d{1,5})_(\d{1,5}))?", part, re.ASCII)
        if not found:
            raise InputError(words.NO_CELLS.format(text=text[:40], part=part[:20]))
        top, left, bottom, right = (int(n) for n in (*found.groups()[:2], found[3] or found[1], found[4] or found[2]))
        high, wide = bottom - top + 1, right - left + 1
        if min(high, wide) < 1 or high * wide + len(cells) > MOST_CELLS:
            raise InputError(words.MANY_CELLS.format(part=part[:20], most=MOST_CELLS))
        cells |= set(product(range(top, bottom + 1), range(left, right + 1)))
    return tuple(cells)


def rectangles(cells: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Cells as few rectangles, each (query, key), or (query, key, last query, last key) if it holds more than one.

    Stretches of a row are found first; equal ones in rows that follow each other are one rectangle.
    """
    runs: list[list[int]] = []  # row, first key, last key
    for query, key in sorted(set(cells)):
        if runs and runs[-1][0] == query and runs[-1][2] == key - 1:
            runs[-1][2] = key
        else:
            runs.append([query, key, key])
    grown: dict[tuple[int, int], list[int]] = {}  # the last rectangle of a stretch of keys
    found: list[list[int]] = []
    for query, first, last in runs:
        box = grown.get((first, last))
        if box and box[2] == query - 1:
            box[2] = query
        else:
            grown[first, last] = box = [query, first, query, last]
            found.append(box)
    return [tuple(box[:2]) if box[:2] == box[2:] else tuple(box) for box in found]
