"""How alike the sentences of a batch are to a model, and how far a change moved each: a small map with its numbers."""

import numpy as np

from attnviz import metrics
from attnviz.charts import axes, bars, frame, pixels
from attnviz.charts.frame import Frame, Ramp, box, text_width, words
from attnviz.charts.heatmap import subtitles_of
from attnviz.charts.maps import number
from attnviz.charts.picture import Picture
from attnviz.charts.theme import TEXT_SIZE, Theme, theme
from attnviz.core.display import in_title, isolated, shown
from attnviz.core.record import Record
from attnviz.words import turned

CELL = 44
"""Pixels."""

MOST_SENTENCES = 12
"""Of more so many are drawn; the table holds all."""

LONGEST_SENTENCE = 32
"""Code points of a sentence shown beside its row."""

MEASURE = "cosine of the sentences' vectors; 1: the same direction"
MOVED = "moved: 1 less the cosine of a sentence's vector before the change and after it"


def picture(record: Record, *, before: Record | None = None, dark: bool = False, edits: bool = True) -> Picture:
    """Draw the cosine of every two sentences of the batch; with a run `before` a change, how far each one moved.

    Args:
        edits: whether the picture says what was changed.
    """
    colors, every = theme(dark), len(record.sentences)
    cosine = metrics.similarity(record).numpy()[:MOST_SENTENCES, :MOST_SENTENCES]
    side = CELL * len(cosine)
    names = [f"{_shown(one.text)} {i}" for i, one in enumerate(record.sentences[:MOST_SENTENCES], 1)]
    left = -max(map(text_width, names)) - axes.PADDING
    drawn = _cells(cosine, colors) + _names(names, colors)
    if before is not None:
        drawn += _moved(metrics.shift(before, record).tolist()[:MOST_SENTENCES], side, colors)
    ramp = Ramp(
        "cosine, from 0 to 1; below 0 looks like 0", pixels.ramp_uri(colors), ((0, "0"), (0.5, "0.5"), (1, "1"))
    )
    drawn += frame.legend([], ramp, top=side + 16, width=side, colors=colors)
    notes = [MEASURE, MOVED if before is not None else ""]
    notes += [f"the first {MOST_SENTENCES} of {every} sentences"] if every > MOST_SENTENCES else []
    drawn += frame.heading(
        title_of(record),
        [*notes, *subtitles_of(record, edits=edits)],
        left=left,
        top=-axes.PADDING - TEXT_SIZE - 14,
        width=side - left,
        colors=colors,
    )
    return bars.picture(drawn, colors)


def title_of(record: Record) -> str:
    """What is drawn, beginning with constant words."""
    return f"Similarity of the sentences · {in_title(record.source)}"


def _shown(text: str) -> str:
    return shown(text, LONGEST_SENTENCE).replace("␣", " ")


def _cells(cosine: np.ndarray, colors: Theme) -> Frame:
    """A square per pair on the ramp, and its number in the color that is read best on it."""
    drawn = Frame()
    for i, j in np.ndindex(*cosine.shape):
        x, y, value = j * CELL, i * CELL, float(cosine[i, j])
        ground = pixels.color_at(value, colors) if value == value else colors.blocked
        ink = pixels.readable(ground, colors) if value == value else colors.warning
        drawn += Frame(
            boxes=(box(x, y, x + CELL, y + CELL, fill=ground, stroke=colors.background),),
            ticks=(words(x + CELL / 2, y + CELL / 2, number(value, ".2f"), ink),),
        )
    return drawn


def _names(names: list[str], colors: Theme) -> Frame:
    """The sentences beside their rows with their numbers, counted from 1 as lines are, and these over the columns."""
    middles = [(i + 0.5) * CELL for i in range(len(names))]
    return Frame(
        rows=tuple(
            words(-axes.PADDING, y, isolated(name), colors.text) for y, name in zip(middles, names, strict=True)
        ),
        ticks=tuple(words(x, -axes.PADDING - TEXT_SIZE / 2, str(i), colors.text) for i, x in enumerate(middles, 1)),
    )


def _moved(moved: list[float], side: float, colors: Theme) -> Frame:
    texts = [turned(value) for value in moved]
    return Frame(
        words=(
            words(side + 12, -axes.PADDING - TEXT_SIZE / 2, "moved", colors.quiet),
            *(words(side + 12, (i + 0.5) * CELL, text, colors.text) for i, text in enumerate(texts)),
        )
    )
