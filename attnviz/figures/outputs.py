"""Figures of what comes out of a model: words, labels and vectors, also before a change, and how far they moved."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from attnviz import metrics, tables, words
from attnviz.charts import change as change_chart
from attnviz.charts import labels as labels_chart
from attnviz.charts import next_word as next_word_chart
from attnviz.charts import similarity as similarity_chart
from attnviz.charts import step_by_step as step_chart
from attnviz.core.display import file_stem
from attnviz.core.record import Record
from attnviz.figures.figure import Figure, drawn_by, edited, text_array, titled


def change(before: Record, after: Record, *, sentence: int = 0, dark: bool = False) -> Figure:
    """How far each token's output vector moved; see `charts.change`."""
    moved = metrics.output_change(before, after, sentence).numpy()
    labels = after.read[sentence].labels[: len(moved)]
    picture = partial(change_chart.picture, before, after, sentence=sentence, dark=dark)
    return Figure(
        name=file_stem(after.source, "change", after.sentences[sentence].text, end=edited(after.edits)),
        title=titled(change_chart.title_of(after), after),
        describe=lambda: words.change(moved, labels),
        **drawn_by(picture),
        tabulate=lambda: tables.change_table(before, after, sentence=sentence),
        collect=lambda: {"change": moved, "tokens": text_array(labels)},
    )


def next_word(
    record: Record,
    position: int,
    *,
    before: Record | None = None,
    sentence: int = 0,
    count: int = 5,
    dark: bool = False,
) -> Figure:
    """The most probable words after a position, or in place of it, also `before` a change; see `charts.next_word`."""
    asked = {"before": before, "sentence": sentence, "count": count}
    picture = partial(next_word_chart.picture, record, position, **asked, dark=dark)
    what = f"{'blank' if metrics.fills_in(record) else 'next word'} {position}"
    return Figure(
        name=file_stem(record.source, what, record.sentences[sentence].text, end=edited(record.edits)),
        title=titled(next_word_chart.title_of(record, position, sentence), record),
        describe=lambda: words.next_word(record, position, **asked),
        **drawn_by(picture),
        tabulate=lambda: tables.next_word_table(record, position, **asked),
        collect=lambda: _next_words(metrics.next_words(record, position, **asked)),
    )


def step_by_step(record: Record, *, before: Record | None = None, sentence: int = 0, dark: bool = False) -> Figure:
    """The most probable word after each position, also `before` a change; see `charts.step_by_step`."""
    asked = {"before": before, "sentence": sentence}
    picture = partial(step_chart.picture, record, **asked, dark=dark)
    runs = {"": record} if before is None else {"": record, "_before": before}
    return Figure(
        name=file_stem(
            record.source,
            "blanks" if metrics.fills_in(record) else "step by step",
            record.sentences[sentence].text,
            end=edited(record.edits),
        ),
        title=titled(step_chart.title_of(record), record),
        describe=lambda: words.step_by_step(record, **asked),
        **drawn_by(picture),
        tabulate=lambda: tables.step_by_step_table(record, **asked),
        collect=lambda: {name: array for end, run in runs.items() for name, array in _said(run, sentence, end).items()},
    )


def labels(record: Record, *, before: Record | None = None, sentence: int = 0, dark: bool = False) -> Figure:
    """The probabilities of the classes of a sentence, also `before` a change; see `charts.labels`."""
    asked = {"before": before, "sentence": sentence}
    picture = partial(labels_chart.picture, record, **asked, dark=dark)
    return Figure(
        name=file_stem(record.source, "labels", record.sentences[sentence].text, end=edited(record.edits)),
        title=titled(labels_chart.title_of(record), record),
        describe=lambda: words.labels(record, **asked),
        **drawn_by(picture),
        tabulate=lambda: tables.labels_table(record, **asked),
        collect=lambda: _next_words(metrics.labels(record, **asked), "labels"),
    )


def similarity(record: Record, *, before: Record | None = None, dark: bool = False) -> Figure:
    """How alike the sentences are, and how far each moved since `before` a change; see `charts.similarity`."""
    picture = partial(similarity_chart.picture, record, before=before, dark=dark)
    return Figure(
        name=file_stem(record.source, "similarity", record.sentences[0].text, end=edited(record.edits)),
        title=titled(similarity_chart.title_of(record), record),
        describe=lambda: words.similarity(record, before=before),
        **drawn_by(picture),
        tabulate=lambda: tables.similarity_table(record, before=before),
        collect=lambda: _similarities(record, before),
    )


def _similarities(record: Record, before: Record | None) -> dict[str, np.ndarray]:
    arrays = {
        "similarity": metrics.similarity(record).numpy(),
        "sentences": text_array([sentence.text for sentence in record.sentences]),
    }
    return arrays if before is None else arrays | {"moved": metrics.shift(before, record).numpy()}


def _next_words(found: Sequence[metrics.NextWord], named: str = "words") -> dict[str, np.ndarray]:
    arrays = {
        named: text_array([next.word for next in found]),
        "probabilities": np.array([next.probability for next in found], np.float64),
    }
    before = [next.before for next in found if next.before is not None]
    return arrays | {"probabilities_before": np.array(before)} if before else arrays


def _said(record: Record, sentence: int, end: str) -> dict[str, np.ndarray]:
    """What a run read and said, as arrays whose names have an `end`."""
    said = metrics.predicted_words(record, sentence=sentence)
    positions = {f"positions{end}": np.array([one.position for one in said])} if metrics.fills_in(record) else {}
    return positions | {
        f"tokens{end}": text_array([one.token for one in said]),
        f"words{end}": text_array([one.word for one in said]),
        f"probabilities{end}": np.array([one.probability for one in said]),
    }
