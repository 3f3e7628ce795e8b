"""Predictions of the model with and without the edits: one sentence, and a figure with the numbers."""

import math
from collections.abc import Callable
from itertools import combinations

from attnviz import analysis, figures
from attnviz.analysis.sentences import label_value, quoted, quoted_token
from attnviz.core.amounts import percent
from attnviz.core.display import label_text
from attnviz.figures import Figure
from attnviz.ui.picture import picture
from attnviz.ui.text import block
from attnviz.ui.toolbar import Context


def sentence(context: Context, position: int | None = None) -> str:
    """Write the prediction for the text or at a position (by default `Context.position`); empty if there is none."""
    record, index = context.record, context.sentence
    if analysis.is_number(record):
        return f"Predicted number: {label_value(record, analysis.labels(record, sentence=index)[0].probability)}."
    if record.labels is not None:
        ranked = analysis.labels(record, before=context.before, sentence=index)
        return f"Predicted label: {_top_word(ranked, lambda name: f'“{label_text(name)}”')}."
    if record.prediction is None:
        return _vector_sentence(context)
    if record.prediction.written:
        return _written_text(context)
    position = context.position if position is None else position
    if position is None:
        return "The text has no blank for the model to fill in."
    token = quoted_token(analysis.token_at(record, position, sentence=index), position)
    where = f"After {token}"
    if analysis.fills_in(record):
        where = f"In place of {token}"
    elif analysis.labels_tokens(record):
        where = f"Label of {token}"
    ranked = analysis.next_words(record, position, before=context.before, sentence=index)
    most = "most changed: " if context.before is not None and position == context.most_changed_position else ""
    return f"{where}, {most}{_top_word(ranked)}."


def panel(context: Context, position: int | None = None) -> dict[str, Figure]:
    """Draw the sentence and a figure of its numbers; return the figure by its name in the export menu."""
    if text := sentence(context, position):
        block(text, "large")
    name_and_figure = figure(context, position)
    if name_and_figure is None:
        return {}
    name, bars = name_and_figure
    picture(bars, name)
    return {name.capitalize(): bars}


def figure(context: Context, position: int | None = None) -> tuple[str, Figure] | None:
    """Make the figure of the predictions, and its name; None if the model predicts nothing."""
    record, before = context.record, context.before
    options = {"before": before, "sentence": context.sentence, "dark": context.dark}
    if record.labels is not None:
        return "labels", figures.labels(record, **options)
    if record.prediction is None:
        return None if before is None else ("output", figures.change(before, record, dark=context.dark))
    if record.prediction.written:
        return "written words", figures.step_by_step(record, **options)
    position = context.position if position is None else position
    return None if position is None else ("next word", figures.next_word(record, position, **options))


def _written_text(context: Context) -> str:
    """Write the text that the model generated and, if it differs, the text that it generates without the edits."""
    if context.request.targets:
        return f"The decoder reads your target: “{context.request.targets[context.sentence]}”"
    text = context.record.prediction.written[context.sentence]
    original = context.original.prediction.written[context.sentence]
    before = "" if original == text else f" Before: “{original}”"
    return f"The model writes: “{text}”{before}"


def _top_word(ranked: tuple[analysis.NextWord, ...], quote: Callable[[str], str] = quoted) -> str:
    """Write the most probable word (the first of `ranked`), its probability, and the prediction without the edits."""
    if not ranked or math.isnan(ranked[0].probability):
        return "the probabilities are not numbers"
    top = ranked[0]
    text = f"{quote(top.word)} {percent(top.probability)}"
    if top.before is None or math.isnan(top.before):
        return text
    top_before = max(ranked, key=lambda word: word.before)
    if top_before is not top:
        return f"{text} in place of {quote(top_before.word)} {percent(top_before.before)}"
    if percent(top.before) == percent(top.probability):
        return f"{text}, as before"
    return f"{quote(top.word)} {percent(top.before)} → {percent(top.probability)}"


def _vector_sentence(context: Context) -> str:
    """Write how far the edits moved the text's vector or, without edits, which two texts have the closest vectors."""
    if context.record.vectors is None:
        return ""
    if context.before is not None:
        moved = float(analysis.shift(context.before, context.record)[context.sentence])
        return f"The vector of the text moved by {moved:.2f} (1 − cosine)."
    cosines = analysis.similarity(context.record)
    pairs = [pair for pair in combinations(range(len(context.record.sentences)), 2) if not math.isnan(cosines[pair])]
    if not pairs:
        return ""
    first, second = max(pairs, key=lambda pair: (float(cosines[pair]), pair))  # the last of equally similar pairs
    return f"Texts {first + 1} and {second + 1} are most similar: cosine {float(cosines[first, second]):.2f}."
