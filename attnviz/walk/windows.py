"""Which tokens a table shows: all of them up to 64, and beyond that a window."""

from attnviz.core.errors import InputError

MOST_TOKENS = 64
"""Rows or columns of a table that stand for tokens."""

MOST_WIDTH = 512
"""Rows or columns of a table that stand for dimensions; of wider vectors the first."""

FIRST = slice(0, MOST_TOKENS)


def window_positions(window: slice, size: int, what: str, most: int = MOST_TOKENS) -> range:
    """The positions of a window, as a range; what is beyond the end is left out.

    Raises:
        InputError: if they are not neighbors, or more than `most`.
    """
    positions = range(*window.indices(size))
    if positions.step != 1:
        raise InputError(f"A window of {what} holds neighbors, first to last; given steps of {positions.step}.")
    if len(positions) > most:
        raise InputError(f"{len(positions):,} {what} are too many for one table; ask for at most {most}.")
    return positions


def slice_of(positions: range) -> slice:
    return slice(positions.start, positions.stop)
