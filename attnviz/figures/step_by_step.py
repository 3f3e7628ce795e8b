"""What a model says after each word it reads: of a translator, how it writes word by word."""

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Unpack

import numpy as np

from attnviz import metrics, tables, words
from attnviz.charts import axes, bars
from attnviz.charts.bars import Column
from attnviz.charts.picture import Picture
from attnviz.charts.style import Style
from attnviz.charts.theme import Theme
from attnviz.core.display import in_title, shown
from attnviz.core.record import Record
from attnviz.figures.figure import Drawn, Figure, stem, subtitles, text_array, titled
from attnviz.metrics import PredictedWord
from attnviz.words import NO_BLANK

LENGTH = 70
"""Pixels of a bar of probability 1."""

MOST_ROWS = 40
"""Of longer texts so many rows are drawn; the table holds all."""

DIFFERS, NOTHING = "≠", "–"

Words = list[PredictedWord | None]
Row = tuple[int, PredictedWord | None, PredictedWord | None]
"""A position, what is said now, and what was said before the change; None where nothing was read any more."""


def step_by_step(record: Record, *, before: Record | None = None, sentence: int = 0, **drawn: Unpack[Drawn]) -> Figure:
    """A row per position that is not padding: what was just read, and the most probable word then, with a bar.

    Of a model that fills in there is a row per blank. With a run `before` a change both stand side by side, and rows
    that say another word are marked.
    """
    asked = {"before": before, "sentence": sentence}
    runs = {"": record} if before is None else {"": record, "_before": before}
    what = "blanks" if metrics.fills_in(record) else "step by step"
    return Figure(
        name=stem(record, what, sentence=sentence),
        title=titled(title_of(record), record),
        style=Style(**drawn),
        draw=lambda style: drawing_of(record, before, sentence, style),
        describe=lambda: words.step_by_step(record, **asked),
        tabulate=lambda: tables.step_by_step_table(record, **asked),
        collect=lambda: {name: array for end, run in runs.items() for name, array in _said(run, sentence, end).items()},
    )


def _said(record: Record, sentence: int, end: str) -> dict[str, np.ndarray]:
    """What a run read and said, as arrays whose names have an `end`."""
    said = metrics.predicted_words(record, sentence=sentence)
    positions = {f"positions{end}": np.array([one.position for one in said])} if metrics.fills_in(record) else {}
    return positions | {
        f"tokens{end}": text_array([one.token for one in said]),
        f"words{end}": text_array([one.word for one in said]),
        f"probabilities{end}": np.array([one.probability for one in said]),
    }


def drawing_of(record: Record, before: Record | None, sentence: int, style: Style) -> Picture:
    """The rows, as columns of texts and bars."""
    compared = before is not None
    now = metrics.predicted_words(record, sentence=sentence)
    old = metrics.predicted_words(before, sentence=sentence) if compared else ()
    every = [((one or was).position, one, was) for one, was in zip_longest(now, old)]
    rows = _kept(every, compared)
    columns = _columns(rows, old == () or _read_alike(every), compared, record, style.colors) if rows else []
    lines = [*_notes(rows, every, compared), *subtitles(record, style)]
    names, marks = [str(i) for i, _, _ in rows], dict.fromkeys(range(len(rows)), axes.QUIET)
    return bars.picture(names, columns, title_of(record), lines, style.colors, length=LENGTH, marks=marks)


def title_of(record: Record) -> str:
    """What is drawn, beginning with constant words."""
    what = "Blanks, filled in" if metrics.fills_in(record) else "Step by step"
    return f"{what} · {in_title(record.source)}"


def differs(row: Row) -> bool:
    """Whether another word is said than before the change."""
    _, now, old = row
    return now is None or old is None or now.word != old.word


def _read_alike(rows: Sequence[Row]) -> bool:
    return all(now is not None and old is not None and now.token == old.token for _, now, old in rows)


def _kept(rows: list[Row], compared: bool) -> list[Row]:
    """Of many rows those that changed most: first those with another word, then by how far its probability moved."""

    def moved(row: Row) -> float:
        if not compared or differs(row):
            return float(compared)
        difference = abs(row[1].probability - row[2].probability)
        return difference if difference == difference else 0.0

    return sorted(sorted(rows, key=moved, reverse=True)[:MOST_ROWS], key=lambda row: row[0])


def _notes(rows: list[Row], every: list[Row], compared: bool) -> list[str]:
    """What is left out, and what the mark means."""
    notes = [] if every else [NO_BLANK]
    if len(rows) < len(every):
        which = f"the {len(rows)} of {len(every)} rows that changed most"
        notes.append(which if compared else f"the first {len(rows)} of {len(every)} rows")
    if compared and every:
        count = sum(map(differs, every))
        marked = f"{count} of {len(every)} rows, marked {DIFFERS}" if count else "in no row"
        notes.append(f"another word than before: {marked}")
    return notes


def _columns(rows: list[Row], read_alike: bool, compared: bool, record: Record, colors: Theme) -> list[Column]:
    """What was read, what was said before the change, marks, and what is said now."""
    verb = "writes" if record.targets else "expects"
    reads = partial(_texts, "in place of" if metrics.fills_in(record) else "reads", colors.text)
    now, old = [row[1] for row in rows], [row[2] for row in rows]
    if not compared:
        return [reads(now, ""), *_says(now, verb, "", colors)]
    named = (bars.BEFORE, bars.AFTER) if read_alike else ("", "")
    first = [reads(now, "")] if read_alike else [reads(old, bars.BEFORE)]
    last = [] if read_alike else [reads(now, bars.AFTER)]
    marks = Column(texts=[DIFFERS if differs(row) else "" for row in rows], color=colors.accent)
    before = _says(old, verb, named[0], colors, before=True)
    return [*first, *before, marks, *last, *_says(now, verb, named[1], colors)]


def _texts(caption: str, color: str, said: Words, group: str, sign: str = "", word: bool = False) -> Column:
    texts = [sign + shown(one.word if word else one.token, axes.LONGEST_LABEL) if one else NOTHING for one in said]
    return Column(texts=texts, name=caption, group=group, color=color)


def _says(said: Words, verb: str, group: str, colors: Theme, *, before: bool = False) -> list[Column]:
    """The words and their bars."""
    texts = _texts(verb, colors.quiet if before else colors.text, said, group, "▸ ", True)
    return [texts, Column([one.probability if one else None for one in said], hollow=before)]
