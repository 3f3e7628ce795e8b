"""What stands at the ends of a map's rows: the word that each predicts, its sum, and whether a key is left to it."""

from collections.abc import Sequence

import numpy as np

from attnviz.charts import axes
from attnviz.charts.frame import Entry, Frame, box, text_width, words
from attnviz.charts.size import Size
from attnviz.charts.theme import CHARACTER, TEXT_SIZE, WORD_CHARACTER, Theme
from attnviz.core.amounts import written
from attnviz.core.display import shown

GAP = 12
"""Pixels between the map and what stands at its rows' ends, and between those."""

CAPTION = -axes.PADDING - TEXT_SIZE / 2
"""Where captions stand: in line with the labels of the columns."""

FRAME = "M-0.7,-0.7L0.7,-0.7L0.7,0.7L-0.7,0.7Z"
"""A frame in the legend, in a box from -1 to 1."""

NONE = "none"
"""The count of keys of a row that has none left."""

NEXT = "each row: where it looks to predict the next word"
TARGETS = "each row: what it may read to predict its target"
PREDICTS, TARGET = "predicts", "target"
NEXT_OF = "row {token}: where it looks to predict {word}"
IN_PLACE = "right: the word predicted in place of a blank"
LABELS = "right: the label predicted for each token"
"""What is said over a map whose rows predict."""
CHANGED = "changed prediction"
"""Legend of a marked word."""
MARK = "29"
"""Opacity of the ground of a marked word, in hexadecimal: its letters are read through it."""


def predictions(
    predicted: Sequence[str],
    size: Size,
    colors: Theme,
    chosen: int | None = None,
    changed: frozenset[int] = frozenset(),
    title: str = PREDICTS,
) -> Frame:
    """The word that each row predicts, (queries,); an empty one is left out, and the caption where all are empty.

    Args:
        title: what the caption calls these words.
        chosen: the row whose word stands out.
        changed: the rows whose words are marked.
    """
    x, step = size.width + GAP, size.tile * size.every
    places = [i for i in range(0, len(predicted), step) if predicted[i]]
    marked = {place: colors.accent for place in places if chosen is not None and place <= chosen < place + size.tile}
    said = {i: words(x, _middle(i, size), f"▸ {shown(predicted[i], axes.LONGEST_LABEL)}", colors.text) for i in places}
    return Frame(
        words=(words(x, CAPTION, title, colors.quiet),) if any(predicted) else (),
        tokens=tuple(word | {"color": marked.get(i, colors.text)} for i, word in said.items()),
        boxes=tuple(_marked(word, colors) for i, word in said.items() if i in changed),
    )


def _marked(word: dict, colors: Theme) -> dict:
    """The ground of a word, without the sign before it."""
    x, y, half = word["x"], word["y"], TEXT_SIZE / 2 + 2
    begin, end = x + 2 * CHARACTER, x + text_width(word["text"])
    return box(begin - 3, y - half, end + 3, y + half, fill=_mark(colors), width=0)


def _mark(colors: Theme) -> str:
    return f"{colors.accent}{MARK}"


def sums(values: Sequence[float], beside: Frame, size: Size, colors: Theme, *, partial: bool = False) -> Frame:
    """The sum of each row, (queries,), right of what stands there; those that are not 1 say so.

    Sums of rows that are seen in part are below 1 by right, and say only what they are of.
    """
    x = after(beside, size)
    places = range(0, len(values), size.tile * size.every)
    return Frame(
        words=(
            words(x, CAPTION, "sum of what is seen" if partial else "row sum", colors.quiet),
            *(_sum(x, _middle(i, size), values[i], colors, partial) for i in places),
        )
    )


def counts(left: Sequence[int], beside: Frame, size: Size, colors: Theme) -> Frame:
    """How many keys each row has left, (queries,), right of what stands there; a row without any stands out."""
    x, places = after(beside, size), range(0, len(left), size.tile * size.every)
    said = [
        words(x, _middle(i, size), str(left[i] or NONE), colors.text if left[i] else colors.warning) for i in places
    ]
    return Frame(words=(words(x, CAPTION, "keys", colors.quiet), *said))


def empty_rows(empty: np.ndarray, size: Size, colors: Theme) -> Frame:
    """A frame around the rows that have no key left, (queries,)."""
    places = [(start / size.tile * size.cell, stop / size.tile * size.cell) for start, stop in _runs(empty)]
    return Frame(boxes=tuple(box(0, top, size.width, end, stroke=colors.warning, width=1.5) for top, end in places))


def legend(drawn: Frame, empty: str, colors: Theme) -> list[Entry]:
    """A line for marked words and one for framed rows, where there are any.

    Args:
        empty: text about the framed rows, "" for no line.
    """
    lines = []
    if any(one["fill"] == _mark(colors) for one in drawn.boxes):
        lines.append(Entry(CHANGED, "", colors.line, 0.0, _mark(colors)))
    if empty and any(one["stroke"] == colors.warning for one in drawn.boxes):
        lines.append(Entry(empty, FRAME, colors.warning, 1.5, colors.background))
    return lines


def after(beside: Frame, size: Size) -> float:
    """Where there is room right of what stands at the rows' ends, in pixels."""
    tokens = (token["x"] + text_width(token["text"]) for token in beside.tokens)
    others = (word["x"] + text_width(word["text"], WORD_CHARACTER) for word in beside.words)
    return max((size.width, *tokens, *others)) + GAP


def _middle(row: int, size: Size) -> float:
    return (row / size.tile + 0.5) * size.cell


def _sum(x: float, y: float, value: float, colors: Theme, partial: bool) -> dict:
    odd = not (value < 1 + 5e-4 if partial else abs(value - 1) < 5e-4)
    return words(x, y, f"{written(value, '.3f')}{' not 1' if odd else ''}", colors.warning if odd else colors.quiet)


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Where stretches of True begin and end."""
    change = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return list(zip(change[::2].tolist(), change[1::2].tolist(), strict=True))
