"""Predictions of a model after each word that it reads: of a translator, how it writes word by word."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis import sentences, tables
from attnviz.analysis.sentences import NO_BLANK
from attnviz.charts.bars import Bars, Column
from attnviz.core.amounts import percent
from attnviz.core.display import visible_text
from attnviz.core.record import Record
from attnviz.figures.base import Facts, Figure, number_arrays, text_array

LENGTH, LONGEST, LONGEST_OF_TWO = 24, 12, 8
"""Pixels of a bar of probability 1; characters of a word, and of each of two in a row, so that all fit a phone."""

MOST_ROWS = 40
"""Rows drawn at most; the table holds all."""

NOTHING = "–"
"""Mark for a position where a run read or wrote nothing any more."""


@dataclass(frozen=True, eq=False)
class StepByStep(Figure):
    """A row per position that is not padding: the word just read, and the most probable word then, with a bar.

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
        self.table  # noqa: B018 (a model that predicts nothing is refused at once)

    def facts(self) -> Facts:
        what = "Blanks, filled in" if analysis.fills_in(self.record) else "Step by step"
        what = "Labels of the tokens" if analysis.labels_tokens(self.record) else what
        options = {"before": self.before, "sentence": self.sentence}
        return Facts(
            what=what,
            subject=(what.partition(" of ")[0].partition(",")[0].lower(),),
            table=partial(tables.step_by_step_table, self.record, **options),
            words=partial(sentences.step_by_step, self.record, **options),
            arrays=self._arrays,
            record=self.record,
        )

    def _arrays(self) -> dict[str, np.ndarray]:
        texts = self.table.select_dtypes(exclude="number").fillna("")
        return number_arrays(self.table) | {name: text_array([*texts[name]]) for name in texts}

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Rows that are drawn: with another word than before first, else those whose probability moved most."""
        table = self.table.assign(differs=False, token=self.table["token"].fillna(NOTHING))
        if self.before is None:
            return table.head(MOST_ROWS)
        now, old = table["word"].fillna(NOTHING), table["word_before"].fillna(NOTHING)
        moved = (table["probability"] - table["probability_before"]).abs().fillna(0).where(now == old, 1.0)
        most = moved.sort_values(ascending=False, kind="stable").index[:MOST_ROWS]
        table = table.assign(differs=now != old, word=now, word_before=old).loc[most]
        return table.sort_values(["differs", "position"], ascending=[False, True])

    def draw(self) -> Bars:
        rows, longest = self.rows, LONGEST_OF_TWO if self.rows["differs"].any() else LONGEST
        reads, predicts = "reads", "writes" if self.record.targets else "expects"
        if analysis.labels_tokens(self.record):
            reads, predicts = "token", "label"
        elif analysis.fills_in(self.record):
            reads = "in place of"
        old = rows["word" if self.before is None else "word_before"]
        predicted = [f"▸ {_changed(*pair, longest)}" for pair in zip(old, rows["word"], strict=True)]
        hollow = rows["probability_before"].tolist() if self._has_hollow_bars else ()
        return Bars(
            **self._above(*self._notes()),
            names=rows["position"].astype(str).tolist(),
            columns=[
                Column([visible_text(token, longest) for token in rows["token"]], name=reads),
                Column(predicted, name=predicts),
                Column((), rows["probability"].tolist(), hollow, longest=1.0),
            ],
            length=LENGTH,
            quiet=range(len(rows)),
            chosen=rows["differs"].to_numpy().nonzero()[0].tolist(),
        )

    @property
    def _has_hollow_bars(self) -> bool:
        """Whether a probability before the change differs, in percent as it is written, from the one after it."""
        shares = self.rows.filter(like="probability").map(percent)
        return bool(shares.nunique(axis=1).gt(1).any())

    def _notes(self) -> list[str]:
        """Notes on rows that are left out, and on the marks."""
        cut, count, drawn = analysis.cut(self.record, sentence=self.sentence), len(self.table), len(self.rows)
        notes = [f"the text was cut after {cut} tokens"] if cut else []
        notes += [] if count else [NO_BLANK]
        if drawn < count:
            which = "the first {} of {} rows" if self.before is None else "the {} of {} rows that changed most"
            notes.append(which.format(drawn, count))
        if self.before is not None and count:
            others = int(self.table["word"].fillna(NOTHING).ne(self.table["word_before"].fillna(NOTHING)).sum())
            changed = f"another word than before: {others} of {count} rows, first"
            notes.append(changed if others else "every word is as before the change")
        return [*notes, "hollow bar: before the change"] if self._has_hollow_bars else notes


def _changed(old: str, now: str, longest: int) -> str:
    """A word, or "le → les" where it is another one than before; what differs is not cut."""
    if old == now:
        return visible_text(now, longest)
    cut = [visible_text(text, longest) for text in (old, now)]
    if cut[0] == cut[1]:
        alike = next((i for i, (a, b) in enumerate(zip(old, now, strict=False)) if a != b), min(len(old), len(now)))
        cut = [f"…{visible_text(text[max(0, alike - 2) :], longest - 1)}" for text in (old, now)]
    return " → ".join(cut)
