"""Predictions as lines for the terminal: text, words, labels or vectors; before and after a change."""

import json
from collections.abc import Sequence
from math import isnan
from typing import Any

from attnviz import analysis
from attnviz.analysis import NextWord
from attnviz.cli.lines import columns
from attnviz.core.display import label_text, visible_text
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.sources.base import Source


def check(source: Source, before: Record | None, after: Record) -> None:
    """Raises: InputError: if there is nothing to say, with what would have to be given."""
    if after.labels is after.vectors is after.prediction is None:
        raise InputError(f"'{source.name}' says nothing, its weights are {source.provenance}; choose another --model.")
    if after.vectors is not None and before is None and len(after.sentences) == 1:
        raise InputError(
            f"'{source.name}' gives a sentence a vector: give several, one on each line with --lines, or a change."
        )
    if analysis.fills_in(after) and not any(after.prediction.blanks):
        raise InputError(f"'{source.name}' fills in {source.mask_token}; write that in the place of a word.")


def last(record: Record, sentence: int) -> int:
    return record.sentences[sentence].length - 1


# As text


def as_text(before: Record | None, after: Record) -> list[str]:
    """Prediction of each sentence; with `before`, both."""
    if after.vectors is not None:
        return _vectors(before, after)
    parts = [_sentence_lines(before, after, number) for number in range(len(after.sentences))]
    apart = [] if before is None and after.targets and after.labels is None else [""]
    return [line for number, part in enumerate(parts) for line in (*(apart if number else ()), *part)]


def _sentence_lines(before: Record | None, after: Record, sentence: int) -> list[str]:
    arguments = {"before": before, "sentence": sentence}
    if after.labels is not None:
        return _table(
            "label", analysis.labels(after, **arguments), before, "number" if analysis.is_number(after) else ""
        )
    if analysis.labels_tokens(after):
        return columns(
            [
                ("position", "token", "label", "probability"),
                *(
                    (word.position, visible_text(word.token), visible_text(word.word), f"{word.probability:.3f}")
                    for word in analysis.predicted_words(after, sentence=sentence)
                ),
            ]
        )
    if analysis.fills_in(after):
        blanks = [
            (place, analysis.next_words(after, place, **arguments)) for place in after.prediction.blanks[sentence]
        ]
        parts = [[f"at position {place}:", *_words_table(words, before, after)] for place, words in blanks]
        return [line for i, part in enumerate(parts) for line in (*([""] if i else ()), *part)] or ["(no blank)"]
    if not after.targets:
        return _words_table(analysis.next_words(after, last(after, sentence), **arguments), before, after)
    text = _written(after, sentence)
    if before is None:
        return [text]
    return [f"before: {_written(before, sentence)}", f"after:  {text}"]


def _words_table(words: Sequence[NextWord], before: Record | None, after: Record) -> list[str]:
    """Words and how probable they are, and what a token is that has a number alone."""
    number = next((word.word for word in words if analysis.nameless_id(after, word.word) is not None), None)
    note = f"A word such as {number} is the token with that id: the model's tokenizer has no text for it."
    return [*_table("word", words, before), *([note] if number else [])]


def _table(what: str, words: Sequence[NextWord], before: Record | None, measure: str = "") -> list[str]:
    written = label_text if what.startswith("label") else visible_text
    if before is None:
        heading = (what, measure or "probability")
        return columns([heading, *((written(word.word), f"{word.probability:.3f}") for word in words)])
    rows = ((written(word.word), _number(word.before), f"{word.probability:.3f}") for word in words)
    return columns([(what, "before", "after"), *rows])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _vectors(before: Record | None, after: Record) -> list[str]:
    """How alike the sentences are, as cosines, and how far each has moved."""
    count = len(after.sentences)
    moved = [] if before is None else [("sentence", "moved"), *_moved(before, after)]
    if count == 1:
        return columns(moved)
    alike = [(i + 1, j + 1, i, j) for i in range(count) for j in range(i + 1, count)]
    runs = [analysis.similarity(record) for record in (before, after) if record is not None]
    heads = ("similarity",) if before is None else ("similarity before", "after")
    rows = [(f"{first}, {other}", *(f"{run[i, j]:.4f}" for run in runs)) for first, other, i, j in alike]
    return [*columns([("sentences", *heads), *rows]), *(["", *columns(moved)] if moved else [])]


def _moved(before: Record, after: Record) -> list[tuple[int, str]]:
    return [(number, f"{far:.4f}") for number, far in enumerate(analysis.shift(before, after).tolist(), 1)]


def _written(record: Record, sentence: int) -> str:
    """A text that a model wrote; one without a word is said to be none, and one that was cut to be that."""
    text = " ".join(visible_text(word) for word in record.prediction.written[sentence].split()) or "(nothing)"
    cut = analysis.cut(record, sentence=sentence)
    return f"{text} (cut after {cut} tokens)" if cut else text


# As JSON


def as_json(before: Record | None, after: Record) -> list[str]:
    """One object for each sentence."""
    listed = []
    for number, sentence in enumerate(after.sentences):
        entry = {"says": _prediction(after, number)}
        if before is not None:
            entry = {"before": _prediction(before, number), "after": entry["says"], "edits": after.edits.to_json()}
        if before is not None and after.vectors is not None:
            entry["moved"] = _json(analysis.shift(before, after)[number].item())
        listed.append({"text": sentence.text} | entry)
    return [json.dumps(listed, indent=1)]


def _prediction(record: Record, sentence: int) -> Any:
    if record.vectors is not None:
        return {"similarity": [_json(cosine) for cosine in analysis.similarity(record)[sentence].tolist()]}
    if record.labels is not None:
        measure = "number" if analysis.is_number(record) else "probability"
        return [{"label": word.word, measure: word.probability} for word in analysis.labels(record, sentence=sentence)]
    if analysis.labels_tokens(record):
        return [
            {"position": word.position, "token": word.token, "label": word.word, "probability": word.probability}
            for word in analysis.predicted_words(record, sentence=sentence)
        ]
    if analysis.fills_in(record):
        blanks = record.prediction.blanks[sentence]
        return [{"position": place, "words": _words(record, place, sentence)} for place in blanks]
    if record.targets:
        return record.prediction.written[sentence]
    return _words(record, last(record, sentence), sentence)


def _words(record: Record, place: int, sentence: int) -> list[dict[str, Any]]:
    words = analysis.next_words(record, place, sentence=sentence)
    return [{"word": word.word, "probability": word.probability} for word in words]


def _json(number: float) -> float | None:
    """A number; JSON has none for NaN."""
    return None if isnan(number) else number
