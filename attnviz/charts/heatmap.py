"""One head as a map: rows are queries, columns are keys, the stronger the color the larger the weight."""

import math
from dataclasses import dataclass

import altair as alt
import numpy as np
import pandas as pd

from attnviz import metrics
from attnviz.charts import axes, hatch, pixels
from attnviz.charts import cells as layers
from attnviz.charts.size import Size, size_of
from attnviz.charts.theme import CAUTIONS, STOPS, Theme, config, theme
from attnviz.core.display import shown
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import ALL, Record, Step
from attnviz.core.tokens import Token
from attnviz.metrics import BLOCKED, EMPTY, NAN, Cells

DOMAINS = ("fixed", "shared", "log")
LOWEST = 1e-4
"""Where the logarithmic domain begins."""

POLICIES = {
    "zero": "no key left: zeros",
    "nan": "no key left: NaN",
    "uniform": "no key left: uniform",
    "error": "no key left",
}
"""What stands at an empty row, by `Edits.empty_rows`."""


@dataclass(frozen=True)
class Domain:
    """What the color says.

    Attributes:
        kind: one of `DOMAINS`.
        top: the weight at the end of the ramp.
    """

    kind: str = "fixed"
    top: float = 1.0

    @property
    def in_words(self) -> str:
        if self.kind == "log":
            return "weight (logarithmic)"
        return "weight" if self.kind == "fixed" else "weight (up to the largest of all heads)"

    @property
    def label(self) -> str:
        """A constant expression that turns a place on the ramp, 0 to 1, into the weight it stands for."""
        if self.kind == "log":
            return "datum.value === 0 ? '≤ 0.0001' : format(pow(10, 4 * datum.value - 4), '~g')"
        return "format(datum.value, '~g')" if self.kind == "fixed" else f"format(datum.value * {self.top!r}, '.2~g')"

    def shade(self, weights: np.ndarray) -> np.ndarray:
        """Where weights stand on the ramp, 0 to 1; NaN stays."""
        if self.kind == "log":
            return 1 - np.log10(np.clip(weights, LOWEST, 1)) / math.log10(LOWEST)
        return np.clip(weights / (self.top or 1.0), 0, 1)


def domain_of(kind: str, record: Record, site: Site, sentence: int = 0) -> Domain:
    """A domain by its name; "shared" ends at the largest weight of all heads of the site."""
    if kind not in DOMAINS:
        raise InputError(f"There is no color domain {kind!r}; there are {', '.join(DOMAINS)}.")
    return Domain(kind, metrics.largest_weight(record, site, sentence=sentence) if kind == "shared" else 1.0)


def heatmap(
    record: Record,
    site: Site,
    head: int | str,
    *,
    sentence: int = 0,
    rows: slice = ALL,
    columns: slice = ALL,
    domain: str = "fixed",
    row_sums: bool = False,
    dark: bool = False,
    selected: tuple[int, int] | None = None,
    rev: int = 0,
) -> alt.LayerChart:
    """Draw the weights of one head, or of all heads combined by a name of `metrics.AGGREGATIONS`.

    A click selects a cell under the name "cell" with the fields query, key and rev.

    Args:
        domain: "fixed" (0 to 1), "shared" (0 to the largest weight of all heads) or "log" (0.0001 to 1).
        row_sums: writes each row's sum at its end, and marks those that are not 1.
        selected: the (query, key) whose cell is outlined.
        rev: a counter to raise after each click, so that the same cell can be clicked again.
    """
    step, colors = record.step(site), theme(dark)
    queries, keys = (tokens[part] for tokens, part in zip(tokens_of(record, step, sentence), (rows, columns), strict=True))
    size = size_of(len(queries), len(keys))
    scale = domain_of(domain, record, site, sentence)
    bands = axes.bands(queries), axes.bands(keys)
    y, x = axes.token_axes(*bands, size, colors)
    found = metrics.cells(step, head, sentence=sentence, rows=rows, columns=columns)
    data = layers.places(*bands, found.queries, found.keys, rev).join(_contents(found, scale, step))
    parts = [
        layers.rectangles(data, y, x, _color(scale, colors), "datum.colored", colors),
        *layers.signs(data, y, x, _meanings(found, colors), size),
        *_row_notes(step, head, sentence, rows, bands[0], y, size, colors, row_sums),
        *layers.outline(selected, data, y, x, size, colors),
    ]
    heading = axes.title(title_of(record, site, head), subtitles_of(record), axes.width_of(size, bands[0]))
    chart = alt.layer(*parts, title=heading, autosize="pad").properties(
        width=alt.Step(size.cell), height=alt.Step(size.cell)
    )
    return chart.resolve_scale(color="independent", shape="independent", stroke="independent").configure(**config(colors))


def title_of(record: Record, site: Site, head: int | str) -> str:
    """What is drawn, beginning with a constant word."""
    what = f"Head {head}" if isinstance(head, int) else f"Heads, {head} of all {record.step(site).num_heads}"
    off = ", off" if isinstance(head, int) and head in record.step(site).heads_off else ""
    return f"{what}{off} · {site} · {shown(record.source, 40)}"


def subtitles_of(record: Record) -> list[str]:
    """Where the weights come from, and what was changed."""
    changed = record.edits.in_words()
    return [CAUTIONS.get(record.provenance, ""), f"changed: {', '.join(changed)}" if changed else ""]


def tokens_of(record: Record, step: Step, sentence: int) -> tuple[tuple[Token | str, ...], ...]:
    """The tokens of the query and of the key positions; a position without a token is called by its number."""
    tokens = record.sentences[sentence].tokens
    return tuple(tokens[:n] + tuple(str(i) for i in range(len(tokens), n)) for n in step.shape[2:])


def _contents(found: Cells, scale: Domain, step: Step) -> pd.DataFrame:
    """What is in each cell, as numbers and as the words that hovering shows."""
    weights, states, rules = found.weights.ravel(), found.states.ravel(), found.blocked.ravel()
    names = np.array(["", *found.reasons], dtype=object)
    colored = np.isfinite(weights) & ((states == 0) | ((states == EMPTY) & (weights > 0)))
    sign = np.where(rules > 0, names[rules], "")
    sign = np.where(np.isnan(weights), layers.NOT_A_NUMBER, sign)
    says = np.where(rules > 0, "blocked by " + names[rules], "may attend")
    says = np.where(states == NAN, layers.NOT_A_NUMBER, says)
    says = np.where(states == EMPTY, POLICIES[step.empty_rows] + ", " + says, says)
    columns = {
        "weight": np.where(np.isfinite(weights), weights, None),
        "shade": np.where(colored, np.nan_to_num(scale.shade(weights)), 0.0),
        "colored": colored,
        "sign": sign,
        "says": says,
        "weight_text": [_number(w, ".4f") for w in weights.tolist()],
    }
    if found.scores is not None:
        columns["score_text"] = [_number(s, ".3f") for s in found.scores.ravel().tolist()]
    return pd.DataFrame(columns)


def _number(value: float, form: str) -> str:
    if math.isnan(value):
        return "NaN"
    return format(value, form) if math.isfinite(value) else "∞" if value > 0 else "−∞"


def _color(scale: Domain, colors: Theme) -> alt.Color:
    legend = alt.Legend(
        title=scale.in_words, labelExpr=scale.label, values=[0, 0.25, 0.5, 0.75, 1], gradientLength=180, gradientThickness=12
    )
    ramp = alt.Scale(domain=list(STOPS), range=list(colors.ramp), interpolate="rgb", clamp=True)
    return alt.Color("shade:Q", scale=ramp, legend=legend)


def _meanings(found: Cells, colors: Theme) -> dict[str, tuple[str, str, float]]:
    meanings = {
        reason: (shape, colors.hatch, 1.0)
        for reason, shape in zip(found.reasons, hatch.shapes(len(found.reasons)), strict=True)
    }
    if np.isnan(found.weights).any():
        meanings[layers.NOT_A_NUMBER] = (hatch.CROSS, colors.warning, 2.0)
    return meanings


def _row_notes(step, head, sentence, rows, bands, y, size: Size, colors: Theme, row_sums: bool) -> list[alt.Chart]:
    """A frame around rows that have no key left, with what they got instead; the sums of rows, if asked for."""
    empty = metrics.empty_queries(step, head, sentence=sentence)[rows].numpy()
    notes = np.where(empty, POLICIES[step.empty_rows], "")
    if row_sums:
        sums = metrics.row_sums(step, head, sentence=sentence, rows=rows).numpy()
        odd = ~(np.abs(sums - 1) < 5e-4)
        texts = [f"{_number(value, '.3f')}{'  ≠ 1' if wrong else ''}" for value, wrong in zip(sums.tolist(), odd, strict=True)]
        notes = [f"{text}  {note}".rstrip() for text, note in zip(texts, notes, strict=True)]
        flagged = odd | empty
    else:
        flagged = empty
    data = pd.DataFrame({"query_band": bands, "note": notes, "empty": empty, "flagged": flagged})
    color = alt.when("datum.flagged").then(alt.value(colors.warning)).otherwise(alt.value(colors.quiet))
    plain = {"aria": False, "tooltip": None}
    base = alt.Chart(data)
    return [
        base.transform_filter("datum.empty")
        .mark_rect(filled=False, stroke=colors.warning, strokeWidth=1.5, **plain)
        .encode(y=y, x=alt.value(0), x2=alt.value(size.width)),
        base.mark_text(align="left", baseline="middle", **plain).encode(
            y=y, x=alt.value(size.width + 8), text="note:N", color=color
        ),
    ]
