"""Numbers read off records. Everything here is exact; what would need n x n numbers is worked in row blocks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np
import torch
from torch import Tensor

from attnviz.core import attention
from attnviz.core.edits import Site
from attnviz.core.errors import InputError, ShapeError
from attnviz.core.masks import Mask
from attnviz.core.record import ALL, Prediction, Record, Step

AGGREGATIONS = ("mean", "max", "min")
"""Ways to see all heads of a step as one."""

BLOCK = 2**21
"""How many cells are held at once (8 MB of float32)."""

WEIGHT, BLOCKED, NAN, EMPTY = range(4)
"""States of a cell, in the order of `STATES`."""

STATES = ("weight", "blocked", "nan", "empty row")


def combined_weights(step: Step, how: str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
    """The weights of all heads as one, (rows, columns): their mean, or the largest or smallest of each cell."""
    if how not in AGGREGATIONS:
        raise InputError(f"Heads cannot be combined by {how!r}; there are {', '.join(AGGREGATIONS)}.")
    together = step.weights(0, rows, columns, sentence=sentence)
    for head in range(1, step.num_heads):
        weights = step.weights(head, rows, columns, sentence=sentence)
        join = {"mean": torch.add, "max": torch.maximum, "min": torch.minimum}[how]
        together = join(together, weights)
    return together / step.num_heads if how == "mean" else together


def weights_of(step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
    """The weights of one head, or of all heads combined by a name of `AGGREGATIONS`."""
    if isinstance(head, str):
        return combined_weights(step, head, rows, columns, sentence=sentence)
    return step.weights(head, rows, columns, sentence=sentence)


@dataclass(frozen=True, eq=False)
class Cells:
    """A window of one head, or of all combined, ready to be drawn or written down; arrays are (rows, columns).

    Where `tile` is above 1 each entry stands for a square of `tile` x `tile` cells: its weight is the
    largest of theirs, and it is blocked only where every one of them is.

    Attributes:
        queries, keys: positions of the rows and columns; of tiles, the first.
        weights: as the record gives them.
        scores: before the mask; None where heads are combined or cells pooled or merged, or scores not known.
        states: `WEIGHT`, `BLOCKED`, `NAN` or `EMPTY` (the row has no key left; its weights follow the policy).
        reasons: the distinct rules that block cells here.
        blocked: 0 = may attend, i = blocked by reasons[i - 1].
        tile: cells per side of an entry.
    """

    queries: np.ndarray
    keys: np.ndarray
    weights: np.ndarray
    scores: np.ndarray | None
    states: np.ndarray
    reasons: tuple[str, ...]
    blocked: np.ndarray
    tile: int = 1


def cells(
    step: Step,
    head: int | str,
    *,
    sentence: int = 0,
    rows: slice = ALL,
    columns: slice = ALL,
    tile: int = 1,
    scores: bool = True,
) -> Cells:
    """The weights, scores, states and rules of a window; with a `tile` above 1, pooled to the largest of each tile.

    `scores` is whether the step's are the model's own; of a record that is read only they are not.
    """
    return cells_of(step, [head], sentence=sentence, rows=rows, columns=columns, tile=tile, scores=scores)[0]


def cells_of(
    step: Step,
    heads: Sequence[int | str],
    *,
    sentence: int = 0,
    rows: slice = ALL,
    columns: slice = ALL,
    tile: int = 1,
    scores: bool = True,
) -> list[Cells]:
    """`cells` of several heads; what they share is computed once.

    Pooling goes through blocks of rows: memory grows with the tokens, not with their square.
    """
    window = {"sentence": sentence, "rows": rows, "columns": columns}
    one_mask = step.mask is None or isinstance(step.mask, Mask)
    shared = reasons_of(step, 0, _every(rows, tile), _every(columns, tile), sentence=sentence) if one_mask else None
    if tile == 1:
        return [_cells(step, head, shared, **window, scored=scores) for head in heads]
    return [_tiles(step, head, shared, tile, **window) for head in heads]


def _cells(step: Step, head: int | str, rules, *, sentence: int, rows: slice, columns: slice, scored: bool) -> Cells:
    weights = weights_of(step, head, rows, columns, sentence=sentence)
    reasons, blocked = rules or reasons_of(step, head, rows, columns, sentence=sentence)
    states = torch.where(weights.isnan(), NAN, torch.where(blocked > 0, BLOCKED, WEIGHT))
    states[empty_queries(step, head, sentence=sentence)[rows]] = EMPTY
    scores = step.scores(head, rows, columns, sentence=sentence).numpy() if scored and isinstance(head, int) else None
    places = np.arange(step.shape[2])[rows], np.arange(step.shape[3])[columns]
    return Cells(*places, weights.numpy(), scores, states.numpy(), reasons, blocked.numpy())


def _tiles(step: Step, head: int | str, rules, tile: int, *, sentence: int, rows: slice, columns: slice) -> Cells:
    """A tile whose every cell is blocked is named by the rule that blocks its first."""
    window = _every(rows, tile), _every(columns, tile)
    reasons, blocked = rules or reasons_of(step, head, *window, sentence=sentence)
    queries, keys = np.arange(step.shape[2])[rows], np.arange(step.shape[3])[columns]
    blocks = (slice_of(queries[block]) for block in row_slices(len(queries), len(keys), tile))
    parts = [_pooled_block(step, head, tile, sentence, block, columns) for block in blocks]
    weights, closed = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    blocked = blocked * closed
    empty = pool(empty_queries(step, head, sentence=sentence)[rows].float()[:, None], tile, "min", across=1)[:, 0] > 0
    states = torch.where(weights.isnan(), NAN, torch.where(blocked > 0, BLOCKED, WEIGHT))
    states[empty] = EMPTY
    return Cells(queries[::tile], keys[::tile], weights.numpy(), None, states.numpy(), reasons, blocked.numpy(), tile)


def _pooled_block(
    step: Step, head: int | str, tile: int, sentence: int, rows: slice, columns: slice
) -> tuple[Tensor, Tensor]:
    """The largest weight of each tile of some rows, and whether all of it is blocked.

    Weights grow with scores, so only the largest score of a row in a tile has to become a weight.
    """
    if isinstance(head, str):
        weights = weights_of(step, head, rows, columns, sentence=sentence)
        _, blocked = reasons_of(step, head, rows, columns, sentence=sentence)
        return pool(weights, tile), pool((blocked > 0).float(), tile, "min") > 0
    scores = pool(step.masked_scores(head, rows, columns, sentence=sentence), tile, down=1)
    logsumexp = step.logsumexp[sentence, head, rows]
    weights = attention.normalize(scores, logsumexp=logsumexp)
    empty = (logsumexp == -torch.inf).unsqueeze(-1)
    weights = attention.fill_empty(weights, empty, step.empty_rows, keys=step.shape[3])
    return pool(weights, tile, across=1), pool(scores, tile, across=1) == -torch.inf


def _every(window: slice, tile: int) -> slice:
    """Each `tile`-th position of a slice."""
    return slice(window.start, window.stop, (window.step or 1) * tile)


def slice_of(positions: np.ndarray) -> slice:
    """The slice that picks evenly spaced positions, which are not empty."""
    stride = int(positions[1] - positions[0]) if len(positions) > 1 else 1
    return slice(int(positions[0]), int(positions[-1]) + 1, stride)


def reasons_of(
    step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0
) -> tuple[tuple[str, ...], Tensor]:
    """`Step.reasons` for one head; of combined heads a cell counts as blocked where every head blocks it."""
    found = [step.reasons(h, rows, columns, sentence=sentence) for h in _heads_that_differ(step, head)]
    if len(found) == 1:
        return found[0]
    return found[0][0], torch.stack([blocked for _, blocked in found]).amin(0)


def may_attend(step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
    """`Step.may_attend` for one head; of combined heads, where any may."""
    found = [step.may_attend(h, rows, columns, sentence=sentence) for h in _heads_that_differ(step, head)]
    return torch.stack(found).any(0)


def _heads_that_differ(step: Step, head: int | str) -> Sequence[int]:
    """The heads to ask about masks: of combined heads that share one mask, the first stands for all."""
    if not isinstance(head, str):
        return (head,)
    each_its_own = isinstance(step.mask, Tensor) and step.mask.dim() == 4 and step.mask.shape[1] > 1
    return range(step.num_heads) if each_its_own else (0,)


def empty_queries(step: Step, head: int | str, *, sentence: int = 0) -> Tensor:
    """Which queries have no key left, boolean, (Q,); of combined heads, those that no head can answer."""
    heads = range(step.num_heads) if isinstance(head, str) else (head,)
    return torch.stack([step.empty_queries(h, sentence=sentence) for h in heads]).all(0)


def tile_of(step: Step, size: int) -> int:
    """How many cells a tile is wide and high, so that `size` tiles cover both axes."""
    return max(1, -(-max(step.shape[2:]) // size))


def pool(block: Tensor, tile: int, how: str = "max", *, down: int | None = None, across: int | None = None) -> Tensor:
    """(n, m) -> (ceil(n / tile), ceil(m / tile)); the last tiles may hold fewer cells. `down` and `across` set the
    tile's height and width apart from each other."""
    down, across = down or tile, across or tile
    if down == across == 1:
        return block
    fill = {"max": -torch.inf, "min": torch.inf}[how]
    n, m = block.shape
    if n % down or m % across:
        block = torch.nn.functional.pad(block, (0, -m % across, 0, -n % down), value=fill)
    for axis, size in ((1, across), (0, down)):
        if size > 1:
            parts = block.unflatten(axis, (-1, size))
            block = {"max": parts.amax, "min": parts.amin}[how](axis + 1)
    return block


def largest_weight(record: Record, site: Site, *, sentence: int = 0) -> float:
    """The largest weight of all heads of a site, NaN aside: what the "shared" color domain ends at."""
    step = record.step(site)
    each = cells_of(step, range(step.num_heads), sentence=sentence, tile=tile_of(step, 128))
    return max((float(np.nan_to_num(found.weights).max()) for found in each if found.weights.size), default=0.0)


def strongest(
    step: Step, head: int | str, *, sentence: int = 0, rows: slice = ALL, columns: slice = ALL
) -> tuple[np.ndarray, np.ndarray]:
    """Each row's largest weight, NaN aside, and the column it stands in, counted within the window; both (rows,)."""
    blocks = (weights_of(step, head, block, columns, sentence=sentence) for block in row_slices(*step.shape[2:]))
    found = [block.nan_to_num(nan=-1.0).max(1) for block in blocks if block.shape[1]]
    if not found:
        return np.zeros(0), np.zeros(0, np.int64)
    most, at = (torch.cat([getattr(f, name) for f in found]).numpy()[rows] for name in ("values", "indices"))
    return most, at


def row_sums(step: Step, head: int | str, *, sentence: int = 0, rows: slice = ALL) -> Tensor:
    """The sum of each row's weights over all keys, (rows,)."""
    sums = [weights_of(step, head, block, sentence=sentence).sum(-1) for block in row_slices(*step.shape[2:])]
    return torch.cat(sums)[torch.arange(step.shape[2])[rows]]


def row_slices(queries: int, keys: int, tile: int = 1) -> list[slice]:
    """Blocks of rows, at least one, of about `BLOCK` cells; each but the last is a whole number of tiles high."""
    height = max(1, BLOCK // max(1, keys) // tile) * tile
    return [slice(start, min(start + height, queries)) for start in range(0, max(1, queries), height)]


def row_blocks(mask: Mask, queries: int, keys: int, sentence: int = 0, tile: int = 1) -> Iterator[Tensor]:
    """The grid of a mask in the blocks of `row_slices`; never n x n at once."""
    for rows in row_slices(queries, keys, tile):
        yield mask.tensor(queries, keys, rows=rows)[sentence if mask.batch_size else 0, 0]


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


def read_alike(before: Record, after: Record, position: int, *, sentence: int = 0) -> bool:
    """Whether both have read the same tokens up to a position, that one included; a model that fills in reads all."""
    end = None if fills_in(after) else position + 1
    one, other = (record.read[sentence].labels[:end] for record in (before, after))
    return one == other


def token_at(record: Record, position: int, *, sentence: int = 0) -> str:
    """The token that is read at a position at which the model predicts.

    Raises:
        InputError: if there is no such position.
    """
    labels = record.read[sentence].labels
    if not 0 <= position < len(labels):
        raise InputError(f"There is no position {position}; there are {len(labels)}, counted from 0.")
    return labels[position]


def fills_in(record: Record) -> bool:
    """Whether the model says what stands in place of blanks, rather than what comes next."""
    return record.prediction is not None and record.prediction.blanks is not None


NOT_A_NUMBER = "NaN"
"""Stands for a word where the probabilities are no numbers."""


@dataclass(frozen=True)
class Said:
    """What a model has just read at a position, and the word it holds most probable then, with its probability.

    Of a model that fills in, the token is a blank and the word what is expected in its place.
    Where probabilities are no numbers the word is `NOT_A_NUMBER`, and the probability NaN.
    """

    token: str
    word: str
    probability: float
    position: int


def said(record: Record, *, sentence: int = 0) -> tuple[Said, ...]:
    """What a model says after each position that is not padding; of a model that fills in, at each blank.

    Raises:
        InputError: if the model predicts no words.
    """
    prediction, read = predicting(record), record.read[sentence]
    asked = list(range(read.length) if prediction.blanks is None else prediction.blanks[sentence])
    logits = prediction.logits[sentence, asked].double()
    most, at = logits.max(-1)
    found = zip(asked, at.tolist(), (most - logits.logsumexp(-1)).exp().tolist(), strict=True)
    return tuple(
        Said(read.labels[position], NOT_A_NUMBER if isnan(p) else prediction.vocabulary[i], p, position)
        for position, i, p in found
    )


@dataclass(frozen=True)
class NextWord:
    """A word that may come next, its probability, and what that was before a change; None if that is not known."""

    word: str
    probability: float
    before: float | None = None


def next_words(
    record: Record, position: int, *, before: Record | None = None, sentence: int = 0, count: int = 5
) -> tuple[NextWord, ...]:
    """The words that are most probable after a position, the most probable first; none where none has a probability.

    With the record of a run `before` a change, those of either; it is left aside if it has read other tokens by then
    (see `read_alike`). Probabilities that are no numbers are NaN.

    Raises:
        InputError: if the model predicts no words, or has no such position, or not the words of the run before.
    """
    after, vocabulary = _probabilities(record, position, sentence), record.prediction.vocabulary
    if before is None or not read_alike(before, record, position, sentence=sentence):
        return tuple(NextWord(vocabulary[i], float(after[i])) for i in _largest(after, count))
    if list(predicting(before).vocabulary) != list(vocabulary):
        raise InputError(f"'{before.source}' and '{record.source}' have different words, which cannot be compared.")
    old = _probabilities(before, position, sentence)
    either = dict.fromkeys([*_largest(after, count), *_largest(old, count)])
    ranked = sorted(either, key=(old if after.isnan().any() else after).__getitem__, reverse=True)
    return tuple(NextWord(vocabulary[i], float(after[i]), float(old[i])) for i in ranked)


def _probabilities(record: Record, position: int, sentence: int) -> Tensor:
    prediction, _ = predicting(record), token_at(record, position, sentence=sentence)
    return prediction.probabilities(position, sentence=sentence)


def _largest(probabilities: Tensor, count: int) -> list[int]:
    """The words of the largest probabilities; none if these are no numbers."""
    return [] if probabilities.isnan().any() else probabilities.topk(min(count, len(probabilities))).indices.tolist()


def labels(record: Record, *, before: Record | None = None, sentence: int = 0) -> tuple[NextWord, ...]:
    """The classes of a model that classifies with their probabilities, the most probable first; also `before` a change.

    Of a single class it is the logistic function of its logit. None where no class has a probability.

    Raises:
        InputError: if the model does not classify, or not into the classes of the run before.
    """
    names, after = _classes(record, sentence)
    old = None
    if before is not None:
        other, old = _classes(before, sentence)
        if other != names:
            raise InputError(
                f"'{before.source}' and '{record.source}' have different labels, which cannot be compared."
            )
    known = after if old is None or not after.isnan().any() else old
    if known.isnan().any():
        return ()
    ranked = known.argsort(descending=True, stable=True).tolist()
    return tuple(NextWord(names[i], float(after[i]), None if old is None else float(old[i])) for i in ranked)


def _classes(record: Record, sentence: int) -> tuple[tuple[str, ...], Tensor]:
    if record.labels is None:
        raise InputError(f"'{record.source}' does not classify.")
    names, logits = record.labels
    one = logits[sentence].double()
    return names, one.sigmoid() if len(names) == 1 else one.softmax(-1)


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


def predicting(record: Record) -> Prediction:
    """What the model says.

    Raises:
        InputError: if it predicts no words.
    """
    if record.prediction is None:
        raise InputError(f"'{record.source}' predicts no words.")
    return record.prediction
