"""The picture that a model sees, or the sound that it hears: an example, or a file of this session."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import streamlit as st

from attnviz.api import EXAMPLES
from attnviz.core.errors import InputError, quoted
from attnviz.core.places import Picture, Sound
from attnviz.core.request import Request
from attnviz.figures.patches import data_uri
from attnviz.files import media
from attnviz.sources.base import Source
from attnviz.ui import cache
from attnviz.ui.request import change, control, now, session

NONE = "none"
"""Name of no picture, for a model that reads text without one, too."""
MOST = 4
"""Pictures that a session keeps."""


def own() -> dict[str, Picture]:
    """Pictures and sounds of this session by the names of their files, the newest last."""
    return session().memory.setdefault("pictures", {})


def names(source: Source) -> list[str]:
    """Names of what a model can read: files of the session, the examples, and none if it reads text alone, too."""
    hears = source.reads == "sound"
    mine = [name for name, picture in own().items() if isinstance(picture, Sound) == hears]
    shipped = [name for name, path in EXAMPLES.items() if (path.suffix == media.SOUND_ENDING) == hears]
    return [*reversed(mine), *shipped, *([NONE] if source.reads == "both" else [])]


def row(source: Source) -> None:
    """The choice of a picture or a sound, and the picture small."""
    there = names(source)
    label = "Sound" if source.reads == "sound" else "Picture"
    chosen = now()["picture"] if now()["picture"] in there else there[0]
    if chosen != NONE:
        st.html(f'<img src="{data_uri(_named(chosen).small)}" alt="" height="38">', width="content")
    control(
        st.selectbox,
        label,
        "picture",
        there,
        value=chosen,
        step=lambda choices, name: choices.without("text").put(picture=name, gray=()),
        visible=False,
        width=180,
    )


def take(name: str, content: bytes) -> list[tuple[str, str]]:
    """Keep the picture or the sound of a file and show it; returns notes on what was changed in it."""
    if name.lower().endswith(media.SOUND_ENDING):
        picture, notes = media.read_sound(name, content), ()
    else:
        picture, notes = media.read_picture(name, content)
    own().pop(name, None)
    own()[name] = picture
    while len(own()) > MOST:
        own().pop(next(iter(own())))
    change(lambda choices: choices.without("text").put(picture=name, gray=()))
    return [(f"{name}: {text}", "notice") for text in notes]


def with_picture(source: Source, request: Request, *, gray: bool = True) -> Request:
    """The request with the chosen picture or sound.

    Args:
        gray: whether the patches that a person made gray are gray in it.

    Raises:
        InputError: if a link asks for a picture that is not there.
    """
    there, name = names(source), now()["picture"]
    if name is not None and name not in there:
        raise InputError(
            f"There is no picture {quoted(name)} here: open its file, or choose one of {', '.join(there)}."
        )
    name = there[0] if name is None else name
    if name == NONE:
        return request
    picture = _named(name)
    whole = replace(request, pictures=((picture,),) * len(request.texts))
    if not (gray and now()["gray"]) or source.reads == "sound":
        return whole
    tokens = cache.sentences(source, whole)[0].tokens
    boxes = [tokens[place].box for place in now()["gray"] if place < len(tokens) and tokens[place].box]
    return replace(request, pictures=((picture.grayed(boxes),),) * len(request.texts))


def name_of(picture: Picture) -> str:
    """Name of a picture of this session or of an example.

    Raises:
        LookupError: if it has none, such as one with gray patches.
    """
    return {_named(name): name for name in (*own(), *EXAMPLES)}[picture]


def _named(name: str) -> Picture:
    return own()[name] if name in own() else _example(name)


@lru_cache(maxsize=8)
def _example(name: str) -> Picture:
    path: Path = EXAMPLES[name]
    content = path.read_bytes()
    is_sound = path.suffix == media.SOUND_ENDING
    return media.read_sound(path.name, content) if is_sound else media.read_picture(path.name, content)[0]
