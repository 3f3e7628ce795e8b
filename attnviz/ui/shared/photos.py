"""The picture that a model sees, or the sound that it hears: an example, or one that a person dropped in this session.

In a link an example is called by its name, and patches that are gray in it by their positions: ``gray=6-7``.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import streamlit as st

from attnviz.core import assets
from attnviz.core.errors import InputError
from attnviz.core.places import Picture, Sound
from attnviz.core.request import Request
from attnviz.figures.patches import data_uri
from attnviz.files import images, sounds
from attnviz.sources.base import Source
from attnviz.ui import cache
from attnviz.ui.shared import state, words
from attnviz.ui.shared.setting import Setting, State, coded, each, reader, session_setting
from attnviz.ui.text import label

NONE = "none"
"""Name of no picture, for a model that reads text without one, too."""
HEIGHT = 38
"""Pixels of the small picture in the toolbar."""
MOST = 4
"""Pictures that a session keeps."""

PICTURES, SOUNDS = (
    {path.stem.replace("-", " "): path for path in sorted(assets.path(folder).glob(ending))}
    for folder, ending in (("pictures", "*.*g"), ("sounds", "*.wav"))
)
EXAMPLES = PICTURES | SOUNDS
"""Pictures and sounds that ship, by their names."""

WAITS = session_setting("picture waits", "")
"""Name of a picture that was just dropped."""
LATER = session_setting("picture for another model", "")
"""Name of the sound that was dropped on a model of pictures, or of the picture on one that hears."""
READS = session_setting("reads", "text")
"""What the model of the page reads."""
DROPPED: Setting[Mapping[str, Picture]] = session_setting("dropped pictures", {})
"""Pictures of this session by the names of their files, the newest last."""


def _decode(values: list[str]) -> str:
    if values[-1] not in (*EXAMPLES, NONE):
        raise InputError(words.NO_EXAMPLE_PICTURE.format(name=values[-1][:40], names=", ".join(EXAMPLES)))
    return values[-1]


PICTURE: Setting[str | None] = Setting(
    "picture", None, lambda name: name if name in (*EXAMPLES, NONE) else None, _decode
)
"""Name of the picture; None for the first example."""
GRAYED: Setting[tuple[int, ...]] = coded(
    "gray",
    (),
    lambda positions: "-".join(map(str, positions)),
    lambda text: tuple(dict.fromkeys(each(reader(r"\d{1,5}", lambda m: int(m[0]), "6-7"), 4096)(text))),
    "model edits",
)
"""Positions of the patches that are gray in the picture."""


def examples(source: Source) -> dict[str, Path]:
    """The examples that a model can read."""
    return SOUNDS if source.reads == "sound" else PICTURES


def file(source: Source, name: str | None) -> Path:
    """The file of an example; None is the first."""
    there = examples(source)
    return there.get(name) or next(iter(there.values()))


def name(source: Source) -> str:
    """The name of what is read; `NONE` where a model of texts and pictures is to read text alone."""
    mine = [name for name, one in state.get(DROPPED).items() if isinstance(one, Sound) == (source.reads == "sound")]
    there = [*examples(source), *mine, *([NONE] if source.reads == "both" else [])]
    return next((name for name in (state.get(PICTURE), state.get(LATER)) if name in there), there[0])


def picture(source: Source) -> Picture | None:
    """The picture, as it was dropped, or the sound."""
    chosen = name(source)
    return None if chosen == NONE else by_name(chosen)


def by_name(name: str) -> Picture:
    """The picture or the sound that was dropped under a name, or else the example."""
    return state.get(DROPPED).get(name) or _example(name)


def others(source: Source) -> list[str]:
    """Names of the examples and of what was dropped, but for what is read."""
    dropped = [name for name, one in state.get(DROPPED).items() if isinstance(one, Sound) == (source.reads == "sound")]
    return [other for other in (*dropped, *examples(source)) if other != name(source)]


@lru_cache(maxsize=8)
def _example(name: str) -> Picture:
    path = EXAMPLES[name]
    return read(path.name, path.read_bytes())[0]


def read(name: str, content: bytes) -> tuple[Picture, tuple[str, ...]]:
    """The picture or the sound of a file, and what was changed in it, a sentence each."""
    return (sounds.read(name, content), ()) if name.lower().endswith(sounds.ENDING) else images.read(name, content)


def named(pictures: tuple[Picture, ...]) -> str:
    """The name of an example or of the file of a picture; "" of another one, such as one with gray patches."""
    there = {name: by_name(name) for name in (*state.get(DROPPED), *EXAMPLES)}
    return next((name for name, one in there.items() if pictures == (one,)), "")


def request(source: Source, texts: tuple[str, ...]) -> Request:
    """A request for texts, or "" of a model that reads none, with the picture and its gray patches."""
    plain, grayed = whole(source, texts), state.get(GRAYED)
    if not (grayed and plain.pictures) or source.reads == "sound":
        return plain
    tokens = cache.sentences(source, plain)[0].tokens
    boxes = [tokens[position].box for position in grayed if position < len(tokens) and tokens[position].box]
    return replace(plain, pictures=((picture(source).grayed(boxes),),) * len(texts))


def whole(source: Source, texts: tuple[str, ...]) -> Request:
    """A request for texts with the picture without gray patches, if the model reads one."""
    shown = None if source.reads == "text" else picture(source)
    return Request(texts, pictures=() if shown is None else ((shown,),) * len(texts))


def dropped(now: State, name: str, picture: Picture) -> State:
    """The step to a picture that was dropped; one that the model does not read takes no other one away."""
    kept = {other: value for other, value in now[DROPPED].items() if other != name}
    kept = dict([*kept.items()][-MOST + 1 :])
    is_of_other_models = now[READS] != "text" and isinstance(picture, Sound) != (now[READS] == "sound")
    now = now.put(LATER, name) if is_of_other_models else _shown(now, name)
    return now.put(DROPPED, {**kept, name: picture}).put(WAITS, name)


def _shown(now: State, name: str) -> State:
    """The step to another picture, of which no patch is gray."""
    return now.without("text").put(GRAYED, ()).put(PICTURE, name)


def waiting(source: Source) -> str:
    """Message about what was dropped and the model does not read, once; else ""."""
    waits = state.get(WAITS)
    state.put(WAITS, "")
    if not waits or (source.reads != "text" and name(source) == waits):
        return ""
    does = words.READS_TEXT if source.reads == "text" else words.READS_OTHER
    return words.PICTURE_WAITS.format(file=waits, model=source.name, does=does)


def box(source: Source) -> None:
    """The picture, small, with a button for another one and the examples."""
    offered = {words.NO_PICTURE: NONE} if source.reads == "both" else {}
    offered = offered | {name: name for name in examples(source)}

    def take() -> None:
        example = offered[state.event("example picture")]
        state.change(_shown, example)

    shown = picture(source)
    with st.container(horizontal=True, gap="small", vertical_alignment="center", width="content", key="photo"):
        if shown is not None:
            st.html(f'<img src="{data_uri(shown.small)}" alt="" height="{HEIGHT}">', width="content")
        chosen = name(source) if shown is not None else words.NO_PICTURE
        chosen = words.IN_NO_LINK.format(name=chosen) if chosen in state.get(DROPPED) else chosen
        label(chosen)
        choose = words.CHOOSE_SOUND if source.reads == "sound" else words.CHOOSE_PICTURE
        st.html(choose, width="content")
        st.menu_button(
            words.EXAMPLES_TITLE if source.reads != "both" else words.EXAMPLE_PICTURES,
            list(offered),
            key="example picture",
            on_click=take,
        )
