"""What a model expects next, in place of a blank, or as a label of a sentence; and what before a change."""

from collections.abc import Sequence
from typing import Unpack

import numpy as np

from attnviz import metrics, tables, words
from attnviz.charts import axes, bars
from attnviz.charts.picture import Picture
from attnviz.charts.style import Style
from attnviz.core.amounts import percent
from attnviz.core.display import in_title, shown
from attnviz.core.record import Record
from attnviz.figures.figure import Drawn, Figure, stem, subtitles, text_array, titled
from attnviz.metrics import NextWord
from attnviz.words import OTHER_WORDS, quoted_token

NO_NUMBERS = "the probabilities are not numbers (NaN)"

MOST_LABELS = 12
"""Classes drawn at most, the most probable; the table holds all."""

LEAST = 0.01
"""A word that is less probable both before a change and after it has no bar."""

LENGTH, SHORT, BESIDE = 190, 140, 220
"""Pixels of the longest bar with one number at its right, and with two; and beside it where the width is given."""

HOLLOW = "hollow bar: before the change"
OTHERS = "others"
"""The bar of all words that have none of their own."""

SEVERAL = "each label has a probability of its own; several may hold"
ONE_LABEL = "the model gives one number: the logistic function of it is drawn"


def next_word(
    record: Record,
    position: int,
    *,
    before: Record | None = None,
    sentence: int = 0,
    count: int = 5,
    **drawn: Unpack[Drawn],
) -> Figure:
    """A bar for each of the `count` words that are most probable after a position, or in place of it.

    With a run `before` a change there are the words of either, each with two bars. A run that had read other tokens by
    then is not drawn, and the picture says so.
    """
    asked = {"before": before, "sentence": sentence, "count": count}
    found = metrics.next_words(record, position, **asked)
    compared = before is not None and metrics.read_alike(before, record, position, sentence=sentence)
    notes = [OTHER_WORDS] if before is not None and not compared else []
    token = quoted_token(metrics.token_at(record, position, sentence=sentence), position)
    what, after = "next word", "Next word after"
    if metrics.fills_in(record):
        what, after = "blank", "Most probable in place of"
    if metrics.labels_tokens(record):
        what, after = "label", "Label of"
    title = f"{after} {token} · {in_title(record.source)}"
    return Figure(
        name=stem(record, f"{what} {position}", sentence=sentence),
        title=titled(title, record),
        style=Style(**drawn),
        draw=lambda style: probabilities(found, title, [*notes, *subtitles(record, style)], style, others=True),
        describe=lambda: words.next_word(record, position, **asked),
        tabulate=lambda: tables.next_word_table(record, position, **asked),
        collect=lambda: _arrays(found, "words"),
    )


def labels(record: Record, *, before: Record | None = None, sentence: int = 0, **drawn: Unpack[Drawn]) -> Figure:
    """A bar for the probability of each class of a sentence; with a run `before` a change two.

    Of a regression its numbers.
    """
    asked = {"before": before, "sentence": sentence}
    if metrics.is_number(record):
        return _numbers(record, before, sentence, drawn)
    found, title = metrics.labels(record, **asked), f"Labels of the sentence · {in_title(record.source)}"
    notes = [f"the {MOST_LABELS} most probable of {len(found):,} labels"] if len(found) > MOST_LABELS else []
    notes += [ONE_LABEL] if len(found) == 1 else []
    notes += [SEVERAL] if record.label_kind == "several" else []
    return Figure(
        name=stem(record, "labels", sentence=sentence),
        title=titled(title, record),
        style=Style(**drawn),
        draw=lambda style: probabilities(found[:MOST_LABELS], title, [*notes, *subtitles(record, style)], style),
        describe=lambda: words.labels(record, **asked),
        tabulate=lambda: tables.labels_table(record, **asked),
        collect=lambda: _arrays(found, "labels"),
    )


def _numbers(record: Record, before: Record | None, sentence: int, drawn: Drawn) -> Figure:
    """The numbers that a regression gives of a sentence, and those before a change."""
    asked = {"before": before, "sentence": sentence}
    found, title = metrics.labels(record, **asked), f"Number of the sentence · {in_title(record.source)}"
    names = [shown(one.word, axes.LONGEST_LABEL) for one in found]
    values = [words.label_value(record, one.probability) for one in found]
    old = [f"{words.label_value(record, one.before)} → " for one in found if one.before is not None]
    texts = [f"{was}{now}" for was, now in zip(old or [""] * len(found), values, strict=True)]

    def draw(style: Style) -> Picture:
        column = bars.Column(texts=texts, color=style.colors.text)
        return bars.picture(names, [column], title, subtitles(record, style), style.colors)

    return Figure(
        name=stem(record, "number", sentence=sentence),
        title=titled(title, record),
        style=Style(**drawn),
        draw=draw,
        describe=lambda: words.labels(record, **asked),
        tabulate=lambda: tables.labels_table(record, **asked),
        collect=lambda: {name.replace("probabilities", "numbers"): a for name, a in _arrays(found, "labels").items()},
    )


def probabilities(
    found: Sequence[NextWord], title: str, lines: Sequence[str], style: Style, *, others: bool = False
) -> Picture:
    """Words and their bars under a title and lines; where it is known, with what was before, by the larger of both.

    Args:
        others: whether a last bar has what is left to 1, before and after.
    """
    lines, texts, marks = [NO_NUMBERS, *lines] if not found else lines, (), {}
    if _before(found):
        ranked = sorted(found, key=lambda next: np.nan_to_num([next.probability, next.before]).max(), reverse=True)
        found = [next for next in ranked if not (next.probability < LEAST and next.before < LEAST)] or ranked
        lines = [HOLLOW, *lines]
        rest = [1 - sum(shares) for shares in zip(*((next.probability, next.before) for next in found), strict=True)]
        if others and max(rest) >= LEAST:
            marks[len(found)] = axes.QUIET
            found = [*found, NextWord(OTHERS, *rest)]
        texts = [f"{percent(next.before)} → {percent(next.probability)}" for next in found]
    values, before = [next.probability for next in found], _before(found)
    longest = np.nan_to_num([*values, *before]).max() if before else 1.0  # of two runs the longest bar is the largest
    column = bars.Column(values, texts, hollow_values=before, longest=longest or 1.0)
    names = [shown(next.word, axes.LONGEST_LABEL) for next in found]
    length = max(SHORT if texts else LENGTH, ((style.width or 0) - BESIDE) * style.on_screen)
    return bars.picture(names, [column], title, lines, style.colors, length=length, marks=marks)


def _before(found: Sequence[NextWord]) -> list[float]:
    """The probabilities before a change, if there was one."""
    return [next.before for next in found if next.before is not None]


def _arrays(found: Sequence[NextWord], named: str) -> dict[str, np.ndarray]:
    arrays = {
        named: text_array([next.word for next in found]),
        "probabilities": np.array([next.probability for next in found], np.float64),
    }
    before = _before(found)
    return arrays | {"probabilities_before": np.array(before)} if before else arrays
