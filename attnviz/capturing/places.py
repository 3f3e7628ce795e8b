"""Positions of a captured model that are patches of a picture, as sentences whose tokens have boxes."""

from collections.abc import Sequence
from typing import Any

from attnviz.core.errors import InputError, quoted
from attnviz.core.places import Picture, grid
from attnviz.core.tokens import Sentence, Token

MOST_EXTRA = 16
"""Positions before the patches, such as [CLS] and registers."""
MOST_PATCHES = 65_536


def sentences_of(places: Any, image: Any, sizes: list[int], batch: int) -> tuple[Sentence, ...]:
    """A sentence of patches for each picture of a batch.

    Args:
        places: rows and columns, or tokens.
        image: one picture for each sentence, or for all, see `Picture.of`; None for none.
        sizes: how many positions there are at the ends of attention calls; the most usual that fits is the picture's.

    Raises:
        InputError: if no size fits the grid, with both numbers, or a picture is none.
    """
    if isinstance(places, Sequence) and len(places) and all(isinstance(place, Token) for place in places):
        tokens = tuple(places)
    else:
        tokens = _tokens(places, sizes)
    images = tuple(image) if isinstance(image, tuple | list) else (image,) * batch
    images = () if image is None else images
    if images and len(images) != batch:
        raise InputError(f"There are {len(images)} pictures for {batch} sentences; give one for each, or one for all.")
    pictures = [(Picture.of(image),) for image in images] or [()] * batch
    return tuple(sentence(tokens, shown) for shown in pictures)


def patches(rows: int, columns: int, extra: Sequence[str] = ()) -> tuple[Token, ...]:
    """Tokens of the patches of a picture row by row, "row3·col5" counted from 0, after those that are no patches."""
    before = [Token(name, id, 0, 0, special=True) for id, name in enumerate(extra)]
    names = [f"row{row}·col{column}" for row in range(rows) for column in range(columns)]
    boxes = zip(names, grid(rows, columns), strict=True)
    return (*before, *(Token(name, len(before) + i, 0, 0, box=box) for i, (name, box) in enumerate(boxes)))


def sentence(tokens: tuple[Token, ...], pictures: tuple[Picture, ...]) -> Sentence:
    """The tokens of pictures, without a text."""
    count = sum(token.box is not None for token in tokens)
    return Sentence(f"a picture of {count:,} patches", tokens, len(tokens), pictures)


def _tokens(places: Any, sizes: list[int]) -> tuple[Token, ...]:
    if not (isinstance(places, tuple | list) and len(places) == 2 and all(type(n) is int and n > 0 for n in places)):
        what = f"`places` is {quoted(places)}; it has two whole numbers, rows and columns"
        raise InputError(f"{what}, or a Token for each position.")
    rows, columns = places
    fit = [size for size in sizes if 0 <= size - rows * columns <= MOST_EXTRA]
    if not fit or rows * columns > MOST_PATCHES:
        there = ", ".join(map(str, sorted(set(sizes))))
        what = f"A grid of {rows} x {columns} has {rows * columns:,} patches, and the attention calls have {there}"
        raise InputError(f"{what} positions, of which up to {MOST_EXTRA} may be no patches.")
    extra = max(fit, key=fit.count) - rows * columns
    return patches(rows, columns, ["[CLS]"] if extra == 1 else [f"[extra {i}]" for i in range(extra)])
