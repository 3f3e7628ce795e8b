"""Random masks and edits for Hypothesis, and the sizes every test here uses: all prime, all different."""

import operator

import torch
from hypothesis import strategies as st
from rules import rules

from attnviz.core.attention import scaled_dot_product_attention
from attnviz.core.edits import KINDS, PARTS, Edits, Site, Take
from attnviz.core.masks import And, Or, Random, Shifted
from attnviz.core.scoring import EMPTY_ROWS, ALiBi, RelativeBias, Scoring

B, H, Q, K, D_K, D_V = 2, 3, 5, 7, 11, 13


def tensors(dtype=torch.float64, *, queries=Q, keys=K, seed=0):
    """Query, key and value, (B, H, n, d), standard normal."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (B, H, queries, D_K), (B, H, keys, D_K), (B, H, keys, D_V)
    return tuple(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes)


def booleans(shape=(B, H, Q, K), seed=1, share=0.6):
    """A random mask in which every query keeps at least one key."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < share
    mask[..., 0] |= ~mask.any(-1)
    return mask


def randoms(longest=11):
    """Draw a mask of random keys."""
    return st.integers(1, longest).flatmap(
        lambda every: st.builds(Random, st.integers(0, every), st.just(every), st.integers(0, 10**5))
    )


def masks(batch=B, *more):
    """A tree of named rules; `more` of them are drawn as often as all others."""
    return st.recursive(
        st.one_of(rules(batch), *more),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(And),
            st.lists(inner, min_size=1, max_size=3).map(Or),
            inner.map(operator.invert),
            st.builds(Shifted, inner, st.integers(-9, 9)),
        ),
        max_leaves=5,
    )


def slices(size):
    """A slice of an axis: also empty, also beyond its end."""
    return st.builds(slice, st.none() | st.integers(0, size + 2), st.none() | st.integers(0, size + 2))


biases = st.just(ALiBi()) | st.builds(RelativeBias, st.integers(0, 99))
"""A named bias for H heads."""

sites = st.builds(Site, st.sampled_from(KINDS), st.integers(0, 11))

_where = (
    st.text(min_size=1, max_size=9).filter(str.strip),
    st.sampled_from(PARTS[:3]),
    st.builds(Site, st.sampled_from(["encoder", "decoder"]), st.integers(0, 11)),
    st.none() | st.integers(0, 15),
    st.integers(0, 99),
)
_elsewhere = _where[0], st.sampled_from(("output", "values")), *_where[2:], st.integers(0, 99)
takes = st.builds(Take, *_where) | st.builds(Take, *_elsewhere)

edits = st.builds(
    Edits,
    mask=st.none() | masks(),
    own_mask=st.booleans(),
    heads_off=st.frozensets(st.tuples(sites, st.integers(0, 15)), max_size=4),
    temperature=st.floats(1e-3, 1e3),
    scale=st.none() | st.floats(-10, 10),
    empty_rows=st.sampled_from(EMPTY_ROWS),
    bias=st.lists(biases, max_size=2).map(tuple),
    softcap=st.none() | st.floats(1e-3, 1e5),
    taken=st.lists(takes, max_size=2).map(tuple),
)


def call(function, *inputs, mask=None, **settings):
    """Call one of the three attention functions with settings in its own form."""
    if function is scaled_dot_product_attention:
        return function(*inputs, mask, **settings)
    return function(*inputs, mask, Scoring(**settings))
