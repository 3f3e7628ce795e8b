"""Score modifiers as values: hand formulas, the formula of T5, blocks, other lengths, JSON from anybody."""

import math

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import H, K, Q, biases, slices
from torch.testing import assert_close

from attnviz.core.errors import InputError, ShapeError
from attnviz.core.modifiers import ALiBi, RelativeBias, alibi_slopes


@given(biases, slices(Q), slices(K), slices(H))
def test_a_block_of_a_bias_is_that_block_of_the_whole(bias, rows, columns, only):
    """(1, heads, rows, columns); also empty blocks."""
    whole = bias.tensor(H, Q, K)
    block = bias.tensor(H, Q, K, rows=rows, columns=columns, only=only)

    assert whole.shape == (1, H, Q, K)
    assert whole.dtype is torch.float32
    assert torch.equal(block, whole[:, only, rows, columns])


@examples(30)
@given(biases)
def test_with_a_cache_the_bias_is_the_last_rows_of_the_full_one(bias):
    """The last query stands at the last key."""
    assert torch.equal(bias.tensor(H, Q, K), bias.tensor(H, K, K)[:, :, K - Q :])


# ALiBi


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (1, (2**-8,)),
        (2, (2**-4, 2**-8)),
        (3, (2**-4, 2**-8, 2**-2)),
        (8, (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256)),
        (12, (*(2**-n for n in range(1, 9)), 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5)),
    ],
)
def test_the_slopes_of_the_paper(heads, slopes):
    """Eight are 1/2 to 1/256; for twelve, every other of the sixteen stands between them."""
    assert alibi_slopes(heads) == pytest.approx(slopes, rel=1e-15)


@examples(30)
@given(st.integers(1, 20), st.integers(0, 9), st.integers(0, 9))
def test_alibi_is_the_distance_times_the_slope(heads, queries, keys):
    """Cell by cell, with the slopes of the paper or given ones."""
    given_slopes = tuple(0.25 * head - 1 for head in range(heads))
    for bias, slopes in ((ALiBi(), alibi_slopes(heads)), (ALiBi(given_slopes), given_slopes)):
        tensor = bias.tensor(heads, queries, keys, dtype=torch.float64)
        assert tensor.shape == (1, heads, queries, keys)
        for head in range(heads):
            for query in range(queries):
                for key in range(keys):
                    assert tensor[0, head, query, key] == -slopes[head] * abs(query + keys - queries - key)


# Relative bias


@pytest.mark.parametrize("two_sided", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (6, 9), (4, 3)])
def test_the_buckets_are_those_of_t5(two_sided, buckets, max_distance):
    """As in transformers, at all distances from far before to far after."""
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    distances = torch.arange(-300, 301)
    bias = RelativeBias(buckets, max_distance, two_sided)

    settings = {"bidirectional": two_sided, "num_buckets": buckets, "max_distance": max_distance}
    assert torch.equal(bias.bucket(distances), t5.T5Attention._relative_position_bucket(distances, **settings))
    assert set(bias.bucket(distances).tolist()) <= set(range(buckets))


def test_near_distances_have_a_bucket_each_and_far_ones_share():
    """With 32 buckets on one side: 0 to 15 each their own, all from 128 on the last."""
    bias = RelativeBias(two_sided=False)

    assert bias.bucket(-torch.arange(17)).tolist() == list(range(17))
    assert bias.bucket(torch.tensor([-127, -128, -10_000, 1, 50])).tolist() == [31, 31, 31, 0, 0]


def test_a_table_is_looked_up_by_bucket_and_head():
    """One row for each bucket, one number for each head."""
    table = tuple((bucket, 10.0 * bucket, -bucket) for bucket in range(4))
    bias = RelativeBias(buckets=4, max_distance=5, two_sided=False, table=table)

    found = bias.tensor(3, 3, 3)
    assert found[0, 1].tolist() == [[0, 0, 0], [10, 0, 0], [20, 10, 0]]
    assert torch.equal(found[0, 2], -found[0, 0])


def test_a_seed_gives_the_same_table_again_and_another_gives_another():
    """Whatever else is drawn; the numbers differ between heads and are about normal."""
    first = RelativeBias(seed=3).tensor(64, 60, 60)
    torch.rand(3)

    assert torch.equal(first, RelativeBias(seed=3).tensor(64, 60, 60))
    assert not torch.equal(first, RelativeBias(seed=4).tensor(64, 60, 60))
    assert not torch.equal(first[0, 0], first[0, 1])
    assert abs(first.std().item() - 1) < 0.1


@pytest.mark.parametrize("bias", [ALiBi((1.0, 2.0)), RelativeBias(4, 3, table=((1.0, 2.0),) * 4)], ids=str)
def test_a_bias_for_other_heads_is_refused(bias):
    """With both numbers."""
    with pytest.raises(ShapeError, match=r"2.*has 3"):
        bias.tensor(3, Q, K)


# Values


def test_the_json_of_a_bias_can_be_read():
    """Programs read it from the shell, so it stays as it is; defaults are left out."""
    assert ALiBi().to_json() == {"bias": "alibi"}
    assert RelativeBias(8, two_sided=False).to_json() == {"bias": "relative", "buckets": 8, "two_sided": False}
    assert ALiBi((1, 2)).to_json() == {"bias": "alibi", "slopes": [1.0, 2.0]}
    assert [str(b) for b in (ALiBi(), ALiBi((1.0,)), RelativeBias(seed=2))] == [
        "ALiBi",
        "ALiBi (1 slopes)",
        "relative bias (32 buckets, seed 2)",
    ]


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        (ALiBi, {"slopes": []}, "each of 1 to 1024 heads"),
        (ALiBi, {"slopes": [1] * 1025}, "each of 1 to 1024 heads"),
        (ALiBi, {"slopes": "12"}, "each of 1 to 1024 heads; given '12'"),
        (ALiBi, {"slopes": [math.nan]}, "given nan"),
        (ALiBi, {"slopes": [10**400]}, "at most 100,000"),
        (ALiBi, {"slopes": [True]}, "given True"),
        (RelativeBias, {"buckets": 7}, "an even number of 4 to 1024 buckets; given 7"),
        (RelativeBias, {"buckets": 2}, "4 to 1024 buckets; given 2"),
        (RelativeBias, {"buckets": 1, "two_sided": False}, "needs 2 to 1024 buckets; given 1"),
        (RelativeBias, {"buckets": 2000}, "given 2000"),
        (RelativeBias, {"buckets": 3.0}, "The buckets of a relative bias is a whole number"),
        (RelativeBias, {"seed": -1}, "The seed of a relative bias"),
        (RelativeBias, {"max_distance": 8}, "max_distance is 8; it must be above 8"),
        (RelativeBias, {"two_sided": "no"}, "two_sided is true or false; given 'no'"),
        (RelativeBias, {"table": [[1.0]]}, "needs 32 rows"),
        (RelativeBias, {"buckets": 4, "max_distance": 3, "table": [[1], [1], [1], [1, 2]]}, "of one length"),
    ],
    ids=lambda x: x if isinstance(x, str) and len(x) < 50 else "",
)
def test_what_is_wrong_with_a_bias_is_said(kind, given, says):
    """In one sentence, cut short."""
    with pytest.raises(InputError) as refused:
        kind(**given)

    assert says in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_bias_of_a_huge_map_costs_the_block():
    """The whole would have 10¹² cells."""
    block = ALiBi().tensor(2, 10**6, 10**6, rows=slice(10**6 - 2, None), columns=slice(None, 3))

    assert block.shape == (1, 2, 2, 3)
    assert_close(block[0, 0, 1, 0].item(), -(10**6 - 1) / 16)
