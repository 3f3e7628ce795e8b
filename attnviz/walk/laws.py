"""Measured laws: why there is a scale, and what positions are for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from attnviz.core import attention
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError, check_whole, quoted
from attnviz.core.record import Record
from attnviz.core.scoring import Scoring
from attnviz.core.tokens import Sentence
from attnviz.walk.measures import Measures, gradient_size

BLOCK = 2**22
"""How many random numbers are held at once."""

MOST_D_K, MOST_SAMPLES, MOST_KEYS = 4096, 100_000, 1024
ALIKE = 1e-4
"""Outputs that differ by less than this share of their largest number are the same but for rounding."""


@dataclass(frozen=True)
class DotProducts:
    """Dot products of random queries and keys, whose numbers are independent and standard normal.

    Attributes:
        d_k: how many numbers they have.
        variance: of q · k, measured; in theory it is d_k.
        scaled_variance: of q · k / √d_k; in theory 1.
        unscaled, scaled: the mean measures of rows of weights made of them, without and with the scale.
    """

    d_k: int
    variance: float
    scaled_variance: float
    unscaled: Measures
    scaled: Measures


def dot_product_variance(
    d_ks: Sequence[int], *, seed: int = 0, samples: int = 500, keys: int = 16
) -> tuple[DotProducts, ...]:
    """Measure why scores are divided by √d_k, on `samples` random queries with `keys` random keys each.

    Raises:
        InputError: if a number is out of bounds.
    """
    bounds = {"samples": (samples, 2, MOST_SAMPLES), "keys": (keys, 1, MOST_KEYS), "seed": (seed, 0, 2**31 - 1)}
    for name, (value, least, most) in (bounds | {f"d_k ({d})": (d, 1, MOST_D_K) for d in d_ks}).items():
        check_whole(name, value, least, most)
    return tuple(_spread(d_k, seed, samples, keys) for d_k in d_ks)


def _spread(d_k: int, seed: int, samples: int, keys: int) -> DotProducts:
    generator = torch.Generator().manual_seed(seed * 1_000_003 + d_k)
    parts = []
    for some in torch.arange(samples).split(max(1, BLOCK // (d_k * (keys + 1)))):
        query = torch.randn(len(some), 1, d_k, generator=generator)
        key = torch.randn(len(some), keys, d_k, generator=generator)
        parts.append(Scoring(scale=1.0).scores(query[:, None], key[:, None])[:, 0, 0].double())
    products = torch.cat(parts)
    scaled = products / math.sqrt(d_k)
    variances = [float(each.var()) for each in (products, scaled)]
    return DotProducts(d_k, *variances, _mean(attention.normalize(products)), _mean(attention.normalize(scaled)))


def _mean(weights: Tensor) -> Measures:
    """The mean measures of many rows, (rows, K)."""
    each = torch.special.entr(weights).sum(-1), weights.amax(-1), gradient_size(weights), weights.sum(-1)
    return Measures(*(float(values.mean()) for values in each))


class Runs(Protocol):
    """Source that runs sentences that are cut already."""

    def run(self, sentences: tuple[Sentence, ...], edits: Edits = Edits()) -> Record: ...


@dataclass(frozen=True, eq=False)
class Permutation:
    """Runs of a sentence before and after its words were put in another order.

    Attributes:
        order: position i of the permuted sentence holds token order[i].
        before, after: both runs, of the whole batch.
        difference: the largest absolute difference between the output of a token here and there.
        largest: the largest number of the outputs, to compare it with.
        follows: whether the output is permuted as the words are, and nothing else.
        message: one sentence.
    """

    order: tuple[int, ...]
    before: Record
    after: Record
    difference: float
    largest: float
    follows: bool
    message: str


def permutation(source: Runs, record: Record, *, order: Sequence[int] | None = None, sentence: int = 0) -> Permutation:
    """Put the tokens of a sentence of a batch in another order and compare what comes out for each of them.

    Without positions, and without a mask that looks at the order, every token gets what it got before.

    Args:
        record: a run of `source`.
        order: of the tokens that are not padding; by default from last to first, special tokens left in place.

    Raises:
        InputError: if it is no order of them, or the model reads one text and writes another.
    """
    if record.targets:
        raise InputError(f"'{record.source}' writes another text; the words are permuted for one that reads only.")
    original = record.sentences[sentence]
    order = _reversed(original) if order is None else tuple(order)
    if sorted(order) != list(range(original.length)):
        raise InputError(f"An order of {original.length} tokens names each once, from 0; given {quoted(order)}.")
    permuted = replace(original, tokens=(*(original.tokens[i] for i in order), *original.tokens[original.length :]))
    others = record.sentences  # they stay: masks and numbers set by hand may be for so many sentences
    after = source.run((*others[:sentence], permuted, *others[sentence + 1 :]), record.edits)
    old = record.output[sentence, list(order)]
    moved = (after.output[sentence, : original.length] - old).abs().double()
    difference, largest = float(moved.max()), float(old.abs().max())
    follows = difference <= ALIKE * largest
    what = (
        "Each word keeps its output: the order is not seen" if follows else "Words get other outputs: the order is seen"
    )
    message = f"{what}. An output changes by up to {difference:.2g}; its largest number is {largest:.2g}."
    if math.isnan(difference):
        message = "Some outputs are not numbers, so it cannot be said whether they follow the order of the words."
    return Permutation(order, record, after, difference, largest, follows, message)


def _reversed(sentence: Sentence) -> tuple[int, ...]:
    """Typed tokens from last to first, special ones where they are."""
    typed = [i for i, token in enumerate(sentence.tokens[: sentence.length]) if not token.special]
    places = dict(zip(typed, reversed(typed), strict=True))
    return tuple(places.get(i, i) for i in range(sentence.length))
