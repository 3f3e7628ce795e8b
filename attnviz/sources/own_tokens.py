"""What a person's tokenizer gives, as tokens: ids, their strings, and where these stand in the text."""

import re
from collections.abc import Mapping
from typing import Any

import torch

from attnviz.core.errors import InputError, quoted
from attnviz.core.tokens import Token

_SPECIAL = re.compile(r"<.*>|\[.*\]")


def ids_of(given: Any) -> tuple[list[int], list[str] | None]:
    """The ids that a tokenizer gave, and their strings if it gave them."""
    strings = getattr(given, "tokens", None) if hasattr(given, "ids") else None
    given = getattr(given, "ids", given)
    if isinstance(given, Mapping):
        given = given["input_ids"]
    if isinstance(given, tuple) and len(given) == 2 and not isinstance(given[0], int):
        given, strings = given
    ids = torch.as_tensor(given).reshape(-1).tolist()
    if any(type(id) is not int for id in ids) or (strings is not None and len(strings) != len(ids)):
        raise InputError(f"A tokenizer gives whole numbers, with a string for each if any; given {quoted(given)}.")
    return ids, None if strings is None else [str(one) for one in strings]


def placed(text: str, ids: list[int], strings: list[str]) -> tuple[Token, ...]:
    """Tokens with their places in the text, where they stand there."""
    tokens, at, low = [], 0, text.lower() if len(text.lower()) == len(text) else text
    for id, string in zip(ids, strings, strict=True):
        plain = string.lstrip("Ġ▁").removeprefix("##").lower()
        start = low.find(plain, at) if plain else -1
        if start < 0:
            tokens.append(Token(string, id, at, at, special=bool(_SPECIAL.fullmatch(string))))
            continue
        joined = 0 < start == at and (low[start - 1] + plain[0]).isalnum()
        at = start + len(plain)
        tokens.append(Token(string, id, start, at, joined=joined))
    return tuple(tokens)
