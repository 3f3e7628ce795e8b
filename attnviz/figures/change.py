"""Effect of an edit on the output: how far each token's vector moved."""

import math
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis import sentences, tables
from attnviz.charts.axes import short
from attnviz.charts.bars import Bars, Column
from attnviz.core.record import Record
from attnviz.figures.base import BarFigure
from attnviz.figures.figure import text_array

MOST_BARS = 40
"""Tokens drawn at most, those that moved most; the table holds all."""

MEASURE = "how far each token's output vector moved, as a share of its length"


@dataclass(frozen=True, eq=False)
class OutputChange(BarFigure):
    """A bar per token: ||after - before|| / ||before|| of its output vector; a token that did not move says 0."""

    before: Record
    after: Record
    _: KW_ONLY
    sentence: int = 0

    _subject, _what = ("change",), "Change of the output, compared with the original model"

    def __post_init__(self):
        self.moved  # noqa: B018 (runs that cannot be compared are refused at once)

    @property
    def record(self) -> Record:
        return self.after

    @cached_property
    def moved(self) -> np.ndarray:
        """How far each token moved."""
        return analysis.output_change(self.before, self.after, self.sentence).numpy()

    @cached_property
    def description(self) -> str:
        return sentences.change(self.moved, self._labels)

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.change_table(self.before, self.after, sentence=self.sentence)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return {"change": self.moved, "tokens": text_array(self._labels)}

    @cached_property
    def bars(self) -> Bars:
        every, tokens = self.moved.tolist(), self.after.read[self.sentence].tokens
        order = sorted(range(len(every)), key=lambda i: -math.inf if math.isnan(every[i]) else -every[i])
        indices = sorted(order[:MOST_BARS])  # NaN is among them: it is what one must not miss
        left_out = f"the {len(indices)} of {len(every)} tokens that moved most" if len(indices) < len(every) else ""
        unchanged = "" if self.on_screen or self.after.edits.in_words() else "changed: nothing"
        return Bars(
            **self._above(MEASURE, left_out, unchanged),
            names=[short(tokens[i].text) for i in indices],
            columns=[Column(values=[every[i] for i in indices])],
            length=240,
            quiet=[row for row, i in enumerate(indices) if tokens[i].special],
        )

    @property
    def _labels(self) -> list[str]:
        return self.after.read[self.sentence].labels[: len(self.moved)]
