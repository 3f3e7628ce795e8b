"""Heads as lines from the tokens that look to the tokens that are looked at: the opacity of a line is its weight."""

from collections.abc import Sequence
from functools import lru_cache

import altair as alt

from attnviz.charts import frame, heatmap, line_frame, maps
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.line_plan import DASHES, GAP, Plan, styles_of
from attnviz.charts.picture import Form, Picture, Table
from attnviz.charts.strands import Pin, strands
from attnviz.charts.theme import Theme, config, theme
from attnviz.core.display import in_title
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.views import View


def picture(
    record: Record,
    site: Site,
    heads: Sequence[int | str],
    *,
    sentence: int = 0,
    view: View = View(),
    least: float | None = None,
    selected: tuple[int, int] | None = None,
    pins: frozenset[Pin] = frozenset(),
    dark: bool = False,
    rev: int = 0,
    edits: bool = True,
) -> Picture:
    """Draw weights of one or several heads as lines, queries left and keys right.

    A click selects under the name "cell" the fields query, key and rev: both of a line, one and -1 of a token.

    Args:
        heads: numbers, or names of `metrics.AGGREGATIONS`; each has a hue, dashes and a name of its own.
        view: what is merged and left out; the picture says it.
        least: weights from here on are drawn; None for the strongest 400.
        selected: the (query, key) whose line is emphasized, and whose query is picked.
        pins: tokens that are picked: only lines that end at one of them are drawn.
        rev: a counter to raise after each click.
        edits: whether the picture says what was changed.
    """
    styles = styles_of(record, site, heads, theme(dark))
    asked = {"sentence": sentence, "view": view, "selected": selected, "pins": pins, "least": least}
    drawn = strands(record, site, heads, **asked)
    plan = Plan(drawn, styles, selected, theme(dark), rev)
    said = [*heatmap.subtitles_of(record, edits=edits), *drawn.seen.notes, *drawn.notes, *plan.notes]
    around = line_frame.around(plan, title_of(record, site, heads), said)
    tables = {"lines": _columns(plan.lines(), LINE_COLUMNS), "hits": _columns(plan.hits(), HIT_COLUMNS)}
    return Picture(_form(plan.height, plan.colors), tables | frame.tables(around))


def title_of(record: Record, site: Site, heads: Sequence[int | str]) -> str:
    """What is drawn, beginning with a constant word."""
    if len(heads) == 1:
        return f"Lines · {heatmap.title_of(record, site, heads[0])}"
    return f"Lines · heads {', '.join(map(str, heads))} · {site} · {in_title(record.source)}"


LINE_COLUMNS = (
    "x", "y", "x2", "y2", "query", "key", "head", "index", "kind", "color", "opacity", "dash", "width",
)  # fmt: skip
TOOLTIP = {"query_name": QUERY, "key_name": KEY, "weight_text": "weight", "head_name": "head"}
HIT_COLUMNS = ("x", "y", "x2", "y2", "query", "key", "head", "index", "side", "wide", "rev", *TOOLTIP)


def _columns(rows: list[dict], names: Sequence[str]) -> Table:
    return {name: [row[name] for row in rows] for name in names}


_SIDE = "pointed.side[0]"
_MEANT = (
    f"datum.kind === 'legend' || !isValid(pointed.side) || {_SIDE} === 'line' || "
    f"({_SIDE} === 'query' ? datum.query === pointed.query[0] : "
    f"{_SIDE} === 'key' ? datum.key === pointed.key[0] : datum.head === pointed.head[0])"
)
"""Whether a line belongs to what is pointed at."""

_POINTED = f"isValid(pointed.side) && {_SIDE} === 'line' && datum.index === pointed.index[0]"


@lru_cache(maxsize=64)
def _form(height: float, colors: Theme) -> Form:
    x, y = frame.pixels()
    ends = {"x": x, "y": y, "x2": "x2:Q", "y2": "y2:Q"}
    dash = alt.when("datum.dash === 1").then(alt.value(list(DASHES[1])))
    for i in range(2, len(DASHES)):
        dash = dash.when(f"datum.dash === {i}").then(alt.value(list(DASHES[i])))
    drawn = (
        alt.Chart(alt.NamedData("lines"))
        .mark_rule(aria=False, tooltip=None)
        .encode(
            **ends,
            stroke=alt.Stroke("color:N", scale=None),
            opacity=alt.when(_MEANT).then(alt.Opacity("opacity:Q", scale=None)).otherwise(alt.value(0)),
            strokeWidth=alt.when(_POINTED).then(alt.value(5)).otherwise(alt.StrokeWidth("width:Q", scale=None)),
            strokeDash=dash.otherwise(alt.value([1, 0])),
        )
    )
    pointed = alt.selection_point(
        name="pointed", fields=["side", "query", "key", "head", "index"], on="pointerover", clear="pointerout"
    )
    hits = (
        alt.Chart(alt.NamedData("hits"))
        .mark_rule(aria=False, opacity=0, cursor="pointer")
        .encode(
            **ends,
            strokeWidth=alt.StrokeWidth("wide:Q", scale=None),
            tooltip=maps.tooltip(TOOLTIP),
        )
        .add_params(maps.clicked("cell", "query", "key", "rev"), pointed)
    )
    chart = alt.layer(drawn, *frame.layers(), hits, width=GAP, height=height, autosize="pad")
    return Form.of(chart.configure(**config(colors)))
