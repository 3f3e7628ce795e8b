"""States of a cell: in words, with a ground and a sign of its own, so that states differ without colors."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from attnviz.analysis import sentences
from attnviz.charts import hatch, texts
from attnviz.charts.theme import Theme
from attnviz.core.edits import Site
from attnviz.core.masks import Reason
from attnviz.core.record import Record

GLYPHS = {"dot": hatch.DOT, "ring": hatch.RING, "cross": hatch.CROSS, "dash": hatch.DASH}
"""Signs on a cell, as strokes in a box from -1 to 1; "hatch" besides, which goes over its edges."""

MOST_RULES = 12
"""Rules that a legend explains."""

SWATCH = 18
"""Pixels of a sign in a legend."""

Sign = tuple[str | None, str | None, float | None]
"""Path, color and stroke width of what is drawn on a cell."""


@dataclass(frozen=True)
class CellState:
    """State of a cell.

    Attributes:
        text: in words, for the legend and under the pointer.
        ground: a color of the theme by its name: "open", "blocked" or "leak"; or "ramp", where the color is that of the
            cell's number.
        sign: one of `GLYPHS`, "hatch", or "" for none.
        rules: of a hatched cell, each rule that blocks it: strokes, of `hatch.PATTERNS`, and a line of the legend.
        legend: its line in the legend; None for what it says, or for a line of each rule, "" for none.
    """

    text: str
    ground: str = "open"
    sign: str = ""
    rules: tuple[tuple[int, str], ...] = ()
    legend: str | None = None

    def glyph(self, side: float, colors: Theme) -> Sign:
        """Sign on a cell of so many pixels."""
        if not self.sign:
            return None, None, None
        if self.sign == "hatch":
            return hatch.shape(self.pattern, side), colors.hatch, 1.0
        width = 2.0 if self.ground in ("blocked", "ramp") else max(1.5, side / 10)
        if self.sign in ("dot", "ring"):
            width = hatch.DOT_STROKE * side if self.sign == "dot" else 1.5
        return GLYPHS[self.sign], getattr(colors, self.ink), width

    @property
    def pattern(self) -> int:
        """Strokes of a hatched cell."""
        return min((pattern for pattern, _ in self.rules), default=hatch.MODEL)

    @property
    def ink(self) -> str:
        """The color of its sign, by its name."""
        if self.ground in ("leak", "open"):
            return "background" if self.ground == "leak" else "dot"
        return {"cross": "warning", "": "quiet"}.get(self.sign, "hatch")

    @property
    def path(self) -> str:
        """Its sign as strokes of one pixel, for a legend."""
        if self.sign == "hatch":
            return hatch.shape(self.pattern, SWATCH)
        return hatch.DISC if self.sign == "dot" else GLYPHS.get(self.sign, "")

    def stroke(self) -> tuple[int | str, str] | None:
        """Stand-in for its sign in an image, and its color: a sign that is too fine for that is hatched."""
        if self.sign in ("cross", "dot"):
            return self.sign, self.ink
        return (self.pattern, "hatch") if self.sign in ("hatch", "ring") else None


def blocked_by(reasons: Sequence[Reason], yours: Collection[str] = ()) -> list[CellState]:
    """A state for each reason.

    Args:
        yours: names of the rules that a person set, not the model.
    """
    return [
        CellState(
            sentences.blocked_by(reason), "blocked", "hatch", tuple(_line(rule, yours) for _, rule in reason.rules)
        )
        for reason in reasons
    ]


def _line(rule: str, yours: Collection[str]) -> tuple[int, str]:
    """The strokes of a rule, and its line in the legend."""
    if rule.startswith("padding"):
        return hatch.PADDING, sentences.blocked_by(rule)
    if rule in yours or f"({rule})" in yours:
        return hatch.YOURS, f"blocked by you: {rule}"
    return hatch.MODEL, sentences.blocked_by(rule)


def your_rules(record: Record, site: Site) -> frozenset[str]:
    """Names of the rules that a person set; the future that a decoder hides is the model's own."""
    mask, edits = record.edits.mask_at(site.kind), record.edits
    own = {"causal"} if edits.own_mask and site.kind == "decoder" else set()
    return frozenset() if mask is None else frozenset(mask.rules()) - own


def legend(states: Sequence[CellState], colors: Theme) -> list[texts.LegendEntry]:
    """Legend lines of states, each text once, and after them one of each rule; of many rules the first."""
    own = (state for state in states if state.legend or not state.rules)
    lines = {state.text if state.legend is None else state.legend: state for state in own}
    rules = sorted({rule for state in states if state.legend is None for rule in state.rules})
    for rule in rules[:MOST_RULES]:
        lines[rule[1]] = CellState("", "blocked", "hatch", (rule,))
    entries = [
        texts.LegendEntry(text, state.path, getattr(colors, state.ink), _ground(state, colors))
        for text, state in lines.items()
        if text
    ]
    if (more := len(rules) - MOST_RULES) > 0:
        entries.append(rest(more, colors))
    return entries


def rest(more: int, colors: Theme) -> texts.LegendEntry:
    """A legend line for rules that are left out, or combinations of them."""
    return texts.LegendEntry(
        f"{more:,} more: each cell names its rules, as does the table", "", colors.hatch, colors.blocked
    )


def _ground(state: CellState, colors: Theme) -> str:
    return colors.ramp[0] if state.ground == "ramp" else getattr(colors, state.ground)
