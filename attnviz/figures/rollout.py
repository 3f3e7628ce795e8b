"""Origin of the content of each position: attention rollout as a map, and one of its rows beside the flow."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz import tables, words
from attnviz.charts.bars import Bars, Column
from attnviz.charts.grid import Grid, size_within
from attnviz.charts.legends import Ramp
from attnviz.charts.state import CellState
from attnviz.charts.style import Style
from attnviz.core.display import file_stem, in_title, visible_text
from attnviz.core.record import Record
from attnviz.figures.base import BarFigure, GridFigure
from attnviz.figures.figure import edited, subtitles, text_array, titled
from attnviz.metrics.blocks import largest_in_size
from attnviz.metrics.rollout import Mixed
from attnviz.views import groups

MAP = 440
"""Pixels of the side of the map, which has one row of bars beside it."""

NO_PATH = "no path"
"""A token that cannot have arrived at a position."""

MOST_BARS = 40
"""Tokens drawn at most, those with the largest shares; the table holds all."""

WHAT = "½ the attention of a layer (mean of its heads) and ½ the residual, multiplied through the layers"
"""Definition of rollout on the picture."""


@dataclass(frozen=True, eq=False)
class Traced:
    """Rollout through the first layers of a stack.

    Attributes:
        record: of the run.
        mixed: what each of these layers mixes; none after them.
        layer: the number of the last of them.
        shares: (n, n) float64, of what stands at row i after them, how much came from token j; of a long text the rows
            that were followed, by their positions.
    """

    record: Record
    mixed: Mixed
    layer: int
    shares: np.ndarray | Mapping[int, np.ndarray]

    @property
    def texts(self) -> list[str]:
        return [token.text for token in self.mixed.tokens]

    @property
    def where(self) -> str:
        return f"{self.mixed.kind}, after layer {self.layer}"

    def called(self, position: int) -> str:
        return f"{visible_text(self.texts[position])} ({position})"

    def stem(self, what: str) -> str:
        where, end = self.where.replace(",", ""), edited(self.record.edits)
        return file_stem(self.record.source, where, what, " ".join(self.texts), end=end)

    def left_out(self) -> list[str]:
        """Notes on what is not followed, and on rows that had nothing to mix."""
        rows = self.mixed.left_out
        notes = [self.mixed.note.rstrip(".")] if self.mixed.note else []
        return [*notes, *([f"{rows} rows had no weights, and keep what they hold"] if rows else [])]


@dataclass(frozen=True, eq=False)
class Rollout(GridFigure):
    """How much of each token is in what stands at each position after a layer; `selected` is a row.

    A click selects a cell under the name "cell" with the fields query, key and rev.
    """

    traced: Traced

    @cached_property
    def name(self) -> str:
        return self.traced.stem("rollout")

    @cached_property
    def title(self) -> str:
        return " · ".join(filter(None, (title_of(self.traced), *lines_of(self.traced))))

    @cached_property
    def description(self) -> str:
        return words.reaches(self.traced.shares, self.traced.texts)

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.rollout_table(self.traced.shares, self.traced.texts)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return {"rollout": self.traced.shares, "tokens": text_array(self.traced.texts)}

    @cached_property
    def grid(self) -> Grid:
        traced, tokens = self.traced, groups(self.traced.mixed.tokens)
        size = size_within(tokens, tokens, self, side=MAP)
        shares = largest_in_size(traced.shares, size.tile)
        top = float(np.nanmax(shares, initial=0.0)) or 1.0
        largest = f"colors end at {top:.3g}, the largest here" if top <= 0.999 else ""
        return Grid(
            title=title_of(traced, on_screen=self.on_screen),
            lines=[*lines_of(traced, self), largest],
            rows=tokens,
            columns=tokens,
            size=size,
            titles=(f"Position after layer {traced.layer}", "Token"),
            states=np.where(shares == 0, 1, 0),
            kinds=[CellState("arrives", "ramp", legend=""), CellState(NO_PATH, "blocked", "hatch")],
            style=self.style,
            shade=shares / top,
            ramp=Ramp("share", top, self.colors.ramp),
            numbers={"share": (shares, ".4f")},
            verb="comes from",
        )


def title_of(traced: Traced, what: str = "Attention rollout", *, on_screen: bool = False) -> str:
    """Title of the figure, which begins with constant words; a screen names the model elsewhere."""
    return " · ".join([what, traced.where, *([] if on_screen else [in_title(traced.record.source)])])


def lines_of(traced: Traced, style: Style = Style()) -> list[str]:
    """Measure (a screen says it elsewhere), what was left out, origin of the weights, and edits."""
    measured = [] if style.on_screen else [f"rollout: {WHAT}"]
    return [*measured, *traced.left_out(), *subtitles(traced.record, style)]


# One row


@dataclass(frozen=True, eq=False)
class RolloutRow(BarFigure):
    """Bars of how much of each token reaches one position, by rollout and, if it is given, by the largest flow.

    Attributes:
        flow: (n,) of `metrics.rollout.flow` through the same layers.
    """

    traced: Traced
    position: int
    flow: np.ndarray | None = None

    @cached_property
    def name(self) -> str:
        return self.traced.stem(f"reaches {self.position}")

    @cached_property
    def title(self) -> str:
        return titled(title_of(self.traced, self._what), self.traced.record)

    @cached_property
    def description(self) -> str:
        return words.reached(self._numbers["rollout"], self.traced.texts, self.position)

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.reached_table(self._numbers, self.traced.texts)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return self._numbers | {"tokens": text_array(self.traced.texts)}

    @cached_property
    def bars(self) -> Bars:
        traced, numbers = self.traced, self._numbers
        shares = numbers["rollout"]
        indices = np.sort(np.argsort(-shares, kind="stable")[:MOST_BARS])
        lines = [f"the {MOST_BARS} tokens with the largest shares of {len(shares)}"] if len(shares) > MOST_BARS else []
        if not self.on_screen or isinstance(traced.shares, Mapping):  # else the map beside it says that
            lines += [*traced.left_out(), *subtitles(traced.record, self)]
        return Bars(
            title=self._what if self.on_screen else title_of(traced, self._what),
            lines=lines,
            names=[traced.called(i) for i in indices.tolist()],
            columns=[Column(values=values[indices].tolist(), name=NAMES[name]) for name, values in numbers.items()],
            style=self.style,
            length=WIDE // len(numbers) if self.on_screen else SHORT,
        )

    @cached_property
    def _numbers(self) -> dict[str, np.ndarray]:
        """Measures of each token, by name."""
        shares = self.traced.shares[self.position]
        return {"rollout": shares} if self.flow is None else {"rollout": shares, "flow": self.flow}

    @property
    def _what(self) -> str:
        return f"Mixed into {self.traced.called(self.position)}"


SHORT, WIDE = 150, 480
"""Pixels of the longest bar, and of all of a row on a wide screen."""

NAMES = {"rollout": "share by rollout", "flow": "largest flow"}
"""Names of the bars."""
