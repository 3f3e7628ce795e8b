"""What a model says after each word it reads: of a translator, how it writes word by word."""

from collections.abc import Callable
from itertools import zip_longest
from typing import Unpack

import numpy as np

from attnviz import metrics, tables, words
from attnviz.charts import axes, bars
from attnviz.charts.bars import Column
from attnviz.charts.picture import Picture
from attnviz.charts.style import Style
from attnviz.charts.theme import Theme
from attnviz.core.amounts import percent
from attnviz.core.display import in_title, shown
from attnviz.core.record import Record
from attnviz.figures.figure import Drawn, Figure, stem, subtitles, text_array, titled
from attnviz.metrics import PredictedWord
from attnviz.words import NO_BLANK

LENGTH, WIDEST = 24, 326
"""Pixels of a bar of probability 1, and of all columns at most, as there is room for beside a map."""

MOST_ROWS = 40
"""Rows drawn at most; the table holds all."""

LENGTHS = range(axes.LONGEST_LABEL, 3, -1)
"""Characters of a word at most: the first of these with which the columns are not wider than `WIDEST`."""

NOTHING = "–"
"""Where a run read or wrote nothing any more."""

Words = list[PredictedWord | None]
Row = tuple[int, PredictedWord | None, PredictedWord | None]
"""A position, what is said now, and what was said before the change; None where nothing was read any more."""


def step_by_step(record: Record, *, before: Record | None = None, sentence: int = 0, **drawn: Unpack[Drawn]) -> Figure:
    """A row per position that is not padding: what was just read, and the most probable word then, with a bar.

    Of a model that fills in there is a row per blank. With a run `before` a change the rows that predict another word
    come first, as "le → les", with the probability of the new word, and that of the old one as a hollow bar.
    """
    asked = {"before": before, "sentence": sentence}
    runs = {"": record} if before is None else {"": record, "_before": before}
    what = "blanks" if metrics.fills_in(record) else "step by step"
    what = "labels" if metrics.labels_tokens(record) else what
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
    columns = _fitting(rows, compared, record, style.colors) if rows else []
    lines = [*_notes(rows, every, compared), *subtitles(record, style)]
    if ended := metrics.cut(record, sentence=sentence):
        lines.insert(0, f"the text was cut after {ended} tokens")
    marks = {at: axes.CHOSEN if compared and differs(row) else axes.QUIET for at, row in enumerate(rows)}
    names = [str(i) for i, _, _ in rows]
    return bars.picture(names, columns, title_of(record), lines, style.colors, length=LENGTH, marks=marks)


def title_of(record: Record) -> str:
    """What is drawn, beginning with constant words."""
    what = "Blanks, filled in" if metrics.fills_in(record) else "Step by step"
    what = "Labels of the tokens" if metrics.labels_tokens(record) else what
    return f"{what} · {in_title(record.source)}"


def differs(row: Row) -> bool:
    """Whether another word is said than before the change."""
    _, now, old = row
    return now is None or old is None or now.word != old.word


def _kept(rows: list[Row], compared: bool) -> list[Row]:
    """Of many rows those that changed most: first those with another word, then by how far its probability moved."""

    def moved(row: Row) -> float:
        if not compared or differs(row):
            return float(compared)
        difference = abs(row[1].probability - row[2].probability)
        return difference if difference == difference else 0.0

    kept = sorted(rows, key=moved, reverse=True)[:MOST_ROWS]
    return sorted(kept, key=lambda row: (not (compared and differs(row)), row[0]))


def _notes(rows: list[Row], every: list[Row], compared: bool) -> list[str]:
    """What is left out, and what the mark means."""
    notes = [] if every else [NO_BLANK]
    if len(rows) < len(every):
        which = f"the {len(rows)} of {len(every)} rows that changed most"
        notes.append(which if compared else f"the first {len(rows)} of {len(every)} rows")
    if compared and every:
        count = sum(map(differs, every))
        changed = f"another word than before: {count} of {len(every)} rows, first"
        notes.append(changed if count else "every word is as before the change")
    if _is_hollow(rows, compared):
        notes.append("hollow bar: before the change")
    return notes


def _is_hollow(rows: list[Row], compared: bool) -> bool:
    """Whether a hollow bar differs, in percent as they are written, from the one inside it."""
    pairs = ([percent(share) for share in _shares([now, old]) if share is not None] for _, now, old in rows)
    return compared and any(len(set(pair)) > 1 or len(pair) < 2 for pair in pairs)


def _fitting(rows: list[Row], compared: bool, record: Record, colors: Theme) -> list[Column]:
    """The columns with words as long as there is room for: before one is cut, what was read before gives way."""
    for longest, both in [(LENGTHS[0], True), *((longest, False) for longest in LENGTHS)]:
        columns = _columns(rows, compared, record, colors, longest, both=both)
        if sum(column.width(LENGTH) + bars.GAP for column in columns) - bars.GAP <= WIDEST:
            break
    return columns


def _columns(
    rows: list[Row], compared: bool, record: Record, colors: Theme, longest: int, *, both: bool
) -> list[Column]:
    """What was read, and what was predicted then, with a bar; where that differs from before, both.

    Args:
        both: whether of what was read also that of before is said.
    """
    reads, predicts = "in place of" if metrics.fills_in(record) else "reads", "writes" if record.targets else "expects"
    reads, predicts = ("token", "label") if metrics.labels_tokens(record) else (reads, predicts)
    now, old = ([row[at] for row in rows] for at in (1, 2))
    was = old if compared else now
    before = [then if both or not at else at for then, at in zip(was, now, strict=True)]
    words_read = [_changed(lambda one: one.token, *pair, longest) for pair in zip(before, now, strict=True)]
    words_predicted = [_changed(_word, *pair, longest) for pair in zip(was, now, strict=True)]
    bar = Column(_shares(now), hollow_values=_shares(old) if _is_hollow(rows, compared) else ())
    texts = (words_read, reads), ([f"▸ {text}" for text in words_predicted], predicts)
    return [*(Column(texts=each, name=name, color=colors.text) for each, name in texts), bar]


def _word(one: PredictedWord) -> str:
    return one.word


def _shares(said: Words) -> list[float | None]:
    return [one.probability if one else None for one in said]


def _changed(
    of: Callable[[PredictedWord], str], old: PredictedWord | None, now: PredictedWord | None, longest: int
) -> str:
    """A word, or "le → les" where it is another one than before."""
    texts = [of(one) if one else None for one in (old, now)]
    if texts[0] == texts[1]:
        return shown(texts[0], longest)
    cut = [NOTHING if text is None else shown(text, longest) for text in texts]
    if None not in texts and cut[0] == cut[1]:  # they differ where they are cut
        alike = next((i for i, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
        cut = [f"…{shown(text[max(0, alike - 2) :], longest - 1)}" for text in texts]
    return " → ".join(cut)
