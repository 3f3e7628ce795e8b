"""Origin of the content of each position: attention rollout as a map, and one of its rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz.analysis import sentences, tables
from attnviz.analysis.blocks import largest_in_size
from attnviz.analysis.rollout import Mixed
from attnviz.analysis.views import groups
from attnviz.charts.bars import Bars, Column
from attnviz.charts.grid import Grid, size_within
from attnviz.charts.legends import Ramp
from attnviz.charts.state import CellState
from attnviz.core.display import file_stem, visible_text
from attnviz.core.record import Record
from attnviz.figures.base import BarFigure, Figure, GridFigure
from attnviz.figures.figure import edited, text_array

MAP = 440
"""Pixels of the side of the map, which has one row of bars beside it."""

NO_PATH = "no path"
"""A token that cannot have arrived at a position."""

MOST_BARS = 40
"""Tokens drawn at most, those with the largest shares; the table holds all."""

WHAT = "½ the attention of a layer (mean of its heads) and ½ the residual, multiplied through the layers"
"""Definition of rollout on the picture."""

SHORT, WIDE = 150, 480
"""Pixels of the longest bar, and of all of a row on a wide screen."""

"""Names of the bars."""


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

    def called(self, position: int) -> str:
        return f"{visible_text(self.texts[position])} ({position})"


class TracedFigure(Figure):
    """A figure of rollout through some layers, its field `traced`."""

    @property
    def record(self) -> Record:
        return self.traced.record

    @cached_property
    def name(self) -> str:
        traced = self.traced
        where, text = f"{traced.mixed.kind} after layer {traced.layer}", " ".join(traced.texts)
        return file_stem(self.record.source, where, self._subject, text, end=edited(self.record.edits))

    @property
    def _what(self) -> str:
        return f"{self._beginning} · {self.traced.mixed.kind}, after layer {self.traced.layer}"

    def _left_out(self) -> list[str]:
        """Notes on what is not followed, and on rows that had nothing to mix."""
        rows, note = self.traced.mixed.left_out, self.traced.mixed.note
        notes = [note.rstrip(".")] if note else []
        return [*notes, *([f"{rows} rows had no weights, and keep what they hold"] if rows else [])]


@dataclass(frozen=True, eq=False)
class Rollout(TracedFigure, GridFigure):
    """How much of each token is in what stands at each position after a layer; `selected` is a row.

    A click selects a cell under the name "cell" with the fields query, key and rev.
    """

    traced: Traced

    _subject, _beginning = "rollout", "Attention rollout"

    @cached_property
    def title(self) -> str:
        return " · ".join(filter(None, (self._heading, f"rollout: {WHAT}", *self._above(*self._left_out())["lines"])))

    @cached_property
    def description(self) -> str:
        return sentences.reaches(self.traced.shares, self.traced.texts)

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.numbers_table(self.traced.shares, "share", self.traced.texts, self.traced.texts)

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
        measured = "" if self.on_screen else f"rollout: {WHAT}"
        return Grid(
            **self._above(measured, *self._left_out(), largest),
            rows=tokens,
            columns=tokens,
            size=size,
            titles=(f"Position after layer {traced.layer}", "Token"),
            states=np.where(shares == 0, 1, 0),
            kinds=[CellState("arrives", "ramp", legend=""), CellState(NO_PATH, "blocked", "hatch")],
            shade=shares / top,
            ramp=Ramp("share", top, self.colors.ramp),
            numbers={"share": (shares, ".4f")},
            verb="comes from",
        )


@dataclass(frozen=True, eq=False)
class RolloutRow(TracedFigure, BarFigure):
    """Bars of how much of each token reaches one position."""

    traced: Traced
    position: int

    @property
    def _subject(self) -> str:
        return f"reaches {self.position}"

    @property
    def _beginning(self) -> str:
        return f"Mixed into {self.traced.called(self.position)}"

    @cached_property
    def description(self) -> str:
        return sentences.reached(self.traced.shares[self.position], self.traced.texts, self.position)

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.reached_table({"rollout": self.traced.shares[self.position]}, self.traced.texts)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return {"rollout": self.traced.shares[self.position], "tokens": text_array(self.traced.texts)}

    @cached_property
    def bars(self) -> Bars:
        traced, shares = self.traced, self.traced.shares[self.position]
        indices = np.sort(np.argsort(-shares, kind="stable")[:MOST_BARS])
        lines = [f"the {MOST_BARS} tokens with the largest shares of {len(shares)}"] if len(shares) > MOST_BARS else []
        has_map = self.on_screen and not isinstance(
            traced.shares, Mapping
        )  # it stands beside the row and says the rest
        return Bars(
            title=self._beginning if self.on_screen else self._heading,
            lines=lines if has_map else self._above(*lines, *self._left_out())["lines"],
            style=self.style,
            names=[traced.called(i) for i in indices.tolist()],
            columns=[Column(values=shares[indices].tolist(), name="share by rollout")],
            length=WIDE if self.on_screen else SHORT,
        )
