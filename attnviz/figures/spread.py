"""Why scores are divided by √d_k: how much the largest weight takes, with and without it, as d_k grows."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz.charts.bars import Bars, Column
from attnviz.core.amounts import digits, percent
from attnviz.figures.base import BarFigure
from attnviz.walk import DotProducts

TITLE = "Largest weight of a row of random scores"
LINES = (
    "hollow bar: q·k as it is; filled bar: with the scale",
    "16 keys; the numbers of q and k are independent, with mean 0 and variance 1",
)


@dataclass(frozen=True, eq=False)
class LargestWeights(BarFigure):
    """A filled bar for each d_k, with the scale, in a hollow one without it.

    Attributes:
        chosen: the d_k that is marked.
    """

    spreads: tuple[DotProducts, ...]
    _: KW_ONLY
    chosen: int | None = None

    name = "why-the-scale"
    title = TITLE

    @cached_property
    def description(self) -> str:
        largest = (
            f"dₖ {spread.d_k}: {digits(spread.unscaled.largest)} as it is, {digits(spread.scaled.largest)} scaled"
            for spread in self.spreads
        )
        return f"{TITLE}: {'; '.join(largest)}."

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per d_k: the variances, and the mean measures of rows without and with the scale."""
        rows = [
            {"d_k": spread.d_k, "variance": spread.variance, "scaled_variance": spread.scaled_variance}
            | {f"unscaled_{name}": value for name, value in vars(spread.unscaled).items()}
            | {f"scaled_{name}": value for name, value in vars(spread.scaled).items()}
            for spread in self.spreads
        ]
        return pd.DataFrame(rows)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return {name: self.table[name].to_numpy() for name in self.table}

    @cached_property
    def bars(self) -> Bars:
        both = [(spread.unscaled.largest, spread.scaled.largest) for spread in self.spreads]
        texts = [f"{percent(unscaled)} → {percent(scaled)}" for unscaled, scaled in both]
        unscaled, scaled = zip(*both, strict=True)
        return Bars(
            title="" if self.on_screen else TITLE,  # the page says it above
            lines=LINES,
            names=[f"dₖ = {spread.d_k:,}" for spread in self.spreads],
            columns=[Column(texts, scaled, unscaled, longest=1.0)],
            style=self.style,
            length=220,
            chosen=[i for i, spread in enumerate(self.spreads) if spread.d_k == self.chosen],
        )
