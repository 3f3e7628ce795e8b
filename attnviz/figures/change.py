"""Effect of an edit on the output: how far each token's vector moved."""

import math
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz import metrics, tables, words
from attnviz.charts import axes
from attnviz.charts.bars import Bars, Column
from attnviz.core.display import in_title, visible_text
from attnviz.core.record import Record
from attnviz.figures.base import BarFigure
from attnviz.figures.figure import stem, subtitles, text_array, titled

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

    def __post_init__(self):
        self.moved  # noqa: B018 (runs that cannot be compared are refused at once)

    @cached_property
    def moved(self) -> np.ndarray:
        """How far each token moved."""
        return metrics.output_change(self.before, self.after, self.sentence).numpy()

    @cached_property
    def name(self) -> str:
        return stem(self.after, "change", sentence=self.sentence)

    @cached_property
    def title(self) -> str:
        return titled(self._heading, self.after)

    @cached_property
    def description(self) -> str:
        return words.change(self.moved, self._labels)

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
            title=self._heading,
            lines=[MEASURE, left_out, *subtitles(self.after, self), unchanged],
            names=[visible_text(tokens[i].text, axes.LONGEST_LABEL) for i in indices],
            columns=[Column(values=[every[i] for i in indices])],
            style=self.style,
            length=240,
            quiet=[row for row, i in enumerate(indices) if tokens[i].special],
        )

    @property
    def _heading(self) -> str:
        return f"Change of the output, compared with the original model · {in_title(self.after.source)}"

    @property
    def _labels(self) -> list[str]:
        return self.after.read[self.sentence].labels[: len(self.moved)]
