"""The heads that look least like one, and the divergence by which they are ordered."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from pictures import SITE, record_of

from attnviz import api
from attnviz.analysis.heads import farthest, jensen_shannon
from attnviz.core.errors import InputError, ShapeError


def test_divergence_by_hand():
    """(1, 0) and (0, 1) are as far apart as can be; (1, 0) and (½, ½) as computed on paper."""
    one, other, even = torch.tensor([[1.0, 0], [0, 1], [0.5, 0.5]]).double()

    assert jensen_shannon(one, other) == pytest.approx(math.log(2))
    paper = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25)) - math.log(2) / 2
    assert jensen_shannon(one, even) == pytest.approx(paper)
    with pytest.raises(ShapeError, match=r"\(2,\) and \(3,\)"):
        jensen_shannon(one, torch.zeros(3))


@pytest.mark.parametrize(("model", "kind"), [("constructed", "decoder"), ("translator", "cross")])
def test_the_farthest_heads_are_those_of_whole_maps(model, kind, monkeypatch):
    """The mean Jensen-Shannon divergence of the rows, in blocks or not; the farthest first, never the head itself."""
    record = api.analyze("the black cat sleeps", model)
    heads = {
        (s.site, i): s.weights(i).double() for s in record.steps if s.site.kind == kind for i in range(s.num_heads)
    }
    for (site, head), weights in heads.items():
        others = farthest(record, site, head, count=len(heads))

        assert {(place, number) for place, number, _ in others} == {*heads} - {(site, head)}
        values = [value for _, _, value in others]
        means = [float(jensen_shannon(weights, heads[place, number]).mean()) for place, number, _ in others]
        np.testing.assert_allclose(values, means, atol=1e-7)
        assert values == sorted(values, reverse=True)
        assert farthest(record, site, head) == others[:3]
        with monkeypatch.context() as patch:
            patch.setattr("attnviz.analysis.blocks.BLOCK", 45)
            np.testing.assert_allclose([v for _, _, v in farthest(record, site, head, count=len(heads))], values)


def test_rows_that_one_head_has_not_are_in_no_mean():
    """A head without any row is not among the farthest; one that lacks a row is compared over the others."""
    record = record_of(["a", "b"], heads=3)
    step = record.steps[0]
    nothing = step.logsumexp.clone()
    nothing[0, 1] = -math.inf
    record = replace(record, steps=(replace(step, logsumexp=nothing),))

    assert [head for _, head, _ in farthest(record, SITE, 0)] == [2]
    assert farthest(record, SITE, 1) == []
    assert farthest(record_of(["a", "b"], heads=1), SITE, 0) == []
    with pytest.raises(InputError, match="not among"):
        farthest(record, SITE, 3)

    record = record_of(["a", "b", "c"], heads=2)
    step = record.steps[0]
    nothing = step.logsumexp.clone()
    nothing[0, 1, 2] = -math.inf
    record = replace(record, steps=(replace(step, logsumexp=nothing),))
    every = jensen_shannon(*(step.weights(head).double() for head in range(2)))
    ((_, _, divergence),) = farthest(record, SITE, 0)
    assert divergence == pytest.approx(float(every[:2].mean()), abs=1e-7)
