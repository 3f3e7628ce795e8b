"""Every head of a model, and heads by their numbers."""

import pytest
from pictures import data, overview

from attnviz import api
from attnviz.core.edits import Edits, Site


@pytest.fixture(scope="module")
def record():
    return api.analyze("the cat sleeps", "translator", Edits().with_heads_off(Site("cross", 1), {3}))


def test_every_head_of_every_site_has_its_place(record):
    """No two at the same; the sites in the order of the record, each with all its heads in one row."""
    rows = data(overview(record), "heads")

    heads = [(row["kind"], row["layer"], row["head"]) for row in rows]
    kinds = ["encoder", "decoder", "cross"]
    assert sorted(heads) == sorted((s.site.kind, s.site.layer, h) for s in record.steps for h in range(s.num_heads))
    assert [kind for kind, _, _ in heads] == sorted((kind for kind, _, _ in heads), key=kinds.index)
    assert len({(row["x"], row["y"]) for row in rows}) == len(rows)
    for site in record.sites:
        assert len({row["y"] for row in rows if (row["kind"], row["layer"]) == (site.kind, site.layer)}) == 1


def test_an_order_and_what_is_said_of_each_head_are_kept(record):
    """Heads that are not in it are not drawn."""
    order = [(Site("cross", 1), 3), (Site("encoder", 0), 2), (Site("decoder", 1), 0)]
    chart = overview(record, order=order, captions=["0.9", "0.8", "–"], by="entropy (nats)")

    rows = data(chart, "heads")
    assert [(Site(row["kind"], row["layer"]), row["head"]) for row in rows] == order
    assert "number: entropy (nats)" in data(chart, "meta")[0]["subtitle"]
    assert [row["label"] for row in rows] == ["cross 1.3\n0.9", "encoder 0.2\n0.8", "decoder 1.0\n–"]
