"""Ways on where a model refuses a text for its length."""

import re
from collections.abc import Callable
from functools import partial
from itertools import islice

import streamlit as st

from attnviz import api
from attnviz.core.errors import AttnvizError, TooLong
from attnviz.core.request import Request
from attnviz.sources.base import Source
from attnviz.ui import cache
from attnviz.ui.shared import examples, state, words
from attnviz.ui.shared.examples import LEFT_OUT
from attnviz.ui.shared.pretrained import MODEL
from attnviz.ui.shared.setting import State
from attnviz.ui.text import note

SENTENCE_ENDS = re.compile(r"(?<=[.!?…])\s+")
LONGEST_READ = 100_000
"""Characters for which another model is looked for: all tokens of a longer text would be counted, by each model."""

PIECES = re.compile(r"\w+|[^\w\s]+")


def offers(error: TooLong, source: Source, request: Request) -> None:
    """Which line is too long, and the ways on that work."""
    note(str(error))
    lines = request.texts
    parts = tuple(part for line in lines for part in SENTENCE_ENDS.split(line) if part.strip())
    other = _reader(lines)
    with st.container(horizontal=True, gap="small", key="too long"):
        if error.longest:
            shortened = lambda: "\n".join(first(source, line, error.longest) for line in lines)  # noqa: E731
            title = words.FIRST_TOKENS.format(most=error.longest)
            left_out = words.CUT_TOKENS.format(most=error.longest)
            _offer(title, _text(by_line=len(lines) > 1), shortened, "content_cut", left_out=left_out)
        if parts != lines:
            _offer_lines(source, parts, words.SPLIT, words.FIRST_SENTENCES, "call_split", help=words.SPLIT_MEANS)
        if other:
            switch = examples.with_other_model(MODEL)
            _offer(words.SWITCH_TO.format(model=other), switch, lambda: other, "swap_horiz")


def fewer(source: Source, text: str) -> None:
    """The ways on that work where a text has more lines than a batch has sentences."""
    lines = tuple(line for line in text.splitlines() if line.strip())
    joined = text.strip("\r\n")
    with st.container(horizontal=True, gap="small", key="too many"):
        _offer_lines(source, lines, "", words.FIRST_LINES, "content_cut")
        if _reads(source, (joined,)):
            _offer(words.JOIN, _text(by_line=False), lambda: joined, "merge", help=words.JOIN_MEANS)


def _offer_lines(source: Source, lines: tuple[str, ...], every: str, some: str, icon: str, **options) -> None:
    """A button for these lines or, where a batch takes fewer, for the first of them; none if a line is too long."""
    taken = lines[: cache.MOST_SENTENCES]
    if _reads(source, taken):
        most = len(taken)
        left_out = "" if taken == lines else words.CUT_LINES.format(most=most, all=len(lines))
        title = some.format(most=most) if left_out else every
        _offer(title, _text(by_line=True), lambda: "\n".join(taken), icon, left_out=left_out, **options)


def _offer(
    title: str,
    step: Callable[[State, str], State],
    value: Callable[[], str],
    icon: str,
    *,
    left_out: str = "",
    **options,
) -> None:
    """A button for one step; its value is worked out when it is pressed, and it is said what is `left_out` then."""

    def act() -> None:
        state.change(step, value())
        state.put(LEFT_OUT, left_out)

    st.button(title, key=f"offer {icon}", icon=f":material/{icon}:", on_click=act, **options)


def _text(*, by_line: bool) -> Callable[[State, str], State]:
    return partial(examples.with_lines, by_line=by_line)


def first(source: Source, line: str, most: int) -> str:
    """As many whole words of a line, from its beginning, as make so many tokens; where none fit, the line as it is."""
    ends = [match.end() for match in islice(PIECES.finditer(line), most)]
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _fits(source, line[: ends[middle - 1]], most) else (low, middle - 1)
    return line[: ends[low - 1]] if low else line


def _fits(source: Source, text: str, most: int) -> bool:
    try:
        return len(source.tokenize([text])[0].tokens) <= most
    except TooLong:
        return False


def _reads(source: Source, lines: tuple[str, ...]) -> bool:
    try:
        cache.sentences(source, Request(lines))
    except AttnvizError:
        return False
    return True


def _reader(lines: tuple[str, ...]) -> str | None:
    """The first model that ships with attnviz and reads these lines."""
    if sum(map(len, lines)) > LONGEST_READ:
        return None
    for name in api.SOURCES:
        try:
            cache.sentences(cache.source(name), Request(lines))
        except AttnvizError:
            continue
        return name
    return None
