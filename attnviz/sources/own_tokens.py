"""Output of a person's tokenizer as tokens: ids, their strings, and their places in the text."""

import re
from collections.abc import Mapping
from typing import Any

import torch

from attnviz.core.errors import InputError, quoted
from attnviz.core.tokens import Token

_SPECIAL = re.compile(r"<.*>|\[.*\]")


def ids_of(encoding: Any) -> tuple[list[int], list[str] | None]:
    """The ids that a tokenizer gave, and their strings if it gave them."""
    strings = getattr(encoding, "tokens", None) if hasattr(encoding, "ids") else None
    encoding = getattr(encoding, "ids", encoding)
    if isinstance(encoding, Mapping):
        encoding = encoding["input_ids"]
    if isinstance(encoding, tuple) and len(encoding) == 2 and not isinstance(encoding[0], int):
        encoding, strings = encoding
    ids = torch.as_tensor(encoding).reshape(-1).tolist()
    if any(type(id) is not int for id in ids) or (strings is not None and len(strings) != len(ids)):
        raise InputError(f"A tokenizer gives whole numbers, with a string for each if any; given {quoted(encoding)}.")
    return ids, None if strings is None else [str(string) for string in strings]


def placed(text: str, ids: list[int], strings: list[str]) -> tuple[Token, ...]:
    """Tokens with their places in the text, where they stand there."""
    tokens, offset, low = [], 0, text.lower() if len(text.lower()) == len(text) else text
    for id, string in zip(ids, strings, strict=True):
        plain = string.lstrip("Ġ▁").removeprefix("##").lower()
        start = low.find(plain, offset) if plain else -1
        if start < 0:
            tokens.append(Token(string, id, offset, offset, special=bool(_SPECIAL.fullmatch(string))))
            continue
        joined = 0 < start == offset and (low[start - 1] + plain[0]).isalnum()
        offset = start + len(plain)
        tokens.append(Token(string, id, start, offset, joined=joined))
    return tuple(tokens)
