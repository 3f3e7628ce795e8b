"""A leak test as a grid: whose output moved when which token was changed, and whether its mask forbids that."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz.analysis import sentences, tables
from attnviz.analysis.views import groups
from attnviz.charts.grid import Grid, pooled, size_within
from attnviz.charts.state import CellState
from attnviz.charts.style import Style
from attnviz.charts.theme import CAUTIONS
from attnviz.core.display import file_stem, in_title
from attnviz.core.leaks import CLOSED, LEAK, NOT_TESTED, SAW, STATES, UNUSED, LeakTest
from attnviz.figures.base import GridFigure
from attnviz.figures.figure import edited, text_array

TITLES = ("Query (its output)", "Key (is changed)")

TINY = 1e-6
"""A share below which percents have too many zeros to be read."""

LOOKS = {
    LEAK: ("leak", "cross"),
    SAW: ("open", "dot"),
    UNUSED: ("open", "ring"),
    CLOSED: ("blocked", "hatch"),
    NOT_TESTED: ("blocked", ""),
}
"""The ground and the sign of each state, in the order of the legend."""

KINDS = [CellState(STATES[state], *style) for state, style in LOOKS.items()]


@dataclass(frozen=True, eq=False)
class LeakGrid(GridFigure):
    """Whose output moved when which token was changed: red where it must not.

    A click selects a cell under the name "cell" with the fields query, key and rev.
    """

    test: LeakTest

    @cached_property
    def name(self) -> str:
        test = self.test
        return file_stem(test.source, "leaks", test.where, test.text, end=edited(test.edits))

    @cached_property
    def title(self) -> str:
        return " · ".join(filter(None, (title_of(self.test), *lines_of(self.test))))

    @cached_property
    def description(self) -> str:
        return sentences.leaks(self.test)

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.leaks_table(self.test)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        test = self.test
        return {
            "moved": test.moved.numpy(),
            "promised": test.promised.numpy(),
            "leaks": test.leaks.numpy(),
            "query_tokens": text_array([token.text for token in test.queries]),
            "key_tokens": text_array([token.text for token in test.keys]),
        }

    @cached_property
    def grid(self) -> Grid:
        """The test as a grid; where cells have tooltips, each says who saw whom, else what state it is in."""
        test = self.test
        rows, columns = groups(test.queries), groups(test.keys)
        size = size_within(rows, columns, self)
        states = pooled(test.states.numpy(), size.tile)
        texts = (
            [sentences.leak(test, *place) for place in np.ndindex(states.shape)] if size.form == "rectangles" else None
        )
        return Grid(
            title=title_of(test, counted=not self.on_screen),
            lines=[*lines_of(test, self), "" if self.on_screen else _example(test, self.selected)],
            rows=rows,
            columns=columns,
            size=size,
            states=np.argsort(list(LOOKS))[states],
            kinds=KINDS,
            style=self.style,
            titles=TITLES,
            cell_texts=texts,
            tiles="each square shows a leak if there is one among its",
        )


def title_of(test: LeakTest, *, counted: bool = True) -> str:
    """Title of a test, which begins with constant words; a screen says elsewhere how many leaks there are."""
    count = f": {sentences.count_of_leaks(test)}" if counted else ""
    return f"Leak test{count} · {test.where} · {in_title(test.source)}"


def lines_of(test: LeakTest, style: Style = Style()) -> list[str]:
    """Promise of the mask and origin of the weights; in a file also the measure and the edits."""
    promise, caution = f"expected: {test.promise}", CAUTIONS.get(test.provenance, "")
    if style.on_screen:
        return [promise, caution]
    changed = test.edits.in_words()
    return [promise, *measured(test), caution, f"changed: {', '.join(changed)}" if changed else ""]


def measured(test: LeakTest) -> list[str]:
    """Threshold from which an output has moved, and notes on what was left out."""
    noise = f"differs by {_share(test.noise)}" if test.noise else "stays the same"
    moved = f"an output has moved if it changes by more than {_share(test.tolerance)} of its length"
    return [f"{moved}; with no word changed it {noise}", *test.notes]


def _share(share: float) -> str:
    """A small share in percent, with one digit that counts."""
    if share >= TINY:
        return f"{np.format_float_positional(100 * share, precision=1, fractional=False, trim='-')}%"
    return f"{100 * share:.0e}%"


def _example(test: LeakTest, selected: tuple[int, int] | None) -> str:
    """The selected cell in words, or the first leak."""
    if selected is not None and all(0 <= i < n for i, n in zip(selected, test.moved.shape, strict=True)):
        return sentences.leak(test, *selected)
    return sentences.leak(test, *test.pairs[0]) if test.pairs else ""
