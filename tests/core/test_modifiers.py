"""Score modifiers as values: hand formulas, the formula of T5, blocks, other lengths, JSON from anybody."""

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import H, K, Q, biases, slices
from torch.testing import assert_close

from attnviz.core.errors import InputError
from attnviz.core.scoring import ALiBi, RelativeBias, bias_from_json, t5_bucket


@given(biases, slices(Q), slices(K), slices(H))
def test_a_block_of_a_bias_is_that_block_of_the_whole(bias, rows, columns, only):
    """(1, heads, rows, columns); also empty blocks."""
    whole = bias.tensor(H, Q, K)
    block = bias.tensor(H, Q, K, rows=rows, columns=columns, head_slice=only)

    assert whole.shape == (1, H, Q, K)
    assert whole.dtype is torch.float32
    assert torch.equal(block, whole[:, only, rows, columns])


@examples(30)
@given(biases)
def test_with_a_cache_the_bias_is_the_last_rows_of_the_full_one(bias):
    """The last query stands at the last key."""
    assert torch.equal(bias.tensor(H, Q, K), bias.tensor(H, K, K)[:, :, K - Q :])


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (1, (2**-8,)),
        (3, (2**-4, 2**-8, 2**-2)),
        (8, (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256)),
        (12, (*(2**-n for n in range(1, 9)), 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5)),
    ],
)
@examples(10)
@given(queries=st.integers(1, 9), keys=st.integers(1, 9))
def test_alibi_is_the_distance_times_the_slope_of_the_paper(heads, slopes, queries, keys):
    """Eight slopes are 1/2 to 1/256; for twelve, every other of the sixteen stands between them."""
    tensor = ALiBi().tensor(heads, queries, keys, dtype=torch.float64)
    distance = torch.tensor([[abs(q + keys - queries - k) for k in range(keys)] for q in range(queries)])

    assert_close(tensor[0], -torch.tensor(slopes, dtype=torch.float64)[:, None, None] * distance, rtol=1e-15, atol=0)


def test_the_buckets_are_those_of_t5():
    """As in transformers, at all distances from far before to far after."""
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    distances = torch.arange(-300, 301)

    expected = t5.T5Attention._relative_position_bucket(distances, num_buckets=32, max_distance=128)
    assert torch.equal(t5_bucket(distances), expected)


def test_a_seed_gives_the_same_table_again_and_another_gives_another():
    """Whatever else is drawn; the numbers differ between heads and are about normal."""
    first = RelativeBias(seed=3).tensor(64, 60, 60)
    torch.rand(3)

    assert torch.equal(first, RelativeBias(seed=3).tensor(64, 60, 60))
    assert not torch.equal(first, RelativeBias(seed=4).tensor(64, 60, 60))
    assert not torch.equal(first[0, 0], first[0, 1])
    assert abs(first.std().item() - 1) < 0.1


def test_the_json_of_a_bias_can_be_read():
    """Programs read it from the shell, so it stays as it is; defaults are left out."""
    table = {ALiBi(): {"bias": "alibi"}, RelativeBias(2): {"bias": "relative", "seed": 2}}
    for bias, data in table.items():
        assert bias.to_json() == data
        assert bias_from_json(data) == bias
    assert [str(bias) for bias in table] == ["ALiBi", "relative bias (32 buckets, seed 2)"]
    for refused in ({"bias": "other"}, {"bias": "relative", "buckets": 8}, {"bias": "relative", "seed": -1}):
        with pytest.raises(InputError, match=r"There is no bias|The seed of a relative bias is -1"):
            bias_from_json(refused)


def test_a_bias_of_a_huge_map_costs_the_block():
    """The whole would have 10¹² cells."""
    block = ALiBi().tensor(2, 10**6, 10**6, rows=slice(10**6 - 2, None), columns=slice(None, 3))

    assert block.shape == (1, 2, 2, 3)
    assert_close(block[0, 0, 1, 0].item(), -(10**6 - 1) / 16)
