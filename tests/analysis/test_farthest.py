"""The heads that look least like one, and the divergence by which they are ordered."""

import numpy as np
import pytest

from attnviz import api
from attnviz.analysis.heads import farthest, jensen_shannon


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
