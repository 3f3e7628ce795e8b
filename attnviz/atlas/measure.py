"""Measure every head on the texts of one shard, as arrays.

T texts   N heads of all sites   M numbers per text: metrics, then effects   D bins of distances
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

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
"""Tokens of an attention call, and numbers of their strings at its queries, (B, Q), and keys, (B, K)."""


@dataclass(frozen=True)
class Options:
    """Sizes of an atlas.

    Attributes:
        shard: maximum number of texts per shard.
        keep: number of texts with the largest values, per metric and head.
        pairs: number of token pairs with the largest weights, per head and shard; pairs of equal strings count once.
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
        text, head, query, key: index of the text in the shard, of the head at its site, and of the two positions.
        weight: attention weight of each pair.
        tokens: number for the head and the two token strings of each pair; equal if all three are equal.
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
        """Split the pairs: for each head the `most` pairs with the largest weights, and the other pairs.

        If pairs have the same head and token strings, only the pair with the largest weight is kept.
        """
        ordered = self.subset(np.lexsort((self.query, self.text, -self.weight)))  # the largest weight first
        _, first = np.unique(ordered.tokens, return_index=True)
        ordered = ordered.subset(np.sort(first))
        ordered = ordered.subset(np.argsort(ordered.head, kind="stable"))
        first_of_head = np.searchsorted(ordered.head, ordered.head)  # position of the first pair of the same head
        rank = np.arange(len(ordered.head)) - first_of_head
        return ordered.subset(rank < most), ordered.subset(rank >= most)


@dataclass(eq=False)
class SiteNumbers:
    """Measurements at a site with H heads.

    Attributes:
        sums: numerator and denominator of each metric, for T texts, (2, T, H, metrics).
        distance: sum of weights, and number of open pairs, per bin of distances, (2, H, D).
        dropped: largest weight of a pair that was left out of `pairs`, (H,).
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
        read: lines that the model read, in order, with their tokens.
        written: decoder input for each line of `read`, for an encoder-decoder; else empty.
        problems: lines that were not read, with the reason; `corpus.EMPTY` for empty lines.
        sites: measurements per site.
        values: M metrics and effects of T texts and N heads (of all sites), (T, N, M); NaN if not measurable.
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
    """
    usable = [line for line in lines if not line.error]
    sentences, errors = texts.tokenize(source, [line.text for line in usable]) if usable else ([], {})
    sites = {}
    for site, heads in source.heads.items():
        no_pairs = Pairs(*[np.zeros(0, np.int64) for _ in fields(Pairs)])
        sums, distance = np.zeros((2, len(usable), heads, len(METRICS))), np.zeros((2, heads, 2 * FURTHEST + 1))
        sites[site] = SiteNumbers(sums, distance, np.zeros(heads), no_pairs)
    written: dict[int, Sentence] = {}  # decoder inputs by the index of the text
    string_ids: dict[str, int] = {}
    done = 0
    for indices, record in texts.runs(source, sentences, edits, failed=lambda i, error: errors.update({i: str(error)})):
        written |= dict(zip(indices, record.targets, strict=False))
        tokens_of_shape: dict[tuple, Tokens] = {}  # many layers have the same tokens
        for step in record.steps:
            shape = step.site.kind, step.shape[2:], step.has_sink
            if shape not in tokens_of_shape:
                tokens_of_shape[shape] = _tokens(record, step, string_ids)
            _add_run(sites[step.site], record, step, tokens_of_shape[shape], np.array(indices), options)
        done += len(indices)
        report(done)
    good = [i for i in range(len(usable)) if i not in errors]
    failed = [CorpusLine(usable[i].text, usable[i].line, error) for i, error in errors.items()]
    problems = sorted([line for line in lines if line.error] + failed, key=lambda line: line.line)
    read = tuple((usable[i], sentences[i]) for i in good)
    new_index = np.full(len(usable), -1)  # by the index in `usable`
    new_index[good] = range(len(good))
    for site_numbers in sites.values():
        site_numbers.pairs.text[:] = new_index[site_numbers.pairs.text]
    with np.errstate(invalid="ignore"):
        values = np.concatenate([site.sums[0, good] / site.sums[1, good] for site in sites.values()], 1)
    effects = np.full((*values.shape[:2], len(EFFECTS)), np.nan)
    for i, (line, _) in enumerate(read[: options.ablate]):
        effects[i] = _effects(source, line.text)
    targets = tuple(written[i] for i in good if i in written)
    return Measured(read, targets, tuple(problems), sites, np.concatenate([values, effects], 2))


def _tokens(record: Record, step: Step, string_ids: dict[str, int]) -> Tokens:
    """Collect the tokens of a step, and the ids of their strings; `string_ids` gets the next id for a new string."""
    texts = [record.tokens(step.site, sentence=b) for b in range(step.shape[0])]
    queries = [[string_ids.setdefault(token.text, len(string_ids)) for token in queries] for queries, _ in texts]
    keys = [[string_ids.setdefault(token.text, len(string_ids)) for token in keys] for _, keys in texts]
    return batch.sides_of(record, step), torch.tensor(queries), torch.tensor(keys)


def _add_run(site: SiteNumbers, record: Record, step: Step, tokens: Tokens, rows: np.ndarray, options: Options) -> None:
    """Add the measurements of a batch at a site; `rows` are the indices of its texts within the shard."""
    for block in batch.blocks(step, tokens[0]):
        indices = rows[block.texts]
        site.sums[:, indices] += sums_of(record, block).numpy()
        if block.same_tokens:
            site.distance += _distance_sums(block).numpy()
        new_pairs, dropped = _pairs(block, tokens, indices, options.pairs)
        columns = zip(vars(site.pairs).values(), vars(new_pairs).values(), strict=True)
        site.pairs, weaker = Pairs(*map(np.concatenate, columns)).strongest(options.pairs)
        site.dropped = np.maximum(site.dropped, dropped)  # pairs of this block beyond `options.pairs`
        np.maximum.at(site.dropped, weaker.head, weaker.weight)  # pairs replaced by stronger ones of other blocks


def _distance_sums(block: HeadBlock) -> torch.Tensor:
    """Sum the weights, and count the open pairs, per bin of distances: (2, H, D)."""
    weights = block.by_distance.sum(0)  # (H, 2 n - 1)
    n = (weights.shape[-1] + 1) // 2
    is_open = torch.ones(1, 1, 1, n) if block.open is None else block.open[..., :n].float()
    is_open = is_open * block.not_padding[:, None, :, None]
    pairs = block.diagonals(is_open).sum(0).expand_as(weights)
    distances = torch.arange(-n + 1, n)
    bins = distances.abs().clamp(min=0.5).log2().floor().long() + 1  # distance 0 is in bin 0, 1 in 1, 2 and 3 in 2
    bins = distances.sign() * bins + FURTHEST
    sums = torch.stack([weights, pairs])
    return torch.zeros(*sums.shape[:2], 2 * FURTHEST + 1, dtype=sums.dtype).index_add_(2, bins, sums)


def _pairs(block: HeadBlock, tokens: Tokens, texts: np.ndarray, most: int) -> tuple[Pairs, np.ndarray]:
    """Find for each head the `most` queries with the largest maximum weight, each paired with its strongest key.

    Left out are special tokens, tokens that attend to themselves, and queries with only one open key. The second result
    is the largest weight of a pair that did not fit into `most`, (H,).
    """
    _, query_ids, key_ids = tokens
    weight, key = block.weights.max(-1)  # (B, H, R)
    is_ordinary = (torch.arange(block.step.shape[3]) < block.num_keys[:, None]) & ~block.sides.special[block.texts]
    allowed = block.measured & (weight > 0) & (block.open_keys > 1)
    allowed &= is_ordinary[torch.arange(len(is_ordinary))[:, None, None], key]
    allowed &= block.sides.ordinary[block.texts, None, block.rows]
    if block.same_tokens:
        allowed &= key != block.position
    flat = weight.where(allowed, 0).transpose(0, 1).flatten(1)  # (H, B R)
    values, indices = flat.topk(min(most + 1, flat.shape[1]))
    dropped = values[:, most] if values.shape[1] > most else values.new_zeros(len(values))
    head, rank = (values[:, :most] > 0).nonzero(as_tuple=True)
    text, row = indices[head, rank] // weight.shape[2], indices[head, rank] % weight.shape[2]
    query, key = block.position[row], key[text, head, row]
    query_id, key_id = query_ids[block.texts][text, query], key_ids[block.texts][text, key]
    token_pair = (head << 50) | (query_id << 25) | key_id  # an id has 25 bits: up to 33 million strings in a shard
    columns = texts[text.numpy()], head, query, key, values[head, rank].double(), token_pair
    return Pairs(*map(np.asarray, columns)), dropped.double().numpy()


def _effects(source: Source, text: str) -> np.ndarray:
    """Measure the effects of switching off each head on a text, (N, effects); after an error NaN, (1, effects)."""
    try:
        table = ablation.sweep(source, source.tokenize([text])).table
    except AttnvizError:
        return np.full((1, len(EFFECTS)), np.nan)
    return table[list(EFFECTS)].to_numpy(dtype=np.float64, na_value=np.nan)
