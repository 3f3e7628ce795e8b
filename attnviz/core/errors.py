"""Errors. Each message says what is wrong, with which values, and what to do."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches


class AttnvizError(ValueError):
    """Base class of all errors that attnviz raises on purpose; the message may be shown to a user unchanged."""


class ShapeError(AttnvizError):
    """Two shapes do not fit; the message names both."""


class MaskError(AttnvizError):
    """A mask contradicts its declared type or parameters, or is not a mask."""


class EmptyRowError(AttnvizError):
    """A query has no key left to attend to, and ``empty_rows="error"`` is set."""


class NotFiniteError(AttnvizError):
    """A model gave NaN or infinite numbers, so its outputs cannot be compared; the message names the first."""


class InputError(AttnvizError):
    """Unusable input from a user, a link or a file."""


class UnsteadyError(InputError):
    """A model gives two different outputs for the same input, so its outputs cannot be compared."""


class TooLong(InputError):
    """A sentence has more tokens than the model can read; the message names the line of the sentence.

    Args:
        lengths: number of tokens per line, or with `at_least` a lower bound of it.
        longest: number of tokens that the model can read; also an attribute.
        limit: end of the message, which says the limit and what to do.
    """

    def __init__(self, lengths: Sequence[int], longest: int, limit: str, *, at_least: bool = False):
        line, length = next((line, length) for line, length in enumerate(lengths, 1) if length > longest)
        self.longest = longest
        super().__init__(f"Line {line} has {'at least ' if at_least else ''}{length:,} tokens; {limit}")


class Canceled(InputError):
    """A long task was canceled by its user."""


def quoted(value: object, most: int = 40) -> str:
    """Write the repr of a value for an error message, cut to `most` characters, or its type if it has no repr."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__} too large to show"
    return text if len(text) <= most else f"{text[:most]}…"


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turn any error while a library reads the file `name` into an InputError; an AttnvizError passes unchanged."""
    try:
        yield
    except AttnvizError:
        raise
    except Exception as error:
        reason = "it needs more memory than is free here" if isinstance(error, MemoryError) else "it is damaged"
        raise InputError(f"{quoted(name)} cannot be read: {reason}. Save it again, or choose another file.") from None


PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".avif")
"""File name extensions of pictures."""

OF_PICTURES = (
    "Models that read pictures, such as 'shapes', take attnviz.picture(FILE); in the shell give FILE as the text."
)
"""Hint for input that is not text."""


def check_no_picture(name: str) -> None:
    """Raise InputError if the extension of a file name is that of a picture."""
    if name.lower().endswith(PICTURES):
        raise InputError(f"{quoted(name)} is a picture, but text is expected here. {OF_PICTURES}")


def did_you_mean(typed: str, options: Iterable[str]) -> str:
    """Write the sentence " Did you mean 'X'?" with the option closest in spelling; empty if no option is close."""
    closest = get_close_matches(typed[:40].lower(), options, n=1)
    return f" Did you mean {quoted(closest[0])}?" if closest else ""


def check_whole(name: str, value: object, least: int, most: int) -> None:
    """Raise InputError unless the value is an integer from `least` to `most`."""
    if type(value) is not int or not least <= value <= most:
        raise InputError(f"{name} is {quoted(value)}; it must be a whole number from {least} to {most:,}.")


class AttentionWarning(UserWarning):
    """Some rows of weights are not probability distributions.

    Attributes:
        kind: "empty" (no key left to attend to) or "nan" (a weight is not a number).
        rows: indices (batch, head, query) of the first 1,000 such rows.
        total: number of all such rows.
    """

    def __init__(self, kind: str, rows: tuple[tuple[int, int, int], ...], total: int, empty_rows: str):
        self.kind, self.rows, self.total = kind, rows, total
        problem = f"no key left to attend to (empty_rows={empty_rows!r})" if kind == "empty" else "NaN weights"
        examples = [f"batch {batch} head {head} query {query}" for batch, head, query in rows[:3]]
        examples += ["..."] if total > 3 else []
        super().__init__(f"{total} row(s) with {problem}: {', '.join(examples)}")
