"""Fills, types and empty rows: what is said of a row is what PyTorch gives; one NaN row is followed down a stack."""

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from attnviz.core.errors import AttnvizError, EmptyRowError, MaskError, ShapeError
from attnviz.core.masks import Full, Mask, Padding, Subsequent
from attnviz.numerics import DTYPES, FILLS, HOWS, Outcome, outcomes, policies, spread, table

Q, K = 3, 5
SCORES = torch.tensor([[0.5, -1.25, 2.0, 0.25, -0.5], [1.0, 0.0, -2.0, 0.5, 0.75], [-1.0, 2.0, 1.5, 0.0, 0.25]])
MASK = torch.tensor([[0, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 1, 0]]).bool()
HALF, BRAIN, SINGLE, DOUBLE = DTYPES


def left_padded_causal(lengths: tuple[int, ...]) -> Mask:
    """A batch padded on the left, read by a decoder: the padding of a sentence has nothing before it to attend to."""
    return Subsequent() & Padding(lengths, left=max(lengths))


def empty_row(found: Outcome) -> torch.Tensor:
    return found.weights[0].double()


@pytest.mark.parametrize(
    ("fill", "how", "words"),
    [
        ("-inf", "replaced", ["NaN"] * 4),
        ("-inf", "added", ["NaN"] * 4),
        ("-inf", "multiplied", ["NaN"] * 4),
        ("-1e9", "replaced", ["raises", *["uniform over masked keys"] * 3]),
        ("-1e9", "added", ["raises", *["swallows the scores"] * 2, "as if nothing were masked"]),
        ("-1e9", "multiplied", ["NaN", *["swallows the scores"] * 2, "as if nothing were masked"]),
        ("finfo.min", "replaced", ["uniform over masked keys"] * 4),
        ("finfo.min", "added", ["swallows the scores"] * 4),
        ("finfo.min", "multiplied", ["swallows the scores"] * 4),
    ],
)
def test_the_word_for_a_row_without_a_key(fill, how, words):
    """For float16, bfloat16, float32 and float64, with scores of everyday size."""
    assert [outcomes(SCORES, MASK, fill, how, dtype).empty for dtype in DTYPES] == words


@pytest.mark.parametrize(("fill", "how"), [(fill, how) for fill in FILLS for how in HOWS])
def test_rows_with_a_key_left_are_right_but_for_zero_times_infinity(fill, how):
    """A product of 0 and -inf is NaN where a key is open; float16 has no -1e9."""
    words = [outcomes(SCORES, MASK, fill, how, dtype).with_keys for dtype in DTYPES]
    raises = ["raises"] if (fill, how) in (("-1e9", "replaced"), ("-1e9", "added")) else []

    assert words == (["NaN"] * 4 if (fill, how) == ("-inf", "multiplied") else raises + ["right"] * (4 - len(raises)))


def test_the_weights_are_those_of_pytorch():
    """The three ways, written down once more."""
    for dtype in DTYPES:
        scores, closed = SCORES.to(dtype), ~MASK
        low = torch.finfo(dtype).min
        written = {
            "replaced": scores.masked_fill(closed, low),
            "added": scores + torch.zeros_like(scores).masked_fill(closed, low),
            "multiplied": scores + (1.0 - MASK.to(dtype)) * low,
        }
        for how, filled in written.items():
            found = outcomes(SCORES, MASK, "finfo.min", how, dtype)

            assert found.weights.dtype is dtype
            assert found.scores.equal(filled)
            assert found.weights.equal(filled.softmax(-1))


def test_what_pytorch_refuses_is_one_sentence():
    """-1e9 has no float16."""
    found = outcomes(SCORES, MASK, "-1e9", "replaced", HALF)

    assert found.error == "PyTorch refuses it: value cannot be converted to type c10::Half without overflow"
    assert found.weights is None


def test_swallowed_scores_are_uniform_weights():
    """The scores differ, and beside the fill they do not: each key gets the same."""
    found = outcomes(SCORES, MASK, "-1e9", "added", SINGLE)

    assert found.scores[0].unique().numel() == 1
    assert empty_row(found).allclose(torch.full((K,), 1 / K).double())
    assert outcomes(torch.zeros(Q, K), MASK, "-1e9", "added", SINGLE).empty == "uniform over masked keys"


def test_a_type_with_more_digits_attends_as_if_nothing_were_masked():
    """-1e9 leaves float64 its digits: the masked row is the softmax of its scores."""
    found = outcomes(SCORES, MASK, "-1e9", "added", DOUBLE)

    assert empty_row(found).allclose(SCORES[0].double().softmax(-1), atol=1e-6)


def test_scores_that_are_partly_swallowed_are_rounded():
    """Beside -1e9 float32 counts in steps of 64."""
    scores = torch.tensor([[40.0, 60.0, -20.0, 0.0, 10.0]])
    found = outcomes(scores, MASK[:1], "-1e9", "added", SINGLE)

    assert found.empty == "rounds the scores"
    assert (found.scores[0] + 1e9).tolist() == [64, 64, 0, 0, 0]
    assert found.weights[0].tolist() == pytest.approx([0.5, 0.5, 0, 0, 0])


def test_scores_below_the_fill_lose_to_what_is_masked():
    """A fill that is not the lowest number can be the largest of a row."""
    found = outcomes(torch.tensor([[-2e9, 0.0]]), torch.tensor([[True, False]]), "-1e9", "replaced", SINGLE)

    assert found.with_keys == "wrong"
    assert found.weights.tolist() == [[0, 1]]


def test_scores_that_overflow_float16_are_nan():
    """Beyond 65,504 a score is inf, and inf - inf is NaN."""
    found = outcomes(SCORES * 1e5, MASK, "-inf", "replaced", HALF)

    assert found.with_keys == "NaN"


def test_the_table_holds_every_combination_once():
    """3 fills, 3 ways, 4 types."""
    found = table(SCORES, MASK)

    assert len({(each.fill, each.how, each.dtype) for each in found}) == len(found) == 36


@examples(15)
@given(data=st.data())
def test_a_row_that_is_called_right_is_a_distribution_over_its_keys(data):
    """And one that is called NaN, uniform or zeros is that: for any mask."""
    cells = data.draw(st.lists(st.booleans(), min_size=Q * K, max_size=Q * K))
    mask = torch.tensor(cells).reshape(Q, K)
    scores = SCORES * data.draw(st.floats(0.01, 8))
    for found in table(scores, mask):
        if found.weights is None:
            continue
        left, near = mask.any(-1), 8 * torch.finfo(found.dtype).eps
        kept, empty = found.weights[left].double(), found.weights[~left].double()

        assert (found.with_keys == "", found.empty == "") == (not left.any(), bool(left.all()))
        if found.with_keys == "right":
            assert kept.sum(-1).allclose(torch.ones(len(kept)).double(), atol=near)
            assert kept[~mask[left]].eq(0).all()
        else:
            assert kept.isnan().any(-1).any() or not len(kept)
        if found.empty in ("swallows the scores", "uniform over masked keys"):
            assert empty.allclose(torch.full_like(empty, 1 / K), atol=near)
        if found.empty == "NaN":
            assert empty.isnan().all()


def test_the_four_policies_side_by_side():
    """Zeros, NaN, uniform weights and an error, each by its word and its numbers."""
    query, key, value = (torch.randn(1, 2, n, 4) for n in (Q, K, K))
    zero, nan, uniform, error = policies(query, key, value, MASK)

    assert [each.empty for each in (zero, nan, uniform, error)] == [
        "zeros",
        "NaN",
        "uniform over masked keys",
        "raises",
    ]
    assert zero.output[:, :, 0].eq(0).all()
    assert nan.output[:, :, 0].isnan().all()
    assert uniform.output[:, :, 0].allclose(value.mean(2))
    assert zero.weights[:, :, 1:].equal(uniform.weights[:, :, 1:])
    assert error.weights is None
    assert "no key left" in error.error
    assert [each.empty for each in policies(query, key, value, Full())] == [""] * 4
    assert [each.empty for each in policies(query, key, value, None)] == [""] * 4


@given(lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4).map(tuple))
@examples(15)
def test_one_nan_row_makes_its_whole_sentence_nan_in_the_next_layer(lengths):
    """Behind the first layer the padding is NaN, behind the second all of a padded sentence; a full one never."""
    n = max(lengths)
    found = spread(left_padded_causal(lengths), n)
    padding = torch.tensor([[position < n - length for position in range(n)] for length in lengths])

    assert found.empty.equal(padding)
    assert found.layers[0].equal(padding)
    for layer in found.layers[1:]:
        assert layer.equal(padding.any(-1, keepdim=True).expand(-1, n))


@pytest.mark.parametrize("policy", ["zero", "uniform"])
def test_no_nan_spreads_where_empty_rows_are_numbers(policy):
    """And none without empty rows, whatever they would get."""
    assert not any(layer.any() for layer in spread(left_padded_causal((2, 5)), 5, empty_rows=policy).layers)
    assert not any(layer.any() for layer in spread(Subsequent() & Padding((2, 5)), 5).layers)


def test_the_spread_in_a_sentence_and_without_a_trace():
    """Counts per layer; the numbers that others draw stay as they were."""
    state = torch.random.get_rng_state()
    found = spread(left_padded_causal((3, 5)), 5, layers=2)

    assert found.says == (
        "2 of 10 rows have no key left. If the softmax makes NaN of that, 2 rows are NaN after layer 0, "
        "5 after layer 1."
    )
    assert torch.random.get_rng_state().equal(state)
    with pytest.raises(EmptyRowError):
        spread(left_padded_causal((3, 5)), 5, empty_rows="error")


def test_what_does_not_fit_is_refused():
    """By name and by shape."""
    with pytest.raises(AttnvizError, match=r"no fill '-1e4'; there are: -inf, -1e9, finfo\.min"):
        outcomes(SCORES, MASK, "-1e4", "replaced", SINGLE)
    with pytest.raises(AttnvizError, match="no way 'times'"):
        outcomes(SCORES, MASK, "-inf", "times", SINGLE)
    with pytest.raises(AttnvizError, match=r"no type torch\.int64"):
        outcomes(SCORES, MASK, "-inf", "added", torch.int64)
    with pytest.raises(MaskError, match="The mask is boolean"):
        outcomes(SCORES, MASK.float(), "-inf", "added", SINGLE)
    with pytest.raises(ShapeError, match=r"\(5, 3\) and \(3, 5\)"):
        outcomes(SCORES, MASK.T, "-inf", "added", SINGLE)
