"""All heads at a glance."""

import base64
import io
from dataclasses import replace

import numpy as np
import pytest
from pictures import SITE, data, draw, heads, heatmap, record_of, without_data
from PIL import Image

from attnviz import figures
from attnviz.charts.frame import text_width
from attnviz.charts.picture import LOADED
from attnviz.charts.theme import LINE, TITLE_CHARACTER, WORD_CHARACTER
from attnviz.core.edits import Edits
from attnviz.core.masks import Subsequent, Window
from attnviz.figures.heads import GAP, WIDTH, columns_of, corners

WORDS = ["The", "cat", "sat"]


def image(row):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(row["uri"].split(",")[1]))).convert("RGB")).astype(int)


def test_there_is_a_thumbnail_per_head_with_its_largest_weight():
    record = record_of(WORDS, heads=5)

    rows = data(heads(record, SITE), "heads")

    assert [row["head"] for row in rows] == [0, 1, 2, 3, 4]
    assert rows[2]["largest"] == f"{float(record.step(SITE).weights(2).max()):.4f}"


@pytest.mark.parametrize(("count", "columns"), [(1, 1), (4, 2), (5, 3), (9, 3), (12, 4), (64, 4)])
def test_a_mosaic_is_as_wide_as_a_phone(count, columns):
    rows = data(heads(record_of(WORDS, heads=count), SITE), "heads")
    side = image(rows[0]).shape[1]

    assert columns_of(count) == columns
    assert max(row["x"] for row in rows) + side <= WIDTH
    assert len({row["x"] for row in rows}) == min(columns, count)


def test_a_head_that_is_off_is_gray_struck_through_and_says_so():
    rows = heads(record_of(WORDS, edits=Edits(heads_off=frozenset({(SITE, 1)}))), SITE)
    on, off = data(rows, "heads")

    assert np.ptp(image(off), axis=2).max() == 0
    assert np.ptp(image(on), axis=2).max() > 0
    assert "head 1 · off" in [row["text"] for row in data(rows, "words")]
    assert len(data(rows, "signs")) == 1


@pytest.mark.parametrize(("off", "colored"), [({0}, True), ({0, 1}, False)])
def test_the_legend_is_gray_once_every_head_is_off(off, colored):
    drawn = heads(record_of(WORDS, edits=Edits(heads_off=frozenset((SITE, head) for head in off))), SITE)

    (ramp,) = [image(row) for row in data(drawn, "images") if row["uri"]]
    assert (np.ptp(ramp, axis=2).max() > 0) == colored


def test_the_focused_head_is_framed():
    assert [box["width"] for box in data(heads(record_of(WORDS), SITE, focused=1), "boxes")].count(2.5) == 1


def test_the_specification_stays_while_heads_are_switched_and_focused():
    one = heads(record_of(WORDS), SITE)
    edits = Edits(mask=Subsequent(), heads_off=frozenset({(SITE, 0)}))
    other = heads(record_of(WORDS, edits=edits), SITE, focused=1, rev=2, domain="shared")

    assert without_data(one) == without_data(other)
    assert one.to_dict()["params"][0]["select"]["fields"] == ["kind", "layer", "head", "rev"]


def test_many_long_heads_are_pooled_and_drawn():
    """Nothing is lost between two pixels: the largest weight of a tile stays visible."""
    record = record_of(["w"] * 300, heads=12, scores={(3, 211, 17): 50.0})

    chart = heads(record, SITE)

    assert data(chart, "heads")[3]["largest"] == "1.0000"
    darkest = image(data(chart, "heads")[3]).sum(2).min()
    assert darkest == image(data(heads(record_of(["w"]), SITE), "heads")[0]).sum(2).min()
    assert draw(chart.to_dict(), heads(record, SITE, dark=True).to_dict())[0].std() > 5


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_heads_are_thumbnails_still(count):
    assert image(data(heads(record_of(WORDS, heads=count), SITE), "heads")[0]).shape[1] == 150


def test_each_thumbnail_of_a_long_text_ends_at_its_own_largest_weight():
    """It is its large map in small: an even head beside a sharp one is seen, and the legend says that scales differ."""
    record = record_of([f"w{i}" for i in range(41)], heads=3)
    adapts, fixed = (heads(record, SITE, domain=domain) for domain in ("adapts", "fixed"))

    def darkest(chart):
        return [image(row).sum(2).min() for row in data(chart, "heads")]

    assert len(set(darkest(adapts))) == 1
    assert len(set(darkest(fixed))) == 3
    assert "weight; colors of each head end at its own largest" in {row["text"] for row in data(adapts, "words")}


def test_thumbnails_and_their_legend_have_the_domain_of_the_large_map():
    record = record_of(WORDS)
    drawn = {domain: heads(record, SITE, domain=domain) for domain in ("fixed", "shared", "log")}

    assert len({data(chart, "heads")[0]["uri"] for chart in drawn.values()}) == 3
    for domain, chart in drawn.items():
        large = heatmap(record, SITE, 0, domain=domain)
        assert [row["text"] for row in data(chart, "ticks")] == [row["text"] for row in data(large, "ticks")]
        assert {row["text"] for row in data(large, "words")} & {
            row["text"] for row in data(chart, "words") if row["text"].startswith("weight")
        }


def test_buttons_stand_below_what_is_said_above_the_thumbnails():
    """As far as the lines of text are high."""
    plain = record_of(["a", "b"], heads=4)
    record = replace(plain, read_only=True)
    words = figures.heads(record, SITE).drawn_for_screen()[0]["datasets"]["words"]["y"]

    above = LINE / 2 - min(words)
    assert above > LINE
    assert corners(record, SITE) == [(x, y + above) for x, y in corners(plain, SITE)]


@pytest.mark.parametrize("count", [3, 14, 40])
def test_beside_thumbnails_the_legend_of_a_map_stands_right_of_its_title(count):
    """Over the map, where it meets no word; in a file it stands under the map."""
    record = record_of([f"w{i}" for i in range(count)], edits=Edits(mask=Subsequent()))
    figure = figures.head(record, SITE, 0, paired=True)
    around = figure.draw(replace(figure.style, on_screen=True)).frame
    (ramp,) = around.images
    widths = {"titles": TITLE_CHARACTER, "words": WORD_CHARACTER}
    left = [(word, wide) for kind, wide in widths.items() for word in getattr(around, kind) if word["x"] < ramp["x"]]

    assert ramp["y"] < max(word["y"] for word in around.words if word["text"] == "blocked by causal mask") < 0
    assert all(word["x"] + text_width(word["text"], wide) < ramp["x"] for word, wide in left if word["y"] < 0)
    assert figure.draw(figure.style).frame.images[0]["y"] > 0


def test_a_legend_of_long_words_pushes_no_title_down():
    """Its ramp stays there, and its reasons stand under the map."""
    record = record_of([f"w{i}" for i in range(14)], edits=Edits(mask=Subsequent() & Window(2)))
    figure = figures.head(record, SITE, 0, paired=True)
    around = figure.draw(replace(figure.style, on_screen=True)).frame
    (ramp,) = around.images

    assert ramp["y"] < 0 < min(word["y"] for word in around.words if word["text"].startswith("blocked by"))
    assert min(word["y"] for word in around.titles) - LINE - ramp["y"] < 2 * LINE


def test_thumbnails_have_no_legend_where_one_beside_them_explains_their_colors():
    """Heads whose colors end elsewhere keep one of their own."""
    sharp, faint = record_of(WORDS, edits=Edits(mask=Subsequent())), record_of(list("ab" * 30), heads=3)
    drawn = [figures.heads(record, SITE, paired=True, explained=True) for record in (sharp, faint)]

    legends = [len(one.draw(replace(one.style, on_screen=True)).tables["images"]["uri"]) for one in drawn]

    assert legends == [0, 1]


def test_the_screen_alone_takes_images_for_loaded():
    """A file may be drawn on a canvas, which needs more of an image than its address."""
    figure = figures.heads(record_of(WORDS), SITE)

    assert figure.screen["config"]["image"] == {"image": {"signal": LOADED}}
    assert "complete: true" not in figure.chart.to_json()


@pytest.mark.parametrize(("count", "label"), [(32, "10"), (9, "head 8")])
def test_the_number_of_a_head_has_room_beside_its_button(count, label):
    """A button of a page is 24 pixels wide and stands at the right end of the label's line."""
    record = record_of(list("abc"), heads=count)
    side = data(heads(record, SITE), "heads")[1]["x"] - GAP

    assert label in [row["text"] for row in data(heads(record, SITE), "words")]
    assert text_width(label) < side - 24
