"""Text to tokens by a model's own tokenizer, each with its place in the text."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

from attnviz.core.display import without_surrogates
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.tokens import Sentence, Token

PAIR = "|||"
"""Between the two texts of a pair, typed in one line."""
BLANK = "▁"
"""SentencePiece's sign for a space."""
BYTEWISE = ("ByT5Tokenizer", "PerceiverTokenizer")
"""Tokenizers whose pieces are the bytes of a text, written as characters below 256."""


class Piece(NamedTuple):
    """A piece as a tokenizer gives it: its place in its part of a pair, the number of its word, and its part (None for
    a special token that was added)."""

    id: int
    start: int
    end: int
    word: int | None
    part: int | None


def sentences(tokenizer: Any, texts: list[str], *, pairs: bool = True) -> tuple[Sentence, ...]:
    """Cut texts into tokens with the special tokens that the model expects, padded at the end to one length.

    A special token that is typed, as a chat template writes it, is that token, and is not added again.

    Args:
        pairs: whether a line with "|||" in it is a pair of texts, whose tokens know which text is theirs. A model that
            continues a text reads no pairs, and the bars are part of it.

    Raises:
        InputError: if a text has no tokens but special ones, or only some of them are pairs.
    """
    texts = [without_surrogates(text) for text in texts]
    parted = [text.partition(PAIR) if pairs else (text, "", "") for text in texts]
    if any(sign for _, sign, _ in parted) and not all(sign for _, sign, _ in parted):
        raise InputError(f"Some lines are pairs (with {PAIR} in them) and some are not; make all of them the same.")
    rows = [_tokens(tokenizer, before, after if sign else None) for before, sign, after in parted]
    if not rows:
        raise InputError("There is no sentence; type at least one.")
    for number, row in enumerate(rows, 1):
        if all(token.special and token.start == token.end for token in row):
            raise InputError(f"Sentence {number} has no token for this model; type at least one word in it.")
    return padded(tokenizer, [Sentence(text, row, len(row)) for text, row in zip(texts, rows, strict=True)])


def padded(tokenizer: Any, sentences: list[Sentence]) -> tuple[Sentence, ...]:
    """Sentences padded at the end to one length."""
    longest = max(sentence.length for sentence in sentences)
    name = tokenizer.pad_token or tokenizer.eos_token or "<pad>"
    id = next((id for id in (tokenizer.pad_token_id, tokenizer.eos_token_id) if id is not None), 0)
    padding = [(Token(name, id, len(each.text), len(each.text), special=True),) for each in sentences]
    return tuple(
        replace(sentence, tokens=sentence.tokens + pad * (longest - sentence.length))
        for sentence, pad in zip(sentences, padding, strict=True)
    )


def pieces(tokenizer: Any, text: str, *, added: bool = False) -> tuple[Token, ...]:
    """The tokens of a text without any that a tokenizer adds; special tokens that stand in it are those tokens."""
    return _tokens(tokenizer, text, added=added)


def special_ids(tokenizer: Any) -> frozenset[int]:
    """Ids of tokens that are no part of a text; the mask and the unknown token stand for a word, and are none."""
    words = {tokenizer.unk_token_id, tokenizer.mask_token_id}
    added = (id for id, token in tokenizer.added_tokens_decoder.items() if token.special)
    return frozenset({*tokenizer.all_special_ids, *added} - words)


def _tokens(tokenizer: Any, first: str, second: str | None = None, *, added: bool = True) -> tuple[Token, ...]:
    """The tokens of a text or, with a `second`, of a pair, whose blanks around the sign belong to neither.

    Args:
        added: with the special tokens that the model expects.
    """
    parts, begins = [first], [0]
    if second is not None:
        parts = [first.rstrip(), second.lstrip()]
        begins.append(len(first) + len(PAIR) + len(second) - len(parts[1]))
    pieces = (_fast if tokenizer.is_fast else _slow)(tokenizer, parts, added)
    special, tokens, before, ended = special_ids(tokenizer), [], None, 0
    blank = False  # a lone sign for a space, with which the next piece makes a word
    for id, start, end, word, part in _without_repeats(pieces):
        name = str(tokenizer.convert_ids_to_tokens(id))
        if part is None:  # its offsets, (0, 0), say nothing
            tokens.append(Token(name, id, 0, 0, special=True, segment=_last(tokens)))
            before = None
            continue
        text, begin = parts[part], begins[part]
        while start < end - 1 and text[start].isspace():
            start += 1
        if id in special:
            tokens.append(Token(name, id, start + begin, end + begin, special=True, segment=part))
            before, ended = None, end
            continue
        parted = not blank and start >= ended and text[:start][-1:].isspace()  # pieces of one letter share a place
        joined = (word, part) == before and not parted
        blank = set(name) == {BLANK}
        if blank and text[start:end].strip():  # it stands before the characters that it is placed at
            end = start
        label = text[start:end] or name
        tokens.append(Token(label, id, start + begin, end + begin, joined=joined, segment=part))
        before, ended = (word, part), end
    return tuple(tokens)


def _last(tokens: list[Token]) -> int:
    return tokens[-1].segment if tokens else 0


def _without_repeats(pieces: list[Piece]) -> list[Piece]:
    """Leave out special tokens at either end that were added beside the same ones, typed."""
    added = [piece.part is None for piece in pieces]
    if all(added):
        return pieces
    head, tail = added.index(False), len(added) - added[::-1].index(False)
    ids = [piece.id for piece in pieces]
    if head and ids[:head] == ids[head : 2 * head] and not any(added[head : 2 * head]):
        pieces, tail = pieces[head:], tail - head
    ids, end = [piece.id for piece in pieces], len(pieces) - tail
    if (
        end
        and ids[tail:] == ids[tail - end : tail]
        and all(piece.part is not None for piece in pieces[tail - end : tail])
    ):
        pieces = pieces[:tail]
    return pieces


_WHOLE = {"truncation": False, "padding": False, "verbose": False}
"""Settings for all of a text, whatever its tokenizer.json says."""


def _fast(tokenizer: Any, parts: list[str], added: bool) -> list[Piece]:
    encoding = tokenizer(*parts, return_offsets_mapping=True, add_special_tokens=added, **_WHOLE).encodings[0]
    columns = encoding.ids, encoding.offsets, encoding.word_ids, encoding.sequence_ids
    return [Piece(id, *place, word, part) for id, place, word, part in zip(*columns, strict=True)]


def _slow(tokenizer: Any, parts: list[str], added: bool) -> list[Piece]:
    """The pieces of a tokenizer written in Python, which knows no places: they are found by spelling the text."""
    whole = tokenizer(*parts, add_special_tokens=added, **_WHOLE)["input_ids"]
    pieces, position = [], 0
    for part, text in enumerate(parts):
        names = tokenizer.tokenize(text)
        ids = tokenizer.convert_tokens_to_ids(names)
        begin = next((i for i in range(position, len(whole) - len(ids) + 1) if whole[i : i + len(ids)] == ids), None)
        if begin is None:
            kind = type(tokenizer).__name__
            raise AttnvizError(f"{kind} cuts a text between special tokens in another way than alone.")
        pieces += [Piece(id, 0, 0, None, None) for id in whole[position:begin]]
        places = _spelled(names, text, bytewise=type(tokenizer).__name__ in BYTEWISE)
        pieces += [Piece(id, *place, part) for id, place in zip(ids, places, strict=True)]
        position = begin + len(ids)
    return pieces + [Piece(id, 0, 0, None, None) for id in whole[position:]]


def _spelled(names: list[str], text: str, *, bytewise: bool) -> Iterator[tuple[int, int, int]]:
    """Start, end and number of the word of each piece; places are empty from the first piece that does not spell on.

    A word goes on by the sign that a vocabulary has for that: "##" before a piece, "@@" at its end, or no blank.
    """
    blanks, ends = (any(sign in name for name in names) for sign in (BLANK, "</w>"))
    starts = [i for i, character in enumerate(text) for _ in character.encode()] if bytewise else []
    offset, word, before, place, is_lost = 0, 0, "", (0, 0), len(starts) != len(names) and bytewise
    for number, name in enumerate(names):
        bare = name.replace(BLANK, " ").strip().removeprefix("##").removesuffix("@@").removesuffix("</w>")
        bare = bare or name.strip()
        start = offset if name.isspace() else offset + len(text[offset:]) - len(text[offset:].lstrip())
        is_lost |= not bytewise and bare != BLANK and text[start : start + len(bare)].casefold() != bare.casefold()
        if bytewise and not is_lost:
            start, offset = starts[number], starts[number] + 1
        elif is_lost:
            start = offset
        else:
            offset = start if bare == BLANK else start + len(bare)
        here = (start, offset)
        continued = name.startswith("##") or before.endswith("@@") or (here == place and start < offset)
        continued |= (blanks and not name.startswith(BLANK)) or (ends and bool(before) and not before.endswith("</w>"))
        word, before, place = word + (not continued), name, here
        yield start, offset, word


def targets(tokenizer: Any, texts: list[str], start: int) -> tuple[Sentence, ...]:
    """Texts in the language that an encoder-decoder writes, as its decoder reads them: without an end, from a start
    token on.

    Marian has another vocabulary for what it writes, NLLB other special tokens.
    """
    begin, rows = Token(str(tokenizer.convert_ids_to_tokens(start)), start, 0, 0, special=True), []
    if hasattr(tokenizer, "_switch_to_target_mode"):
        tokenizer = deepcopy(tokenizer)  # the one that all runs share stays as it is
        tokenizer._switch_to_target_mode()
        tokenizer._in_target_context_manager = True  # else each call switches back
    for row in sentences(tokenizer, texts):
        tokens = row.tokens[: row.length]
        ends = tokens[-1].special and tokens[-1].start == tokens[-1].end
        tokens = (begin, *(tokens[:-1] if ends else tokens))
        rows.append(Sentence(row.text, tokens, len(tokens)))
    return padded(tokenizer, rows)


def written(tokenizer: Any, ids: list[list[int]], lengths: tuple[int, ...]) -> tuple[Sentence, ...]:
    """Written sentences, as the decoder read them: (B, n) ids from the start token on; `lengths` of them count."""
    special, sentences = {*tokenizer.all_special_ids, *special_ids(tokenizer)}, []
    for row, length in zip(ids, lengths, strict=True):
        tokens, text = [], ""
        for i, id in enumerate(row):
            if not 0 < i < length or id in special:
                tokens.append(Token(str(tokenizer.convert_ids_to_tokens(id)), id, len(text), len(text), special=True))
                continue
            longer = _decoded(tokenizer, row[1 : i + 1], skip_special_tokens=True)
            grows = longer.startswith(text) and not longer.endswith(PARTLY)
            piece = longer[len(text) :] if grows else name_of(tokenizer, id)
            longer = longer if grows else text
            joined = bool(text) and not piece[:1].isspace()
            start = len(longer) - len(piece.lstrip()) if grows else len(text)
            tokens.append(Token(piece.strip() or piece, id, start, len(longer), joined=joined))
            text = longer
        sentences.append(Sentence(text, tuple(tokens), length))
    return tuple(sentences)


def extended(tokenizer: Any, sentence: Sentence, id: int) -> Sentence:
    """A sentence with one more token at its end, whose text is what it adds to that of the tokens before it."""
    text, tokens = sentence.text, sentence.tokens
    role = tokens[-1].role if tokens else ""
    if id in special_ids(tokenizer):
        token = Token(str(tokenizer.convert_ids_to_tokens(id)), id, len(text), len(text), special=True, role=role)
        return replace(sentence, tokens=(*tokens, token), length=sentence.length + 1)
    before = [token.id for token in tokens[-CONTEXT:]]
    shorter, longer = (_decoded(tokenizer, ids, clean_up_tokenization_spaces=False) for ids in (before, [*before, id]))
    shorter = shorter.rstrip(PARTLY)
    piece = longer[len(shorter) :] if longer.startswith(shorter) and not longer.endswith(PARTLY) else ""
    start = len(text) + len(piece) - len(piece.lstrip())
    joined = bool(tokens) and not tokens[-1].special and not piece[:1].isspace()
    label = piece.strip() or piece or name_of(tokenizer, id)
    token = Token(label, id, start, len(text) + len(piece), joined=joined, role=role)
    return replace(sentence, text=text + piece, tokens=(*tokens, token), length=sentence.length + 1)


CONTEXT = 8
"""Tokens before a new one that say how it is spelled: its space before, and which bytes make a letter."""
PARTLY = "\N{REPLACEMENT CHARACTER}"
"""Stands for bytes that are only part of a letter."""
_PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
_BYTES = {chr(byte): byte for byte in _PRINTABLE} | {
    chr(256 + i): byte for i, byte in enumerate(byte for byte in range(256) if byte not in _PRINTABLE)
}
"""The byte that each character of a byte-level vocabulary stands for, as GPT-2 writes them."""


def name_of(tokenizer: Any, id: int) -> str:
    """The text of one piece; bytes that are part of a letter by their numbers, "<0xC3>", an id without text as "#9"."""
    text, name = _decoded(tokenizer, [id]), None
    if text and PARTLY not in text:
        return text
    if id < len(tokenizer):
        name = tokenizer.convert_ids_to_tokens(id)
    if not name:
        return f"#{id} (no text)"
    if type(tokenizer).__name__ in BYTEWISE and len(name) == 1:
        return f"<0x{ord(name):02X}>"
    if PARTLY in text and set(name) <= _BYTES.keys():
        spelled = bytes(_BYTES[letter] for letter in name).decode("utf-8", "surrogateescape")
        return "".join(
            f"<0x{ord(character) & 0xFF:02X}>" if "\udc80" <= character <= "\udcff" else character
            for character in spelled
        )
    return name


def _decoded(tokenizer: Any, ids: list[int], **options: Any) -> str:
    """The text of ids; a model may have more of them than its tokenizer."""
    return tokenizer.decode([id for id in ids if id < len(tokenizer)], **options)
