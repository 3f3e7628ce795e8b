"""One mask as a grid."""

from pictures import data, legend, mask_grid

from attnviz.charts.signs import LONGEST_RULE
from attnviz.charts.theme import LIGHT
from attnviz.core.masks import Painted, Subsequent, Window

READ = ["<sos>", "The", "cat", "sat"]


def test_a_grid_says_who_may_look_at_whom_and_which_rule_forbids_it():
    cells = data(mask_grid(Subsequent(), READ), "cells")

    assert [cell["ground"] == LIGHT.open for cell in cells] == [key <= query for query in range(4) for key in range(4)]
    assert {cell["says"] for cell in cells} == {"may attend", "blocked by causal mask"}
    assert len({cell["path"] for cell in cells}) == 2


def test_a_long_rule_is_shortened_in_the_legend_and_whole_in_its_cells():
    """Else the picture is as wide as the rule."""
    rule = Window(1) | Painted(((3, 0), (3, 1))) | Window(0) | Window(0, 1)
    chart = mask_grid(Subsequent() & rule, READ)
    (shortened,) = (text for text in legend(chart) if text.endswith(" …"))
    whole = {cell["says"] for cell in data(chart, "cells") if cell["says"].startswith(shortened.removesuffix(" …"))}

    assert max(map(len, legend(chart))) <= LONGEST_RULE
    assert [text.endswith("window (0 before, 1 after)") for text in whole] == [True]
