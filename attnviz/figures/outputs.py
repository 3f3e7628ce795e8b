"""Output of a model as bars: next words, words for a blank, labels, step by step, and how far tokens moved."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
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

LONG, SHORT = 24, 60
"""Characters of a name beyond which bars are so many pixels long, to stand in one column."""
MOST_LABELS, MOST_BARS = 12, 40
"""Classes drawn at most, the most probable, and tokens, those that moved most; the table holds all."""
LEAST = 0.01
"""Probability below which, before a change and after it, a word has no bar."""

NO_NUMBERS = "the probabilities are not numbers (NaN)"
HOLLOW = "hollow bar: before the change"
OTHERS = "others"
"""Name of the bar of all words that have none of their own."""
SEVERAL = "each label has a probability of its own; several may hold"
ONE_LABEL = "the model gives one number: the logistic function of it is drawn"
MOVED = "how far each token's output vector moved, as a share of its length"


@dataclass(frozen=True, eq=False)
class NextWordBars(Figure):
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

    @property
    def _options(self) -> dict:
        return {"before": self.before, "sentence": self.sentence, "count": self.count}

    @cached_property
    def words(self) -> tuple[NextWord, ...]:
        """The words with their probabilities."""
        return analysis.next_words(self.record, self.position, **self._options)

    def facts(self) -> FigureFacts:
        called, beginning = self._called()
        token = analysis.token_at(self.record, self.position, sentence=self.sentence)
        place, options = (self.record, self.position), self._options
        return FigureFacts(
            what=f"{beginning} {quoted_token(token, self.position)}",
            subject=(f"{called} {self.position}",),
            table=partial(tables.next_word_table, *place, **options),
            words=partial(sentences.next_word, *place, **options),
            arrays=partial(_arrays, self.words, "words", "probabilities"),
            record=self.record,
        )

    def _called(self) -> tuple[str, str]:
        """Kind of prediction, and beginning of the title."""
        if analysis.labels_tokens(self.record):
            return "label", "Label of"
        in_blank = "blank", "Most probable in place of"
        return in_blank if analysis.fills_in(self.record) else ("next word", "Next word after")

    def draw(self) -> Bars:
        same = not self.before or analysis.read_alike(self.before, self.record, self.position, sentence=self.sentence)
        return probabilities(self.words, self._beside("" if same else OTHER_WORDS), others=True)


@dataclass(frozen=True, eq=False)
class LabelBars(Figure):
    """A bar for the probability of each class of a sentence, in a hollow one of that `before` a change.

    A regression has numbers without bars.

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

    def facts(self) -> FigureFacts:
        options = {"before": self.before, "sentence": self.sentence}
        name, numbers = ("number", "numbers") if analysis.is_number(self.record) else ("labels", "probabilities")
        what = "picture" if self.record.sentences[self.sentence].pictures else "sentence"
        return FigureFacts(
            what=f"{name.capitalize()} of the {what}",
            subject=(name,),
            table=partial(tables.labels_table, self.record, **options),
            words=partial(sentences.labels, self.record, **options),
            arrays=partial(_arrays, self.labels, "labels", numbers),
            record=self.record,
        )

    def draw(self) -> Bars:
        labels = self.labels
        if analysis.is_number(self.record):
            both = [
                (label.probability,) if self.before is None else (label.before, label.probability) for label in labels
            ]
            texts = [" → ".join(sentences.label_value(self.record, number) for number in pair) for pair in both]
            return Bars(**self._beside(), names=[short(label.word) for label in labels], columns=[Column(texts)])
        many = f"the {MOST_LABELS} most probable of {len(labels):,} labels" if len(labels) > MOST_LABELS else ""
        notes = [many, ONE_LABEL if len(labels) == 1 else "", SEVERAL if self.record.label_kind == "several" else ""]
        return probabilities(labels[:MOST_LABELS], self._beside(*notes), name_of=label_text)


@dataclass(frozen=True, eq=False)
class OutputChange(Figure):
    """A bar per token: ||after - before|| / ||before|| of its output vector; a token that did not move says 0."""

    before: Record
    after: Record
    _: KW_ONLY
    sentence: int = 0

    def __post_init__(self):
        self.moved  # noqa: B018 (runs that cannot be compared are refused at once)

    @cached_property
    def moved(self) -> np.ndarray:
        """How far each token moved."""
        return analysis.output_change(self.before, self.after, self.sentence).numpy()

    def facts(self) -> FigureFacts:
        return FigureFacts(
            what="Change of the output, compared with the original model",
            subject=("change",),
            table=partial(tables.change_table, self.before, self.after, sentence=self.sentence),
            words=partial(sentences.change, self.moved, self.after.read[self.sentence].labels[: len(self.moved)]),
            record=self.after,
        )

    def draw(self) -> Bars:
        every, tokens = self.moved, self.after.read[self.sentence].tokens
        order = np.argsort(-np.nan_to_num(every, nan=np.inf, posinf=np.inf), kind="stable")
        indices = sorted(order[:MOST_BARS].tolist())  # NaN is among them: it is what one must not miss
        left_out = f"the {len(indices)} of {len(every)} tokens that moved most" if len(indices) < len(every) else ""
        unchanged = "" if self.on_screen or self.after.edits.in_words() else "changed: nothing"
        return Bars(
            **self._beside(MOVED, left_out, unchanged),
            names=[short(tokens[i].text) for i in indices],
            columns=[Column(values=every[indices].tolist())],
            length=240,
            quiet=[row for row, i in enumerate(indices) if tokens[i].special],
        )


def probabilities(words: Sequence[NextWord], above: dict[str, Any], *, others: bool = False, name_of=short) -> Bars:
    """Words and their bars; where it is known, with what was before, by the larger of both.

    Args:
        above: what stands over them, as a figure has it.
        others: whether a last bar has what is left to 1, before and after.
        name_of: function that shortens a word.
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
    return replace(bars, length=SHORT) if max(map(len, names), default=0) > LONG else bars


def _arrays(words: Sequence[NextWord], name: str, numbers: str) -> dict[str, np.ndarray]:
    before = [word.before for word in words if word.before is not None]
    both = {numbers: [word.probability for word in words]} | ({f"{numbers}_before": before} if before else {})
    return {name: text_array([word.word for word in words])} | {of: np.array(part, float) for of, part in both.items()}


LENGTH, LONGEST, LONGEST_OF_TWO = 24, 12, 8
"""Pixels of a bar of probability 1; characters of a word, and of each of two in a row, so that all fit a phone."""

MOST_STEPS = 40
"""Rows drawn at most; the table holds all."""

NOTHING = "–"
"""Mark for a position where a run read or wrote nothing any more."""


@dataclass(frozen=True, eq=False)
class StepByStep(Figure):
    """A row per position that is not padding: the word just read, and the most probable word then, with a bar.

    A model that fills in has a row per blank. With a run `before` a change the rows that predict another word
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

    def facts(self) -> FigureFacts:
        what = "Blanks, filled in" if analysis.fills_in(self.record) else "Step by step"
        what = "Labels of the tokens" if analysis.labels_tokens(self.record) else what
        options = {"before": self.before, "sentence": self.sentence}
        return FigureFacts(
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
            return table.head(MOST_STEPS)
        now, old = table["word"].fillna(NOTHING), table["word_before"].fillna(NOTHING)
        moved = (table["probability"] - table["probability_before"]).abs().fillna(0).where(now == old, 1.0)
        most = moved.sort_values(ascending=False, kind="stable").index[:MOST_STEPS]
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
            **self._beside(*self._notes()),
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
