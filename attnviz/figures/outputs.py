"""Bars of a model's output: next words, words for a blank, labels, prediction per step, and changes of the output."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis import NextWord, sentences, tables
from attnviz.analysis.sentences import NO_BLANK, OTHER_WORDS, quoted_token
from attnviz.charts.axes import short
from attnviz.charts.bars import Bars, Column
from attnviz.core.amounts import percent
from attnviz.core.display import label_text, visible_text
from attnviz.core.record import Record
from attnviz.figures.base import Figure, FigureFacts, number_arrays, text_array

LONG, SHORT, LENGTH = 24, 60, 150
"""Characters of a name above which all bars of the figure are short; pixels of the longest bar, short and otherwise."""
MOST_LABELS, MOST_BARS = 12, 40
"""Most classes drawn (the most probable), and most tokens or rows (those that changed most); the table has all."""
LEAST = 0.01
"""Probability below which, both before and after a change, a word has no bar."""

NO_NUMBERS = "the probabilities are not numbers (NaN)"
HOLLOW, OTHERS = "hollow bar: before the change", "others"
SEVERAL = "each label has a probability of its own; several may hold"
ONE_LABEL = "the model gives one number: the logistic function of it is drawn"
MOVED = "how far each token's output vector moved, as a share of its length"


@dataclass(frozen=True, eq=False)
class PredictionFigure(Figure):
    """Figure of a model's predictions, compared with a run `before` a change, if there is one.

    Attributes:
        sentence: number of the sentence in the batch.

    Raises:
        InputError: if the model has no predictions of this kind there.
    """

    record: Record
    _: KW_ONLY
    before: Record | None = None
    sentence: int = 0

    def __post_init__(self):
        self.predicted  # noqa: B018 (what is not predicted is refused at once)

    @property
    def _options(self) -> dict[str, Any]:
        return {"before": self.before, "sentence": self.sentence}


class ProbabilityBars(PredictionFigure):
    """Base class of bars of the probabilities of words or classes, with hollow bars for those before a change."""

    def _ranked_facts(self, ranked: Sequence[NextWord], name: str, numbers: str, **facts: Any) -> FigureFacts:
        """Return the facts; `name` and `numbers` are the names of the arrays of words and of probabilities."""
        before = [word.before for word in ranked if word.before is not None]
        arrays = {name: text_array([word.word for word in ranked])}
        arrays[numbers] = np.array([word.probability for word in ranked], float)
        if before:
            arrays[f"{numbers}_before"] = np.array(before, float)
        return FigureFacts(arrays=arrays, **facts)

    def _bars(self, ranked: Sequence[NextWord], *notes: str, others: bool = False, name_of: Any = short) -> Bars:
        """Draw the bars; with a run before, sort by the larger probability and drop words that are below LEAST in both.

        Args:
            others: whether a last bar shows the remaining probability.
            name_of: function that shortens a word.
        """
        texts, quiet, longest, first = [], [], 1.0, "" if ranked else NO_NUMBERS
        if is_changed := any(word.before is not None for word in ranked):
            ranked = sorted(ranked, key=lambda word: np.nan_to_num([word.probability, word.before]).max(), reverse=True)
            ranked = [word for word in ranked if not (word.probability < LEAST and word.before < LEAST)] or ranked
            rest = 1 - sum(word.probability for word in ranked), 1 - sum(word.before for word in ranked)
            if others and max(rest) >= LEAST:
                quiet, ranked = [len(ranked)], [*ranked, NextWord(OTHERS, *rest)]
            first, longest = HOLLOW, None
            texts = [f"{percent(word.before)} → {percent(word.probability)}" for word in ranked]
        names, before = [name_of(word.word) for word in ranked], [word.before for word in ranked] if is_changed else []
        column = Column(texts, [word.probability for word in ranked], before, longest=longest)
        length = SHORT if max(map(len, names), default=0) > LONG else LENGTH
        above = self._header(first, *notes, beside_map=True)
        return Bars(**above, names=names, columns=[column], quiet=quiet, length=length)


@dataclass(frozen=True, eq=False)
class NextWordBars(ProbabilityBars):
    """Bars of the `count` most probable words after a position, or in place of a blank.

    With a run `before` a change, the words of both runs have bars, and hollow bars show the probability before. If that
    run had read other tokens up to this position, it is not drawn, and a note says so.
    """

    position: int
    _: KW_ONLY
    count: int = 5

    @property
    def _options(self) -> dict[str, Any]:
        return super()._options | {"count": self.count}

    @cached_property
    def predicted(self) -> tuple[NextWord, ...]:
        return analysis.next_words(self.record, self.position, **self._options)

    @property
    def _prediction_name(self) -> tuple[str, str]:
        """Kind of prediction and beginning of the title."""
        if analysis.labels_tokens(self.record):
            return "label", "Label of"
        in_blank = "blank", "Most probable in place of"
        return in_blank if analysis.fills_in(self.record) else ("next word", "Next word after")

    def facts(self) -> FigureFacts:
        called, beginning = self._prediction_name
        token = analysis.token_at(self.record, self.position, sentence=self.sentence)
        return self._ranked_facts(
            self.predicted,
            *("words", "probabilities"),
            what=f"{beginning} {quoted_token(token, self.position)}",
            subject=(f"{called} {self.position}",),
            table=partial(tables.next_word_table, self.record, self.position, **self._options),
            words=partial(sentences.next_word, self.record, self.position, **self._options),
        )

    def draw(self) -> Bars:
        same = not self.before or analysis.read_alike(self.before, self.record, self.position, sentence=self.sentence)
        return self._bars(self.predicted, "" if same else OTHER_WORDS, others=True)


@dataclass(frozen=True, eq=False)
class LabelBars(ProbabilityBars):
    """Bars of the probability of each class of a sentence, with hollow bars for the probability `before` a change.

    A regression has a number without a bar for each output.
    """

    @cached_property
    def predicted(self) -> tuple[NextWord, ...]:
        """Classes with their probabilities, or outputs of a regression with their numbers."""
        return analysis.labels(self.record, **self._options)

    def facts(self) -> FigureFacts:
        name, numbers = ("number", "numbers") if analysis.is_number(self.record) else ("labels", "probabilities")
        what = "picture" if self.record.sentences[self.sentence].pictures else "sentence"
        return self._ranked_facts(
            self.predicted,
            *("labels", numbers),
            what=f"{name.capitalize()} of the {what}",
            subject=(name,),
            table=partial(tables.labels_table, self.record, **self._options),
            words=partial(sentences.labels, self.record, **self._options),
        )

    def draw(self) -> Bars:
        labels, count = self.predicted, len(self.predicted)
        if analysis.is_number(self.record):
            both = [
                [label.probability] if self.before is None else [label.before, label.probability] for label in labels
            ]
            texts = [" → ".join(sentences.label_value(self.record, number) for number in pair) for pair in both]
            names = [short(label.word) for label in labels]
            return Bars(**self._header(beside_map=True), names=names, columns=[Column(texts)])
        left_out = f"the {MOST_LABELS} most probable of {count:,} labels" if count > MOST_LABELS else ""
        several = SEVERAL if self.record.label_kind == "several" else ""
        return self._bars(labels[:MOST_LABELS], left_out, ONE_LABEL if count == 1 else "", several, name_of=label_text)


@dataclass(frozen=True, eq=False)
class OutputChange(Figure):
    """Bars of the relative change of each token's output vector, ||after - before|| / ||before||."""

    before: Record
    after: Record
    _: KW_ONLY
    sentence: int = 0

    def __post_init__(self):
        self.moved  # noqa: B018 (runs that cannot be compared are refused at once)

    @property
    def record(self) -> Record:
        return self.after

    @cached_property
    def moved(self) -> np.ndarray:
        return analysis.output_change(self.before, self.after, self.sentence).numpy()

    def facts(self) -> FigureFacts:
        return FigureFacts(
            what="Change of the output, compared with the original model",
            subject=("change",),
            table=partial(tables.change_table, self.before, self.after, sentence=self.sentence),
            words=partial(sentences.change, self.moved, self.after.read[self.sentence].labels[: len(self.moved)]),
        )

    def draw(self) -> Bars:
        every, tokens = self.moved, self.after.read[self.sentence].tokens
        order = np.argsort(-np.nan_to_num(every, nan=np.inf, posinf=np.inf), kind="stable")
        indices = sorted(order[:MOST_BARS].tolist())  # NaN counts as the largest: it must not be missed
        left_out = f"the {len(indices)} of {len(every)} tokens that moved most" if len(indices) < len(every) else ""
        unchanged = "" if self.on_screen or self.after.edits.in_words() else "changed: nothing"
        return Bars(
            **self._header(MOVED, left_out, unchanged, beside_map=True),
            names=[short(tokens[i].text) for i in indices],
            columns=[Column(values=every[indices].tolist())],
            length=240,
            quiet=[row for row, i in enumerate(indices) if tokens[i].special],
        )


STEP_BAR, LONGEST, LONGEST_OF_TWO = 24, 12, 8
"""Pixels of a bar of probability 1; most characters of a word, and of each of two words in a row, to fit a phone."""
NOTHING = "–"
"""Mark for a position beyond the end of a run's text."""


@dataclass(frozen=True, eq=False)
class StepByStep(PredictionFigure):
    """Table of predictions, a row per position without padding: the token read, and the most probable word with a bar.

    A fill-in model has one row per blank. With a run `before` a change, rows whose prediction changed come first, as
    "le → les", with the probability of the predicted word in each run: a bar, and a hollow bar for the run before.
    """

    @property
    def predicted(self) -> pd.DataFrame:
        return self.table

    @property
    def _titles(self) -> tuple[str, str, str]:
        """Title, and captions of the columns of tokens and of predictions."""
        if analysis.labels_tokens(self.record):
            return "Labels of the tokens", "token", "label"
        predicts = "writes" if self.record.targets else "expects"
        if analysis.fills_in(self.record):
            return "Blanks, filled in", "in place of", predicts
        return "Step by step", "reads", predicts

    def facts(self) -> FigureFacts:
        what = self._titles[0]
        return FigureFacts(
            what=what,
            subject=(what.partition(" of ")[0].partition(",")[0].lower(),),
            table=partial(tables.step_by_step_table, self.record, **self._options),
            words=partial(sentences.step_by_step, self.record, **self._options),
            arrays=self._arrays,
        )

    def _arrays(self) -> dict[str, np.ndarray]:
        texts = self.table.select_dtypes(exclude="number").fillna("")
        return number_arrays(self.table) | {name: text_array([*texts[name]]) for name in texts}

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Rows to draw: changed predictions first; if there are too many, those whose probability changed most."""
        table = self.table.assign(differs=False, token=self.table["token"].fillna(NOTHING))
        if self.before is None:
            return table.head(MOST_BARS)
        now, old = table["word"].fillna(NOTHING), table["word_before"].fillna(NOTHING)
        moved = (table["probability"] - table["probability_before"]).abs().fillna(0).where(now == old, 1.0)
        most = moved.sort_values(ascending=False, kind="stable").index[:MOST_BARS]
        table = table.assign(differs=now != old, word=now, word_before=old).loc[most]
        return table.sort_values(["differs", "position"], ascending=[False, True])

    def draw(self) -> Bars:
        rows, before = self.rows, self.before is not None
        longest = LONGEST_OF_TWO if rows["differs"].any() else LONGEST
        old = rows["word_before" if before else "word"]
        predicted = [f"▸ {_format_change(*pair, longest)}" for pair in zip(old, rows["word"], strict=True)]
        # hollow bars are drawn if a probability changed in percent, as written
        has_hollow = bool(rows.filter(like="probability").map(percent).nunique(axis=1).gt(1).any())
        hollow = rows["probability_before"].tolist() if has_hollow else ()
        _, reads, predicts = self._titles
        return Bars(
            **self._header(*self._notes(), HOLLOW if has_hollow else "", beside_map=True),
            names=rows["position"].astype(str).tolist(),
            columns=[
                Column([visible_text(token, longest) for token in rows["token"]], name=reads),
                Column(predicted, name=predicts),
                Column((), rows["probability"].tolist(), hollow, longest=1.0),
            ],
            length=STEP_BAR,
            quiet=range(len(rows)),
            chosen=rows["differs"].to_numpy().nonzero()[0].tolist(),
        )

    def _notes(self) -> list[str]:
        """Return notes on rows that are left out and on changed predictions."""
        cut, count, num_drawn = analysis.cut(self.record, sentence=self.sentence), len(self.table), len(self.rows)
        notes = [f"the text was cut after {cut} tokens" if cut else "", "" if count else NO_BLANK]
        if num_drawn < count:
            which = "the first {} of {} rows" if self.before is None else "the {} of {} rows that changed most"
            notes.append(which.format(num_drawn, count))
        if self.before is not None and count:
            others = int(self.table["word"].fillna(NOTHING).ne(self.table["word_before"].fillna(NOTHING)).sum())
            changed = f"another word than before: {others} of {count} rows, first"
            notes.append(changed if others else "every word is as before the change")
        return notes


def _format_change(old: str, now: str, longest: int) -> str:
    """Format a prediction, as "le → les" if it changed; shorten long words around their first difference."""
    if old == now:
        return visible_text(now, longest)
    cut = [visible_text(text, longest) for text in (old, now)]
    if cut[0] == cut[1]:
        alike = next((i for i, (a, b) in enumerate(zip(old, now, strict=False)) if a != b), min(len(old), len(now)))
        cut = [f"…{visible_text(text[max(0, alike - 2) :], longest - 1)}" for text in (old, now)]
    return " → ".join(cut)
