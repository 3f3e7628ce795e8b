"""Predictions of the next word, in place of a blank, or of a label; also before a change."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd

from attnviz import metrics, tables, words
from attnviz.charts import axes
from attnviz.charts.bars import Bars, Column
from attnviz.charts.style import Style
from attnviz.core.amounts import percent
from attnviz.core.display import in_title, label_text, visible_text
from attnviz.core.record import Record
from attnviz.figures.base import BarFigure
from attnviz.figures.figure import stem, subtitles, text_array, titled
from attnviz.metrics import NextWord
from attnviz.words import OTHER_WORDS, quoted_token

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
        return metrics.next_words(self.record, self.position, **self._options)

    @cached_property
    def name(self) -> str:
        return stem(self.record, f"{self._called[0]} {self.position}", sentence=self.sentence)

    @cached_property
    def title(self) -> str:
        return titled(self._heading, self.record)

    @cached_property
    def description(self) -> str:
        return words.next_word(self.record, self.position, **self._options)

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.next_word_table(self.record, self.position, **self._options)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return _arrays(self.words, "words")

    @cached_property
    def bars(self) -> Bars:
        compared = {"sentence": self.sentence}
        is_other = self.before is not None and not metrics.read_alike(
            self.before, self.record, self.position, **compared
        )
        lines = [*([OTHER_WORDS] if is_other else []), *subtitles(self.record, self)]
        return probabilities(self.words, self._heading, lines, self.style, others=True)

    @property
    def _options(self) -> dict:
        return {"before": self.before, "sentence": self.sentence, "count": self.count}

    @property
    def _called(self) -> tuple[str, str]:
        """Kind of prediction, and beginning of the title."""
        if metrics.labels_tokens(self.record):
            return "label", "Label of"
        if metrics.fills_in(self.record):
            return "blank", "Most probable in place of"
        return "next word", "Next word after"

    @property
    def _heading(self) -> str:
        token = metrics.token_at(self.record, self.position, sentence=self.sentence)
        return f"{self._called[1]} {quoted_token(token, self.position)} · {in_title(self.record.source)}"


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
        return metrics.labels(self.record, before=self.before, sentence=self.sentence)

    @cached_property
    def name(self) -> str:
        return stem(self.record, "number" if self._is_number else "labels", sentence=self.sentence)

    @cached_property
    def title(self) -> str:
        return titled(self._heading, self.record)

    @cached_property
    def description(self) -> str:
        return words.labels(self.record, before=self.before, sentence=self.sentence)

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.labels_table(self.record, before=self.before, sentence=self.sentence)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        arrays = _arrays(self.labels, "labels")
        if self._is_number:
            return {name.replace("probabilities", "numbers"): array for name, array in arrays.items()}
        return arrays

    @cached_property
    def bars(self) -> Bars:
        labels, lines = self.labels, subtitles(self.record, self)
        if self._is_number:
            names = [visible_text(label.word, axes.LONGEST_LABEL) for label in labels]
            column = Column([self._number(label) for label in labels])
            return Bars(title=self._heading, lines=lines, names=names, columns=[column], style=self.style)
        many = f"the {MOST_LABELS} most probable of {len(labels):,} labels" if len(labels) > MOST_LABELS else ""
        notes = [many, ONE_LABEL if len(labels) == 1 else "", SEVERAL if self.record.label_kind == "several" else ""]
        return probabilities(labels[:MOST_LABELS], self._heading, [*notes, *lines], self.style, labels=True)

    @property
    def _is_number(self) -> bool:
        return metrics.is_number(self.record)

    @property
    def _what(self) -> str:
        return "picture" if self.record.sentences[self.sentence].pictures else "sentence"

    @property
    def _heading(self) -> str:
        return f"{'Number' if self._is_number else 'Labels'} of the {self._what} · {in_title(self.record.source)}"

    def _number(self, label: NextWord) -> str:
        number = words.label_value(self.record, label.probability)
        return number if label.before is None else f"{words.label_value(self.record, label.before)} → {number}"


def probabilities(
    words: Sequence[NextWord],
    title: str,
    lines: Sequence[str],
    style: Style,
    *,
    others: bool = False,
    labels: bool = False,
) -> Bars:
    """Words and their bars under a title and lines; where it is known, with what was before, by the larger of both.

    Args:
        others: whether a last bar has what is left to 1, before and after.
    """
    if not words:
        lines = [NO_NUMBERS, *lines]
    before, texts, quiet, longest = _before(words), [], [], 1.0
    if before:
        ranked = sorted(
            words, key=lambda prediction: np.nan_to_num([prediction.probability, prediction.before]).max(), reverse=True
        )
        words = [
            prediction for prediction in ranked if not (prediction.probability < LEAST and prediction.before < LEAST)
        ] or ranked
        lines = [HOLLOW, *lines]
        rest = [
            1 - sum(shares)
            for shares in zip(*((prediction.probability, prediction.before) for prediction in words), strict=True)
        ]
        if others and max(rest) >= LEAST:
            quiet = [len(words)]
            words = [*words, NextWord(OTHERS, *rest)]
        before, longest = _before(words), None
        texts = [f"{percent(prediction.before)} → {percent(prediction.probability)}" for prediction in words]
    name_of = label_text if labels else partial(visible_text, longest=axes.LONGEST_LABEL)
    names = [name_of(prediction.word) for prediction in words]
    column = Column(texts, [prediction.probability for prediction in words], before, longest=longest)
    sizes = {"length": SHORT} if max(map(len, names), default=0) > LONG else {}  # so that they stand in one column
    return Bars(title=title, lines=lines, names=names, columns=[column], style=style, quiet=quiet, **sizes)


def _before(words: Sequence[NextWord]) -> list[float]:
    """The probabilities before a change, if there was one."""
    return [prediction.before for prediction in words if prediction.before is not None]


def _arrays(words: Sequence[NextWord], name: str) -> dict[str, np.ndarray]:
    arrays = {
        name: text_array([prediction.word for prediction in words]),
        "probabilities": np.array([prediction.probability for prediction in words], np.float64),
    }
    before = _before(words)
    return arrays | {"probabilities_before": np.array(before)} if before else arrays
