"""One mask as a grid."""

import pytest
from pictures import HOSTILE, SITE, data, draw, legend, lines, mask_grid, notes, record_of

from attnviz import figures
from attnviz.charts.theme import LIGHT
from attnviz.core.edits import Edits
from attnviz.core.masks import Padding, Painted, Prefix, Subsequent, Window

READ = ["<sos>", "The", "cat", "sat"]
PREDICTED = ["The", "cat", "sat", "down"]


def test_a_grid_says_who_may_look_at_whom_and_which_rule_forbids_it():
    cells = data(mask_grid(Subsequent(), READ), "cells")

    assert [cell["ground"] == LIGHT.open for cell in cells] == [key <= query for query in range(4) for key in range(4)]
    assert {cell["says"] for cell in cells} == {"may attend", "blocked by causal mask"}
    assert len({cell["path"] for cell in cells}) == 2


def test_the_legend_stands_in_words():
    """One line for each rule, however they come together."""
    chart = mask_grid(Subsequent() & Window(1), READ)

    assert legend(chart) == ["may attend", "blocked by causal mask", "blocked by window (1 before, 0 after)"]


@pytest.mark.parametrize("added", [Padding((3,)), Window(1), Painted(((0, 0),))])
def test_a_rule_keeps_its_strokes_when_another_is_added(added):
    """In every cell that it blocked alone they are still there, with those of the other where that blocks, too."""
    alone, both = (data(mask_grid(mask, READ), "cells") for mask in (Subsequent(), Subsequent() & added))

    pairs = [(one, other) for one, other in zip(alone, both, strict=True) if one["says"] != "may attend"]
    assert len(pairs) == 6
    assert all(one["path"] in other["path"] for one, other in pairs)
    assert {cell["path"] for cell in both if cell["says"] == "blocked by causal mask"} <= {
        cell["path"] for cell in alone
    }


def test_on_a_screen_a_title_of_many_rules_is_short():
    """The legend under it names each; a file says all of them in the title, too."""
    mask = (Subsequent() | Prefix(1)) & Padding((3,)) & Window(1)

    assert title(mask, on_screen=True) == "Mask: 4 rules"
    assert title(mask) == "Mask: (causal or prefix of 1) and padding and window (1 before, 0 after)"
    assert title(Subsequent(), on_screen=True) == "Mask: causal"
    assert title(Subsequent() & Window(3), on_screen=True) == "Mask: causal and window (3 before, 0 after)"


def title(mask, **drawn):
    return figures.mask(mask, READ, **drawn).grid.title


def test_beside_the_grid_the_strokes_of_a_head_are_explained_once():
    """Under the grid, which has all rules; a file of the head says them itself."""
    record = record_of(READ, edits=Edits(mask=Subsequent() & Window(1)))
    grids = [figures.head(record, SITE, 0, explained=True, on_screen=on).grid for on in (True, False)]

    assert [sum("blocked by" in text for text in grid.data["legend"]["says"]) for grid in grids] == [0, 2]


def test_each_row_names_the_token_it_predicts():
    """Shift right: while predicting "sat" the decoder has read <sos> The cat."""
    chart = mask_grid(Subsequent(), READ, predicted=PREDICTED, selected=(2, 0))

    assert notes(chart) == ["▸ The", "▸ cat", "▸ sat", "▸ down"]
    assert "while predicting “sat” it reads: <sos> The cat" in lines(chart)


def test_without_predictions_there_is_no_example():
    assert not any("predicting" in text for text in lines(mask_grid(Subsequent(), READ)))


def test_each_sentence_has_its_own_padding():
    chart = mask_grid(Padding((4, 2)), READ, sentence=1)

    assert [cell["ground"] == LIGHT.open for cell in data(chart, "cells")[:4]] == [True, True, False, False]


def test_grids_of_every_size_are_drawn():
    grids = [mask_grid(Subsequent(), ["a"] * n, predicted=["b"] * n, dark=n % 2 == 0) for n in (1, 4, 20, 600)]
    grids.append(mask_grid(Subsequent(), HOSTILE, predicted=HOSTILE))

    for image in draw(*(grid.to_dict() for grid in grids)):
        assert image.std() > 5


def test_a_row_without_a_key_is_framed_and_named():
    """In the legend, so that the picture is as wide as without it."""
    chart = mask_grid(Painted(tuple((1, key) for key in range(4))), READ, predicted=PREDICTED, selected=(1, 0))

    assert "fully masked row" in legend(chart)
    assert [row["empty"] for row in data(chart, "rows")] == [False, True, False, False]
    assert "while predicting “cat” it reads: nothing" in lines(chart)
    assert "fully masked row" not in legend(mask_grid(Subsequent(), READ))
