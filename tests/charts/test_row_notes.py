"""What a grid says at the ends of its rows."""

from dataclasses import replace

from pictures import (
    SITE,
    data,
    heatmap,
    legend,
    lines,
    mask_grid,
    notes,
    story_of,
)

from attnviz.charts.theme import LIGHT
from attnviz.core.masks import Padding, Subsequent
from attnviz.figures.head import NEXT
from attnviz.figures.maps import READS

LEFT = Subsequent() & Padding((5,), left=7)


def test_a_row_is_the_word_before_the_one_that_it_predicts():
    """Map and mask say so; the word of the selected row stands out, and a readout names it with its row."""
    record = story_of(["the", "cat"], {"cat": 1.0}, {"sat": 1.0})
    chart = heatmap(record, SITE, 0, selected=(1, 0))
    first, second = (row["note_ink"] for row in data(chart, "rows"))

    assert NEXT in lines(heatmap(record, SITE, 0))
    assert READS in lines(mask_grid(Subsequent(), ["the", "cat"], predicted=["cat", "sat"]))
    assert "row “cat”: where it looks to predict “sat”" in lines(chart)
    assert first != second == LIGHT.accent
    assert {cell["query_name"] for cell in data(chart, "cells")} == {"the (0) ▸ cat", "cat (1) ▸ sat"}
    assert NEXT not in lines(heatmap(replace(record, prediction=None), SITE, 0))


def test_each_row_of_a_mask_says_how_many_keys_it_has_left():
    """Those that have none say so in a word; without counts they are named."""
    counted, plain = (mask_grid(LEFT, list("abcdefg"), counted=counted) for counted in (True, False))

    assert data(counted, "meta")[0]["beside_title"] == "keys"
    assert [row["beside"] for row in data(counted, "rows")] == ["none", "none", "1", "2", "3", "4", "5"]
    assert notes(counted) == []
    assert "fully masked row" in legend(plain)
    assert "fully masked row" not in legend(counted)
    assert [row["empty"] for row in data(plain, "rows")] == [True, True, *[False] * 5]
