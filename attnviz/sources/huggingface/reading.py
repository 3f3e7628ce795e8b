"""Text to tokens by a model's own tokenizer, each with its place in the text."""

from typing import Any

from attnviz.core.display import without_surrogates
from attnviz.core.errors import InputError
from attnviz.core.tokens import Sentence, Token

PAIR = "|||"
"""Between the two texts of a pair, typed in one line."""


def sentences(tokenizer: Any, texts: list[str]) -> tuple[Sentence, ...]:
    """Cut texts into tokens with the special tokens that the model expects, padded at the end to one length.

    A line with "|||" in it is a pair of texts, for models that read pairs; their tokens know which text is theirs.

    Raises:
        InputError: if a text has no tokens but special ones, or only some of them are pairs.
    """
    texts = [without_surrogates(text) for text in texts]
    pairs = [text.partition(PAIR) for text in texts]
    if any(sign for _, sign, _ in pairs) and not all(sign for _, sign, _ in pairs):
        raise InputError(f"Some lines are pairs (with {PAIR} in them) and some are not; make all of them the same.")
    rows = [_tokens(tokenizer, before, after if sign else None) for before, sign, after in pairs]
    if not rows:
        raise InputError("There is no sentence; type at least one.")
    for number, row in enumerate(rows, 1):
        if all(token.special for token in row):
            raise InputError(f"Sentence {number} has no token for this model; type at least one word in it.")
    longest = max(map(len, rows))
    pad = tokenizer.pad_token or tokenizer.eos_token or "<pad>"
    pad_id = next((id for id in (tokenizer.pad_token_id, tokenizer.eos_token_id) if id is not None), 0)
    return tuple(
        Sentence(text, row + (Token(pad, pad_id, len(text), len(text), special=True),) * (longest - len(row)), len(row))
        for text, row in zip(texts, rows, strict=True)
    )


def _tokens(tokenizer: Any, first: str, second: str | None = None) -> tuple[Token, ...]:
    """The tokens of a text or, with a `second`, of a pair, whose blanks around the sign belong to neither."""
    parts, begins = [first], [0]
    if second is not None:
        parts = [first.rstrip(), second.lstrip()]
        begins.append(len(first) + len(PAIR) + len(second) - len(parts[1]))
    whole = {"truncation": False, "padding": False, "verbose": False}  # whatever its tokenizer.json says
    cut = tokenizer(*parts, return_offsets_mapping=True, return_special_tokens_mask=True, **whole)
    encoding = cut.encodings[0]
    tokens, before, ended = [], None, 0
    places = zip(encoding.ids, encoding.offsets, encoding.word_ids, encoding.sequence_ids, strict=True)
    for id, (start, end), word, sequence in places:
        if sequence is None:  # its offsets, (0, 0), say nothing
            tokens.append(Token(tokenizer.convert_ids_to_tokens(id), id, 0, 0, special=True, segment=_last(tokens)))
            before = None
            continue
        part, begin = parts[sequence], begins[sequence]
        while start < end - 1 and part[start].isspace():
            start += 1
        parted = start >= ended and part[:start][-1:].isspace()  # pieces of one letter stand at the same place
        joined = (word, sequence) == before and not parted
        text = part[start:end] or str(tokenizer.convert_ids_to_tokens(id))
        tokens.append(Token(text, id, start + begin, end + begin, joined=joined, segment=sequence))
        before, ended = (word, sequence), end
    return tuple(tokens)


def _last(tokens: list[Token]) -> int:
    return tokens[-1].segment if tokens else 0


def written(tokenizer: Any, ids: list[list[int]], lengths: tuple[int, ...]) -> tuple[Sentence, ...]:
    """What a model wrote, as its decoder read it, (B, n) ids from the start token on; `lengths` of them count."""
    return tuple(_written(tokenizer, row, length) for row, length in zip(ids, lengths, strict=True))


def _written(tokenizer: Any, ids: list[int], length: int) -> Sentence:
    special, tokens, text = set(tokenizer.all_special_ids), [], ""
    for i, id in enumerate(ids):
        if not 0 < i < length or id in special:
            tokens.append(Token(str(tokenizer.convert_ids_to_tokens(id)), id, len(text), len(text), special=True))
            continue
        longer = tokenizer.decode(ids[1 : i + 1], skip_special_tokens=True)
        piece = longer[len(text) :] if longer.startswith(text) else tokenizer.decode([id])
        joined = bool(text) and not piece[:1].isspace()
        tokens.append(Token(piece.strip() or piece, id, len(longer) - len(piece.lstrip()), len(longer), joined=joined))
        text = longer
    return Sentence(text, tuple(tokens), length)
