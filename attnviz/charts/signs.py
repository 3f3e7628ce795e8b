"""Appearance of a cell: the scale from weights to colors, and states with a text, a fill and a sign.

States can be distinguished without colors. Vega-Lite has no pattern fills. A hatching is therefore the shape of a point
mark as large as its cell; the strokes of neighboring cells meet, so that a blocked area looks hatched as a whole.
"""

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from attnviz.analysis import EMPTY, WEIGHT, Cells, sentences
from attnviz.analysis.views import AttentionView
from attnviz.charts.marks import LegendEntry, Ramp
from attnviz.charts.theme import Theme
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Mask, Reason
from attnviz.core.record import Record

PERIOD = 8
"""Approximate distance between two strokes of a hatching in pixels."""
CROSS = "M-0.45,-0.45L0.45,0.45M-0.45,0.45L0.45,-0.45"
"""Sign for NaN."""
DASH = "M-0.35,0L0.35,0"
"""Sign for minus infinity."""
DOT = "M-0.14,0A0.14,0.14,0,1,1,0.14,0A0.14,0.14,0,1,1,-0.14,0"
DOT_STROKE = 0.14
"""Sign for "may attend": a circle, and its stroke width as a share of the cell, which turns the circle into a disc."""
DISC = "".join(f"M-{r},0A{r},{r},0,1,1,{r},0A{r},{r},0,1,1,-{r},0" for r in (0.06, 0.14, 0.22))
"""Sign for "may attend" in a legend, as circles with strokes of one pixel."""
RING = "M-0.3,0A0.3,0.3,0,1,1,0.3,0A0.3,0.3,0,1,1,-0.3,0"
"""Sign for "may attend, but not used"."""
FRAME = "M-0.7,-0.7L0.7,-0.7L0.7,0.7L-0.7,0.7Z"
ARROW = "M-0.3,-0.45L0.4,0L-0.3,0.45Z"
"""Signs of a framed row and of a changed prediction, for a legend."""
PATTERNS = MODEL, PADDING, YOURS = range(3)
"""Hatchings by the origin of a rule: diagonal, horizontal, crossed. If several rules block a cell, the first counts."""
GLYPHS = {"dot": DOT, "ring": RING, "cross": CROSS, "dash": DASH, "frame": FRAME, "arrow": ARROW}
LEGEND_GLYPHS = GLYPHS | {"dot": DISC}
"""Signs on a cell and in a legend, as paths in a box from -1 to 1; "hatch" has no path here, as it fills the cell."""
MOST_RULES = 12
"""Maximum number of rules in a legend."""
LONGEST_RULE = 52
"""Maximum number of characters of a rule in a legend, to keep it narrow; tooltips have the whole text."""
SWATCH = 18
"""Side of a sign in a legend, in pixels."""
DOMAINS = ("adapts", "fixed", "shared", "log")
CROWDED, FAINT = 40, 0.3
"""Number of tokens above which, and largest weight below which, an adaptive scale ends at the largest weight: uniform
attention over so many tokens is too faint to be visible on a scale from 0 to 1."""
LONG, RARE = 512, 0.01
"""Number of tokens above which an adaptive scale ends at a quantile, and the share of weights above the quantile;
otherwise a few large weights would leave all other cells nearly white."""
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


def strokes_of(pattern: int, side: float) -> str:
    """Build a hatching, one of `PATTERNS`, as an SVG path in a box from -1 to 1, which is drawn `side` pixels wide."""
    count = max(1, round(side / (PERIOD * 1.4)))  # lines that cross each edge: 1.4 PERIOD apart on it, if diagonal
    if pattern == PADDING:
        heights = [-1 + (2 * i + 1) / count for i in range(count)]
        return "".join(f"M-1,{y:g}L1,{y:g}" for y in heights)
    path = ""
    for sign in (1, -1) if pattern == YOURS else (1,):
        for i in range(1, 2 * count):
            c = -2 + 2 * i / count  # the line x + y = c, or x - y = c, within the box
            begin, end = max(-1, c - 1), min(1, c + 1)
            path += f"M{begin:g},{sign * end:g}L{end:g},{sign * begin:g}"
    return path


@lru_cache(maxsize=8)
def strokes(pattern: int, height: int, width: int, *, scale: int = 1) -> np.ndarray:
    """Return the pixels of a hatching, boolean (height, width), for an image `scale` times as large as the picture."""
    y, x = np.ogrid[:height, :width]
    period = 2 * round(PERIOD * 0.7) * scale  # along x or y: for diagonal strokes, 1.4 times their distance
    if pattern == PADDING:
        return np.broadcast_to(y % period < scale, (height, width))
    down, up = ((x + sign * y) % period < scale for sign in (1, -1))
    return down | up if pattern == YOURS else down


@dataclass(frozen=True)
class CellState:
    """State of a cell.

    Attributes:
        text: description for the tooltip and, by default, the legend.
        ground: fill of the cell: "open", "blocked", "leak" or "background", which are colors of the theme, or "ramp"
            for the color of the cell's number.
        sign: sign on the cell: one of `GLYPHS`, "hatch", or "" for none.
        rules: rules that block a hatched cell, each with its hatching, one of `PATTERNS`, and a line for the legend.
        legend: line in the legend; None for `text`, or for a line per rule if there are rules; "" for no line.
    """

    text: str
    ground: str = "open"
    sign: str = ""
    rules: tuple[tuple[int, str], ...] = ()
    legend: str | None = None

    def glyph(self, side: float, colors: Theme) -> tuple[str | None, str | None, float | None]:
        """Return SVG path, color and stroke width in pixels of the sign on a cell of `side` pixels, or None."""
        if not self.sign:
            return None, None, None
        if self.sign == "hatch":
            return strokes_of(self.pattern, side), colors.hatch, 1.0
        width = 2.0 if self.ground in ("blocked", "ramp") else max(1.5, side / 10)
        if self.sign == "dot":
            width = DOT_STROKE * side
        elif self.sign == "ring":
            width = 1.5
        return GLYPHS[self.sign], getattr(colors, self.ink), width

    @property
    def pattern(self) -> int:
        """Hatching of the cell, one of `PATTERNS`: that of the first of its rules in this order."""
        return min((pattern for pattern, _ in self.rules), default=MODEL)

    @property
    def ink(self) -> str:
        """Name of the sign's color in the theme."""
        if self.ground == "leak":
            return "background"
        if self.ground == "open":
            return "dot"
        return {"cross": "warning", "frame": "warning", "arrow": "moved", "": "quiet"}.get(self.sign, "hatch")

    def stroke(self) -> tuple[int | str, str] | None:
        """Return the sign of a cell in an image, or its hatching, and the name of the color; None for no sign.

        A ring is too fine for an image and is replaced by a hatching.
        """
        if self.sign in ("cross", "dot"):
            return self.sign, self.ink
        return (self.pattern, "hatch") if self.sign in ("hatch", "ring") else None


def blocked_by(reasons: Sequence[Reason], yours: Collection[str] = ()) -> list[CellState]:
    """Build the state of a cell that is blocked for each reason: a rule, or a combination of rules.

    Args:
        yours: names of the rules that the user set, not the model.
    """

    def line(rule: str) -> tuple[int, str]:
        """Return the hatching and the legend line of a rule."""
        if rule.startswith("padding"):
            return PADDING, sentences.blocked_by(rule)
        if rule in yours or f"({rule})" in yours:
            return YOURS, f"blocked by you: {rule}"
        return MODEL, sentences.blocked_by(rule)

    return [
        CellState(sentences.blocked_by(reason), "blocked", "hatch", tuple(line(rule) for _, rule in reason.rules))
        for reason in reasons
    ]


def your_rules(record: Record, site: Site) -> frozenset[str]:
    """Return the names of the rules that the user set, without the built-in causal mask of a decoder."""
    mask = record.edits.mask_at(site.kind)
    names = frozenset() if mask is None else _names(mask)
    return names - {"causal"} if record.edits.own_mask and site.kind == "decoder" else names


@lru_cache(maxsize=16)
def _names(mask: Mask) -> frozenset[str]:
    """Return the names of the rules of a mask, cached."""
    return frozenset(mask.rules())


def legend(states: Sequence[CellState], colors: Theme) -> list[LegendEntry]:
    """Build the legend lines: one for each text of the states, then one for each of the first MOST_RULES rules."""
    state_by_text = {}
    for state in states:
        if state.legend is not None:
            state_by_text[state.legend] = state
        elif not state.rules:
            state_by_text[state.text] = state
    rules = sorted({rule for state in states if state.legend is None for rule in state.rules})
    for pattern, line in rules[:MOST_RULES]:
        text = textwrap.shorten(line, LONGEST_RULE, placeholder=" …")
        state_by_text[text] = CellState("", "blocked", "hatch", ((pattern, line),))
    state_by_text.pop("", None)  # states without a line in the legend
    entries = []
    for text, state in state_by_text.items():
        path = strokes_of(state.pattern, SWATCH) if state.sign == "hatch" else LEGEND_GLYPHS.get(state.sign, "")
        ground = colors.ramp[0] if state.ground == "ramp" else getattr(colors, state.ground)
        entries.append(LegendEntry(text, path, getattr(colors, state.ink), ground))
    return entries + more_rules(len(rules) - MOST_RULES, colors)


def more_rules(count: int, colors: Theme) -> list[LegendEntry]:
    """Return a legend line about `count` rules, or combinations of rules, that are left out; an empty list for none."""
    text = f"{count:,} more: each cell names its rules, as does the table"
    return [LegendEntry(text, "", colors.hatch, colors.blocked)] if count > 0 else []


@dataclass(frozen=True)
class Domain:
    """Scale from weights to colors.

    Attributes:
        kind: one of `DOMAINS`; "adapts" only if the scale does not end at 1.
        top: weight at the end of the ramp.
        here: description of the cells whose largest weight is `top`; "" if `top` is a quantile.
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

    def ramp(self, *, gray: bool = False) -> Ramp:
        """Build the color scale of the domain."""
        title = "weight (log scale)" if self.kind == "log" else "weight"
        return Ramp(title, self.top, log=self.kind == "log", gray=gray)


def domain_of(kind: str, view: AttentionView, cells: Cells) -> Domain:
    """Make the scale `kind`, one of `DOMAINS`, for some cells; "shared" ends at the largest weight of all its heads."""
    if kind not in DOMAINS:
        raise InputError(f"There is no color domain {kind!r}. Available domains: {', '.join(DOMAINS)}.")
    if kind == "adapts":
        return adaptive_domain(cells, view)
    return Domain(kind, view.largest() if kind == "shared" else 1.0)


def adaptive_domain(cells: Cells, view: AttentionView) -> Domain:
    """Make the adaptive domain: 0 to 1 if that is readable, else up to the largest weight of an informative cell.

    A cell is not informative if its row has a single open key, which always has weight 1, or if its key is a special
    token, to which many heads give much more attention than to any word. Larger weights have the color at the end.
    """
    weights = np.where(has_color(cells), cells.weights, 0)
    is_word = ~np.array([token.special for token in view.keys.tokens[:: cells.tile]], bool)
    if len(is_word) != weights.shape[-1] or not is_word.any():
        is_word = np.ones(weights.shape[-1], bool)
    rows = weights[(cells.blocked == 0).sum(-1) > 1]  # rows with a choice between keys
    largest = float(rows[:, is_word].max(initial=0))
    tokens = max(len(view.queries), len(view.keys))
    is_faint = 0 < largest < 1
    if tokens <= CROWDED:
        is_faint = 0 < largest < FAINT and rows.max() < FAINT
    if not is_faint:
        return Domain()
    if tokens > LONG:
        return Domain("adapts", float(np.quantile(rows[rows > 0], 1 - RARE)), "")
    if weights.max() <= largest:
        return Domain("adapts", largest)
    return Domain("adapts", largest, "between words" if rows.max() > largest else "where several keys are left")


def has_color(cells: Cells) -> np.ndarray:
    """Return whether cells have a color for their weight: if open, or if their fully masked row was given weights."""
    filled = (cells.states == EMPTY) & (cells.weights > 0)
    return np.isfinite(cells.weights) & ((cells.states == WEIGHT) | filled)
