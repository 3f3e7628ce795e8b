"""A text as a user's turn in a chat, in the tokens of a model's own chat template."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import Event, Lock, Timer
from typing import Any, NamedTuple

from attnviz.core.display import without_surrogates
from attnviz.core.errors import InputError
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.huggingface import reading

RENDERER = Path(__file__).with_name("rendering.py")
START, MOST_SECONDS = 60.0, 2.0
"""Seconds for the process that renders templates to start, and for a template."""
MOST_CHARACTERS = 4_000_000
"""Characters that a template may write."""


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
    whole = rendered(tokenizer, name, turns, add_generation_prompt=True)
    ids = tokenizer(whole, add_special_tokens=False)["input_ids"]
    pieces = reading.pieces(tokenizer, whole)
    if [token.id for token in pieces] != ids:  # their places are unknown: tokens are shown by their names
        pieces = tuple(Token(reading.name_of(tokenizer, id), id, len(whole), len(whole)) for id in ids)

    def written(count: int) -> str:
        return rendered(tokenizer, name, turns[:count])

    turns_there = list(places(written, turns, whole))
    return Sentence(whole, tuple(in_turn(token, turns_there) for token in pieces), len(pieces))


def rendered(model: Any, name: str, turns: list[dict[str, Any]], **options: bool) -> str:
    """Text that the chat template of a tokenizer or a processor makes of turns, as its `apply_chat_template` does.

    A template is code of the model's authors: it runs in a process of its own, which is ended after 2 seconds.

    Args:
        name: of the model, for errors.

    Raises:
        InputError: if the template takes no such turns, or takes too long, too much memory, or writes too much.
    """
    template = model.chat_template
    template = template.get("default") if isinstance(template, dict) else template
    special = getattr(model, "tokenizer", model).special_tokens_map
    job = {"conversations": [turns], "chat_template": template, "most_characters": MOST_CHARACTERS} | options
    answer = _renderer(os.getpid()).ask(special | job)
    if "text" not in answer:
        raise InputError(f"The chat template of {name} takes no such turns: {answer['error'].rstrip('.')}.")
    return answer["text"]


class _Renderer:
    """A process of `rendering.py`, which does one job at a time and is started anew after one that takes too long."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None
        self._lock = Lock()

    def ask(self, job: dict[str, Any]) -> dict[str, str]:
        """The answer to a job: a text, or an error that says why there is none."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._process = _start()
                self._answer("", START)
            return self._answer(json.dumps(job, default=str) + "\n", MOST_SECONDS)

    def _answer(self, line: str, seconds: float) -> dict[str, str]:
        process, late = self._process, Event()
        timer = Timer(seconds, lambda: (late.set(), process.kill()))
        timer.start()
        try:
            print(line, end="", file=process.stdin, flush=True)
            answer = json.loads(process.stdout.readline())
            if "last" in answer:
                process.communicate()
            return answer
        except BaseException as error:  # an interrupt leaves an answer behind, which is not the next job's
            process.kill()
            process.communicate()
            if not isinstance(error, OSError | ValueError):
                raise
            return {"error": f"it did not end within {seconds:g} s" if late.is_set() else "its process broke off"}
        finally:
            timer.cancel()
            timer.join()


@lru_cache(maxsize=1)
def _renderer(pid: int) -> _Renderer:
    """The renderer of this process; a forked one has its own."""
    return _Renderer()


def _start() -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-P", str(RENDERER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="ascii",
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # whose threads take memory for each core
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )


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
