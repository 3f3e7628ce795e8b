"""The picture that a vision model reads: an example that ships, or one that a person dropped, kept in the session.

In a link an example is called by its name, and patches that are gray in it by their positions: ``gray=6-7``.
"""

from collections.abc import Mapping
from functools import lru_cache

import streamlit as st
import torch

from attnviz.core import assets
from attnviz.core.errors import InputError
from attnviz.core.places import Picture, PicturedText
from attnviz.figures.patches import data_uri
from attnviz.files import images
from attnviz.sources.base import Source
from attnviz.ui.shared import cache, state, words
from attnviz.ui.shared.setting import Setting, State, coded, each, reader, session_setting
from attnviz.ui.shared.text import plain

GRAY = 127
"""The color of patches that are taken out of a picture."""
HEIGHT = 38
"""Pixels of the small picture in the toolbar."""
MOST = 4
"""Pictures that a session keeps."""

EXAMPLES = {path.stem.replace("-", " "): path for path in sorted(assets.path("pictures").glob("*.*g"))}
"""Pictures that ship, by their names."""

DROPPED: Setting[Mapping[str, Picture]] = session_setting("dropped pictures", {})
"""Pictures of this session by the names of their files, the newest last."""


def _decode(values: list[str]) -> str:
    if values[-1] not in EXAMPLES:
        raise InputError(words.NO_EXAMPLE_PICTURE.format(name=values[-1][:40], names=", ".join(EXAMPLES)))
    return values[-1]


PICTURE: Setting[str | None] = Setting(
    "picture", None, lambda name: name if name in EXAMPLES else None, _decode, "text"
)
"""Name of the picture; None for the first example."""
GRAYED: Setting[tuple[int, ...]] = coded(
    "gray",
    (),
    lambda positions: "-".join(map(str, positions)),
    lambda text: tuple(dict.fromkeys(each(reader(r"\d{1,5}", lambda m: int(m[0]), "6-7"), 4096)(text))),
    "text model",
)
"""Positions of the patches that are gray in the picture."""


def name() -> str:
    """The name of the picture that is read."""
    chosen = state.get(PICTURE)
    return chosen if chosen in EXAMPLES or chosen in state.get(DROPPED) else next(iter(EXAMPLES))


def picture() -> Picture:
    """The picture that is read, as it was dropped."""
    return state.get(DROPPED).get(name()) or _example(name())


@lru_cache(maxsize=8)
def _example(name: str) -> Picture:
    return images.read(name, EXAMPLES[name].read_bytes())[0]


def lines(source: Source) -> tuple[PicturedText, ...]:
    """The picture as the texts of a source, with its gray patches."""
    grayed = state.get(GRAYED)
    if not grayed:
        return (whole(),)
    tokens = cache.sentences(source, (whole(),))[0].tokens
    boxes = [tokens[position].box for position in grayed if position < len(tokens) and tokens[position].box]
    pixels = picture().pixels.clone()
    height, width = picture().size
    for box in boxes:
        rows, columns = (
            slice(round(low * size), round(high * size))
            for low, high, size in ((box.top, box.bottom, height), (box.left, box.right, width))
        )
        pixels[rows, columns] = torch.tensor(GRAY, dtype=torch.uint8)
    return (PicturedText("", (Picture(pixels),)),)


def whole() -> PicturedText:
    """The picture without gray patches."""
    return PicturedText("", (picture(),))


def dropped(now: State, name: str, picture: Picture) -> State:
    """The step to a picture that was dropped."""
    kept = {other: value for other, value in now[DROPPED].items() if other != name}
    kept = dict([*kept.items()][-MOST + 1 :])
    return now.without("text").put(DROPPED, {**kept, name: picture}).put(PICTURE, name)


def box() -> None:
    """The picture, small, with a button for another one and the examples, in the place of a text."""

    def take() -> None:
        example = state.event("example picture")
        state.change(lambda now: now.without("text").put(PICTURE, example))

    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="photo"):
        st.html(f'<img src="{data_uri(picture().small)}" alt="" height="{HEIGHT}">', width="content")
        st.caption(plain(name()), width="content")
        st.html(words.CHOOSE_PICTURE.format(help=words.PICTURES_TAKEN), width="content")
        st.menu_button(words.EXAMPLES_TITLE, list(EXAMPLES), key="example picture", on_click=take)
