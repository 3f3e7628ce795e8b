"""One mask as a grid."""

from pictures import data, legend, mask_grid, notes

from attnviz.charts.signs import LONGEST_RULE
from attnviz.charts.theme import LIGHT
from attnviz.core.masks import Painted, Subsequent, Window

READ = ["<sos>", "The", "cat", "sat"]
PREDICTED = ["The", "cat", "sat", "down"]


def test_a_grid_says_who_may_look_at_whom_and_which_rule_forbids_it():
    cells = data(mask_grid(Subsequent(), READ), "cells")

    assert [cell["ground"] == LIGHT.open for cell in cells] == [key <= query for query in range(4) for key in range(4)]
    assert {cell["says"] for cell in cells} == {"may attend", "blocked by causal mask"}
    assert len({cell["path"] for cell in cells}) == 2


def test_each_row_names_the_token_it_predicts():
    """Shift right: the row of what is read last names the next word."""
    chart = mask_grid(Subsequent(), READ, predicted=PREDICTED, selected=(2, 0))

    assert notes(chart) == ["▸ The", "▸ cat", "▸ sat", "▸ down"]


def test_a_row_without_a_key_is_framed_and_named():
    """In the legend, so that the picture is as wide as without it."""
    chart = mask_grid(Painted(tuple((1, key) for key in range(4))), READ, predicted=PREDICTED, selected=(1, 0))

    assert "fully masked row" in legend(chart)
    assert [row["empty"] for row in data(chart, "rows")] == [False, True, False, False]
    assert "fully masked row" not in legend(mask_grid(Subsequent(), READ))


def test_a_long_rule_is_shortened_in_the_legend_and_whole_in_its_cells():
    """Else the picture is as wide as the rule."""
    rule = Window(1) | Painted(((3, 0), (3, 1))) | Window(0) | Window(0, 1)
    chart = mask_grid(Subsequent() & rule, READ)
    (shortened,) = (text for text in legend(chart) if text.endswith(" …"))
    whole = {cell["says"] for cell in data(chart, "cells") if cell["says"].startswith(shortened.removesuffix(" …"))}

    assert max(map(len, legend(chart))) <= LONGEST_RULE
    assert [text.endswith("window (0 before, 1 after)") for text in whole] == [True]
