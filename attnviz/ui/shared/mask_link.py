"""The mask of a link: the text of its stack of rules.

Links of before hold rules with dots between them, "subsequent.window-4-1.or-not-off-prefix-3", lists with underscores,
"documents-3_3", negative numbers with n, and painted cells as rectangles of their corners, "painted-2_3_4_5".
"""

import re

from attnviz.core.errors import InputError, MaskError
from attnviz.core.masks import Mask, composable, mask_from_text
from attnviz.core.masks.base import KEYWORDS
from attnviz.core.stack import Entry, Stack, stack_from_text
from attnviz.ui.shared import words

RULES = composable()
"""Every rule; the last two hold the cells that are painted on the picture."""

BY_NAME = {rule.keyword: rule for rule in RULES}

LONGEST = 9_000
"""Characters of a link that a mask may take: half as many again as in links of before, which were shorter."""

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
        InputError: if it is anything else, holds more than a control takes, or would not fit into a link again.
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
    for mask in (entry.mask for entry in stack.entries):
        for parameter in (parameter for parameter in mask.parameters() if parameter.kind == "number"):
            if (number := getattr(mask, parameter.name)) is not None and number > parameter.most:
                raise InputError(
                    words.OUT_OF_BOUNDS.format(
                        label=parameter.label,
                        rule=mask.keyword,
                        value=number,
                        least=parameter.least,
                        most=parameter.most,
                    )
                )
    encode_stack(stack)
    return stack


def _former(text: str) -> Entry:
    """One rule as links wrote it before; what it begins with may be left out: "window" is "window-2-0"."""
    match = FORMER.fullmatch(text)
    rule = KEYWORDS.get(match[4]) if match else None
    if rule is None:
        return usual(mask_from_text(text))  # which says what is wrong with it
    numbers, parameters = match[5].split("-")[1:], rule.parameters()
    if parameters and parameters[0].kind == "cells":
        boxes = [part.split("_") for part in numbers if part]
        numbers = [":".join("-".join(box[axis::2]) for axis in (0, 1)) for box in boxes]
    else:
        for i, parameter in enumerate(parameters):
            if i == len(numbers) and parameter.required and parameter.kind == "number":
                numbers.append(str(parameter.default))
            elif i < len(numbers) and parameter.kind == "numbers":
                numbers[i] = f"[{numbers[i].replace('_', ', ')}]"
            elif i < len(numbers):
                numbers[i] = numbers[i].replace("n", "-") or str(None)
    mask = mask_from_text(f"{rule.keyword}({', '.join(numbers)})" if numbers else rule.keyword)
    return Entry(mask, match[1] or mask.join, bool(match[2]), not match[3])
