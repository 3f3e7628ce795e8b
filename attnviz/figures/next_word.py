"""Predictions of the next word, in place of a blank, or of a label; also before a change."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis import NextWord, sentences, tables
from attnviz.analysis.sentences import OTHER_WORDS, quoted_token
from attnviz.charts.axes import short
from attnviz.charts.bars import Bars, Column
from attnviz.core.amounts import percent
from attnviz.core.display import label_text
from attnviz.core.record import Record
from attnviz.figures.base import BarFigure
from attnviz.figures.figure import text_array

NO_NUMBERS = "the probabilities are not numbers (NaN)"

LONG, SHORT = 24, 60
"""Characters of a name beyond which bars are so many pixels long."""
MOST_LABELS = 12
"""Classes drawn at most, the most probable; the table holds all."""

LEAST = 0.01
"""A word that is less probable both before a change and after it has no bar."""

HOLLOW = "hollow bar: before the change"
OTHERS = "others"
"""The bar of all words that have none of their own."""

SEVERAL = "each label has a probability of its own; several may hold"
ONE_LABEL = "the model gives one number: the logistic function of it is drawn"


@dataclass(frozen=True, eq=False)
class NextWordBars(BarFigure):
    """A bar for each of the `count` words that are most probable after a position, or in place of it.

    With a run `before` a change there are the words of either, each with a hollow bar for its probability before. A run
    that had read other tokens by then is not drawn, and the picture says so.

    Raises:
        InputError: if nothing is predicted there.
    """

    record: Record
    position: int
    _: KW_ONLY
    before: Record | None = None
    sentence: int = 0
    count: int = 5

    def __post_init__(self):
        self.words  # noqa: B018 (a position that has none is refused at once)

    @cached_property
    def words(self) -> tuple[NextWord, ...]:
        """The words with their probabilities."""
        return analysis.next_words(self.record, self.position, **self._options)

    @cached_property
    def description(self) -> str:
        return sentences.next_word(self.record, self.position, **self._options)

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.next_word_table(self.record, self.position, **self._options)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return _arrays(self.words, "words", "probabilities")

    @cached_property
    def bars(self) -> Bars:
        is_other = self.before and not analysis.read_alike(
            self.before, self.record, self.position, sentence=self.sentence
        )
        return probabilities(self.words, self._above(*([OTHER_WORDS] if is_other else [])), others=True)

    @property
    def _options(self) -> dict:
        return {"before": self.before, "sentence": self.sentence, "count": self.count}

    @property
    def _called(self) -> tuple[str, str]:
        """Kind of prediction, and beginning of the title."""
        if analysis.labels_tokens(self.record):
            return "label", "Label of"
        if analysis.fills_in(self.record):
            return "blank", "Most probable in place of"
        return "next word", "Next word after"

    @property
    def _subject(self) -> tuple[str]:
        return (f"{self._called[0]} {self.position}",)

    @property
    def _what(self) -> str:
        token = analysis.token_at(self.record, self.position, sentence=self.sentence)
        return f"{self._called[1]} {quoted_token(token, self.position)}"


@dataclass(frozen=True, eq=False)
class LabelBars(BarFigure):
    """A bar for the probability of each class of a sentence, in a hollow one of that `before` a change.

    Of a regression its numbers.

    Raises:
        InputError: if the model does not classify.
    """

    record: Record
    _: KW_ONLY
    before: Record | None = None
    sentence: int = 0

    def __post_init__(self):
        self.labels  # noqa: B018 (a model without labels is refused at once)

    @cached_property
    def labels(self) -> tuple[NextWord, ...]:
        """The classes with their probabilities, or the numbers."""
        return analysis.labels(self.record, before=self.before, sentence=self.sentence)

    @cached_property
    def description(self) -> str:
        return sentences.labels(self.record, before=self.before, sentence=self.sentence)

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.labels_table(self.record, before=self.before, sentence=self.sentence)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return _arrays(self.labels, "labels", "numbers" if self._is_number else "probabilities")

    @cached_property
    def bars(self) -> Bars:
        labels = self.labels
        if self._is_number:
            names = [short(label.word) for label in labels]
            return Bars(**self._above(), names=names, columns=[Column([*map(self._number, labels)])])
        many = f"the {MOST_LABELS} most probable of {len(labels):,} labels" if len(labels) > MOST_LABELS else ""
        notes = [many, ONE_LABEL if len(labels) == 1 else "", SEVERAL if self.record.label_kind == "several" else ""]
        return probabilities(labels[:MOST_LABELS], self._above(*notes), name_of=label_text)

    @property
    def _is_number(self) -> bool:
        return analysis.is_number(self.record)

    @property
    def _subject(self) -> tuple[str]:
        return ("number" if self._is_number else "labels",)

    @property
    def _what(self) -> str:
        what = "picture" if self.record.sentences[self.sentence].pictures else "sentence"
        return f"{'Number' if self._is_number else 'Labels'} of the {what}"

    def _number(self, label: NextWord) -> str:
        number = sentences.label_value(self.record, label.probability)
        return number if label.before is None else f"{sentences.label_value(self.record, label.before)} → {number}"


def probabilities(words: Sequence[NextWord], above: dict[str, Any], *, others: bool = False, name_of=short) -> Bars:
    """Words and their bars; where it is known, with what was before, by the larger of both.

    Args:
        above: what stands over them, as a figure has it.
        others: whether a last bar has what is left to 1, before and after.
        name_of: shortens a word.
    """
    texts, quiet, longest, note = [], [], 1.0, [] if words else [NO_NUMBERS]
    if is_changed := any(word.before is not None for word in words):
        ranked = sorted(words, key=lambda word: np.nan_to_num([word.probability, word.before]).max(), reverse=True)
        words = [word for word in ranked if not (word.probability < LEAST and word.before < LEAST)] or ranked
        rest = 1 - sum(word.probability for word in words), 1 - sum(word.before for word in words)
        if others and max(rest) >= LEAST:
            quiet = [len(words)]
            words = [*words, NextWord(OTHERS, *rest)]
        note, longest = [HOLLOW], None
        texts = [f"{percent(word.before)} → {percent(word.probability)}" for word in words]
    names, before = [name_of(word.word) for word in words], [word.before for word in words] if is_changed else []
    column = Column(texts, [word.probability for word in words], before, longest=longest)
    bars = Bars(**above | {"lines": [*note, *above["lines"]]}, names=names, columns=[column], quiet=quiet)
    is_long = max(map(len, names), default=0) > LONG
    return replace(bars, length=SHORT) if is_long else bars  # so that they stand in one column


def _arrays(words: Sequence[NextWord], name: str, numbers: str) -> dict[str, np.ndarray]:
    arrays = {
        name: text_array([word.word for word in words]),
        numbers: np.array([word.probability for word in words], np.float64),
    }
    before = [word.before for word in words if word.before is not None]
    return arrays | {f"{numbers}_before": np.array(before)} if before else arrays
