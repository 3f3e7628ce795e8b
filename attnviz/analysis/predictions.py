"""Predictions of a model, their change by an edit, and changes of the vectors of tokens and sentences."""

from dataclasses import dataclass
from math import isnan

import torch
from torch import Tensor

from attnviz.core.errors import InputError, ShapeError
from attnviz.core.record import Prediction, Record


def fills_in(record: Record) -> bool:
    """Whether the model fills in blanks of the text, like BERT, instead of predicting the next word."""
    return record.prediction is not None and record.prediction.blanks is not None


def labels_tokens(record: Record) -> bool:
    """Whether the model predicts a label for each token, such as a part of speech, instead of words."""
    return record.prediction is not None and record.prediction.classes


def is_number(record: Record) -> bool:
    """Whether the model outputs numbers per sentence (regression), not labels with probabilities."""
    return record.labels is not None and record.label_kind == "number"


def cut(record: Record, *, sentence: int = 0) -> int:
    """Return the number of tokens after which a generated text was cut off; 0 if the model ended the text."""
    return record.prediction.cut[sentence] if record.prediction and record.prediction.cut else 0


def predicting(record: Record) -> Prediction:
    """Return the word predictions of the model, or raise InputError if it predicts no words."""
    if record.prediction is None:
        raise InputError(f"'{record.source}' predicts no words.")
    return record.prediction


def position_of(record: Record, position: int, *, sentence: int = 0) -> int:
    """Convert a position, negative if counted from the end, to one counted from 0.

    Raises:
        InputError: if there is no such sentence or position.
    """
    if isinstance(sentence, bool) or sentence not in range(len(record.read)):
        raise InputError(f"There is no sentence {sentence!r}; there are {len(record.read)}, counted from 0.")
    length = record.read[sentence].length
    if isinstance(position, bool) or position not in range(-length, length):
        raise InputError(f"There is no position {position!r}; there are {length}, counted from 0.")
    return position % length


def token_at(record: Record, position: int, *, sentence: int = 0) -> str:
    """Return the text of the input token at a position; raise InputError if there is no such position."""
    labels = record.read[sentence].labels
    if not 0 <= position < len(labels):
        raise InputError(f"There is no position {position}; there are {len(labels)}, counted from 0.")
    return labels[position]


def same_input(before: Record, after: Record, position: int, *, sentence: int = 0) -> bool:
    """Whether both runs read the same tokens up to a position, or all the same tokens if the model fills in blanks."""
    end = None if fills_in(after) else position + 1
    old, new = (record.read[sentence].labels[:end] for record in (before, after))
    return old == new


NOT_A_NUMBER = "NaN"
"""Word of a prediction whose probabilities are NaN."""


@dataclass(frozen=True)
class PredictedWord:
    """A token and the most probable word after it, or a blank and the most probable word in it, or `NOT_A_NUMBER`."""

    token: str
    word: str
    probability: float
    position: int


def predicted_words(record: Record, *, sentence: int = 0) -> tuple[PredictedWord, ...]:
    """Find the most probable word after each token (padding excluded), or in each blank of a fill-in model."""
    prediction, text = predicting(record), record.read[sentence]
    positions = list(range(text.length) if prediction.blanks is None else prediction.blanks[sentence])
    logits = prediction.logits[sentence, positions].double()
    largest, ids = logits.max(-1)
    probabilities = (largest - logits.logsumexp(-1)).exp()
    words = []
    for position, id, probability in zip(positions, ids.tolist(), probabilities.tolist(), strict=True):
        word = NOT_A_NUMBER if isnan(probability) else prediction.vocabulary[id]
        words.append(PredictedWord(text.labels[position], word, probability, position))
    return tuple(words)


@dataclass(frozen=True)
class NextWord:
    """A possible next word, or a label: its probability, and its probability before a change (None if not compared).

    For a regression (see `Record.label_kind`), `word` is the name of a number, and `probability` its value.
    """

    word: str
    probability: float
    before: float | None = None


def next_words(
    record: Record, position: int, *, before: Record | None = None, sentence: int = 0, count: int = 5
) -> tuple[NextWord, ...]:
    """List the most probable words after a position, the most probable first; empty if the probabilities are NaN.

    Given a run `before` a change, list the most probable words of both runs, unless it read other tokens up to there.

    Raises:
        InputError: if the model predicts no words, the position does not exist, or the vocabularies of the runs differ.
    """
    after, vocabulary = _probabilities(record, position, sentence), record.prediction.vocabulary
    if before is None or not same_input(before, record, position, sentence=sentence):
        return tuple(NextWord(vocabulary[i], float(after[i])) for i in most_probable(after, count))
    old_vocabulary = predicting(before).vocabulary
    # lists are compared only if needed, because this decodes the whole vocabulary of a tokenizer
    if old_vocabulary != vocabulary and list(old_vocabulary) != list(vocabulary):
        raise InputError(f"'{before.source}' and '{record.source}' have different words, which cannot be compared.")
    old = _probabilities(before, position, sentence)
    ids = dict.fromkeys([*most_probable(after, count), *most_probable(old, count)])  # without duplicates
    ranking = old if after.isnan().any() else after
    ranked = sorted(ids, key=ranking.__getitem__, reverse=True)
    return tuple(NextWord(vocabulary[i], float(after[i]), float(old[i])) for i in ranked)


def most_probable(probabilities: Tensor, count: int) -> list[int]:
    """Return the ids of the `count` largest probabilities, (words,); an empty list if one is NaN."""
    has_nan = bool(probabilities.isnan().any())
    return [] if has_nan else probabilities.topk(min(count, len(probabilities))).indices.tolist()


def most_changed(before: Record, after: Record, *, sentence: int = 0) -> int | None:
    """Find the position where two runs predict most differently, by total variation; None if they predict the same.

    If the model fills in blanks, only blanks count. A position is left out if the runs read other tokens up to it. If
    probabilities are NaN, their position is returned.
    """
    blanks, variation = predicting(after).blanks, {}
    for position in range(after.read[sentence].length) if blanks is None else blanks[sentence]:
        if same_input(before, after, position, sentence=sentence):
            old, new = (_probabilities(record, position, sentence) for record in (before, after))
            variation[position] = (new - old).abs().sum().nan_to_num(torch.inf).item() / 2
    rounding = 1e-6
    if not variation or max(variation.values()) <= rounding:
        return None
    return max(variation, key=variation.__getitem__)


def _probabilities(record: Record, position: int, sentence: int) -> Tensor:
    """Return the probability of each word of the vocabulary at a position, (words,), or raise InputError."""
    prediction = predicting(record)
    token_at(record, position, sentence=sentence)  # raises InputError if there is no such position
    return prediction.probabilities(position, sentence=sentence)


def labels(record: Record, *, before: Record | None = None, sentence: int = 0) -> tuple[NextWord, ...]:
    """List the classes of a classifier with their probabilities, the most probable first; empty if they are NaN.

    Given a run `before` a change, each class also has its probability in that run. Probabilities are the softmax of the
    logits, or their logistic function if there is one class, or if several labels can be true at once. A regression has
    its numbers in place of probabilities, in the order of the model.

    Raises:
        InputError: if the model does not classify, or the runs have different classes.
    """
    values_of_runs = []
    for run in (record,) if before is None else (record, before):
        if run.labels is None:
            raise InputError(f"'{run.source}' does not classify.")
        if run.labels[0] != record.labels[0]:
            raise InputError(f"'{run.source}' and '{record.source}' have different labels, which cannot be compared.")
        values = run.labels[1][sentence].double()  # numbers, or logits
        if not is_number(run):
            are_independent = run.label_kind == "several" or len(values) == 1
            values = values.sigmoid() if are_independent else values.softmax(-1)
        values_of_runs.append(values)
    names, after, old = record.labels[0], values_of_runs[0], values_of_runs[-1]
    ranking = old if after.isnan().any() else after
    if ranking.isnan().any():
        return ()
    order = range(len(names)) if is_number(record) else ranking.argsort(descending=True, stable=True).tolist()
    return tuple(NextWord(names[i], float(after[i]), None if before is None else float(old[i])) for i in order)


def output_change(before: Record, after: Record, sentence: int = 0) -> Tensor:
    """Compute the relative change of each token's output vector, (n,): ||after - before|| / ||before||.

    The change of a zero vector is 0 if it stayed zero, else infinite.

    Raises:
        ShapeError: if the tokens of the records differ, such as after an encoder-decoder generated another text.
    """
    if before.output[:, 0].shape != after.output[:, 0].shape:
        raise ShapeError(f"The outputs differ in shape: {tuple(before.output.shape)}, {tuple(after.output.shape)}.")
    n, new_n = (record.read[sentence].length for record in (before, after))
    if n != new_n or not same_input(before, after, n - 1, sentence=sentence):
        reason = "The model wrote another text" if after.targets else "The records are of other texts"
        counts = f"{n} tokens and {new_n}" if n != new_n else f"other tokens, {n} each"
        raise ShapeError(f"{reason}, so the outputs cannot be compared token by token: they have {counts}.")
    shared = min(before.output.shape[1], after.output.shape[1])  # the runs may have different padding
    old, new = (record.output[sentence, :shared] for record in (before, after))
    change, length = (new - old).norm(dim=-1), old.norm(dim=-1)
    return torch.where(change == 0, torch.zeros_like(change), change / length)


def similarity(record: Record) -> Tensor:
    """Compute the cosine similarity of the sentence vectors of a batch, float64, (B, B); NaN for a zero vector."""
    directions = _directions(record)
    return (directions @ directions.T).clamp(-1, 1)


def shift(before: Record, after: Record) -> Tensor:
    """Compute the change of each sentence vector, 1 - cosine, float64, (B,): 0 for equal, 2 for opposite directions."""
    if [sentence.text for sentence in before.sentences] != [sentence.text for sentence in after.sentences]:
        raise InputError("The records are of other sentences, so their vectors cannot be compared.")
    return (_directions(after) - _directions(before)).square().sum(-1) / 2  # 1 - cosine, more exact near 0


def _directions(record: Record) -> Tensor:
    """Return the sentence vectors of a batch, divided by their lengths, (B, d), float64."""
    if record.vectors is None:
        raise InputError(f"'{record.source}' makes no sentence embeddings.")
    vectors = record.vectors.double()
    return vectors / vectors.norm(dim=-1, keepdim=True)
