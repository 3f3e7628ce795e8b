"""Bars of a model's output: next words, words for a blank, labels, prediction per step, and changes of the output."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis import NextWord, sentences, tables
from attnviz.analysis.lens import stages
from attnviz.analysis.sentences import NO_BLANK, OTHER_WORDS, quoted, quoted_token
from attnviz.charts.axes import short
from attnviz.charts.bars import Bars, Column
from attnviz.core.amounts import percent
from attnviz.core.display import label_text, visible_text
from attnviz.core.record import Record
from attnviz.figures.base import FigureFacts, figure, number_arrays, text_array
from attnviz.figures.forms import BarChart

LONG, SHORT, LENGTH = 24, 60, 150
"""Length of a name above which all bars of a figure are short; pixels of the longest bar if they are, and otherwise."""
MOST_LABELS, MOST_BARS = 12, 40
"""Maximum number of classes (the most probable), and of tokens or rows (those that changed most) with bars."""
LEAST = 0.01
"""Probability below which, both before and after a change, a word has no bar."""
NO_NUMBERS = "the probabilities are not numbers (NaN)"
HOLLOW, OTHERS = "hollow bar: before the change", "others"
SEVERAL = "each label has a probability of its own; several may hold"
ONE_LABEL = "the model gives one number: the logistic function of it is drawn"
MOVED = "how far each token's output vector moved, as a share of its length"
STEP_BAR, LONGEST, LONGEST_OF_TWO = 24, 12, 8
"""Pixels of a bar of probability 1; maximum length of a word, and of each of two words in a row, to fit a phone."""
NOTHING = "–"
"""Mark for a position beyond the end of a run's text."""


@figure
def next_word(
    record: Record, position: int, *, before: Record | None = None, sentence: int = 0, count: int = 5, **style: Any
) -> BarChart:
    """Draw bars of the `count` most probable words after a position, or in place of a blank.

    With the run `before` a change, hollow bars show its probabilities, or a note says that its text is different.

    Raises:
        InputError: if the model predicts no words there.
    """
    options = {"before": before, "sentence": sentence, "count": count}
    ranked = analysis.next_words(record, position, **options)
    token = quoted_token(analysis.token_at(record, position, sentence=sentence), position)
    kind, beginning = "next word", "Next word after"
    if analysis.labels_tokens(record):
        kind, beginning = "label", "Label of"
    elif analysis.fills_in(record):
        kind, beginning = "blank", "Most probable in place of"
    is_comparable = not before or analysis.same_input(before, record, position, sentence=sentence)
    facts = FigureFacts(
        what=f"{beginning} {token}",
        origin="file",
        subject=(f"{kind} {position}",),
        table=partial(tables.next_word_table, record, position, **options),
        words=partial(sentences.next_word, record, position, **options),
        arrays=_ranked_arrays(ranked, "words", "probabilities"),
    )
    bars = _ranked_bars(ranked, "" if is_comparable else OTHER_WORDS, others=True)
    return BarChart(facts=facts, bars=bars, record=record, sentence=sentence, **style)


@figure
def lens_words(
    record: Record, position: int, *, stage: int = -1, sentence: int = 0, count: int = 5, **style: Any
) -> BarChart:
    """Draw bars of the most probable words in one cell of the logit lens.

    Args:
        stage: 0 for the embedding, i for the stream after i layers; the last stage is the model's prediction.
    """
    ranked, name = analysis.lens_words(record, stage, position, sentence=sentence, count=count), stages(record)[stage]
    token = quoted_token(analysis.token_at(record, position, sentence=sentence), position)
    words = [(word.word, word.probability) for word in ranked]
    what = f"Logit lens after {name}: next word after {token}"
    facts = FigureFacts(
        what=what,
        origin="file",
        subject=(f"lens {name} {position}",),
        table=pd.DataFrame(words, columns=["word", "probability"]),
        words=f"{what}: {', '.join(f'{quoted(word)} {percent(probability)}' for word, probability in words)}.",
        arrays=_ranked_arrays(ranked, "words", "probabilities"),
    )
    bars = _ranked_bars(ranked, others=True)
    return BarChart(facts=facts, bars=bars, record=record, sentence=sentence, **style)


@figure
def labels(record: Record, *, before: Record | None = None, sentence: int = 0, **style: Any) -> BarChart:
    """Draw bars of the probability of each class of a sentence, with hollow bars for the probability before a change.

    For a regression, each output is a number without a bar.

    Raises:
        InputError: if the model does not classify texts.
    """
    options = {"before": before, "sentence": sentence}
    ranked = analysis.labels(record, **options)
    count = len(ranked)
    if analysis.is_number(record):
        name, numbers = "number", "numbers"
        both = [[label.probability] if before is None else [label.before, label.probability] for label in ranked]
        texts = [" → ".join(sentences.label_value(record, number) for number in pair) for pair in both]
        bars = Bars(names=[short(label.word) for label in ranked], columns=[Column(texts)])
    else:
        name, numbers = "labels", "probabilities"
        left_out = f"the {MOST_LABELS} most probable of {count:,} labels" if count > MOST_LABELS else ""
        notes = left_out, ONE_LABEL if count == 1 else "", SEVERAL if record.label_kind == "several" else ""
        bars = _ranked_bars(ranked[:MOST_LABELS], *notes, name_of=label_text)
    facts = FigureFacts(
        what=f"{name.capitalize()} of the {'picture' if record.sentences[sentence].pictures else 'sentence'}",
        origin="file",
        subject=(name,),
        table=partial(tables.labels_table, record, **options),
        words=partial(sentences.labels, record, **options),
        arrays=_ranked_arrays(ranked, "labels", numbers),
    )
    return BarChart(facts=facts, bars=bars, record=record, sentence=sentence, **style)


def _ranked_arrays(ranked: Sequence[NextWord], name: str, numbers: str) -> dict[str, np.ndarray]:
    """Return arrays: words or classes under `name`; probabilities or numbers under `numbers`, also before a change."""
    arrays = {name: text_array([word.word for word in ranked])}
    arrays[numbers] = np.array([word.probability for word in ranked], float)
    before = [word.before for word in ranked if word.before is not None]
    return arrays | ({f"{numbers}_before": np.array(before, float)} if before else {})


def _ranked_bars(
    ranked: Sequence[NextWord], *notes: str, others: bool = False, name_of: Callable[[str], str] = short
) -> Bars:
    """Draw bars of ranked words or classes.

    If probabilities before a change are known, words are sorted by the larger of both; words below LEAST in both have
    no bar.

    Args:
        others: whether, after a change, a last bar shows the probability of all other words.
        name_of: function that shortens a word.
    """
    note = "" if ranked else NO_NUMBERS
    texts, before, quiet, longest = [], [], [], 1.0
    if any(word.before is not None for word in ranked):
        ranked = sorted(ranked, key=lambda word: np.nan_to_num([word.probability, word.before]).max(), reverse=True)
        ranked = [word for word in ranked if not (word.probability < LEAST and word.before < LEAST)] or ranked
        rest = 1 - sum(word.probability for word in ranked), 1 - sum(word.before for word in ranked)
        if others and max(rest) >= LEAST:
            quiet, ranked = [len(ranked)], [*ranked, NextWord(OTHERS, *rest)]
        note, longest, before = HOLLOW, None, [word.before for word in ranked]
        texts = [f"{percent(word.before)} → {percent(word.probability)}" for word in ranked]
    names = [name_of(word.word) for word in ranked]
    column = Column(texts, [word.probability for word in ranked], before, longest=longest)
    length = SHORT if max(map(len, names), default=0) > LONG else LENGTH
    return Bars(lines=[note, *notes], names=names, columns=[column], quiet=quiet, length=length)


@figure
def change(before: Record, after: Record, *, sentence: int = 0, **style: Any) -> BarChart:
    """Draw bars of the relative change of each token's output vector, ||after - before|| / ||before||.

    Raises:
        InputError: if the runs cannot be compared.
    """
    moved, text = analysis.output_change(before, after, sentence).numpy(), after.read[sentence]
    order = np.argsort(-np.nan_to_num(moved, nan=np.inf, posinf=np.inf), kind="stable")
    indices = sorted(order[:MOST_BARS].tolist())  # NaN counts as the largest: it must not be missed
    facts = FigureFacts(
        what="Change of the output, compared with the original model",
        more=() if after.edits.in_words() else ["changed: nothing"],
        origin="file",
        subject=("change",),
        table=partial(tables.change_table, before, after, sentence=sentence),
        words=partial(sentences.change, moved, text.labels[: len(moved)]),
    )
    note = f"the {len(indices)} of {len(moved)} tokens that moved most" if len(indices) < len(moved) else ""
    bars = Bars(
        lines=[MOVED, note],
        names=[short(text.tokens[i].text) for i in indices],
        columns=[Column(values=moved[indices].tolist())],
        length=240,
        quiet=[row for row, i in enumerate(indices) if text.tokens[i].special],
    )
    return BarChart(facts=facts, bars=bars, record=after, sentence=sentence, **style)


@figure
def step_by_step(record: Record, *, before: Record | None = None, sentence: int = 0, **style: Any) -> BarChart:
    """Draw a row per position (without padding): the input token, and the most probable word with a bar.

    A fill-in model has one row per blank. Given a run `before` a change, rows whose prediction changed come first, as
    "le → les"; a hollow bar shows the probability of the word that was predicted before.

    Raises:
        InputError: if the model predicts no words.
    """
    options = {"before": before, "sentence": sentence}
    table = tables.step_by_step_table(record, **options)
    what, subject, reads, predicts = "Step by step", "step by step", "reads", "writes" if record.targets else "expects"
    if analysis.labels_tokens(record):
        what, subject, reads, predicts = "Labels of the tokens", "labels", "token", "label"
    elif analysis.fills_in(record):
        what, subject, reads = "Blanks, filled in", "blanks", "in place of"
    texts = table.select_dtypes(exclude="number").fillna("")
    facts = FigureFacts(
        what=what,
        origin="file",
        subject=(subject,),
        table=table,
        words=partial(sentences.step_by_step, record, **options),
        arrays=number_arrays(table) | {name: text_array([*texts[name]]) for name in texts},
    )
    rows = _drawn_rows(table, is_compared=before is not None)
    longest = LONGEST_OF_TWO if rows["differs"].any() else LONGEST
    old = rows["word" if before is None else "word_before"]
    predicted = [f"▸ {_format_change(*pair, longest)}" for pair in zip(old, rows["word"], strict=True)]
    # hollow bars are left out if each probability has the same text as before, such as 12 %
    has_hollow = bool(rows.filter(like="probability").map(percent).nunique(axis=1).gt(1).any())
    hollow = rows["probability_before"].tolist() if has_hollow else ()
    cut = analysis.cut(record, sentence=sentence)
    lines = [f"the text was cut after {cut} tokens" if cut else "", *_row_notes(table, len(rows))]
    bars = Bars(
        lines=[*lines, HOLLOW if has_hollow else ""],
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
    return BarChart(facts=facts, bars=bars, record=record, sentence=sentence, **style)


def _drawn_rows(table: pd.DataFrame, *, is_compared: bool) -> pd.DataFrame:
    """Return the MOST_BARS rows to draw: in a comparison, those that changed most, with changed predictions first."""
    table = table.assign(differs=False, token=table["token"].fillna(NOTHING))
    if not is_compared:
        return table.head(MOST_BARS)
    now, old = table["word"].fillna(NOTHING), table["word_before"].fillna(NOTHING)
    change = (table["probability"] - table["probability_before"]).abs().fillna(0)
    change = change.where(now == old, 1.0)  # another word counts more than any change of a probability
    rows = change.sort_values(ascending=False, kind="stable").index[:MOST_BARS]
    table = table.assign(differs=now != old, word=now, word_before=old).loc[rows]
    return table.sort_values(["differs", "position"], ascending=[False, True])


def _row_notes(table: pd.DataFrame, num_drawn: int) -> list[str]:
    """Return notes on rows that are not drawn, and on the number of changed predictions."""
    count, is_compared = len(table), "word_before" in table
    notes = [] if count else [NO_BLANK]
    if num_drawn < count:
        drawn = "the {} of {} rows that changed most" if is_compared else "the first {} of {} rows"
        notes.append(drawn.format(num_drawn, count))
    if is_compared and count:
        num_changed = int(table["word"].fillna(NOTHING).ne(table["word_before"].fillna(NOTHING)).sum())
        changed = f"another word than before: {num_changed} of {count} rows, listed first"
        notes.append(changed if num_changed else "every word is as before the change")
    return notes


def _format_change(old: str, now: str, longest: int) -> str:
    """Format a prediction, as "le → les" if it changed; shorten long words around their first difference."""
    if old == now:
        return visible_text(now, longest)
    shortened = [visible_text(text, longest) for text in (old, now)]
    if shortened[0] == shortened[1]:
        differing = (i for i, (a, b) in enumerate(zip(old, now, strict=False)) if a != b)
        first = next(differing, min(len(old), len(now)))  # index of the first character that differs
        shortened = [f"…{visible_text(text[max(0, first - 2) :], longest - 1)}" for text in (old, now)]
    return " → ".join(shortened)
