"""How far vectors moved: of each token between two runs, of whole sentences, and from one sentence to another."""

import torch
from torch import Tensor

from attnviz.analysis.predictions import read_alike
from attnviz.core.errors import InputError, ShapeError
from attnviz.core.record import Record


def output_change(before: Record, after: Record, sentence: int = 0) -> Tensor:
    """How far each token's output vector moved, as a share of its length before, (n,): ||after - before|| / ||before||.

    Where the vector before was zero the share is 0 if it stayed zero, else infinite.

    Raises:
        ShapeError: if the records have not read the same tokens, as where an encoder-decoder wrote another text.
    """
    if before.output[:, 0].shape != after.output[:, 0].shape:
        raise ShapeError(f"The outputs differ in shape: {tuple(before.output.shape)}, {tuple(after.output.shape)}.")
    lengths = [record.read[sentence].length for record in (before, after)]
    shared = min(before.output.shape[1], after.output.shape[1])
    if lengths[0] != lengths[1] or not read_alike(before, after, lengths[0] - 1, sentence=sentence):
        why = "The model wrote another text" if after.targets else "The records are of other texts"
        counts = "{} tokens and {}".format(*lengths) if lengths[0] != lengths[1] else f"other tokens, {lengths[0]} each"
        raise ShapeError(f"{why}, so the outputs cannot be compared token by token: they stand at {counts}.")
    old, new = (record.output[sentence, :shared] for record in (before, after))
    moved, length = (new - old).norm(dim=-1), old.norm(dim=-1)
    return torch.where(moved == 0, torch.zeros_like(moved), moved / length)


def similarity(record: Record) -> Tensor:
    """How alike the sentences of a batch are: the cosine of their vectors, float64, (B, B); NaN of a zero vector.

    Raises:
        InputError: if the model gives sentences no vectors.
    """
    directions = _directions(record)
    return (directions @ directions.T).clamp(-1, 1)


def shift(before: Record, after: Record) -> Tensor:
    """How far each sentence's vector turned, 1 - cosine, float64, (B,): 0 is not at all, 2 to the opposite.

    Raises:
        InputError: if the model gives sentences no vectors, or the records are of other sentences.
    """
    texts = [[sentence.text for sentence in record.sentences] for record in (before, after)]
    if texts[0] != texts[1]:
        raise InputError("The records are of other sentences, so their vectors cannot be compared.")
    return (_directions(after) - _directions(before)).square().sum(-1) / 2


def _directions(record: Record) -> Tensor:
    if record.vectors is None:
        raise InputError(f"'{record.source}' gives sentences no vectors.")
    vectors = record.vectors.double()
    return vectors / vectors.norm(dim=-1, keepdim=True)
