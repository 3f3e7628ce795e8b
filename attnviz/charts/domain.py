"""Color domains of weights, and texts for cells without a weight."""

import math
from dataclasses import dataclass

import numpy as np

from attnviz.analysis import EMPTY, WEIGHT, Cells
from attnviz.analysis.views import AttentionView
from attnviz.charts import legends, pixels
from attnviz.charts.theme import Theme
from attnviz.core.errors import InputError

DOMAINS = ("adapts", "fixed", "shared", "log")
CROWDED, FAINT = 40, 0.3
"""Number of tokens above which, and largest weight below which, an adaptive scale ends at the largest weight: uniform
attention over so many tokens is too faint to be visible on a scale from 0 to 1."""

LONG, RARE = 512, 0.01
"""Number of tokens above which an adaptive scale ends at a quantile, and the share of weights above the quantile;
otherwise a few large weights would leave all other cells nearly white."""

LOWEST = 1e-4
"""Weight at the beginning of the logarithmic domain."""

MAY_ATTEND = "may attend"
NOT_A_NUMBER = "NaN: not a number"
MINUS_INFINITY = "score: minus infinity"

POLICIES = {
    "zero": "fully masked row: zeros",
    "nan": "fully masked row: NaN",
    "uniform": "fully masked row: uniform",
    "error": "fully masked row",
}
"""Texts for a fully masked row, by `Edits.empty_rows`."""


@dataclass(frozen=True)
class Domain:
    """Scale from weights to colors.

    Attributes:
        kind: one of `DOMAINS`; "adapts" only if the scale does not end at 1.
        top: weight at the end of the ramp.
        here: cells whose largest weight is `top`, in words; "" if `top` is a quantile.
    """

    kind: str = "fixed"
    top: float = 1.0
    here: str = "here"

    @property
    def ending(self) -> str:
        """Description of the weight at which an adaptive scale ends; "" for other scales."""
        end = f"the largest {self.here}" if self.here else f"which {RARE:.0%} of the squares exceed"
        return f"colors end at {self.top:.2g}, {end}" if self.kind == "adapts" else ""

    @property
    def caption(self) -> str:
        """Description of the scale, for the page of all heads."""
        return {
            "adapts": f"weight; {self.ending}",
            "fixed": "weight, from 0 to 1",
            "shared": "weight, from 0 to the largest of all heads",
            "log": "weight, on a logarithmic scale; 0.0001 and less look alike",
        }[self.kind]

    def shade(self, weights: np.ndarray) -> np.ndarray:
        """Map weights to places on the ramp, 0 to 1; NaN stays NaN."""
        if self.kind == "log":
            return 1 - np.log10(np.clip(weights, LOWEST, 1)) / math.log10(LOWEST)
        return np.clip(weights / (self.top or 1.0), 0, 1)

    def legend(self, colors: Theme, *, gray: bool = False) -> legends.Ramp:
        """Build the color legend of the domain."""
        title = "weight (log scale)" if self.kind == "log" else "weight"
        return legends.Ramp(title, self.top, pixels.gray_ramp(colors) if gray else colors.ramp, self.kind == "log")


def domain_of(kind: str, view: AttentionView, cells: Cells) -> Domain:
    """Return the domain with this name for some cells; "shared" ends at the largest weight of all heads of the site."""
    if kind not in DOMAINS:
        raise InputError(f"There is no color domain {kind!r}; there are {', '.join(DOMAINS)}.")
    if kind == "adapts":
        return adapted(cells, view)
    return Domain(kind, view.largest() if kind == "shared" else 1.0)


def adapted(cells: Cells, view: AttentionView) -> Domain:
    """Return the adaptive domain: 0 to 1 if that is readable, else up to the largest weight of an informative cell.

    Rows with a single open key are not counted, because its weight is always 1, nor are special tokens as keys, which
    many heads give much more attention than any word. Larger weights have the color at the end of the scale.
    """
    weights = np.where(colored(cells), cells.weights, 0)
    special = np.array([token.special for token in view.keys.tokens[:: cells.tile]], bool)
    words = ~special if special.shape == weights.shape[-1:] and not special.all() else np.ones(weights.shape[-1], bool)
    choice = (cells.blocked == 0).sum(-1) > 1
    rows = weights if choice.all() else weights[choice]
    largest = float((rows if words.all() else rows[:, words]).max(initial=0))
    tokens = max(len(view.queries), len(view.keys))
    if not 0 < largest < (1 if tokens > CROWDED else FAINT) or (tokens <= CROWDED and rows.max() >= FAINT):
        return Domain()
    if tokens > LONG:
        return Domain("adapts", float(np.quantile(rows[rows > 0], 1 - RARE)), "")
    if weights.max() <= largest:
        return Domain("adapts", largest)
    beyond = rows.max() > largest
    return Domain("adapts", largest, "between words" if beyond else "where several keys are left")


def colored(cells: Cells) -> np.ndarray:
    """Return which cells have a color for their weight: open cells, and cells of a fully masked row that was filled."""
    filled = (cells.states == EMPTY) & (cells.weights > 0)
    return np.isfinite(cells.weights) & ((cells.states == WEIGHT) | filled)
