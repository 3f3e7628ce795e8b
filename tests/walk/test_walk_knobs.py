"""Exhibits: a mask that comes late, masks that are added, dropout; and how spread out rows are."""

import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from test_walk_rows import D_K, SITE, Q, record_of
from torch.testing import assert_close

from attnviz import walk
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.core.masks import Painted, Subsequent

EMPTY_FIRST = Subsequent() & Painted(((0, 0),))
"""Query 0 has no key left."""


def test_the_defaults_change_nothing():
    step = record_of(0, edits=Edits(mask=EMPTY_FIRST, temperature=0.5)).steps[0]

    shown = walk.exhibit(step, 1, walk.Knobs())

    assert shown.after.equal(step.weights(1))
    assert shown.outputs_after.equal(step.output(1))
    assert (shown.message, walk.Knobs().in_words) == ("Nothing is changed.", ())


@given(seed=st.integers(0, 99), temperature=st.floats(0.2, 5))
def test_a_mask_after_the_softmax_loses_weight(seed, temperature):
    """What masked keys had is gone: each row sums to the share that open keys had without a mask."""
    edits = Edits(mask=Subsequent(), temperature=temperature)
    step = record_of(seed, edits=edits).steps[0]

    shown = walk.exhibit(step, 1, walk.Knobs(mask_after_softmax=True))

    open = step.may_attend(1)
    expected = step.scores(1).double().softmax(-1) * open
    assert_close(shown.after.double(), expected, rtol=1e-5, atol=1e-6)
    assert_close(shown.sums_after, expected.sum(-1), rtol=1e-5, atol=1e-6)
    assert (shown.sums_after < 1 + 1e-6).all()
    assert_close(shown.sums_before, torch.ones(Q, dtype=torch.float64), rtol=0, atol=1e-6)  # of float32 weights
    assert_close(shown.after / shown.after.sum(-1, keepdim=True), shown.before, rtol=1e-4, atol=1e-6)
    wrong = int((shown.sums_after < 1 - 1e-4).sum())
    assert f": {wrong} of {Q} rows do not sum to 1, they sum to between " in shown.message


def test_a_mask_that_is_added_leaves_an_empty_row_on_masked_keys():
    """-1e9 swallows its scores, so they are alike; other rows are as with -inf."""
    step = record_of(0, edits=Edits(mask=EMPTY_FIRST)).steps[0]

    shown = walk.exhibit(step, 1, walk.Knobs(masking="add"))

    assert shown.before[0].eq(0).all()
    assert_close(shown.after[0], torch.full((7,), 1 / 7))
    assert_close(shown.after[1:], shown.before[1:])
    assert "every row sums to 1. A weight moved by up to 0.1429" in shown.message


@given(p=st.sampled_from([0.1, 0.5, 0.9]), seed=st.integers(0, 2**31 - 1))
@example(p=0.5, seed=2**31 - 1)
def test_dropout_zeroes_some_and_raises_the_others(p, seed):
    """Each weight is 0 or divided by 1 - p; the same seed drops the same; a window drops what the whole drops."""
    weights = torch.rand(40, 30, generator=torch.Generator().manual_seed(0)).softmax(-1)

    dropped = walk.dropped(weights, p, seed, head=2)

    kept = dropped != 0
    assert_close(dropped[kept], (weights / (1 - p))[kept])
    assert walk.dropped(weights, p, seed, head=2).equal(dropped)
    assert walk.dropped(weights[7:9], p, seed, head=2, first=7).equal(dropped[7:9])
    assert not walk.dropped(weights, p, seed, head=3).equal(dropped)
    assert abs(float(kept.double().mean()) - (1 - p)) < 5 * math.sqrt(p * (1 - p) / 1200)


def test_a_row_of_nan_does_not_hide_what_is_said_of_the_others():
    """One of five rows has no key left and is NaN; the sums and sizes that are said are those of the other four."""
    record = record_of(3, edits=Edits(mask=Painted(tuple((2, key) for key in range(7))), empty_rows="nan"))
    step, knobs = record.step(SITE), walk.Knobs(dropout_p=0.5, dropout_seed=4)
    found = walk.exhibit(step, 1, knobs)
    sums = found.sums_after[found.sums_after.isfinite()]
    moved = (found.after - found.before).abs().nan_to_num().max()
    stages = {stage.key: stage.changed for stage in walk.chain(record, None, SITE, 1, knobs=knobs)}
    between = f"between {sums.min():.4g} and {sums.max():.4g}"

    assert f"they sum to {between}, 1 of them to NaN. A weight moved by up to {moved:.4g}." in found.message
    assert f"rows sum to {between}." in stages["dropout"]
    assert f"the largest is {step.weights(1).nan_to_num().max():.4g}. 1 row(s)" in stages["softmax"]


def test_dropout_leaves_the_mean_as_it_is():
    """Over many seeds a weight is on average what it was, within the error of the mean; row sums too."""
    weights, p, seeds = torch.rand(3, 11, generator=torch.Generator().manual_seed(0)).softmax(-1).double(), 0.3, 2000

    mean = torch.stack([walk.dropped(weights, p, seed) for seed in range(seeds)]).mean(0)

    error = weights * math.sqrt(p / (1 - p) / seeds)
    assert ((mean - weights).abs() < 5 * error).all()
    assert_close(mean.sum(-1), torch.ones(3, dtype=torch.float64), rtol=0, atol=5 * float(error.norm(dim=-1).max()))


@given(row=st.lists(st.floats(-8, 8), min_size=1, max_size=9), factor=st.sampled_from([0.1, 1.0, 4.0]))
def test_the_gradient_size_is_that_of_autograd(row, factor):
    """The Frobenius norm of the Jacobian of the softmax."""
    scores = torch.tensor(row, dtype=torch.float64) * factor

    jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(-1), scores)

    expected = float(jacobian.norm())
    assert float(walk.gradient_size(scores.softmax(-1))) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_the_gradient_size_at_its_ends():
    """0 for a single key, and where one has all; 1/2 where two share; exact also where it is tiny; NaN stays NaN."""
    size = walk.gradient_size

    assert size(torch.tensor([1.0])) == size(torch.tensor([0.0, 1.0, 0.0])) == size(torch.zeros(3)) == 0
    assert float(size(torch.tensor([0.5, 0.5, 0.0]))) == pytest.approx(0.5)
    tiny = torch.tensor([1e-20, 1.0], dtype=torch.float64)
    assert float(size(tiny)) == pytest.approx(2e-20, abs=0)
    assert math.isnan(size(torch.tensor([math.nan, 0.5])))


@given(keys=st.integers(1, 50))
def test_measures_of_uniform_and_of_certain_rows(keys):
    """Entropy log K and largest 1/K; entropy 0 and largest 1."""
    uniform, certain = walk.measures(torch.full((keys,), 1 / keys)), walk.measures(torch.eye(keys)[0])

    assert uniform.entropy == pytest.approx(math.log(keys), abs=1e-6)
    assert uniform.largest == pytest.approx(1 / keys)
    assert (certain.entropy, certain.largest, certain.gradient, certain.row_sum) == (0, 1, 0, 1)
    assert walk.measures(torch.tensor([1.000004, 0.0])).entropy == 0


def test_without_the_scale_rows_are_sharper():
    """The temperature √d_k undoes leaving out the scale; without it entropy and gradient fall."""
    before = record_of(0, size=2.0)
    after, undone = (record_of(0, size=2.0, edits=Edits(scale=1.0, temperature=t)) for t in (1.0, math.sqrt(D_K)))

    compared = walk.compare(before, after, SITE, 1, 2)

    assert compared.after.entropy < compared.before.entropy
    assert compared.after.gradient < compared.before.gradient
    assert compared.after.largest > compared.before.largest
    same = walk.compare(before, undone, SITE, 1, 2)
    assert same.after.entropy == pytest.approx(same.before.entropy, rel=1e-5)
    assert compared.message.startswith(f"Entropy (nats) {compared.before.entropy:.4g} → {compared.after.entropy:.4g}, ")


@pytest.mark.parametrize(
    "wrong",
    [{"masking": "multiply"}, {"dropout_p": 1.0}, {"dropout_p": -0.1}, {"dropout_p": True}, {"dropout_seed": -1}],
)
def test_knobs_that_cannot_be_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong)) if "dropout" in next(iter(wrong)) else "Masking"):
        walk.Knobs(**wrong)
