"""Captures of models, and the same computed by hand in float64."""

import pytest
import torch
from handmade import Own
from torch import Tensor, nn
from torch.testing import assert_close

import attnviz
from attnviz import AttnvizError, Edits


def seen_in(*run, heads: int | None = None, edits: Edits = Edits(), **options):
    """Capture a model or function; unedited, its outputs and gradients are its own, bit for bit."""
    model, *given = run
    model = model if isinstance(model, nn.Module) else Own(model)
    state = torch.get_rng_state()
    with attnviz.capture(model, edits, heads=heads) as seen:
        output = model(*given, **options)
    if edits == Edits():
        torch.set_rng_state(state)
        both = [each if isinstance(each, tuple) else (each,) for each in (output, model(*given, **options))]
        for pair in zip(*both, strict=True):
            assert torch.equal(*pair) if isinstance(pair[0], Tensor) else pair[0] == pair[1]
        ours, theirs = (gradients(model, given, output) for output, *_ in both)
        assert len(ours) == len(theirs)
        assert all(map(torch.equal, ours, theirs))
    return seen


def gradients(model: nn.Module, given: list, output: Tensor) -> list[Tensor]:
    """Gradients of the parameters and of the inputs of a model."""
    leaves = [x for x in (*model.parameters(), *given) if isinstance(x, Tensor) and x.requires_grad]
    for leaf in leaves:
        leaf.grad = None
    if output.requires_grad:
        output.square().sum().backward()
    return [leaf.grad for leaf in leaves if leaf.grad is not None]


def step_in(function, *given, **parts):
    """Capture a function that returns an output and weights; return its only step, whose map equals these weights."""
    state = torch.get_rng_state()
    seen = seen_in(Own(function, **parts), *given)
    torch.set_rng_state(state)
    (step,), (_, used) = seen.steps, function(*given)
    assert_close(shown(step), used.reshape(step.shape).detach(), atol=2e-6, rtol=1e-5, check_dtype=False)
    return step


def refusal(*run, **options) -> str:
    """Return the sentence that says why a run has no record."""
    with pytest.raises(AttnvizError) as error:
        seen_in(*run, **options).record()
    return str(error.value)


def weights(query: Tensor, key: Tensor, mask: Tensor | None = None, scale: float | None = None, bias=0.0) -> Tensor:
    """softmax(q kᵀ · scale + bias) in float64, True = may attend; empty rows are zero."""
    query, key = query.detach().double(), key.detach().double()
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale) + bias
    return (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1).nan_to_num(0)


def every(step, part) -> Tensor:
    """A part of a step, `step.weights` or `step.output`, of all sentences and heads, (B, H, Q, ...)."""
    batch, heads = step.shape[:2]
    return torch.stack([torch.stack([part(h, sentence=b) for h in range(heads)]) for b in range(batch)])


def shown(step) -> Tensor:
    """The weights of a step, (B, H, Q, K)."""
    return every(step, step.weights)
