"""The mask of a link: the text of its stack of rules.

Links of before hold rules with dots between them, "subsequent.window-4-1.or-not-off-prefix-3", lists with underscores,
"documents-3_3", negative numbers with n, and painted cells as rectangles of their corners, "painted-2_3_4_5".
"""

import re

from attnviz.core.errors import InputError, MaskError
from attnviz.core.masks import Mask, composable, mask_from_text
from attnviz.core.masks.base import KEYWORDS
from attnviz.core.parameters import Parameter
from attnviz.core.stack import Entry, Stack, stack_from_text
from attnviz.ui.shared import words

RULES = composable()
"""Every rule; the last two hold the cells that are painted on the picture."""

BY_NAME = {rule.keyword: rule for rule in RULES}

MOST_ITEMS = 64
"""Lengths or positions that one rule may list."""

LONGEST = 6_000
"""Characters of a link that a mask may take."""

MOST_CELLS = 16_384
"""Cells that may be painted."""

FORMER = re.compile(r"(?:(and|or)-)?(not-)?(off-)?([a-z_]+)((?:-[n\d_]*)*)", re.ASCII)


def usual(mask: Mask) -> Entry:
    """A mask joined as its rule usually is."""
    return Entry(mask, mask.join)


def encode_stack(stack: Stack | None) -> str:
    """Write a stack of rules.

    Raises:
        InputError: if it does not fit into a link.
    """
    text = "" if stack is None else stack.text
    if len(text) > LONGEST:
        raise InputError(words.MASK_TOO_LONG.format(characters=len(text), most=LONGEST))
    return text


def decode_stack(text: str) -> Stack | None:
    """Read what `encode_stack` wrote, now or before.

    Raises:
        InputError: if it is anything else, or holds more than a control takes.
    """
    if not text:
        return None
    if len(text) > LONGEST:
        raise InputError(words.MASK_UNREAD.format(characters=len(text), most=LONGEST))
    try:
        former = text != "none" and re.fullmatch(r"[\w.-]+", text, re.ASCII)
        stack = Stack(tuple(map(_former, text.split(".")))) if former else stack_from_text(text)
    except MaskError as error:
        raise InputError(str(error)) from None
    for entry in stack.entries:
        for one in entry.mask.parameters():
            _check_bounds(entry.mask, one)
    return stack


def _check_bounds(mask: Mask, one: Parameter) -> None:
    """That a control takes the numbers of a rule."""
    value = getattr(mask, one.name)
    items = (value,) if one.kind == "number" else value
    most = {"numbers": MOST_ITEMS, "cells": MOST_CELLS}.get(one.kind, 1)
    if len(items) > most:
        raise InputError(words.MANY_ITEMS.format(rule=mask.keyword, count=len(items), most=most))
    beyond = [] if one.kind == "cells" else [n for n in items if n is not None and not one.least <= n <= one.most]
    if beyond:
        raise InputError(
            words.OUT_OF_BOUNDS.format(
                label=one.label, rule=mask.keyword, value=beyond[0], least=one.least, most=one.most
            )
        )


def _former(text: str) -> Entry:
    """One rule as links wrote it before; what it begins with may be left out: "window" is "window-2-0"."""
    match = FORMER.fullmatch(text)
    rule = KEYWORDS.get(match[4]) if match else None
    if rule is None:
        raise InputError(words.NO_RULE.format(text=text[:40]))
    numbers, parameters = match[5].split("-")[1:], rule.parameters()
    cells = bool(parameters) and parameters[0].kind == "cells"
    if cells:
        boxes = [part.split("_") for part in numbers if part]
        numbers = [":".join("-".join(box[axis::2]) for axis in (0, 1)) for box in boxes]
    else:
        numbers = [
            f"[{part.replace('_', ', ')}]" if one.kind == "numbers" else part.replace("n", "-") or "None"
            for one, part in zip(parameters, numbers, strict=False)
        ] + numbers[len(parameters) :]
        rest = parameters[len(numbers) :]
        numbers += [str(one.default) for one in rest if one.required and one.kind == "number"]
    mask = mask_from_text(f"{rule.keyword}({', '.join(numbers)})" if numbers or cells else rule.keyword)
    return Entry(mask, match[1] or mask.join, bool(match[2]), not match[3])
