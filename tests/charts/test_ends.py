"""What stands at the ends of a map's rows."""

import math
from dataclasses import replace

import pytest
import torch
from examples import some
from pictures import (
    CROSS,
    HOSTILE,
    SITE,
    data,
    draw,
    heads,
    heatmap,
    mask_grid,
    num_colors,
    prediction_of,
    story_of,
    translation_of,
    without_data,
)

from attnviz import figures
from attnviz.charts import ends
from attnviz.charts.frame import text_width
from attnviz.charts.theme import LIGHT
from attnviz.core.edits import Edits
from attnviz.core.masks import Painted, Subsequent
from attnviz.figures.mask import READS

BLACK_CAT = ["the", "black", "cat", "<eos>"]
CHAT_NOIR = ({"le": 0.9, "la": 0.1}, {"chat": 1.0}, {"noir": 0.8, "<eos>": 0.2}, {"<eos>": 1.0})


def tokens(chart):
    return [row["text"] for row in data(chart, "tokens")]


def test_a_row_of_a_translation_says_what_it_predicts():
    """It reads <sos> and predicts "le"; as many rows as words were read, as many columns as the input has."""
    chart = heatmap(translation_of(BLACK_CAT[:3], *CHAT_NOIR), CROSS, 0)

    assert tokens(chart) == ["▸ le", "▸ chat", "▸ noir", "▸ <eos>"]
    assert "predicts" in [row["text"] for row in data(chart, "words")]
    assert {row["x"] for row in data(chart, "tokens")} == {chart.to_dict()["width"] + 12}
    rows = {cell["query_band"]: cell["query"] for cell in data(chart, "cells")}
    assert list(rows) == ["0000 <sos>", "0001 le", "0002 chat", "0003 noir"]


def test_a_row_is_the_word_before_the_one_that_it_predicts():
    """Map and mask say so; the word of the selected row stands out, and a readout names it with its row."""
    record = story_of(["the", "cat"], {"cat": 1.0}, {"sat": 1.0})
    chart = heatmap(record, SITE, 0, selected=(1, 0))
    grid = mask_grid(Subsequent(), ["the", "cat"], predicted=["cat", "sat"])
    first, second = (row["color"] for row in data(chart, "tokens"))
    whole = heatmap(record, SITE, 0)

    assert ends.NEXT in [row["text"] for row in data(whole, "words")]
    assert READS in [row["text"] for row in data(grid, "words")]
    assert "row “cat”: where it looks to predict “sat”" in [row["text"] for row in data(chart, "words")]
    assert first != second == LIGHT.accent
    assert {cell["query_name"] for cell in data(chart, "cells")} == {"the (0) ▸ cat", "cat (1) ▸ sat"}
    assert ends.NEXT not in [row["text"] for row in data(heatmap(replace(record, prediction=None), SITE, 0), "words")]


def test_the_encoder_predicts_nothing():
    record = translation_of(BLACK_CAT, *CHAT_NOIR)
    encoder = replace(record, steps=tuple(replace(step, site=SITE) for step in record.steps))

    assert tokens(heatmap(encoder, SITE, 0)) == []
    assert tokens(heatmap(replace(record, prediction=None), CROSS, 0)) == []


def test_maps_and_masks_say_it_in_the_same_place():
    record = story_of(["the", "cat"], {"cat": 1.0}, {"sat": 1.0})
    grid = mask_grid(Subsequent(), ["the", "cat"], predicted=["cat", "sat"])

    assert data(heatmap(record, SITE, 0), "tokens") == data(grid, "tokens")


def test_nothing_is_predicted_after_padding():
    chart = heatmap(story_of(["the", "cat", "<pad>"], *({"x": 1.0},) * 3, length=2), SITE, 0)

    assert tokens(chart) == ["▸ x", "▸ x"]


def test_what_is_no_number_predicts_no_word():
    record = story_of(["the", "cat"], {"cat": 1.0}, {"sat": 1.0})
    logits = record.prediction.logits.clone()
    logits[0, 1, 0] = math.nan

    chart = heatmap(replace(record, prediction=replace(record.prediction, logits=logits)), SITE, 0)

    assert tokens(chart) == ["▸ cat", "▸ NaN"]


def test_a_window_says_what_its_own_rows_predict():
    words = [f"w{i}" for i in range(6)]
    record = story_of(words, *({f"p{i}": 1.0} for i in range(6)))

    assert tokens(heatmap(record, SITE, 0, rows=slice(2, 4))) == ["▸ p2", "▸ p3"]


@pytest.mark.parametrize("many", [4, 20, 70, 600])
def test_predictions_and_sums_stand_beside_each_other_and_the_legend_names_empty_rows(many):
    """In rectangles, pixels and tiles; none over another, though the words are long. A legend widens no map."""
    edits = Edits(mask=Painted(tuple((1, key) for key in range(many))))
    record = story_of(["w"] * many, *({"a" * (1 + i % 30): 1.0} for i in range(many)), edits=edits)
    chart = heatmap(record, SITE, 0, row_sums=True)

    words = data(chart, "words")
    sums = [row for row in words if row["text"] == "row sum" or row["text"].startswith(("0.000", "1.000"))]
    note = [row for row in words if row["text"].startswith("fully masked row")]
    assert min(row["x"] for row in sums) > max(row["x"] + text_width(row["text"]) for row in data(chart, "tokens"))
    assert len(note) == 1
    assert note[0]["x"] < max(row["x"] for row in sums)
    assert note[0]["y"] > max(row["y"] for row in sums)
    assert len({row["y"] for row in data(chart, "tokens")}) == len(data(chart, "tokens")) <= many


def test_large_maps_on_the_screen_say_what_rows_predict():
    """Every second row; the specification stays."""
    one, other = (figures.head(story_of(["w"] * 64, *({p: 1.0},) * 64), SITE, 0) for p in ("x", "constructor"))

    drawn = [text for kind, text in zip(*map(other.screen_data.get, ("kind", "text")), strict=True) if kind == "tokens"]
    assert drawn == ["▸ constructor"] * 32
    assert one.screen == other.screen


def test_the_specification_stays_while_the_predictions_change():
    one, other = (story_of(["a", "b"], {word: 1.0}, {word: 1.0}) for word in ("x", "constructor"))

    assert without_data(heatmap(one, SITE, 0)) == without_data(heatmap(other, SITE, 0))


@pytest.mark.parametrize("dark", some([False, True], 1))
def test_hostile_words_are_drawn(dark):
    record = story_of(list(HOSTILE), *({word: 1.0} for word in HOSTILE))
    large = story_of(list(HOSTILE) * 5, *({word: 1.0} for word in HOSTILE * 5))

    for image in draw(*(heatmap(one, SITE, 0, dark=dark, row_sums=True).to_dict() for one in (record, large))):
        assert num_colors(image) > 50


def test_predictions_of_a_batch_are_those_of_its_sentence():
    record = story_of(["a"], {"x": 1.0, "y": 0.0})
    logits = torch.cat([record.prediction.logits, record.prediction.logits.flip(-1)])
    steps = tuple(
        replace(step, **{name: getattr(step, name).repeat(2, 1, 1, 1) for name in ("query", "key", "value")})
        for step in record.steps
    )
    steps = tuple(replace(step, logsumexp=step.logsumexp.repeat(2, 1, 1)) for step in steps)
    prediction = replace(prediction_of({"x": 1.0, "y": 0.0}), logits=logits)
    batch = replace(record, sentences=record.sentences * 2, steps=steps, prediction=prediction)

    assert [tokens(heatmap(batch, SITE, 0, sentence=i)) for i in range(2)] == [["▸ x"], ["▸ y"]]


def test_thumbnails_and_domains_take_maps_that_are_not_square():
    """As high as many words were written, as wide as many were read."""
    record = translation_of(["the"] * 3, *CHAT_NOIR * 2, heads=3)

    for domain in ("fixed", "shared", "log"):
        rows = data(heads(record, CROSS, domain=domain), "heads")
        assert [row["largest"] for row in rows] == [f"{record.step(CROSS).weights(h).max():.4f}" for h in range(3)]
        assert draw(heatmap(record, CROSS, "max", domain=domain).to_dict())[0].std() > 5
    boxes = data(heads(record, CROSS), "boxes")
    assert (boxes[0]["y2"] - boxes[0]["y"]) / (boxes[0]["x2"] - boxes[0]["x"]) == pytest.approx(2, rel=0.02)
