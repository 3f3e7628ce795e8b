"""All heads at a glance: of an attention call, and of a model."""

import base64
import io

import numpy as np
import pytest
from pictures import SITE, color_legend, data, draw, heads, overview, record_of
from PIL import Image

from attnviz import api
from attnviz.core.edits import Edits, Site
from attnviz.figures.heads import OWN

WORDS = ["The", "cat", "sat"]


def image(row):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(row["uri"].split(",")[1]))).convert("RGB")).astype(int)


def test_there_is_a_thumbnail_per_head_with_its_largest_weight():
    record = record_of(WORDS, heads=5)

    rows = data(heads(record, SITE), "heads")

    assert [row["head"] for row in rows] == [0, 1, 2, 3, 4]
    assert rows[2]["largest"] == f"{float(record.step(SITE).weights(2).max()):.4f}"


def test_a_head_that_is_off_is_gray_struck_through_and_says_so():
    rows = heads(record_of(WORDS, edits=Edits(heads_off=frozenset({(SITE, 1)}))), SITE)
    on, off = data(rows, "heads")

    assert np.ptp(image(off), axis=2).max() == 0
    assert np.ptp(image(on), axis=2).max() > 0
    assert [(row["label"], row["off"]) for row in data(rows, "heads")] == [("head 0", False), ("head 1 · off", True)]
    assert off["state"] == "off: its output is zero"


def test_many_long_heads_are_pooled_and_drawn():
    """Nothing is lost between two pixels: the largest weight of a tile stays visible."""
    record = record_of(["w"] * 300, heads=12, scores={(3, 211, 17): 50.0})

    chart = heads(record, SITE)

    assert data(chart, "heads")[3]["largest"] == "1.0000"
    darkest = image(data(chart, "heads")[3]).sum(2).min()
    assert darkest == image(data(heads(record_of(["w"]), SITE), "heads")[0]).sum(2).min()
    assert draw(chart.to_dict(), heads(record, SITE, dark=True).to_dict())[0].std() > 5


def test_each_thumbnail_of_a_long_text_ends_at_its_own_largest_weight():
    """It is its large map in small: an even head beside a sharp one is seen, and the legend says that scales differ."""
    record = record_of([f"w{i}" for i in range(41)], heads=3)
    adapts, fixed = (heads(record, SITE, domain=domain) for domain in ("adapts", "fixed"))

    def darkest(chart):
        return [image(row).sum(2).min() for row in data(chart, "heads")]

    assert len(set(darkest(adapts))) == 1
    assert len(set(darkest(fixed))) == 3
    assert color_legend(adapts)["legend"]["title"] == OWN


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
