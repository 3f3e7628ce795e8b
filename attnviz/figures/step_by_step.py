"""Predictions of a model after each word that it reads: of a translator, how it writes word by word."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import zip_longest

import numpy as np
import pandas as pd

from attnviz import metrics, tables, words
from attnviz.charts import axes
from attnviz.charts.bars import Bars, Column
from attnviz.charts.texts import text_width
from attnviz.core.amounts import percent
from attnviz.core.display import in_title, visible_text
from attnviz.core.record import Record
from attnviz.figures.base import BarFigure
from attnviz.figures.figure import stem, subtitles, text_array, titled
from attnviz.metrics import PredictedWord
from attnviz.words import NO_BLANK

LENGTH, WIDEST = 24, 218
"""Pixels of a bar of probability 1, and of all words of a row at most, as there is room for on a phone."""

MOST_ROWS = 40
"""Rows drawn at most; the table holds all."""

LENGTHS = range(axes.LONGEST_LABEL, 3, -1)
"""Characters of a word at most: the first of these with which the words are not wider than `WIDEST`."""

NOTHING = "–"
"""Mark for a position where a run read or wrote nothing any more."""

Words = list[PredictedWord | None]
Row = tuple[int, PredictedWord | None, PredictedWord | None]
"""A position, what is said now, and what was said before the change; None where nothing was read any more."""


@dataclass(frozen=True, eq=False)
class StepByStep(BarFigure):
    """A row per position that is not padding: what was just read, and the most probable word then, with a bar.

    Of a model that fills in there is a row per blank. With a run `before` a change the rows that predict another word
    come first, as "le → les", with the probability of the new word, and that of the old one as a hollow bar.

    Raises:
        InputError: if the model predicts no words.
    """

    record: Record
    _: KW_ONLY
    before: Record | None = None
    sentence: int = 0

    def __post_init__(self):
        self._runs  # noqa: B018 (a model that predicts nothing is refused at once)

    @cached_property
    def name(self) -> str:
        return stem(self.record, self._called[0], sentence=self.sentence)

    @cached_property
    def title(self) -> str:
        return titled(self._heading, self.record)

    @cached_property
    def description(self) -> str:
        return words.step_by_step(self.record, before=self.before, sentence=self.sentence)

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.step_by_step_table(self.record, before=self.before, sentence=self.sentence)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        arrays = {}
        for end, run in self._runs.items():
            if metrics.fills_in(self.record):
                arrays[f"positions{end}"] = np.array([prediction.position for prediction in run])
            arrays[f"tokens{end}"] = text_array([prediction.token for prediction in run])
            arrays[f"words{end}"] = text_array([prediction.word for prediction in run])
            arrays[f"probabilities{end}"] = np.array([prediction.probability for prediction in run])
        return arrays

    @cached_property
    def bars(self) -> Bars:
        compared = self.before is not None
        every = [
            ((now or was).position, now, was) for now, was in zip_longest(self._runs[""], self._runs.get("_before", ()))
        ]
        rows = _most_changed(every, compared)
        cut = metrics.cut(self.record, sentence=self.sentence)
        shortened = [f"the text was cut after {cut} tokens"] if cut else []
        return Bars(
            title=self._heading,
            lines=[*shortened, *_notes(rows, every, compared), *subtitles(self.record, self)],
            names=[str(position) for position, _, _ in rows],
            columns=_columns(rows, compared, self.record),
            style=self.style,
            length=LENGTH,
            quiet=range(len(rows)),
            chosen=[index for index, row in enumerate(rows) if compared and differs(row)],
        )

    @cached_property
    def _runs(self) -> dict[str, tuple[PredictedWord, ...]]:
        """Tokens and predictions of each run, by the suffix of its array names."""
        runs = {"": self.record} if self.before is None else {"": self.record, "_before": self.before}
        return {end: metrics.predicted_words(run, sentence=self.sentence) for end, run in runs.items()}

    @property
    def _called(self) -> tuple[str, str]:
        """Words for the predictions, in the name and in the title."""
        if metrics.labels_tokens(self.record):
            return "labels", "Labels of the tokens"
        if metrics.fills_in(self.record):
            return "blanks", "Blanks, filled in"
        return "step by step", "Step by step"

    @property
    def _heading(self) -> str:
        return f"{self._called[1]} · {in_title(self.record.source)}"


def differs(row: Row) -> bool:
    """Whether another word is said than before the change."""
    _, now, old = row
    return now is None or old is None or now.word != old.word


def _most_changed(rows: list[Row], compared: bool) -> list[Row]:
    """Rows that changed most: first those with another word, then by how far its probability moved."""

    def moved(row: Row) -> float:
        if not compared or differs(row):
            return float(compared)
        difference = abs(row[1].probability - row[2].probability)
        return difference if difference == difference else 0.0

    selected = sorted(rows, key=moved, reverse=True)[:MOST_ROWS]
    return sorted(selected, key=lambda row: (not (compared and differs(row)), row[0]))


def _notes(rows: list[Row], every: list[Row], compared: bool) -> list[str]:
    """Notes on rows that are left out, and on the mark."""
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


def _columns(rows: list[Row], compared: bool, record: Record) -> list[Column]:
    """Columns for the token read, the prediction and a bar; words as long as there is room for.

    Before a word is cut, what was read before gives way.
    """
    reads, predicts = "in place of" if metrics.fills_in(record) else "reads", "writes" if record.targets else "expects"
    if metrics.labels_tokens(record):
        reads, predicts = "token", "label"
    now, old = ([row[index] for row in rows] for index in (1, 2))
    was = old if compared else now
    for longest, both in [(LENGTHS[0], True), *((longest, False) for longest in LENGTHS)]:
        first = [earlier if both or not current else current for earlier, current in zip(was, now, strict=True)]
        tokens = [
            _changed(lambda prediction: prediction.token, *pair, longest) for pair in zip(first, now, strict=True)
        ]
        predicted = [f"▸ {_changed(_word, *pair, longest)}" for pair in zip(was, now, strict=True)]
        if sum(max(map(text_width, texts), default=0.0) for texts in (tokens, predicted)) <= WIDEST:
            break
    hollow = _shares(old) if _is_hollow(rows, compared) else ()
    return [Column(tokens, name=reads), Column(predicted, name=predicts), Column((), _shares(now), hollow, longest=1.0)]


def _word(prediction: PredictedWord) -> str:
    return prediction.word


def _shares(predictions: Words) -> list[float | None]:
    return [prediction.probability if prediction else None for prediction in predictions]


def _changed(
    of: Callable[[PredictedWord], str], old: PredictedWord | None, now: PredictedWord | None, longest: int
) -> str:
    """A word, or "le → les" where it is another one than before."""
    texts = [of(prediction) if prediction else None for prediction in (old, now)]
    if texts[0] == texts[1]:
        return visible_text(texts[0], longest)
    cut = [NOTHING if text is None else visible_text(text, longest) for text in texts]
    if None not in texts and cut[0] == cut[1]:  # they differ where they are cut
        alike = next((i for i, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
        cut = [f"…{visible_text(text[max(0, alike - 2) :], longest - 1)}" for text in texts]
    return " → ".join(cut)
