"""Pictures and sounds as inputs of a model: examples, and files that were opened in this session."""

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
from attnviz.link import Choices
from attnviz.sources.base import Source
from attnviz.ui import cache
from attnviz.ui.request import change, control, now, session

NONE = "none"
"""Option for no picture, for a model that can also read text alone."""
MOST = 4
"""Maximum number of pictures and sounds that a session keeps."""


def session_pictures() -> dict[str, Picture]:
    """Return the pictures and sounds of the files that this session opened, by file name, the newest last."""
    return session().memory.setdefault("pictures", {})


def names(source: Source) -> list[str]:
    """Return the names of all pictures or sounds that a model can read: from files, examples, `NONE` if optional."""
    is_sound = source.reads == "sound"
    own = [name for name, picture in session_pictures().items() if isinstance(picture, Sound) == is_sound]
    examples = [name for name, path in EXAMPLES.items() if (path.suffix == media.SOUND_ENDING) == is_sound]
    return [*reversed(own), *examples, *([NONE] if source.reads == "both" else [])]


def row(source: Source) -> None:
    """Draw a thumbnail, and the choice of a picture or a sound."""
    available = names(source)
    label = "Sound" if source.reads == "sound" else "Picture"
    chosen = now()["picture"] if now()["picture"] in available else available[0]
    if chosen != NONE:
        st.html(f'<img src="{data_uri(_picture_by_name(chosen).small)}" alt="" height="38">', width="content")
    options = {"value": chosen, "apply": _with_picture_name, "visible": False, "width": 180}
    control(st.selectbox, label, "picture", available, **options)


def _with_picture_name(choices: Choices, name: str) -> Choices:
    """Return the choices with another picture or sound, without the text and the gray patches of the old one."""
    return choices.without("text").put(picture=name, gray=())


def open_file(name: str, content: bytes) -> list[tuple[str, str]]:
    """Keep a file's picture or sound, and choose it; return notes (text, kind), for example if it was made smaller."""
    if name.lower().endswith(media.SOUND_ENDING):
        picture, notes = media.read_sound(name, content), ()
    else:
        picture, notes = media.read_picture(name, content)
    pictures = session_pictures()
    pictures.pop(name, None)  # so that it becomes the newest
    pictures[name] = picture
    while len(pictures) > MOST:
        oldest = next(iter(pictures))
        del pictures[oldest]
    change(lambda choices: _with_picture_name(choices, name))
    return [(f"{name}: {text}", "notice") for text in notes]


def with_picture(source: Source, request: Request, *, gray: bool = True) -> Request:
    """Return the request with the chosen picture or sound for each text, by default the first one available.

    Args:
        gray: whether the patches that the user grayed out are gray in the picture.

    Raises:
        InputError: if the link names a picture that this session does not have.
    """
    available, name = names(source), now()["picture"]
    if name is not None and name not in available:
        listed = ", ".join(available)
        raise InputError(f"There is no picture {quoted(name)} here: open its file, or choose another: {listed}.")
    name = available[0] if name is None else name
    if name == NONE:
        return request
    picture, count = _picture_by_name(name), len(request.texts)
    unchanged = replace(request, pictures=((picture,),) * count)
    if not gray or not now()["gray"] or source.reads == "sound":
        return unchanged
    tokens = cache.sentences(source, unchanged)[0].tokens
    patches = [tokens[position].box for position in now()["gray"] if position < len(tokens)]
    grayed = picture.grayed([box for box in patches if box])  # tokens of words have no box
    return replace(request, pictures=((grayed,),) * count)


def name_of(picture: Picture) -> str:
    """Look up the name of a picture among the session's files and the examples.

    Raises:
        LookupError: if it is not one of these, for example because some of its patches are gray.
    """
    names_by_picture = {_picture_by_name(name): name for name in (*session_pictures(), *EXAMPLES)}
    return names_by_picture[picture]


def _picture_by_name(name: str) -> Picture:
    return session_pictures()[name] if name in session_pictures() else _load_example(name)


@lru_cache(maxsize=8)
def _load_example(name: str) -> Picture:
    """Read a picture or a sound that ships with attnviz."""
    path: Path = EXAMPLES[name]
    content = path.read_bytes()
    is_sound = path.suffix == media.SOUND_ENDING
    return media.read_sound(path.name, content) if is_sound else media.read_picture(path.name, content)[0]
