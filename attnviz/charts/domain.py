"""What the color of a weight says, and what stands in place of a weight."""

import math
from dataclasses import dataclass

import numpy as np

from attnviz.charts import pixels
from attnviz.charts.frame import Ramp
from attnviz.charts.theme import Theme
from attnviz.core.errors import InputError
from attnviz.metrics import EMPTY, WEIGHT, Cells
from attnviz.views import Seen

DOMAINS = ("fixed", "shared", "log")
LOWEST = 1e-4
"""Where the logarithmic domain begins."""

MAY_ATTEND = "may attend"
NOT_A_NUMBER = "NaN: not a number"
MINUS_INFINITY = "score: minus infinity"

POLICIES = {
    "zero": "no key left: zeros",
    "nan": "no key left: NaN",
    "uniform": "no key left: uniform",
    "error": "no key left",
}
"""What stands at an empty row, by `Edits.empty_rows`."""


@dataclass(frozen=True)
class Domain:
    """What the color says: `kind` is one of `DOMAINS`, `top` the weight at the end of the ramp."""

    kind: str = "fixed"
    top: float = 1.0

    @property
    def caption(self) -> str:
        return {
            "fixed": "weight, from 0 to 1",
            "shared": "weight, from 0 to the largest of all heads",
            "log": "weight, on a logarithmic scale; 0.0001 and less look alike",
        }[self.kind]

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        if self.kind == "log":
            return tuple(zip((0, 0.25, 0.5, 0.75, 1), ("0.0001", "0.001", "0.01", "0.1", "1"), strict=True))
        if self.kind == "fixed":
            return tuple((place, f"{place:g}") for place in (0, 0.25, 0.5, 0.75, 1))
        return tuple((place, f"{place * self.top:.3g}") for place in (0, 0.5, 1))

    def shade(self, weights: np.ndarray) -> np.ndarray:
        """Where weights stand on the ramp, 0 to 1; NaN stays."""
        if self.kind == "log":
            return 1 - np.log10(np.clip(weights, LOWEST, 1)) / math.log10(LOWEST)
        return np.clip(weights / (self.top or 1.0), 0, 1)

    def ramp(self, colors: Theme, *, gray: bool = False) -> Ramp:
        """Its legend."""
        return Ramp(self.caption, pixels.ramp_uri(colors, gray=gray), self.ticks)


def domain_of(kind: str, seen: Seen) -> Domain:
    """A domain by its name; "shared" ends at the largest weight of all heads of the site."""
    if kind not in DOMAINS:
        raise InputError(f"There is no color domain {kind!r}; there are {', '.join(DOMAINS)}.")
    return Domain(kind, seen.largest() if kind == "shared" else 1.0)


def colored(found: Cells) -> np.ndarray:
    """Where a cell has a weight to show by its color: an open cell, or one of an empty row that was filled."""
    filled = (found.states == EMPTY) & (np.nan_to_num(found.weights) > 0)
    return np.isfinite(found.weights) & ((found.states == WEIGHT) | filled)
