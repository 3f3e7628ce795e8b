"""A text as a user's turn in a chat, in the tokens of a model's own chat template."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from attnviz.core.display import without_surrogates
from attnviz.core.errors import InputError
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.huggingface import reading


def has_template(tokenizer: Any) -> bool:
    """Whether a tokenizer has a chat template."""
    return bool(getattr(tokenizer, "chat_template", None))


def sentences(tokenizer: Any, texts: list[str], system: str, name: str) -> tuple[Sentence, ...]:
    """Chats of one user's turn each, up to where the assistant's answer begins, padded at the end to one length.

    The ids are those of `apply_chat_template` with its generation prompt. What the template adds to the turns is
    special. Each token has the role of its turn.

    Args:
        system: the system's turn; "" for none.
        name: of the model, for errors.

    Raises:
        InputError: if the model has no chat template, or its template takes no such turns.
    """
    if not has_template(tokenizer):
        raise InputError(f"{name} has no chat template; give it the text without one.")
    return reading.padded(tokenizer, [_sentence(tokenizer, without_surrogates(text), system, name) for text in texts])


def _sentence(tokenizer: Any, text: str, system: str, name: str) -> Sentence:
    turns = [{"role": "system", "content": system}] if system else []
    turns.append({"role": "user", "content": text})
    try:
        whole = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=True)["input_ids"]
    except Exception as error:  # a template is code of the model's authors, which raises what it likes
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"The chat template of {name} takes no such turns: {reason}.") from None
    pieces = reading.pieces(tokenizer, whole)
    if [token.id for token in pieces] != ids:  # their places are unknown: tokens are shown by their names
        pieces = tuple(Token(reading.name_of(tokenizer, id), id, len(whole), len(whole)) for id in ids)

    def written(count: int) -> str:
        return tokenizer.apply_chat_template(turns[:count], tokenize=False)

    turns_there = list(places(written, turns, whole))
    return Sentence(whole, tuple(in_turn(token, turns_there) for token in pieces), len(pieces))


class Turn(NamedTuple):
    """The place of a turn in the whole text: its content from `start` to `end`, and where the next turn begins."""

    role: str
    start: int
    end: int
    next: int


def places(written: Callable[[int], str], turns: list[dict[str, str]], whole: str) -> Iterator[Turn]:
    """The turns in their order; a template may strip their content.

    Args:
        written: from how many of the turns to what the template makes of them.
        whole: of all turns and the beginning of the answer.
    """
    position = 0
    for count, turn in enumerate(turns, 1):
        content = turn["content"] if turn["content"] in whole[position:] else turn["content"].strip()
        start = max(position, whole.find(content, position))
        position = end = start + len(content)
        with suppress(Exception):  # some templates take no system's turn alone
            before = written(count)
            position = max(end, len(before)) if whole.startswith(before) else end
        yield Turn(turn["role"], start, end, position)


def in_turn(token: Token, turns: list[Turn]) -> Token:
    """A token with the role of its turn; behind all of them the assistant's."""
    turn = next((turn for turn in turns if token.start < turn.next), None)
    if turn is None:
        return replace(token, role="assistant", special=True)
    is_content = turn.start <= token.start and token.end <= turn.end
    return replace(token, role=turn.role, special=token.special or not is_content)
