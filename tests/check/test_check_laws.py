"""Laws of the checks: no false alarms for healthy attention of any size, every inversion named, dropout's p found."""

import math

import pytest
import torch
from arrays import additive, causal, padded
from hypothesis import given
from hypothesis import strategies as st

from attnviz.check import check
from attnviz.core import conventions

SIZES = st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 9))
SEEDS = st.integers(0, 10**6)
EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e5m2)
DTYPES = st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64])


def softmax(shape, mask, seed, dtype):
    """Weights in some precision, of scores of unit size."""
    scores = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return scores.masked_fill(~mask, -math.inf).softmax(-1).to(dtype)


@given(size=SIZES, seed=SEEDS, dtype=DTYPES, said=st.sampled_from([None, "causal"]))
def test_causal_softmax_weights_raise_no_alarm(size, seed, dtype, said):
    """For any size, including one token, one head and one sentence."""
    batch, heads, n = size
    weights = softmax((batch, heads, n, n), causal(n), seed, dtype)
    report = check(weights, kind="weights", intent=said)

    assert report.findings == ()
    assert report.causal is (n > 1)


@given(size=SIZES, seed=SEEDS, dtype=st.sampled_from(EIGHT_BITS))
def test_eight_bits_round_more_than_sixteen(size, seed, dtype):
    """So rows of weights need not sum to 1 within what float16 allows; what sums to a quarter is found all the same."""
    batch, heads, n = size
    found = softmax((batch, heads, n, n), causal(n), seed, dtype)

    assert check(found, kind="weights").rules("error") == set()
    assert not check((found.float() / 4).to(dtype), kind="weights").ok


@given(size=SIZES, seed=SEEDS, dtype=DTYPES, keys=st.integers(3, 9), data=st.data())
def test_an_encoder_is_no_leak(size, seed, dtype, keys, data):
    """Weights in both directions, over keys of a padded batch, of the sentence itself or of another."""
    batch, heads, queries = size
    lengths = data.draw(st.lists(st.integers(3, keys), min_size=batch, max_size=batch))
    report = check(softmax((batch, heads, queries, keys), padded(lengths, keys), seed, dtype))

    assert report.rules("warning", "error") == set()
    assert (report.kind, report.causal) == ("weights", False)


@st.composite
def masks_with_empty_rows(draw):
    """Draw random cells, or a known mask with padding of keys and of queries, whose rows may be empty."""
    if draw(st.booleans()):
        return torch.tensor(draw(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=4, max_size=4)))
    n = draw(st.integers(3, 7))
    kept = padded((draw(st.integers(1, n)),), n)[0, 0, 0]
    kept = kept.flip(-1) if draw(st.booleans()) else kept
    base = draw(st.sampled_from([causal(n), causal(n).triu(-2), torch.ones(n, n, dtype=torch.bool)]))
    return base & kept & (kept[:, None] | draw(st.booleans()))


@pytest.mark.parametrize("convention", ["may-attend", "true-is-masked", "zero-is-masked", "additive"])
@given(mask=masks_with_empty_rows())
def test_every_row_of_which_softmax_makes_nan_is_said(convention, mask):
    """In every convention: as a warning or an error, or by the fault behind it."""
    to = {
        "may-attend": lambda one: one,
        "true-is-masked": conventions.to_true_is_masked,
        "zero-is-masked": conventions.to_zero_is_masked,
        "additive": conventions.to_additive,
    }
    report = check(to[convention](mask), convention=convention)
    found = [one for one in report.findings if one.rule == "empty-row"]
    rows = {row for one in found for (row,) in one.cells}
    nan = set(additive(mask).softmax(-1).isnan().any(-1).nonzero().flatten().tolist())

    assert rows <= nan
    assert rows == nan or report.rules("warning", "error") - {"empty-row"}
    assert {one.severity for one in found} <= {"warning", "error"}


@given(size=SIZES, seed=SEEDS, length=st.integers(2, 8))
def test_a_mask_after_the_softmax_is_found(size, seed, length):
    """Whether it hides the future or padding; never taken for dropout."""
    batch, heads, _ = size
    full = softmax((batch, heads, 9, 9), torch.ones(9, 9, dtype=torch.bool), seed, torch.float32)
    for mask in (causal(9), padded([length] * batch, 9)):
        assert check(full * mask).rules("error") == {"masked-after-softmax"}
