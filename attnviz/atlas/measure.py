"""Measure every head on the texts of one shard, as arrays.

T texts   N heads of all sites   M numbers per text: metrics, then effects   D bins of distances
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from attnviz.analysis import batch
from attnviz.analysis.batch import HeadBlock, Sides
from attnviz.analysis.heads import METRICS, sums_of
from attnviz.atlas.corpus import CorpusLine
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Source
from attnviz.studies import ablation, texts
from attnviz.studies.ablation import EFFECTS

FURTHEST = 24
"""Number of distance bins per side: 1, 2 to 3, 4 to 7, ..., up to 16 million tokens."""

NAMES = (*(metric.name for metric in METRICS), *EFFECTS)
"""Names of the numbers per head and text."""

Tokens = tuple[Sides, torch.Tensor, torch.Tensor]
"""Tokens of a step, and ids of the token texts at its queries, (B, Q), and keys, (B, K)."""


@dataclass(frozen=True)
class Options:
    """Sizes of an atlas.

    Attributes:
        shard: maximum number of texts per shard.
        keep: number of texts with the largest values, per metric and head.
        pairs: number of token pairs with the largest weights, per head and shard; all differ in their token texts.
        ablate: number of texts per shard on which each head is switched off in turn.
    """

    shard: int = 1000
    keep: int = 10
    pairs: int = 200
    ablate: int = 0


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of a query and a key in texts, as arrays of equal length.

    Attributes:
        text, head, query, key: index of the text, of the head within its site, and of the positions.
        weight: attention weight of each pair.
        tokens: one integer that encodes the head and both token texts.
    """

    text: np.ndarray
    head: np.ndarray
    query: np.ndarray
    key: np.ndarray
    weight: np.ndarray
    tokens: np.ndarray

    def subset(self, index: np.ndarray) -> "Pairs":
        """Select pairs by index."""
        return Pairs(*(column[index] for column in vars(self).values()))

    def strongest(self, most: int) -> tuple["Pairs", "Pairs"]:
        """Select for each head the `most` pairs with the largest weights, one per two tokens; also return the rest."""
        ordered = self.subset(np.lexsort((self.query, self.text, -self.weight)))  # the largest weight first
        _, first = np.unique(ordered.tokens, return_index=True)
        ordered = ordered.subset(np.sort(first))
        ordered = ordered.subset(np.argsort(ordered.head, kind="stable"))
        rank = np.arange(len(ordered.head)) - np.searchsorted(ordered.head, ordered.head)  # within the head
        return ordered.subset(rank < most), ordered.subset(rank >= most)


@dataclass(eq=False)
class SiteNumbers:
    """Measurements at a site with H heads.

    Attributes:
        sums: numerators and denominators of each metric, (2, T, H, metrics).
        distance: sum of weights per distance, and number of open pairs, (2, H, D).
        dropped: largest weight among the pairs that were not kept, (H,).
        pairs: token pairs with the largest weights.
    """

    sums: np.ndarray
    distance: np.ndarray
    dropped: np.ndarray
    pairs: Pairs


@dataclass(frozen=True, eq=False)
class Measured:
    """Measurements of a shard.

    Attributes:
        read: texts that the model read, in order, with their tokens.
        written: decoder input for each of these texts, for an encoder-decoder.
        problems: lines that were not read, with the reason; `corpus.EMPTY` for empty lines.
        sites: measurements per site.
        values: numbers per text and head, (T, N, M), NaN where they cannot be measured.
    """

    read: tuple[tuple[CorpusLine, Sentence], ...]
    written: tuple[Sentence, ...]
    problems: tuple[CorpusLine, ...]
    sites: dict[Site, SiteNumbers]
    values: np.ndarray


def measure(
    source: Source,
    lines: Sequence[CorpusLine],
    options: Options = Options(),
    edits: Edits = Edits(),
    *,
    report: Callable[[int], None] = lambda done: None,
) -> Measured:
    """Run a model on every text of a shard and measure all heads; texts that cannot be read become problems.

    Args:
        report: callback with the number of texts done, after each batch.

    Raises:
        Canceled: if the run was canceled.
    """
    usable = [text for text in lines if not text.error]
    sentences, wrong = texts.tokenize(source, [text.text for text in usable]) if usable else ([], {})
    sites = {}
    for site, heads in source.heads.items():
        sizes = (2, len(usable), heads, len(METRICS)), (2, heads, 2 * FURTHEST + 1), (heads,)
        sites[site] = SiteNumbers(*map(np.zeros, sizes), Pairs(*(np.zeros(0, np.int64) for _ in range(6))))
    written: dict[int, Sentence] = {}
    numbers: dict[str, int] = {}
    done = 0
    for indices, record in texts.runs(source, sentences, edits, failed=lambda i, error: wrong.update({i: str(error)})):
        written |= dict(zip(indices, record.targets, strict=False))
        tokens_by_kind: dict[tuple, Tokens] = {}
        for step in record.steps:
            kind = step.site.kind, step.shape[2:], step.has_sink
            if kind not in tokens_by_kind:
                tokens_by_kind[kind] = _tokens(record, step, numbers)
            _add_run(sites[step.site], record, step, tokens_by_kind[kind], np.array(indices), options)
        done += len(indices)
        report(done)
    good = [i for i in range(len(usable)) if i not in wrong]
    bad = [CorpusLine(usable[i].text, usable[i].line, error) for i, error in wrong.items()]
    problems = sorted([text for text in lines if text.error] + bad, key=lambda text: text.line)
    read = tuple((usable[i], sentences[i]) for i in good)
    renumbered = np.full(len(usable), -1)
    renumbered[good] = range(len(good))
    for numbers_of_site in sites.values():
        numbers_of_site.pairs.text[:] = renumbered[numbers_of_site.pairs.text]
    with np.errstate(invalid="ignore"):
        values = np.concatenate([site.sums[0, good] / site.sums[1, good] for site in sites.values()], 1)
    effects = np.full((*values.shape[:2], len(EFFECTS)), np.nan)
    for i, (text, _) in enumerate(read[: options.ablate]):
        effects[i] = _effects(source, text.text)
    targets = tuple(written[i] for i in good if i in written)
    return Measured(read, targets, tuple(problems), sites, np.concatenate([values, effects], 2))


def _tokens(record: Record, step: Step, numbers: dict[str, int]) -> Tokens:
    """Collect the tokens at queries and keys of a step, and number their strings; a new string gets the next number."""
    sides = [record.tokens(step.site, sentence=b) for b in range(step.shape[0])]
    numbered = ([[numbers.setdefault(t.text, len(numbers)) for t in side[i]] for side in sides] for i in (0, 1))
    return batch.sides_of(record, step), *map(torch.tensor, numbered)


def _add_run(site: SiteNumbers, record: Record, step: Step, tokens: Tokens, rows: np.ndarray, options: Options) -> None:
    """Add the measurements of a batch at a site; `rows` are the indices of its texts within the shard."""
    for block in batch.blocks(step, tokens[0]):
        indices = rows[block.texts]
        site.sums[:, indices] += sums_of(record, block).numpy()
        if block.same_tokens:
            site.distance += _distance_sums(block).numpy()
        added, dropped = _pairs(block, tokens, indices, options.pairs)
        both = zip(vars(site.pairs).values(), vars(added).values(), strict=True)
        site.pairs, others = Pairs(*map(np.concatenate, both)).strongest(options.pairs)
        site.dropped = np.maximum(site.dropped, dropped)
        np.maximum.at(site.dropped, others.head, others.weight)


def _distance_sums(block: HeadBlock) -> torch.Tensor:
    """Sum the weights per distance bin, and count the open pairs, (2, H, D)."""
    weights = block.by_distance.sum(0)
    n = (weights.shape[-1] + 1) // 2
    is_open = torch.ones(1, 1, 1, n) if block.open is None else block.open[..., :n].float()
    is_open = is_open * block.not_padding[:, None, :, None]
    pairs = block.diagonals(is_open).sum(0).expand_as(weights)
    distances = torch.arange(-n + 1, n)
    bins = distances.sign() * (distances.abs().clamp(min=0.5).log2().floor().long() + 1) + FURTHEST
    both = torch.stack([weights, pairs])
    return torch.zeros(*both.shape[:2], 2 * FURTHEST + 1, dtype=both.dtype).index_add_(2, bins, both)


def _pairs(block: HeadBlock, tokens: Tokens, texts: np.ndarray, most: int) -> tuple[Pairs, np.ndarray]:
    """Find for each head the `most` rows with the largest maxima, as pairs of a row and its strongest key, and the
    largest weight of its other rows, (H,). No token may be special, and a row must have more than one open key."""
    weight, key = block.weights.max(-1)
    is_typed = (torch.arange(block.step.shape[3]) < block.num_keys[:, None]) & ~block.sides.special[block.texts]
    chosen = block.measured & (weight > 0) & (block.open_keys > 1)
    chosen &= is_typed[torch.arange(len(is_typed))[:, None, None], key]
    chosen &= block.sides.ordinary[block.texts, None, block.rows]
    if block.same_tokens:
        chosen &= key != block.position
    flat = weight.where(chosen, 0).transpose(0, 1).flatten(1)  # (H, B R)
    values, indices = flat.topk(min(most + 1, flat.shape[1]))
    dropped = values[:, most] if values.shape[1] > most else values.new_zeros(len(values))
    head, rank = (values[:, :most] > 0).nonzero(as_tuple=True)
    indices = indices[head, rank]
    text, row = indices // weight.shape[2], indices % weight.shape[2]
    query, key = block.position[row], key[text, head, row]
    queries, keys = (side[block.texts][text, at] for side, at in zip(tokens[1:], (query, key), strict=True))
    columns = texts[text.numpy()], head, query, key, values[head, rank].double(), (head << 50) | (queries << 25) | keys
    return Pairs(*map(np.asarray, columns)), dropped.double().numpy()


def _effects(source: Source, text: str) -> np.ndarray:
    """Measure the effects of switching off each head on a text, (N, effects); NaN for an undefined effect."""
    try:
        table = ablation.sweep(source, source.tokenize([text])).table
    except AttnvizError:
        return np.full((1, len(EFFECTS)), np.nan)
    return table[list(EFFECTS)].to_numpy(dtype=np.float64, na_value=np.nan)
