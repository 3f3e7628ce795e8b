"""Errors, each as one sentence a person can act on: what, with which values, what to do."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches


class AttnvizError(ValueError):
    """The root of every error that attnviz raises on purpose; its text may be shown to a user as it is."""


class ShapeError(AttnvizError):
    """Two shapes do not fit; the message names both."""


class MaskError(AttnvizError):
    """A mask is not what it says it is, or is not a mask."""


class EmptyRowError(AttnvizError):
    """A query has no key left to attend to, and ``empty_rows="error"`` was asked for."""


class NotFiniteError(AttnvizError):
    """A model gave NaN or infinite numbers, so that its outputs cannot be compared; the message names the first."""


class InputError(AttnvizError):
    """Unusable input that a person typed, or that a link or a file held."""


class UnsteadyError(InputError):
    """The same input gives two outputs, so that outputs cannot be compared."""


class TooLong(InputError):
    """A sentence has more tokens than a model reads; the message names its line.

    Attributes:
        longest: how many tokens the model reads.
    """

    def __init__(self, lengths: Sequence[int], longest: int, reads: str, *, at_least: bool = False):
        line, length = next((i, length) for i, length in enumerate(lengths, 1) if length > longest)
        self.longest = longest
        super().__init__(f"Line {line} has {'at least ' if at_least else ''}{length:,} tokens; {reads}")


class Canceled(InputError):
    """A long task that was ended by who asked for it."""


def quoted(value: object, most: int = 40) -> str:
    """A value as an error message shows it: cut short. (The repr of 5,000 digits or of deep nesting raises.)"""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__} too large to show"
    return text if len(text) <= most else f"{text[:most]}…"


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turn whatever a library raises while it reads a file into one sentence: of a damaged file it raises anything.

    Raises:
        InputError: names the file; an error of ours passes as it is.
    """
    try:
        yield
    except AttnvizError:
        raise
    except Exception as error:
        why = "it needs more memory than is free here" if isinstance(error, MemoryError) else "it is damaged"
        raise InputError(f"{quoted(name)} cannot be read: {why}. Save it again, or choose another file.") from None


PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".avif")
"""Endings of the names of pictures."""

OF_PICTURES = (
    "Models that read pictures, such as 'shapes', take attnviz.picture(FILE); in the shell give FILE as the text."
)
"""The way for what is no text."""


def check_no_picture(name: str) -> None:
    """Raises: InputError: if a file is a picture, by the ending of its name."""
    if name.lower().endswith(PICTURES):
        raise InputError(f"{quoted(name)} is a picture, and text is read here. {OF_PICTURES}")


def did_you_mean(typed: str, options: Iterable[str]) -> str:
    """The known word that is spelled most like it, as a sentence after another one; empty if none is close."""
    near = get_close_matches(typed[:40].lower(), options, 1)
    return f" Did you mean {quoted(near[0])}?" if near else ""


def check_whole(name: str, value: object, least: int, most: int) -> None:
    """Raises: InputError: unless a value is a whole number within bounds."""
    if type(value) is not int or not least <= value <= most:
        raise InputError(f"{name} is {quoted(value)}; it must be a whole number from {least} to {most:,}.")


class AttentionWarning(UserWarning):
    """Rows of weights that are not distributions, by place.

    Attributes:
        kind: "empty" (no key left to attend to) or "nan" (a weight is not a number).
        rows: (batch, head, query) of each such row, at most the first 1,000.
        total: how many there are.
    """

    def __init__(self, kind: str, rows: tuple[tuple[int, int, int], ...], total: int, empty_rows: str):
        self.kind, self.rows, self.total = kind, rows, total
        what = f"no key left to attend to (empty_rows={empty_rows!r})" if kind == "empty" else "NaN weights"
        places = ", ".join(f"batch {b} head {h} query {q}" for b, h, q in rows[:3])
        super().__init__(f"{total} row(s) with {what}: {places}{', ...' if total > 3 else ''}")
