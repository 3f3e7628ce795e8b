"""Words predicted from partial sums of the residual stream, and words whose logits one head raises and lowers.

Both apply the last norm and the unembedding to vectors: the logit lens, nostalgebraist 2020, "interpreting GPT: the
logit lens". The model itself reads only the last sum; words at earlier sums are an interpretation.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attnviz.analysis.contributions import parts_of, stream_of, written_by_heads
from attnviz.analysis.predictions import NOT_A_NUMBER, NextWord, most_probable, position_of, predicting
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record

BLOCK = 2**22
"""Maximum number of logits in memory at once: 16 MB of float32."""


@dataclass(frozen=True, eq=False)
class WordGrid:
    """A table with a word and a number in each cell; the columns are positions of a text.

    Attributes:
        rows: names of the rows.
        positions, tokens: position and token of each column.
        words, values: words and their probabilities, or contributions to their logits, float64, (rows, positions).
    """

    rows: tuple[str, ...]
    positions: range
    tokens: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]
    values: np.ndarray

    @property
    def table(self) -> pd.DataFrame:
        """Table with a row per cell: row, position, token, word, value."""
        cells = [
            (name, position, token, word, value)
            for name, words, values in zip(self.rows, self.words, self.values.tolist(), strict=True)
            for position, token, word, value in zip(self.positions, self.tokens, words, values, strict=True)
        ]
        return pd.DataFrame(cells, columns=["row", "position", "token", "word", "value"])


def stages(record: Record) -> tuple[str, ...]:
    """Name the partial sums of the residual stream: "embedding", then "layer 0", "layer 1", ... after each layer."""
    return ("embedding", *(f"layer {layer}" for layer in range(len(stream_of(record).states))))


def logit_lens(record: Record, *, sentence: int = 0, positions: range | None = None) -> WordGrid:
    """Find the most probable word after each position if the model ended after each layer: the logit lens.

    The rows are `stages`: each partial sum of the stream goes through the last norm and the unembedding.

    Args:
        record: result of a run with `stream=True`, see `attnviz.analyze`.
        positions: positions to read; None for all.

    Raises:
        InputError: if the record has no residual stream, or there are no such positions.
    """
    (positions, tokens), prediction = _columns(record, positions, sentence), predicting(record)
    words, values = [], []
    for stage in range(len(stages(record))):
        maxima = [block.max(-1) for block in _probabilities(record, stage, positions, sentence)]
        probabilities = torch.cat([block.values for block in maxima])
        words_of_stage = [prediction.vocabulary[id] for block in maxima for id in block.indices.tolist()]
        words.append(tuple(np.where(probabilities.isnan(), NOT_A_NUMBER, np.array(words_of_stage, object))))
        values.append(probabilities.numpy())
    return WordGrid(stages(record), positions, tokens, tuple(words), np.stack(values))


def lens_words(record: Record, stage: int, position: int, *, sentence: int = 0, count: int = 5) -> tuple[NextWord, ...]:
    """List the most probable words of one cell of the logit lens, the most probable first; empty if they are NaN.

    Args:
        stage: 0 for the embedding, i for the sum after i layers; negative stages and positions count from the end.

    Raises:
        InputError: if there is no such stage or position.
    """
    names = stages(record)
    if not -len(names) <= stage < len(names):
        raise InputError(f"There is no stage {stage}; there are {len(names)}, counted from 0: {', '.join(names)}.")
    position = position_of(record, position, sentence=sentence)
    (block,) = _probabilities(record, stage % len(names), range(position, position + 1), sentence)
    probabilities, vocabulary = block[0], predicting(record).vocabulary
    return tuple(NextWord(vocabulary[id], float(probabilities[id])) for id in most_probable(probabilities, count))


def pushed(
    record: Record,
    site: Site,
    head: int,
    position: int | None = None,
    *,
    count: int = 5,
    sentence: int = 0,
    positions: range | None = None,
) -> WordGrid:
    """Find the words whose logits a head raises most and lowers most at each position, and by how much.

    The head's output goes through W_O, the last norm with the divisor of this run, and the unembedding. A number is a
    contribution to a word's logit, including the head's value bias. Special tokens, such as <eos>, are left out.

    Args:
        position, positions: one position, or a range; all positions if both are None.
        count: number of raised words, and of lowered words.

    Returns:
        Rows "up 1", "up 2", ..., "down 2", "down 1": from the most raised to the most lowered word.

    Raises:
        InputError: if the parts of the stream are not known, the head writes to no stream, or an argument is wrong.
    """
    if position is not None:
        position = position_of(record, position, sentence=sentence)
        positions = range(position, position + 1)
    if isinstance(head, bool) or not isinstance(head, int):
        raise InputError(f"The words that one head raises and lowers need the index of the head, not {head!r}.")
    stream, prediction = parts_of(record), predicting(record)
    (positions, tokens), readout = _columns(record, positions, sentence), stream.weights.readout
    if site not in stream.weights.sites:
        problem = f"In '{record.source}', {site} does not write into the stream of the prediction"
        raise InputError(f"{problem}; these do: {', '.join(map(str, stream.weights.sites))}.")
    if not 0 <= head < stream.weights.num_heads[site]:
        raise InputError(f"There is no head {head}; there are {stream.weights.num_heads[site]}, counted from 0.")
    limit = (len(prediction.vocabulary) - len(prediction.special)) // 2
    if not 1 <= count <= limit:
        raise InputError(f"The count of words is {count}; it must be from 1 to {limit}.")
    window = slice(positions.start, positions.stop)
    written = written_by_heads(record, site, window, sentence=sentence)[0][head]  # (positions, d_model)
    final = stream.final[sentence, window]
    special = torch.tensor(sorted(prediction.special), dtype=torch.long)
    rows_at_once = max(1, BLOCK // len(readout.unembedding.weight))
    ids, values = [], []
    for vectors, final_vectors in zip(written.split(rows_at_once), final.split(rows_at_once), strict=True):
        normed = vectors if readout.norm is None else readout.norm.normalize_part(vectors, final_vectors)
        changes = normed @ readout.unembedding.weight.mT * readout.factor  # of each logit, (positions, words)
        up = changes.index_fill(-1, special, -torch.inf).topk(count).indices
        down = changes.index_fill(-1, special, torch.inf).topk(count, largest=False).indices
        ids.append(torch.cat([up, down.flip(-1)], -1))
        values.append(changes.gather(-1, ids[-1]))
    names = (*(f"up {i + 1}" for i in range(count)), *(f"down {count - i}" for i in range(count)))
    words = tuple(tuple(prediction.vocabulary[id] for id in row) for row in torch.cat(ids).mT.tolist())
    return WordGrid(names, positions, tokens, words, torch.cat(values).mT.double().numpy())


def _probabilities(record: Record, stage: int, positions: range, sentence: int) -> Iterator[Tensor]:
    """Yield the probability of each word at each position, float64, in blocks of positions, (positions, words).

    For the partial sum x at index `stage` of `stages`: softmax(unembedding(norm(x))). The last is the model's output.
    """
    stream, window = stream_of(record), slice(positions.start, positions.stop)
    model_logits = predicting(record).logits[sentence, window]
    rows_at_once = max(1, BLOCK // model_logits.shape[-1])
    for first in range(0, len(positions), rows_at_once):
        logits = model_logits[first : first + rows_at_once]
        if stage < len(stream.states):
            states = stream.states[stage][sentence, window][first : first + rows_at_once]
            is_excluded = logits == -torch.inf  # words that the model cannot generate
            logits = stream.readout.logits(states).masked_fill(is_excluded, -torch.inf)
        yield logits.double().softmax(-1)


def _columns(record: Record, positions: range | None, sentence: int) -> tuple[range, tuple[str, ...]]:
    """Return the positions and tokens of the columns of a grid (all for None); raise InputError for a wrong range."""
    position_of(record, 0, sentence=sentence)  # raises InputError if there is no such sentence
    length = record.read[sentence].length
    positions = range(length) if positions is None else positions
    if positions.step != 1 or not 0 <= positions.start < positions.stop <= length:
        raise InputError(f"There are no positions {positions.start} to {positions.stop - 1}; 0 to {length - 1} exist.")
    return positions, tuple(record.read[sentence].labels[positions.start : positions.stop])
