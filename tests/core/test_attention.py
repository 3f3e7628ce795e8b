"""Scores become weights in one place: its shapes, its laws, and PyTorch's own functions beside it."""

import math
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import D_V, B, H, K, Q, booleans, call, masks, tensors
from torch.nn import functional as F
from torch.testing import assert_close

from attnviz.core import attention
from attnviz.core.attention import attend, attention_output, scaled_dot_product_attention
from attnviz.core.errors import AttentionWarning, Canceled, EmptyRowError
from attnviz.core.masks import Subsequent, Window
from attnviz.core.progress import Progress, report_to
from attnviz.core.scoring import Scoring

EXACT = {"rtol": 1e-12, "atol": 1e-12}
MASKS = {
    "none": None,
    "(Q, K)": booleans((Q, K)),
    "(B, 1, 1, K)": booleans((B, 1, 1, K)),
    "(1, H, Q, 1)": torch.ones(1, H, Q, 1, dtype=torch.bool),
    "(B, H, Q, K)": booleans((B, H, Q, K)),
}


def weights_of_pytorch(query, key, mask=None, scale=None):
    """Return PyTorch's weights: the output of its attention for values that are unit vectors."""
    units = torch.eye(key.shape[-2], dtype=query.dtype).expand(*key.shape[:-1], key.shape[-2])
    return F.scaled_dot_product_attention(query, key, units, mask, scale=scale)


def outputs(query, key, value, mask=None, **settings):
    """Return the output of each of the three functions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttentionWarning)
        whole = scaled_dot_product_attention(query, key, value, mask, **settings)[0]
    scoring = Scoring(**settings)
    return whole, attend(query, key, value, mask, scoring)[0], attention_output(query, key, value, mask, scoring)


# Beside PyTorch


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("biased", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("temperature", [1.0, 0.3, 7.0])
@pytest.mark.parametrize("scale", [None, 0.7])
def test_output_and_weights_equal_those_of_pytorch(mask, biased, temperature, scale):
    """In float64, with Q != K and d_v != d_k; PyTorch gets a smaller query for a temperature."""
    query, key, value = tensors()
    bias = torch.randn(B, H, Q, K, dtype=torch.float64) if biased else None
    added = mask
    if biased:
        added = bias / temperature if mask is None else (bias / temperature).masked_fill(~mask, -math.inf)
    expected = F.scaled_dot_product_attention(query / temperature, key, value, added, scale=scale)

    output, weights = scaled_dot_product_attention(
        query, key, value, mask, bias=bias, scale=scale, temperature=temperature
    )

    assert output.shape == (B, H, Q, D_V)
    assert weights.shape == (B, H, Q, K)
    assert_close(output, expected, **EXACT)
    assert_close(weights, weights_of_pytorch(query / temperature, key, added, scale), **EXACT)
    for other in outputs(query, key, value, mask, bias=bias, scale=scale, temperature=temperature):
        assert_close(other, expected, **EXACT)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
@pytest.mark.parametrize("biased", [False, True], ids=["no bias", "bias"])
def test_a_softcap_bends_the_scaled_products_and_nothing_else(biased, temperature):
    """c · tanh(s / c), as the formula is written; the bias comes after it, as the mask does."""
    query, key, value = tensors()
    bias = torch.randn(1, H, Q, K, dtype=torch.float64) if biased else None
    capped = 1.5 * torch.tanh(query @ key.mT * 0.7 / 1.5)
    expected = torch.softmax((capped + (bias if biased else 0)) / temperature, -1)

    _, weights = scaled_dot_product_attention(
        query, key, value, bias=bias, scale=0.7, softcap=1.5, temperature=temperature
    )

    assert_close(weights, expected, **EXACT)
    for output in outputs(query, key, value, bias=bias, scale=0.7, softcap=1.5, temperature=temperature):
        assert_close(output, expected @ value, **EXACT)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-12), (torch.float32, 1e-6), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)],
)
def test_every_floating_dtype_goes_in_and_comes_out(dtype, tolerance):
    """float16 and bfloat16 are computed in float32 inside and handed back as they came."""
    inputs, mask = tensors(dtype), booleans()
    expected = F.scaled_dot_product_attention(*(t.double() for t in inputs), mask)

    output, weights = scaled_dot_product_attention(*inputs, mask)

    assert output.dtype == weights.dtype == dtype
    same = weights_of_pytorch(inputs[0].double(), inputs[1].double(), mask)
    assert_close(weights.double(), same, rtol=0, atol=tolerance)
    for got in (output, *outputs(*inputs, mask)):
        assert got.dtype == dtype
        assert_close(got.double(), expected, rtol=tolerance, atol=tolerance)


def test_half_precision_does_not_overflow_in_the_scores():
    """A score of 270,000 does not fit float16, and the weights are still distributions."""
    query, key, value = (torch.full((1, 1, 2, 9), 300.0, dtype=torch.float16) for _ in range(3))

    output, weights = scaled_dot_product_attention(query, key, value)

    assert_close(weights, torch.full((1, 1, 2, 2), 0.5, dtype=torch.float16))
    assert output.isfinite().all()


@pytest.mark.parametrize("mask", [None, booleans((Q, K)), booleans((B, Q, K)), booleans((B, 1, K)), Subsequent(2)])
def test_three_axes_are_four_axes_with_one_head(mask):
    """(B, n, d) goes through the same code; a (B, Q, K) mask is then one per sentence."""
    query, key, value = (t[:, 1] for t in tensors())
    wide = mask.unsqueeze(1) if isinstance(mask, torch.Tensor) and mask.dim() == 3 else mask

    output, weights = scaled_dot_product_attention(query, key, value, mask)
    expected = scaled_dot_product_attention(*(t.unsqueeze(1) for t in (query, key, value)), wide)

    assert output.shape == (B, Q, D_V)
    assert weights.shape == (B, Q, K)
    assert torch.equal(output, expected[0].squeeze(1))
    assert torch.equal(weights, expected[1].squeeze(1))


@pytest.mark.parametrize("shape", [(Q, K), (1, K), (Q, 1), (1, 1), (B, 1, 1, K), (1, H, Q, K), (B, H, Q, 1)])
def test_axes_of_size_one_are_repeated(shape):
    """A mask or bias with an axis of 1 means what it would mean written out in full, in all three functions."""
    inputs = tensors()
    mask, bias = booleans(shape), torch.randn(shape, dtype=torch.float64)
    full = {"bias": bias.expand(B, H, Q, K).contiguous()}, mask.expand(B, H, Q, K).contiguous()

    for got, expected in zip(outputs(*inputs, mask, bias=bias), outputs(*inputs, full[1], **full[0]), strict=True):
        assert_close(got, expected, **EXACT)


# Laws


@given(masks(), st.floats(0.05, 20), st.sampled_from(["zero", "uniform"]), st.integers(0, 9))
def test_weights_are_distributions_over_allowed_keys(mask, temperature, policy, seed):
    """Rows sum to 1, blocked cells are exactly 0, nothing is negative; an empty row is what its policy says."""
    query, key, value = tensors(torch.float32, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttentionWarning)
        weights = scaled_dot_product_attention(query, key, value, mask, temperature=temperature, empty_rows=policy)[1]
    allowed = mask.tensor(Q, K).expand(B, H, Q, K)
    empty = ~allowed.any(-1)

    assert (weights >= 0).all()
    assert_close(weights.sum(-1)[~empty], torch.ones(int((~empty).sum())), rtol=0, atol=1e-5)
    assert weights[~allowed & ~empty.unsqueeze(-1)].eq(0).all()
    assert weights[empty].eq(0 if policy == "zero" else 1 / K).all()


def in_tiles(patch, tile):
    """Let `attend` work in tiles, as for long texts, unless `tile` is None."""
    if tile is not None:
        patch.setattr(attention, "LONG", 0)
        patch.setattr(attention, "TILE", tile)


@given(
    mask=st.none() | masks(),
    policy=st.sampled_from(["zero", "nan", "uniform"]),
    block=st.sampled_from([1, 50, 90, 10**6]),
    stretch=st.sampled_from([1, 3, 2048]),
    tile=st.sampled_from([None, 1, 3, 512]),
    biased=st.booleans(),
    temperature=st.floats(0.1, 10),
    softcap=st.none() | st.floats(0.1, 50),
)
def test_three_ways_to_the_same_output(mask, policy, block, stretch, tile, biased, temperature, softcap):
    """The whole matrix, blocks of rows, tiles, and PyTorch's fused kernel agree, with any blocks and empty rows.

    Also where keys that a mask is known to block are left out.
    """
    bias = torch.randn(B, 1, Q, K, dtype=torch.float64) if biased else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "BLOCK", block)
        patch.setattr(attention, "MIN_ROWS", 1)
        patch.setattr(attention, "SPAN_STEP", stretch)
        in_tiles(patch, tile)
        settings = {"bias": bias, "empty_rows": policy, "temperature": temperature, "softcap": softcap}
        first, *others = outputs(*tensors(), mask, **settings)

    for other in others:
        assert_close(other, first, equal_nan=True, **EXACT)


@pytest.mark.parametrize("tile", [None, 2])
def test_the_log_sum_exp_of_what_is_no_number_is_the_same_in_tiles(monkeypatch, tile):
    """A row with NaN or with an infinite score is NaN; one whose scores are all -inf is empty; the rest is as ever."""
    query, key, value = tensors()
    bias = torch.zeros(B, H, Q, K, dtype=torch.float64)
    bias[0, 0, 1, 2], bias[0, 1, 1, 2], bias[1, 0, 2] = math.nan, math.inf, -math.inf
    in_tiles(monkeypatch, tile)

    output, sums = attend(query, key, value, None, Scoring(bias=bias))

    strange = torch.zeros(B, H, Q, dtype=torch.bool)
    strange[0, 0, 1] = strange[0, 1, 1] = True
    assert torch.equal(sums.isnan(), strange)
    assert torch.equal(output.isnan().all(-1), strange)
    assert sums[1, 0, 2] == -math.inf
    assert output[1, 0, 2].eq(0).all()
    rest = ~strange
    assert_close(sums[rest], torch.logsumexp(Scoring(bias=bias).scores(query, key), -1)[rest], **EXACT)


def test_tiles_that_a_mask_blocks_are_not_computed(monkeypatch):
    """Causal costs half, and a window as much as it is wide."""
    seen, original = [], Scoring.scores
    monkeypatch.setattr(Scoring, "scores", lambda *a, **k: seen.append(original(*a, **k)) or seen[-1])
    in_tiles(monkeypatch, 2)
    inputs = tensors(queries=12, keys=12)

    attend(*inputs, Subsequent())
    causal = len(seen)
    attend(*inputs, Window(1))

    assert causal == B * H * 21
    assert len(seen) - causal == B * H * 11


def test_who_watches_is_told_how_far_it_is_and_can_end_it(monkeypatch):
    inputs = tensors()
    in_tiles(monkeypatch, 2)
    progress = Progress(calls=2)
    shares = []
    original = Scoring.scores
    monkeypatch.setattr(Scoring, "scores", lambda *a, **k: shares.append(progress.share) or original(*a, **k))

    with report_to(progress):
        attend(*inputs)
        assert progress.share == 0.5
        progress.canceled = True
        with pytest.raises(Canceled):
            attend(*inputs)

    assert shares == sorted(shares)
    assert len({*shares}) == B * H * math.ceil(Q / 2) + 1
    assert len(shares) == (B * H * math.ceil(Q / 2) + 1) * math.ceil(K / 2)
    attend(*inputs)  # nobody watches any more


# Rows with no key left


def emptied():
    """A mask that leaves batch 1, head 2, query 3 and batch 0, head 1, query 4 without a key."""
    mask = booleans()
    mask[1, 2, 3] = mask[0, 1, 4] = False
    return mask


@pytest.mark.parametrize("how", ["mask", "bias"])
@pytest.mark.parametrize("policy", ["zero", "nan", "uniform"])
def test_empty_rows_get_what_was_asked_for(policy, how):
    """Whether a mask blocks every key of a query or a bias of -inf does; the other rows do not notice."""
    (query, key, value), mask = tensors(), emptied()
    blocked = {"mask": mask} if how == "mask" else {"bias": torch.zeros(mask.shape).masked_fill(~mask, -math.inf)}
    empty = ~mask.any(-1)
    means = value.mean(2)[[0, 1], [1, 2]]
    expected = {"zero": torch.zeros(2, D_V), "nan": torch.full((2, D_V), math.nan), "uniform": means}

    with pytest.warns(AttentionWarning, match="empty_rows="):
        _, weights = scaled_dot_product_attention(query, key, value, **blocked, empty_rows=policy)

    cell = {"zero": 0.0, "nan": math.nan, "uniform": 1 / K}[policy]
    assert_close(weights[empty], torch.full((2, K), cell, dtype=torch.float64), equal_nan=True)
    assert_close(weights[~empty], weights_of_pytorch(query, key, mask)[~empty], **EXACT)
    for output in outputs(query, key, value, **blocked, empty_rows=policy):
        assert_close(output[empty], expected[policy].double(), equal_nan=True, **EXACT)
        assert_close(output[~empty], F.scaled_dot_product_attention(query, key, value, mask)[~empty], **EXACT)


@pytest.mark.parametrize("function", [scaled_dot_product_attention, attend, attention_output])
@pytest.mark.parametrize("how", ["mask", "bias", "no keys"])
def test_empty_rows_can_be_an_error(function, how):
    """Each function says so with the choices there are, and none of them does without an empty row."""
    mask = emptied()
    blocked = {
        "mask": {"mask": mask},
        "bias": {"bias": torch.zeros(mask.shape).masked_fill(~mask, -math.inf)},
        "no keys": {},
    }[how]

    with pytest.raises(EmptyRowError, match=r'no key left .*"zero", "nan" or "uniform"'):
        call(function, *tensors(keys=0 if how == "no keys" else K), **blocked, empty_rows="error")
    call(function, *tensors(), mask=booleans(), empty_rows="error")


def test_the_warning_names_batch_head_and_query():
    """Rows that the mask emptied and rows of NaN are named separately."""
    query, key, value = tensors()
    query[0, 2, 1, 0] = math.nan

    with pytest.warns(AttentionWarning) as caught:
        scaled_dot_product_attention(query, key, value, emptied())

    empty, nan = (w.message for w in caught)
    assert (empty.kind, empty.rows, empty.total) == ("empty", ((0, 1, 4), (1, 2, 3)), 2)
    assert "batch 0 head 1 query 4, batch 1 head 2 query 3" in str(empty)
    assert (nan.kind, nan.rows, nan.total) == ("nan", ((0, 2, 1),), 1)
    assert "batch 0 head 2 query 1" in str(nan)
    assert caught[0].filename == __file__


def test_gradients_flow_and_stay_finite_beside_empty_rows():
    """The fused output trains as PyTorch's does; a query without keys sends no NaN back."""
    ours, theirs = (tuple(t.clone().requires_grad_() for t in tensors()) for _ in range(2))

    attention_output(*ours, emptied()).square().sum().backward()
    F.scaled_dot_product_attention(*theirs, emptied()).square().sum().backward()

    for a, b in zip(ours, theirs, strict=True):
        assert a.grad.isfinite().all()
        assert_close(a.grad, b.grad, **EXACT)


# Dropout


def test_the_weights_given_back_are_those_before_dropout():
    """And the output is made from those after: each weight is either gone or divided by 1 - p."""
    torch.manual_seed(0)
    query, key, _ = tensors()
    units = torch.eye(K, dtype=torch.float64).expand(B, H, K, K)

    dropped, weights = scaled_dot_product_attention(query, key, units, dropout_p=0.5)

    assert torch.equal(weights, scaled_dot_product_attention(query, key, units)[1])
    gone = dropped == 0
    assert 0.3 < gone.double().mean() < 0.7
    assert_close(dropped[~gone], 2 * weights[~gone], **EXACT)


# Strange numbers


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_infinite_and_nan_inputs_make_nan_rows_and_no_crash(bad):
    """Only the query that holds it is lost, it is named, and all three ways call it lost."""
    query, key, value = tensors()
    query[1, 2, 3] = bad

    with pytest.warns(AttentionWarning) as caught:
        weights = scaled_dot_product_attention(query, key, value)[1]

    assert weights[1, 2, 3].isnan().all()
    assert weights.isnan().any(-1).sum() == 1
    assert caught[0].message.rows == ((1, 2, 3),)
    for output in outputs(query, key, value):
        assert output[1, 2, 3].isnan().all()
        assert output.isnan().any(-1).sum() == 1


def test_a_nan_in_a_blocked_key_does_not_reach_the_weights():
    """Blocked scores are replaced, not added to."""
    query, key, value = tensors()
    key[:, :, 6] = math.nan
    mask = (torch.arange(K) < 6).unsqueeze(0)

    assert scaled_dot_product_attention(query, key, value, mask)[1].isfinite().all()


@pytest.mark.parametrize("policy", ["zero", "nan", "uniform"])
def test_no_keys_at_all_give_zeros_and_say_so(policy):
    """A sum over nothing is 0, by all three ways; every query is named as empty."""
    inputs = tensors(keys=0)

    with pytest.warns(AttentionWarning) as caught:
        weights = scaled_dot_product_attention(*inputs, empty_rows=policy)[1]

    assert weights.shape == (B, H, Q, 0)
    assert caught[0].message.total == B * H * Q
    for output in outputs(*inputs, empty_rows=policy):
        assert torch.equal(output, torch.zeros(B, H, Q, D_V, dtype=torch.float64))
    assert attend(*inputs)[1].eq(-math.inf).all()


def test_no_queries_give_no_rows():
    """As PyTorch does."""
    for output in outputs(*tensors(queries=0), booleans((1, K))):
        assert output.shape == (B, H, 0, D_V)
