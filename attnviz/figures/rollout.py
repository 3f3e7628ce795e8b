"""Origin of the content of each position: attention rollout as a map, and one of its rows beside the flow."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from attnviz.analysis import sentences, tables
from attnviz.analysis.blocks import largest_in_size
from attnviz.analysis.rollout import Mixed
from attnviz.analysis.views import groups
from attnviz.charts.bars import Bars, Column
from attnviz.charts.grid import Grid, size_within
from attnviz.charts.legends import Ramp
from attnviz.charts.state import CellState
from attnviz.core.display import file_stem, in_title, visible_text
from attnviz.core.record import Record
from attnviz.figures.base import Facts, Figure, edited, subtitles, text_array

MAP = 440
"""Pixels of the side of the map, which has one row of bars beside it."""

MOST_BARS = 40
"""Tokens drawn at most, those with the largest shares; the table holds all."""

WHAT = "½ the attention of a layer (mean of its heads) and ½ the residual, multiplied through the layers"
"""Definition of rollout on the picture."""

SHORT, WIDE = 150, 480
"""Pixels of the longest bar, and of all of a row on a wide screen."""

NAMES = {"rollout": "share by rollout", "flow": "largest flow"}
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

    def subtitles(self) -> list[str]:
        """Notes on what is not followed, and on rows that had nothing to mix."""
        rows, note = self.mixed.left_out, self.mixed.note
        notes = [note.rstrip(".")] if note else []
        return [*notes, *([f"{rows} rows had no weights, and keep what they hold"] if rows else [])]

    def facts(self, what: str, subject: str, **functions: Callable) -> Facts:
        """Facts of a figure of rollout."""
        record, where = self.record, f"{self.mixed.kind} after layer {self.layer}"
        end = edited(record.edits)
        name = file_stem(record.source, where, subject, " ".join(self.texts), end=end)
        return Facts(
            what=f"{what} · {self.mixed.kind}, after layer {self.layer}", name=name, record=record, **functions
        )


@dataclass(frozen=True, eq=False)
class Rollout(Figure):
    """How much of each token is in what stands at each position after a layer; `selected` is a row.

    A click selects a cell under the name "cell" with the fields query, key and rev.
    """

    traced: Traced

    def facts(self) -> Facts:
        shares, texts = self.traced.shares, self.traced.texts
        facts = self.traced.facts(
            "Attention rollout",
            "rollout",
            table=partial(tables.rollout_table, shares, texts),
            words=partial(sentences.reaches, shares, texts),
            arrays=self._arrays,
        )
        lines = [f"rollout: {WHAT}", *self.traced.subtitles(), *subtitles(facts.record, self)]
        heading = f"{facts.what} · {in_title(facts.record.source)}"
        return replace(facts, title=" · ".join(filter(None, (heading, *lines))))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"rollout": self.traced.shares, "tokens": text_array(self.traced.texts)}

    def draw(self) -> Grid:
        traced, tokens = self.traced, groups(self.traced.mixed.tokens)
        size = size_within(tokens, tokens, self, side=MAP)
        shares = largest_in_size(traced.shares, size.tile)
        ramp = Ramp("share", float(np.nanmax(shares, initial=0.0)) or 1.0, self.colors.ramp)
        largest = f"colors end at {ramp.top:.3g}, the largest here" if ramp.top <= 0.999 else ""
        return Grid(
            **self._above("" if self.on_screen else f"rollout: {WHAT}", *traced.subtitles(), largest),
            rows=tokens,
            columns=tokens,
            size=size,
            titles=(f"Position after layer {traced.layer}", "Token"),
            states=np.where(shares == 0, 1, 0),
            kinds=[CellState("arrives", "ramp", legend=""), CellState("no path", "blocked", "hatch")],
            shade=ramp.shade(shares),
            ramp=ramp,
            numbers={"share": (shares, ".4f")},
            verb="comes from",
        )


@dataclass(frozen=True, eq=False)
class RolloutRow(Figure):
    """Bars of how much of each token reaches one position, by rollout and, if it is given, by the largest flow.

    Attributes:
        flow: (n,) of `analysis.rollout.flow` through the same layers.
    """

    traced: Traced
    position: int
    flow: np.ndarray | None = None

    def facts(self) -> Facts:
        numbers, texts = self._numbers(), self.traced.texts
        return self.traced.facts(
            f"Mixed into {self.traced.called(self.position)}",
            f"reaches {self.position}",
            table=partial(tables.reached_table, numbers, texts),
            words=partial(sentences.reached, numbers["rollout"], texts, self.position),
            arrays=self._arrays,
        )

    def _arrays(self) -> dict[str, np.ndarray]:
        return self._numbers() | {"tokens": text_array(self.traced.texts)}

    def draw(self) -> Bars:
        traced, numbers = self.traced, self._numbers()
        shares = numbers["rollout"]
        indices = np.sort(np.argsort(-shares, kind="stable")[:MOST_BARS])
        lines = [f"the {MOST_BARS} tokens with the largest shares of {len(shares)}"] if len(shares) > MOST_BARS else []
        has_map = self.on_screen and not isinstance(
            traced.shares, Mapping
        )  # it stands beside the row and says the rest
        above = self._above(*lines, *([] if has_map else traced.subtitles()))
        if self.on_screen:
            above["title"] = f"Mixed into {traced.called(self.position)}"
        return Bars(
            **above | ({"lines": lines} if has_map else {}),
            names=[traced.called(i) for i in indices.tolist()],
            columns=[Column(values=values[indices].tolist(), name=NAMES[name]) for name, values in numbers.items()],
            length=WIDE // len(numbers) if self.on_screen else SHORT,
        )

    def _numbers(self) -> dict[str, np.ndarray]:
        """Measures of each token, by name."""
        shares = self.traced.shares[self.position]
        return {"rollout": shares} if self.flow is None else {"rollout": shares, "flow": self.flow}
