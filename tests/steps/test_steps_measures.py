"""Spread of rows of weights, and growth with d_k."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz.analysis import steps
from attnviz.core.errors import InputError


@given(row=st.lists(st.floats(-8, 8), min_size=1, max_size=9), factor=st.sampled_from([0.1, 1.0, 4.0]))
def test_the_gradient_size_is_that_of_autograd(row, factor):
    """The Frobenius norm of the Jacobian of the softmax."""
    scores = torch.tensor(row, dtype=torch.float64) * factor

    jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(-1), scores)

    expected = float(jacobian.norm())
    assert steps.measures(scores.softmax(-1)).gradient == pytest.approx(expected, rel=1e-9, abs=1e-15)


@given(keys=st.integers(1, 50))
def test_measures_of_uniform_and_of_certain_rows(keys):
    """Entropy log K and largest 1/K; entropy 0 and largest 1."""
    uniform, certain = steps.measures(torch.full((keys,), 1 / keys)), steps.measures(torch.eye(keys)[0])

    assert uniform.entropy == pytest.approx(math.log(keys), abs=1e-6)
    assert uniform.largest == pytest.approx(1 / keys)
    assert certain == steps.Measures(entropy=0, largest=1, gradient=0)
    assert steps.measures(torch.tensor([1.000004, 0.0])).entropy == 0
    assert math.isnan(steps.measures(torch.tensor([math.nan, 1.0])).entropy)


def test_without_the_scale_the_softmax_saturates_as_d_k_grows():
    """The largest weight rises, entropy and gradient fall; with the scale they stay; each d_k has its own numbers."""
    spreads = steps.dot_product_variance([4, 16, 64, 256])

    for name, falls in (("largest", False), ("entropy", True), ("gradient", True)):
        unscaled = [getattr(spread.unscaled, name) for spread in spreads]
        assert sorted(unscaled, reverse=falls) == unscaled
        scaled = [getattr(spread.scaled, name) for spread in spreads]
        assert max(scaled) - min(scaled) < 0.1 * max(scaled)
    assert steps.dot_product_variance([16])[0] == spreads[1]
    for d_k in (0, 1025):
        with pytest.raises(InputError, match=f"d_k \\({d_k}\\) is {d_k}"):
            steps.dot_product_variance([d_k])
