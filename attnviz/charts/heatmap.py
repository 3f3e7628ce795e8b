"""One head as a map: rows are queries, columns are keys, the stronger the color the larger the weight."""

import math
from dataclasses import dataclass

import numpy as np

from attnviz import views
from attnviz.charts import axes, ends, frame, hatch, maps, pixels
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.frame import Entry, Frame, Ramp
from attnviz.charts.maps import MAY_ATTEND, Map
from attnviz.charts.size import Size, size_of
from attnviz.charts.theme import CAUTIONS, Theme, theme
from attnviz.core.display import in_title
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import ALL, Record
from attnviz.metrics import EMPTY, WEIGHT, Cells
from attnviz.views import Seen, View
from attnviz.words import all_heads

DOMAINS = ("fixed", "shared", "log")
LOWEST = 1e-4
"""Where the logarithmic domain begins."""

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


def domain_of(kind: str, seen: Seen) -> Domain:
    """A domain by its name; "shared" ends at the largest weight of all heads of the site."""
    if kind not in DOMAINS:
        raise InputError(f"There is no color domain {kind!r}; there are {', '.join(DOMAINS)}.")
    return Domain(kind, seen.largest() if kind == "shared" else 1.0)


def drawing_of(
    record: Record,
    site: Site,
    head: int | str,
    *,
    sentence: int = 0,
    rows: slice = ALL,
    columns: slice = ALL,
    view: View = View(),
    domain: str = "fixed",
    row_sums: bool = False,
    dark: bool = False,
    selected: tuple[int, int] | None = None,
    rev: int = 0,
    side: int | None = None,
    below: float = 16,
    edits: bool = True,
) -> Map:
    """Draw the weights of one head, or of all heads combined by a name of `metrics.AGGREGATIONS`.

    A click selects a cell under the name "cell" with the fields query, key and rev.

    Args:
        view: what is merged and left out; the picture says it.
        domain: "fixed" (0 to 1), "shared" (0 to the largest weight of all heads) or "log" (0.0001 to 1).
        row_sums: writes each row's sum at its end, and marks those that are not 1.
        selected: the (query, key) whose cell is outlined.
        rev: a counter to raise after each click, so that the same cell can be clicked again.
        side: how wide the map may be, in pixels.
        below: how many pixels lie between the map and its legend.
        edits: whether the picture says what was changed.
    """
    step, colors = record.step(site), theme(dark)
    seen = views.see(record, site, sentence=sentence, view=view, rows=rows, columns=columns)
    queries, keys = seen.queries, seen.keys
    size = size_of(len(queries), len(keys), side)
    scale = domain_of(domain, seen)
    found = seen.cells([head], size.tile)[0]
    bands = axes.bands(queries.tokens[:: size.tile]), axes.bands(keys.tokens[:: size.tile])
    room = axes.edges(*bands, size)
    says = _said(found)
    around = frame.heading(
        title_of(record, site, head),
        [
            *subtitles_of(record, edits=edits),
            *seen.notes,
            *axes.notes_on(size),
            *axes.note_on_ties(queries, keys, size),
        ],
        left=room.left,
        top=room.top - 8,
        width=size.width - room.left,
        colors=colors,
    )
    if size.form != "rectangles":
        around += axes.drawn((QUERY, KEY), *bands, size, room, colors)
    around += axes.ties(queries, keys, size, colors)
    around += _at_ends(seen, head, size, colors, row_sums)
    around += maps.outlined(selected, queries, keys, size, colors)
    gray = head in step.heads_off
    entries = _entries(says, found.reasons, colors)
    ramp = Ramp(scale.caption, pixels.ramp_uri(colors, gray=gray), scale.ticks)
    around += frame.legend(entries, ramp, top=size.height + below, width=size.width, colors=colors)
    numbers = {"weight": (found.weights, ".4f")}
    if found.scores is not None:
        numbers["score"] = (found.scores, ".3f")
    on_ramp = colored(found)
    return Map(
        size=size,
        rows=bands[0],
        columns=bands[1],
        row_names=axes.names(queries, size.tile),
        column_names=axes.names(keys, size.tile),
        queries=found.queries,
        keys=found.keys,
        titles=(QUERY, KEY),
        shade=np.where(on_ramp, np.nan_to_num(scale.shade(found.weights)), 0.0),
        colored=on_ramp,
        sayings=_sayings(found.reasons, step.scoring.empty_rows),
        saying=says,
        signs=_signs(found.reasons, size, colors),
        blocked=found.blocked,
        nan=np.isnan(found.weights),
        numbers=numbers,
        open=None,
        frame=around,
        gray=gray,
        rev=rev,
    )


def colored(found: Cells) -> np.ndarray:
    """Where a cell has a weight to show by its color: an open cell, or one of an empty row that was filled."""
    filled = (found.states == EMPTY) & (np.nan_to_num(found.weights) > 0)
    return np.isfinite(found.weights) & ((found.states == WEIGHT) | filled)


def title_of(record: Record, site: Site, head: int | str) -> str:
    """What is drawn, beginning with a constant word."""
    step = record.step(site)
    of = all_heads(step) if step.heads_off else f"{step.num_heads} heads"
    what = f"Head {head}" if isinstance(head, int) else f"{head.capitalize()} of {of}"
    off = " (off)" if isinstance(head, int) and head in step.heads_off else ""
    return f"{what}{off} · {site} · {in_title(record.source)}"


def subtitles_of(record: Record, *, edits: bool = True) -> list[str]:
    """Where the weights come from, and what was changed if `edits` are to be said."""
    changed = record.edits.in_words() if edits else ()
    return [CAUTIONS.get(record.provenance, ""), f"changed: {', '.join(changed)}" if changed else ""]


# What is said of a cell is a number: its rule plus one more than the number of rules times what else is the case.

_NOTHING, _NAN, _MINUS_INFINITY, _EMPTY, _EMPTY_NAN = range(5)


def _said(found: Cells) -> np.ndarray:
    nan, empty = np.isnan(found.weights), found.states == EMPTY
    case = np.where(empty, np.where(nan, _EMPTY_NAN, _EMPTY), np.where(nan, _NAN, _NOTHING))
    if found.scores is not None:
        case[(case == _NOTHING) & (found.blocked == 0) & (found.scores == -np.inf)] = _MINUS_INFINITY
    return case * (len(found.reasons) + 1) + found.blocked


def _sayings(reasons: tuple[str, ...], policy: str) -> tuple[str, ...]:
    rules = ("", *(f"blocked by {reason}" for reason in reasons))
    empty = POLICIES[policy]
    return tuple(
        ", ".join(part for part in (case, rule) if part) or MAY_ATTEND
        for case in ("", NOT_A_NUMBER, MINUS_INFINITY, empty, empty)
        for rule in rules
    )


def _signs(reasons: tuple[str, ...], size: Size, colors: Theme) -> dict[int, tuple[str, str, float]]:
    """What is drawn on a cell, by what is said of it."""
    cross, dash = (hatch.CROSS, colors.warning, 2.0), (hatch.DASH, colors.hatch, 2.0)
    many = len(reasons) + 1
    signs = {}
    for i in range(len(reasons)):
        signs[i + 1] = signs[_EMPTY * many + i + 1] = (hatch.shape(i, size.cell), colors.hatch, 1.0)
    for i in range(many):
        signs[_NAN * many + i] = signs[_EMPTY_NAN * many + i] = cross
    signs[_MINUS_INFINITY * many] = dash
    return signs


def _entries(said: np.ndarray, reasons: tuple[str, ...], colors: Theme) -> list[Entry]:
    """Legend lines for all that occurs."""
    cases, rules = (set(part.tolist()) for part in np.divmod(np.unique(said), len(reasons) + 1))
    entries = maps.reasons_of(((i, reason) for i, reason in enumerate(reasons) if i + 1 in rules), colors)
    if cases & {_NAN, _EMPTY_NAN}:
        entries.append(Entry(NOT_A_NUMBER, hatch.CROSS, colors.warning, 2.0, colors.blocked))
    if _MINUS_INFINITY in cases:
        entries.append(Entry(MINUS_INFINITY, hatch.DASH, colors.hatch, 2.0, colors.ramp[0]))
    return entries


def _at_ends(seen: Seen, head: int | str, size: Size, colors: Theme, row_sums: bool) -> Frame:
    """What rows predict, if they do; their sums, if asked for; which have no key left, and what they got instead."""
    beside = Frame()
    if seen.predicted is not None:
        beside += ends.predictions(seen.predicted, size, colors)
    if row_sums:
        beside += ends.sums(seen.row_sums(head).tolist(), beside, size, colors, partial=seen.partial)
    return beside + ends.empty_rows(seen.empty(head), POLICIES[seen.step.scoring.empty_rows], beside, size, colors)
