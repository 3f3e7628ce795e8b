"""What attention costs under a mask, counted by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import B, K, Q, masks

from attnviz.core.cost import cost
from attnviz.core.errors import MaskError
from attnviz.core.masks import Blocks, Documents, Full, Prefix, Random, Subsequent, Window

SIZES = {"heads": 2, "d_k": 3, "d_v": 5}
LONG = 131_072


def test_the_numbers_of_a_causal_mask_of_four_tokens():
    """10 of 16 cells; two heads, d_k 3, d_v 5: 2 · 2 · 10 · 3 operations, 2 · 2 · 10 · 5, and 2 · 10 · 4 bytes."""
    found = cost(Subsequent(), 4, **SIZES)

    assert (found.masked.cells, found.full.cells) == (10, 16)
    assert (found.masked.flops_scores, found.full.flops_scores) == (120, 192)
    assert (found.masked.flops_output, found.full.flops_output) == (200, 320)
    assert (found.masked.bytes_scores, found.full.bytes_scores) == (80, 128)
    assert found.sparsity == 6 / 16
    assert (found.estimated, found.rows_counted) == (False, 4)


def test_defaults():
    """As many keys as queries, d_v as wide as d_k, float32, and no mask."""
    found = cost(None, 3, heads=1, d_k=7)

    assert found.masked == found.full
    assert (found.full.cells, found.full.flops_scores, found.full.flops_output) == (9, 126, 126)
    assert found.full.bytes_scores == 36
    assert cost(None, 3, heads=1, d_k=7, bytes_per_number=2).full.bytes_scores == 18
    assert cost(None, 3, 5, heads=1, d_k=7).full.cells == 15
    assert found.sparsity == 0


@given(masks(), st.integers(0, B - 1))
def test_every_cell_is_counted(mask, sentence):
    """While there are not too many."""
    found = cost(mask, Q, K, sentence=sentence, **SIZES)

    assert found.masked.cells == mask.grid(Q, K, sentence=sentence).sum().item()
    assert found.sparsity == pytest.approx((~mask.grid(Q, K, sentence=sentence)).double().mean().item())
    assert not found.estimated


@pytest.mark.parametrize(
    ("mask", "cells", "within"),
    [
        (Full(), LONG * LONG, 0),
        (Prefix(7), 7 * LONG, 0),
        (Subsequent(), LONG * (LONG + 1) / 2, LONG / 2),
        (Window(512), LONG * 513 - 512 * 513 / 2, LONG * 2),
        (Random(3, 1024), LONG * 3 * 128, 0),
        (Blocks(64, 1, 1), LONG * 192 - 2 * 64 * 64, LONG),
        (Documents((LONG // 2, LONG // 4)) & Subsequent(), sum(n * (n + 1) / 2 for n in (LONG // 2, LONG // 4)), LONG),
    ],
    ids=str,
)
def test_long_inputs_are_estimated_and_say_so(mask, cells, within):
    """At 131,072 tokens from 32 rows; the counts by hand, to a key or two per row."""
    found = cost(mask, LONG, heads=8, d_k=64)

    assert found.estimated
    assert found.rows_counted == 32
    assert abs(found.masked.cells - cells) <= within
    assert found.full.bytes_scores == 8 * 4 * LONG**2


def test_the_bound_of_what_is_counted():
    """64 cells are counted if 64 may be, and half of the rows if 32 may be."""
    assert not cost(Full(), 8, counted=64, **SIZES).estimated
    half = cost(Subsequent(), 8, counted=32, **SIZES)

    assert (half.estimated, half.rows_counted) == (True, 4)
    assert half.masked.cells == 2 * (2 + 4 + 6 + 8)


@pytest.mark.parametrize("queries", [1, 3, 7, 1000, 3001, 70_000, 100_000])
@pytest.mark.parametrize("counted", [1, 1000, 2**19, 2**22])
def test_an_estimate_of_a_causal_mask_is_within_a_key_per_row(queries, counted):
    """Also where the rows do not part into equal stretches, and where fewer cells may be counted than one row has."""
    for keys in (queries, 2**18):
        found = cost(Subsequent(), queries, keys, counted=counted, **SIZES)
        exact = sum(range(1, queries + 1))

        assert abs(found.masked.cells - exact) <= queries
        assert 1 <= found.rows_counted <= max(2, counted // keys + 1)


def test_nothing_costs_nothing():
    """No queries, no keys."""
    assert cost(Subsequent(), 0, **SIZES).full.cells == 0
    assert cost(Subsequent(), 0, **SIZES).sparsity == 0
    assert cost(Subsequent(), 3, 0, **SIZES).masked.flops_scores == 0


@pytest.mark.parametrize("wrong", [{"queries": -1}, {"queries": 1, "keys": -2}, {"queries": 1, "d_k": -3}])
def test_less_than_nothing_is_refused(wrong):
    """With its name and value."""
    with pytest.raises(MaskError, match=rf"{list(wrong)[-1]} = {list(wrong.values())[-1]}"):
        cost(Full(), **SIZES | wrong)
