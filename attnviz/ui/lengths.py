"""Ways on where a model refuses a text for its length."""

import re
from itertools import islice

import streamlit as st

from attnviz import api
from attnviz.core.errors import AttnvizError, TooLong
from attnviz.core.request import Request
from attnviz.sources.base import Source
from attnviz.ui import cache
from attnviz.ui.request import change
from attnviz.ui.text import note

LONGEST = 100_000
"""Characters for which another model is looked for: each model would cut all of a longer text into tokens."""
PIECES = re.compile(r"\w+|[^\w\s]+")


def offer(error: TooLong, source: Source, request: Request) -> None:
    """Say which line is too long, with a button for its first tokens and for a model that reads all of it."""
    note(str(error))
    with st.container(horizontal=True, gap="small", key="too long"):
        if error.longest:
            title = f"Use the first {error.longest} tokens"
            st.button(
                title, key="first tokens", icon=":material/content_cut:", on_click=_shorten, args=(source, request)
            )
        if other := _reader(request):
            options = {"key": "other model", "icon": ":material/swap_horiz:"}
            st.button(f"Switch to {other}", on_click=_switch, args=(other,), **options)


def _shorten(source: Source, request: Request) -> None:
    """Take as many whole words of each line, from its beginning, as the model reads."""
    lines = "\n".join(_first(source, text) for text in request.texts)
    change(lambda choices: choices.without("text").put(text=lines))


def _first(source: Source, text: str) -> str:
    """As many whole words of a text, from its beginning, as the model reads; the text itself where none fits."""
    ends = [match.end() for match in islice(PIECES.finditer(text), source.longest)]
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        if _reads(source, Request((text[: ends[middle - 1]],))):
            low = middle
        else:
            high = middle - 1
    return text[: ends[low - 1]] if low else text


def _reads(source: Source, request: Request) -> bool:
    try:
        cache.sentences(source, request)
    except AttnvizError:
        return False
    return True


def _reader(request: Request) -> str | None:
    """The first model that ships with attnviz and reads these texts."""
    if sum(map(len, request.texts)) > LONGEST:
        return None
    for name, source_class in api.SOURCES.items():
        if source_class.reads == "text" and _reads(cache.source(name), request.prompt):
            return name
    return None


def _switch(name: str) -> None:
    change(lambda choices: choices.without("model", "text").put(model=name))
