"""Behavior of every head on the texts of one shard: from a model and texts to one table, and nothing else.

T texts   H heads   M metrics   C classes of tokens   D bins of distances
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from attnviz.analysis import batch
from attnviz.analysis.batch import HeadBlock, Sides
from attnviz.analysis.heads import METRICS, sums_of
from attnviz.atlas import classes
from attnviz.atlas.corpus import EMPTY, CorpusLine
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Source
from attnviz.studies import ablation, texts

FURTHEST = 24
"""Bins of distances to either side: 1, 2 to 3, 4 to 7, ..., to 16 million tokens."""


@dataclass(frozen=True)
class Options:
    """Sizes of an atlas.

    Attributes:
        shard: texts of a shard, at most.
        keep: the strongest texts of each metric of each head.
        pairs: the strongest pairs of tokens of each head in a shard, each of two other tokens.
        ablate: texts of each shard on which every head is switched off in turn.
    """

    shard: int = 1000
    keep: int = 10
    pairs: int = 200
    ablate: int = 0


@dataclass(eq=False)
class OfSite:
    """Measurements at a site.

    Attributes:
        sums: numerators and denominators of each metric, (2, T, H, M).
        shares: the weights on each class of keys, and what an even spread would give, (2, T, H, C).
        rows: the rows behind them, (T, H); `left_out` those that were no distributions.
        distance: the weights at each distance, and the pairs that may attend, (2, H, D).
        dropped: the largest weight of a pair that was not kept, (H,).
        pairs: text, head, query, key, weight and tokens (see `_pairs`) of the strongest pairs; of every two tokens one.
    """

    sums: np.ndarray
    shares: np.ndarray
    rows: np.ndarray
    left_out: np.ndarray
    distance: np.ndarray
    dropped: np.ndarray
    pairs: tuple[np.ndarray, ...] = (np.zeros(0, np.int64),) * 6

    @classmethod
    def empty(cls, texts: int, heads: int) -> "OfSite":
        every = [(2, texts, heads, len(METRICS)), (2, texts, heads, len(classes.CLASSES))]
        every += [(texts, heads), (texts, heads), (2, heads, 2 * FURTHEST + 1), (heads,)]
        return cls(*map(np.zeros, every))

    @property
    def values(self) -> np.ndarray:
        """Each metric of each text, (T, H, M), NaN where it cannot be measured."""
        with np.errstate(invalid="ignore"):
            return self.sums[0] / self.sums[1]


@dataclass(frozen=True, eq=False)
class Measured:
    """Measurements in a shard.

    Attributes:
        read: the texts that were, in their order, with their tokens.
        written: of a model that writes, what its decoder read at each of them.
        problems: the lines that were not, and why; empty ones have the reason `EMPTY`.
        effects: of the texts with heads switched off, each of `ablation.EFFECTS`, (texts, H of all sites, effects).
    """

    read: tuple[tuple[CorpusLine, Sentence], ...]
    written: tuple[Sentence, ...]
    problems: tuple[CorpusLine, ...]
    sites: dict[Site, OfSite]
    effects: np.ndarray

    @property
    def tokens(self) -> int:
        return sum(sentence.length for _, sentence in self.read)


def measure(
    source: Source,
    lines: Sequence[CorpusLine],
    options: Options = Options(),
    edits: Edits = Edits(),
    *,
    report: Callable[[int], None] = lambda done: None,
) -> Measured:
    """Run every text of a shard through a model, and measure all heads; what cannot be read is named and left out.

    Args:
        report: told how many texts are done, after each run.

    Raises:
        Canceled: if the run was ended.
    """
    usable = [text for text in lines if not text.error]
    sentences, wrong = texts.cut(source, [text.text for text in usable]) if usable else ([], {})
    sites = {site: OfSite.empty(len(usable), source.heads[site]) for site in source.sites}
    written: dict[int, Sentence] = {}
    names: dict[str, int] = {}
    done = 0
    for some, record in texts.runs(source, sentences, edits, failed=lambda i, error: wrong.update({i: str(error)})):
        written |= dict(zip(some, record.targets, strict=False))
        tokens_by_kind: dict[Any, Tokens] = {}
        for step in record.steps:
            kind = step.site.kind, step.shape[2:], step.has_sink
            if kind not in tokens_by_kind:
                tokens_by_kind[kind] = Tokens.of(record, step, names)
            _add(sites[step.site], record, step, tokens_by_kind[kind], np.array(some), options)
        done += len(some)
        report(done)
    good = [i for i in range(len(usable)) if i not in wrong]
    bad = [CorpusLine(usable[i].text, usable[i].line, error) for i, error in wrong.items()]
    problems = sorted([text for text in lines if text.error] + bad, key=lambda text: text.line)
    for measurement in sites.values():
        measurement.sums, measurement.shares = measurement.sums[:, good], measurement.shares[:, good]
        measurement.rows, measurement.left_out = measurement.rows[good], measurement.left_out[good]
        renumbered = np.full(len(usable), -1)
        renumbered[good] = range(len(good))
        measurement.pairs = renumbered[measurement.pairs[0]], *measurement.pairs[1:]
    read = tuple((usable[i], sentences[i]) for i in good)
    targets = tuple(written[i] for i in good if i in written)
    return Measured(read, targets, tuple(problems), sites, _effects(source, read[: options.ablate]))


@dataclass(frozen=True, eq=False)
class Tokens:
    """Tokens at the queries and keys of a kind of site, in each text of a run.

    Attributes:
        words: the word that each token is a piece of, if any has two.
        queries, keys: numbers of the tokens' texts, (B, Q) and (B, K).
    """

    sides: Sides
    words: torch.Tensor | None
    queries: torch.Tensor
    keys: torch.Tensor

    @classmethod
    def of(cls, record: Record, step: Step, names: dict[str, int]) -> "Tokens":
        """Texts that have no number yet get one."""
        words = classes.words(record, step) if step.site.kind != "cross" else None
        each = [record.tokens(step.site, sentence=b) for b in range(step.shape[0])]
        numbers = ([[names.setdefault(t.text, len(names)) for t in both[i]] for both in each] for i in (0, 1))
        return cls(batch.sides_of(record, step, classes.columns(record, step)), words, *map(torch.tensor, numbers))


def _add(measurement: OfSite, record: Record, step: Step, tokens: Tokens, some: np.ndarray, options: Options) -> None:
    """Measure a run at a site.

    Args:
        some: the numbers of the texts of the run in the shard.
    """
    pairs = [measurement.pairs]
    for block in batch.blocks(step, tokens.sides):
        indices = some[block.texts]
        measurement.sums[:, indices] += sums_of(record, block).numpy()
        measurement.shares[:, indices] += classes.shares(block, tokens.words).numpy()
        measurement.rows[indices] += block.counted.sum(-1).numpy()
        measurement.left_out[indices] += block.left_out.numpy()
        if block.one_text:
            measurement.distance += _by_distance(block).numpy()
        strongest, dropped = _pairs(block, tokens, indices, options.pairs)
        measurement.dropped = np.maximum(measurement.dropped, dropped)
        pairs.append(strongest)
    together = tuple(map(np.concatenate, zip(*pairs, strict=True)))
    measurement.pairs, (_, head, _, _, weight, _) = _strongest(together, options.pairs)
    np.maximum.at(measurement.dropped, head, weight)


def _by_distance(block: HeadBlock) -> torch.Tensor:
    """(2, H, D): the weights at each distance, and the pairs that may attend there."""
    weights = block.by_distance.sum(0)
    n = (weights.shape[-1] + 1) // 2
    is_open = torch.ones(1, 1, 1, n) if block.open is None else block.open[..., :n].float()
    is_open = is_open * block.real[:, None, :, None]
    pairs = block.diagonals(is_open).sum(0).expand_as(weights)
    far = torch.arange(-n + 1, n)
    bins = far.sign() * (far.abs().clamp(min=0.5).log2().floor().long() + 1) + FURTHEST
    both = torch.stack([weights, pairs])
    return torch.zeros(*both.shape[:2], 2 * FURTHEST + 1, dtype=both.dtype).index_add_(2, bins, both)


def _pairs(block: HeadBlock, tokens: Tokens, texts: np.ndarray, most: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """The rows of each head whose strongest key may make a pair and has most weight: text, head, query, key, weight and
    one number of head and both tokens; and of each head the largest weight of the others."""
    weight, key = block.weights.max(-1)
    chosen = block.counted & (weight > 0) & may_pair(block, key[..., None])[..., 0]
    flat = weight.where(chosen, 0).transpose(0, 1).flatten(1)  # (H, B R)
    values, indices = flat.topk(min(most + 1, flat.shape[1]))
    dropped = values[:, most] if values.shape[1] > most else values.new_zeros(len(values))
    head, rank = (values[:, :most] > 0).nonzero(as_tuple=True)
    indices = indices[head, rank]
    text, row = indices // weight.shape[2], indices % weight.shape[2]
    query, key = block.position[row], key[text, head, row]
    queries, keys = tokens.queries[block.texts][text, query], tokens.keys[block.texts][text, key]
    names = (head << 50) | (queries << 25) | keys
    every = texts[text.numpy()], head, query, key, values[head, rank].double(), names
    return tuple(np.asarray(column) for column in every), dropped.double().numpy()


def may_pair(block: HeadBlock, key: torch.Tensor) -> torch.Tensor:
    """Whether a query makes a pair with a key: another token, both typed. A row that may attend to one key alone has no
    choice, and makes none.

    Args:
        key: numbers of keys, (B, H, R, any); it broadcasts.
    """
    plain = (torch.arange(block.step.shape[3]) < block.num_keys[:, None]) & ~(
        block.sides.columns[block.texts, :, 0] > 0
    )
    is_pair = plain[torch.arange(len(plain))[:, None, None, None], key]
    is_pair = is_pair & block.sides.typed[block.texts, None, block.rows, None] & (block.open_keys > 1)[..., None]
    return is_pair & (key != block.position[:, None]) if block.one_text else is_pair


def _strongest(pairs: tuple[np.ndarray, ...], most: int) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """The strongest pair of every two tokens (of equal ones the first), at most `most` of each head; and the others."""
    text, _, query, _, weight, _ = pairs
    order = np.lexsort((query, text, -weight))
    pairs = [column[order] for column in pairs]
    _, first = np.unique(pairs[-1], return_index=True)
    first = np.sort(first)
    first = first[np.argsort(pairs[1][first], kind="stable")]
    head = pairs[1][first]
    rank = np.arange(len(head)) - np.searchsorted(head, head)
    return tuple(tuple(column[first[which]] for column in pairs) for which in (rank < most, rank >= most))


def _effects(source: Source, read: Sequence[tuple[CorpusLine, Sentence]]) -> np.ndarray:
    """(texts, H, effects); NaN for what a model says nothing of."""
    sweeps = []
    for text, _ in read:
        try:
            swept = ablation.sweep(source, source.tokenize([text.text])).table
        except AttnvizError:
            continue
        sweeps.append(swept[list(ablation.EFFECTS)].to_numpy(dtype=np.float64, na_value=np.nan))
    heads = sum(source.heads[site] for site in source.sites)
    return np.stack(sweeps) if sweeps else np.zeros((0, heads, len(ablation.EFFECTS)))


def named(problem: CorpusLine) -> bool:
    """Whether a problem is named line by line; empty lines are counted alone."""
    return problem.error != EMPTY
