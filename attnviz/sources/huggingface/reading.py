"""Cut texts and chats into tokens with a model's own tokenizer, and find the position of each token in the text."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from attnviz.core.display import without_surrogates
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.tokens import Sentence, Token
from attnviz.sources import base
from attnviz.sources.huggingface import faults

PAIR = "|||"
"""Sign between the two texts of a pair, typed in one line."""
BLANK = "▁"
"""SentencePiece's sign for a space."""
WHOLE = {"truncation": False, "padding": False, "verbose": False}
"""Settings that keep the whole text, whatever tokenizer.json sets."""
CONTEXT = 8
"""Number of earlier tokens that a new token is decoded with, for a space before it and for letters of several bytes."""
PARTLY = "\N{REPLACEMENT CHARACTER}"
"""Character that a tokenizer returns for bytes that are only a part of a letter."""


class Piece(NamedTuple):
    """A token as a tokenizer returns it.

    Attributes:
        start, end: position in the text that it was cut from, in characters.
        word: number of its word.
        part: number of its text in a pair, 0 or 1; None for a special token that the tokenizer added.
    """

    id: int
    start: int = 0
    end: int = 0
    word: int | None = None
    part: int | None = None


def sentences(tokenizer: Any, texts: list[str], *, pairs: bool = True) -> tuple[Sentence, ...]:
    """Cut texts into tokens with the special tokens that the model expects, padded at the end to one length.

    A special token that the text already contains, such as one of a chat template, is special and is not added twice.

    Args:
        pairs: whether "|||" separates a pair of texts, which get different segments; models that continue a text read
            the bars as text.

    Raises:
        InputError: if a text has only special tokens, or only some of the texts are pairs.
    """
    texts = [without_surrogates(text) for text in texts]
    if not texts:
        raise InputError("There is no sentence; type at least one.")
    are_pairs = pairs and PAIR in texts[0]
    if pairs and any((PAIR in text) != are_pairs for text in texts):
        raise InputError(f"Some lines are pairs (with {PAIR} in them) and some are not; make all of them the same.")
    rows = [cut(tokenizer, *(text.split(PAIR, 1) if are_pairs else [text])) for text in texts]
    for number, row in enumerate(rows, 1):
        if all(token.special and token.start == token.end for token in row):
            raise InputError(f"Sentence {number} has no token for this model; type at least one word in it.")
    return pad(tokenizer, [Sentence(text, row, len(row)) for text, row in zip(texts, rows, strict=True)])


def pad(tokenizer: Any, sentences: list[Sentence]) -> tuple[Sentence, ...]:
    """Pad sentences at the end to one length, with the tokenizer's own token."""
    id = next((id for id in (tokenizer.pad_token_id, tokenizer.eos_token_id) if id is not None), 0)
    return base.pad_sentences(sentences, tokenizer.pad_token or tokenizer.eos_token or "<pad>", id)


def special_ids(tokenizer: Any) -> frozenset[int]:
    """Ids of tokens that are not part of a text; the mask and the unknown token stand for words and are not special."""
    stand_for_words = {tokenizer.unk_token_id, tokenizer.mask_token_id}
    added = (id for id, token in tokenizer.added_tokens_decoder.items() if token.special)
    return frozenset({*tokenizer.all_special_ids, *added} - stand_for_words)


def cut(tokenizer: Any, first: str, second: str | None = None, *, added: bool = True) -> tuple[Token, ...]:
    """Cut a text, or a pair of texts, into tokens; spaces around the sign of a pair belong to neither text.

    Args:
        added: whether the tokenizer adds the special tokens that the model expects; those in the text stay special.
    """
    parts, offsets = [first], [0]
    if second is not None:
        parts = [first.rstrip(), second.lstrip()]
        offsets.append(len(first) + len(PAIR) + len(second) - len(parts[1]))
    if tokenizer.is_fast:  # it is written in Rust, and returns positions
        encoding = tokenizer(*parts, return_offsets_mapping=True, add_special_tokens=added, **WHOLE).encodings[0]
        columns = encoding.ids, encoding.offsets, encoding.word_ids, encoding.sequence_ids
        pieces = [Piece(id, *span, word, part) for id, span, word, part in zip(*columns, strict=True)]
    else:
        pieces = _slow_pieces(tokenizer, parts, added)
    special, tokens = special_ids(tokenizer), []
    last_word, last_end = None, 0  # word and end of the last piece
    is_blank = False  # whether the last piece was a lone sign for a space, which belongs to the word of the next piece
    for id, start, end, word, part in _without_repeats(pieces):
        name = str(tokenizer.convert_ids_to_tokens(id))
        if part is None:
            tokens.append(Token(name, id, 0, 0, special=True, segment=tokens[-1].segment if tokens else 0))
            last_word = None
            continue
        text, offset = parts[part], offsets[part]
        while start < end - 1 and text[start].isspace():
            start += 1
        if id in special:
            tokens.append(Token(name, id, start + offset, end + offset, special=True, segment=part))
            last_word, last_end = None, end
            continue
        # pieces of one letter have the same position
        starts_word = not is_blank and start >= last_end and text[:start][-1:].isspace()
        joined = (word, part) == last_word and not starts_word
        is_blank = set(name) == {BLANK}
        if is_blank and text[start:end].strip():  # the tokenizer gives it the position of the characters after it
            end = start
        label = text[start:end] or name
        tokens.append(Token(label, id, start + offset, end + offset, joined=joined, segment=part))
        last_word, last_end = (word, part), end
    return tuple(tokens)


def _without_repeats(pieces: list[Piece]) -> list[Piece]:
    """Leave out special tokens added at the start or the end of a text that already has the same tokens there."""
    ids, of_text = [piece.id for piece in pieces], [piece.part is not None for piece in pieces]
    if True not in of_text:
        return pieces
    added = of_text.index(True)  # number of tokens added at the start
    if ids[:added] == ids[added : 2 * added] and all(of_text[added : 2 * added]):
        pieces = pieces[added:]
    added = of_text[::-1].index(True)  # at the end
    if added and ids[-added:] == ids[-2 * added : -added] and all(of_text[-2 * added : -added]):
        pieces = pieces[:-added]
    return pieces


def _slow_pieces(tokenizer: Any, parts: list[str], added: bool) -> list[Piece]:
    """Pieces of a tokenizer written in Python, which returns no positions: the text is searched for the pieces."""
    rest = tokenizer(*parts, add_special_tokens=added, **WHOLE)["input_ids"]
    pieces, word = [], 0
    for part, text in enumerate(parts):
        names = tokenizer.tokenize(text)
        ids, count = tokenizer.convert_tokens_to_ids(names), len(names)
        begin = next((i for i in range(len(rest) - count + 1) if rest[i : i + count] == ids), None)
        if begin is None:
            kind = type(tokenizer).__name__
            raise AttnvizError(f"{kind} tokenizes a text differently if special tokens are added to it.")
        pieces += [Piece(id) for id in rest[:begin]]  # special tokens
        for id, (start, end, joined) in zip(ids, places(text, names), strict=True):
            word += not joined
            pieces.append(Piece(id, start, end, word, part))
        rest = rest[begin + count :]
    return pieces + [Piece(id) for id in rest]


def places(text: str, names: Sequence[str]) -> Iterator[tuple[int, int, bool]]:
    """Search a text for the names of tokens, in order and ignoring case.

    Yields:
        Start and end of a token, which are equal if its name is not in the text, and whether it continues a word.
    """
    low, offset = text.lower() if len(text.lower()) == len(text) else text, 0
    for name in names:
        bare = name.replace(BLANK, " ").strip().lstrip("Ġ").removeprefix("##").removesuffix("@@").removesuffix("</w>")
        start = low.find(bare.lower(), offset) if bare else -1
        if start < 0:
            yield offset, offset, False
            continue
        joined = 0 < start == offset and low[start - 1 : start + 1].isalnum()
        offset = start + len(bare)
        yield start, offset, joined


def chats(tokenizer: Any, texts: list[str], system: str, name: str) -> tuple[Sentence, ...]:
    """Cut chats with one user's turn into tokens, up to the beginning of the answer, padded at the end to one length.

    The ids are those of `apply_chat_template` with its generation prompt. Tokens that the template adds to the turns
    are special. Each token has the role of its turn. The chat begins with the turn `system`, unless it is "".
    """
    if not tokenizer.chat_template:
        raise InputError(f"{name} has no chat template; give it the text without one.")
    render, sentences = partial(render_chat, tokenizer, name), []
    for text in map(without_surrogates, texts):
        turns = turns_of(text, system)
        prompt = render(turns, add_generation_prompt=True)
        tokens = with_roles(cut(tokenizer, prompt, added=False), prompt, turns, render)
        sentences.append(Sentence(prompt, tokens, len(tokens)))
    return pad(tokenizer, sentences)


def turns_of(text: str, system: str, pictures: int = 0) -> list[dict[str, Any]]:
    """Turns of a chat: the system's turn, unless it is "", and a user's turn, which begins with pictures."""
    turns = [{"role": "system", "content": system}] if system else []
    return [*turns, {"role": "user", "content": text} | ({"pictures": pictures} if pictures else {})]


def render_chat(model: Any, name: str, turns: list[dict[str, Any]], **options: bool) -> str:
    """Render turns with the chat template of a tokenizer or a processor, in the sandbox of transformers.

    Raises InputError with the `name` of the model if the template takes no such turns.
    """
    from transformers.utils.chat_template_utils import render_jinja_template

    if hasattr(model, "tokenizer"):  # the template of a processor takes lists of pictures and texts
        chat = []
        for turn in turns:
            images = [{"type": "image"}] * turn.get("pictures", 0)
            chat.append({"role": turn["role"], "content": [*images, {"type": "text", "text": turn["content"]}]})
        turns = chat
    template = model.chat_template
    template = template.get("default") if isinstance(template, dict) else template
    special = getattr(model, "tokenizer", model).special_tokens_map
    try:
        return render_jinja_template(conversations=[turns], chat_template=template, **special, **options)[0][0]
    except Exception as error:  # a template can raise any error
        raise InputError(f"The chat template of {name} takes no such turns: {faults.first(error)}") from None


def with_roles(
    tokens: tuple[Token, ...], whole: str, turns: list[dict[str, str]], render: Callable[[list[dict]], str]
) -> tuple[Token, ...]:
    """Give each token the role of its turn; tokens after the last turn are the assistant's, added tokens are special.

    Args:
        whole: rendered text of all turns, with the beginning of the answer.
        turns: turns with their content; a template may strip spaces from it.
        render: function that renders the first turns.
    """
    spans, turn_end = [], 0  # role, start and end of the content, and end of each turn
    for count, turn in enumerate(turns, 1):
        content = turn["content"] if turn["content"] in whole[turn_end:] else turn["content"].strip()
        start = max(turn_end, whole.find(content, turn_end))
        turn_end = end = start + len(content)
        with suppress(InputError):  # some templates refuse a chat that consists of the system's turn
            rendered = render(turns[:count])
            turn_end = max(end, len(rendered)) if whole.startswith(rendered) else end
        spans.append((turn["role"], start, end, turn_end))
    with_role = []
    for token in tokens:
        turns_after_start = (span for span in spans if token.start < span[-1])
        role, start, end, _ = next(turns_after_start, ("assistant", 0, 0, 0))
        is_content = start <= token.start and token.end <= end
        with_role.append(replace(token, role=role, special=token.special or not is_content))
    return tuple(with_role)


def targets(tokenizer: Any, texts: list[str], start: int) -> tuple[Sentence, ...]:
    """Cut texts in the language that an encoder-decoder writes, as its decoder reads them.

    The tokens begin with a start token and have no end token. Marian writes with another vocabulary than it reads, and
    NLLB with other special tokens.
    """
    start_token, targets = Token(str(tokenizer.convert_ids_to_tokens(start)), start, 0, 0, special=True), []
    if hasattr(tokenizer, "_switch_to_target_mode"):
        tokenizer = deepcopy(tokenizer)  # the tokenizer that all runs share stays as it is
        tokenizer._switch_to_target_mode()
        tokenizer._in_target_context_manager = True  # without this, each call would switch back
    for sentence in sentences(tokenizer, texts):
        tokens = sentence.tokens[: sentence.length]
        has_end_token = tokens[-1].special and tokens[-1].start == tokens[-1].end
        tokens = (start_token, *(tokens[:-1] if has_end_token else tokens))
        targets.append(Sentence(sentence.text, tokens, len(tokens)))
    return pad(tokenizer, targets)


def written(tokenizer: Any, ids: list[list[int]], lengths: tuple[int, ...]) -> tuple[Sentence, ...]:
    """Make sentences of the ids that a model wrote, as its decoder read them.

    Args:
        ids: (B, n) ids from the start token on.
        lengths: number of ids of each sentence without padding.
    """
    sentences = []
    for row, length in zip(ids, lengths, strict=True):
        start, *new_ids = row[:length]
        sentence = Sentence("", (Token(str(tokenizer.convert_ids_to_tokens(start)), start, 0, 0, special=True),), 1)
        for id in new_ids:
            sentence = extended(tokenizer, sentence, id)
        sentences.append(sentence)
    return pad(tokenizer, sentences)


def extended(tokenizer: Any, sentence: Sentence, id: int) -> Sentence:
    """Append a token to a sentence; the text grows by the characters that decoding with the new token adds."""
    text, tokens = sentence.text, sentence.tokens
    role = tokens[-1].role if tokens else ""
    if id in special_ids(tokenizer):
        token = Token(str(tokenizer.convert_ids_to_tokens(id)), id, len(text), len(text), special=True, role=role)
        return replace(sentence, tokens=(*tokens, token), length=sentence.length + 1)
    before = [token.id for token in tokens[-CONTEXT:]]
    old_text = _decoded(tokenizer, before, clean_up_tokenization_spaces=False).rstrip(PARTLY)
    new_text = _decoded(tokenizer, [*before, id], clean_up_tokenization_spaces=False)
    piece = new_text[len(old_text) :] if new_text.startswith(old_text) and not new_text.endswith(PARTLY) else ""
    piece = piece if text else piece.lstrip()
    start = len(text) + len(piece) - len(piece.lstrip())
    joined = bool(tokens) and not tokens[-1].special and not piece[:1].isspace()
    label = piece.strip() or piece or name_of(tokenizer, id)
    token = Token(label, id, start, len(text) + len(piece), joined=joined, role=role)
    return replace(sentence, text=text + piece, tokens=(*tokens, token), length=sentence.length + 1)


def name_of(tokenizer: Any, id: int) -> str:
    """Text of a token; its name if it has no text or is a part of a letter, and "#9 (no text)" for an unknown id."""
    text = _decoded(tokenizer, [id])
    if text and PARTLY not in text:
        return text
    return (id < len(tokenizer) and tokenizer.convert_ids_to_tokens(id)) or f"#{id} (no text)"


def _decoded(tokenizer: Any, ids: list[int], **options: Any) -> str:
    """Decode ids to a text, without ids that the tokenizer does not know; a model may have more embeddings."""
    return tokenizer.decode([id for id in ids if id < len(tokenizer)], **options)
