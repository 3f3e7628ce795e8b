"""All heads at a glance."""

import base64
import io

import numpy as np
from pictures import SITE, color_legend, data, draw, heads, record_of
from PIL import Image

from attnviz.core.edits import Edits
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
