"""Spread of rows, growth with d_k, and the comparison with PyTorch."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_steps_row import SITE
from torch import nn

from attnviz import api
from attnviz.analysis import steps
from attnviz.analysis.steps.row import gradient_size
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Subsequent
from attnviz.core.scoring import ALiBi
from attnviz.sources.scratch import Scratch

TEXT = "the cat sat on the mat"
SMALL = Scratch(d_model=12, num_heads=3, num_layers=2)


def run(source, text=TEXT, edits=Edits()):
    return source.run(source.tokenize([text]), edits)


@given(row=st.lists(st.floats(-8, 8), min_size=1, max_size=9), factor=st.sampled_from([0.1, 1.0, 4.0]))
def test_the_gradient_size_is_that_of_autograd(row, factor):
    """The Frobenius norm of the Jacobian of the softmax."""
    scores = torch.tensor(row, dtype=torch.float64) * factor

    jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(-1), scores)

    expected = float(jacobian.norm())
    assert float(gradient_size(scores.softmax(-1))) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@given(keys=st.integers(1, 50))
def test_measures_of_uniform_and_of_certain_rows(keys):
    """Entropy log K and largest 1/K; entropy 0 and largest 1."""
    uniform, certain = steps.measures(torch.full((keys,), 1 / keys)), steps.measures(torch.eye(keys)[0])

    assert uniform.entropy == pytest.approx(math.log(keys), abs=1e-6)
    assert uniform.largest == pytest.approx(1 / keys)
    assert certain == steps.Measures(entropy=0, largest=1, gradient=0)
    assert steps.measures(torch.tensor([1.000004, 0.0])).entropy == 0
    assert math.isnan(steps.measures(torch.tensor([math.nan, 1.0])).entropy)


def test_the_variance_of_a_dot_product_is_its_dimension():
    """Within five standard errors: of N products, and of n queries that share them."""
    samples, keys = 500, 16

    for spread in steps.dot_product_variance([1, 2, 16, 100, 128, 1024]):
        d = spread.d_k
        error = math.sqrt((2 * d**2 + 6 * d) / (samples * keys) + 2 * d / samples)
        assert abs(spread.variance - d) < 5 * error
        assert spread.scaled_variance == pytest.approx(spread.variance / d)


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


# PyTorch beside ours


def modules(origin, heads):
    """PyTorch's module with the projections of a layer."""
    width, inputs = origin.query_input.shape[-1], (origin.w_q, origin.w_k, origin.w_v)
    module = nn.MultiheadAttention(width, heads, bias=origin.w_q.bias is not None, batch_first=True).eval()
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([linear.weight for linear in inputs]))
        module.out_proj.weight.copy_(origin.w_o.weight)
        if module.in_proj_bias is not None:
            module.in_proj_bias.copy_(torch.cat([linear.bias for linear in inputs]))
            module.out_proj.bias.copy_(origin.w_o.bias)
    return module


@pytest.mark.parametrize("edits", [Edits(), Edits(mask=Subsequent()), Edits(mask=Subsequent(), bias=(ALiBi(),))])
@pytest.mark.parametrize(
    ("source", "site"),
    [(SMALL, SITE), (Scratch(bias=False), SITE), (api.load("translator"), Site("cross", 1))],
    ids=["scratch", "scratch without biases", "translator"],
)
def test_pytorch_gives_the_same(source, site, edits):
    """Its module, with the weights copied, gives the last stage and the weights."""
    record = run(source, edits=edits)
    step, origin = record.step(site), source.origin(record, site)

    heads, unqueried = range(step.num_heads), replace(step, query=torch.zeros_like(step.query))
    added = torch.stack([unqueried.scores(head) for head in heads])  # the bias alone
    mask = added.masked_fill(~torch.stack([step.may_attend(head) for head in heads]), -math.inf)
    with torch.no_grad():
        given = origin.query_input, origin.key_input, origin.key_input
        module = modules(origin, step.num_heads)
        theirs, shares = module(*given, attn_mask=mask, average_attn_weights=False)
    for head in heads:
        stages = {stage.key: stage for stage in steps.chain(record, source, site, head)}
        assert (stages["output"].matrix("y").values - theirs[0]).abs().max() < 5e-6
        assert (stages["softmax"].matrix("weights").values - shares[0, head]).abs().max() < 2e-6
