"""Heads as lines from the tokens that look to those that are looked at: the stronger a line, the larger its weight."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Unpack

import altair as alt
import pandas as pd

from attnviz import words
from attnviz.charts import frame, grid
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.picture import Form, Picture, columns, formed
from attnviz.charts.style import Style
from attnviz.charts.theme import Theme
from attnviz.core.display import as_sentence, in_title
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures import line_frame
from attnviz.figures.figure import Figure, Shown, see, stem, subtitles, text_array, titled
from attnviz.figures.head import called
from attnviz.figures.line_plan import DASHES, Plan, styles_of
from attnviz.figures.strands import Pin, Strands, strands
from attnviz.views import Seen


def lines(
    record: Record,
    site: Site,
    heads: Sequence[int | str],
    *,
    least: float | None = None,
    pins: frozenset[Pin] = frozenset(),
    row: int | None = None,
    **shown: Unpack[Shown],
) -> Figure:
    """Weights of one or several heads as lines, queries left and keys right. Table and arrays hold the drawn lines.

    A click selects under the name "cell" the fields query, key and rev: both of a line, one and -1 of a token. The line
    of the selected cell is emphasized, and its query is picked.

    Args:
        heads: numbers, or names of `metrics.AGGREGATIONS`; each has a hue, dashes and a name of its own.
        least: weights from here on are drawn; None for the strongest 400.
        pins: tokens that are picked: only lines that end at one of them are drawn.
        row: a query whose lines stand out while no token is picked; all others are faint until they are pointed at.
    """
    seen, style = see(record, site, **shown)
    heads = tuple(heads)
    drawn = cache(lambda: strands(seen, heads, selected=style.selected, pins=pins, least=least))
    return Figure(
        name=stem(record, site, f"lines-{'-'.join(map(str, heads))}", sentence=seen.sentence, view=seen.view),
        title=titled(title_of(seen, heads), record),
        style=style,
        draw=lambda style: drawing_of(drawn, seen, heads, style, row),
        describe=lambda: lines_in_words(drawn(), heads),
        tabulate=lambda: lines_table(drawn(), heads),
        collect=lambda: _arrays(drawn(), heads),
    )


def title_of(seen: Seen, heads: Sequence[int | str]) -> str:
    """What is drawn, beginning with a constant word."""
    if len(heads) == 1:
        return f"Lines · {called(seen, heads[0])}"
    return f"Lines · {seen.site.head(*heads)} · {in_title(seen.record.source)}"


def drawing_of(
    chosen: Callable[[], Strands], seen: Seen, heads: Sequence[int | str], style: Style, row: int | None
) -> Picture:
    """The lines, what the pointer meets, and what stands around."""
    styles = styles_of(seen, heads, style.colors)
    plan = Plan(drawn := chosen(), styles, style, row)
    said = [*subtitles(seen.record, style), *filter(None, [seen.window]), *drawn.seen.notes, *drawn.notes, *plan.notes]
    around = line_frame.around(plan, title_of(seen, heads), said)
    tables = {"lines": columns(LINE_COLUMNS, plan.lines()), "hits": columns(HIT_COLUMNS, plan.hits())}
    return Picture(_form(plan.gap, plan.height, plan.colors), tables | frame.tables(around))


def lines_table(drawn: Strands, heads: Sequence[int | str]) -> pd.DataFrame:
    """One row per line, the strongest first: head, query, query_token, key, key_token, weight."""
    queries, keys = drawn.seen.queries, drawn.seen.keys
    rows, columns = drawn.rows[::-1], drawn.columns[::-1]
    table = pd.DataFrame(
        {
            "head": [heads[i] for i in drawn.heads[::-1]],
            "query": queries.starts[rows],
            "query_token": [queries.labels[i] for i in rows],
            "key": keys.starts[columns],
            "key_token": [keys.labels[i] for i in columns],
            "weight": drawn.weights[::-1],
        }
    )
    table.attrs["note"] = " ".join(map(as_sentence, (*drawn.seen.notes, *drawn.notes)))
    return table


def _arrays(drawn: Strands, heads: Sequence[int | str]) -> dict:
    table = lines_table(drawn, heads)
    numbers = {f"line_{name}": table[name].to_numpy() for name in ("query", "key", "weight")}
    return numbers | {
        "line_head": text_array([str(head) for head in table["head"]]),
        "query_tokens": text_array(drawn.seen.queries.labels),
        "key_tokens": text_array(drawn.seen.keys.labels),
    }


def lines_in_words(drawn: Strands, heads: Sequence[int | str]) -> str:
    """What each head looks at most, and how many weights are lines."""
    seen = drawn.seen
    said = [words.head(seen, head) for head in heads[:MOST_HEADS]]
    said += [f"{len(heads) - MOST_HEADS} more heads."] if len(heads) > MOST_HEADS else []
    return " ".join(["Lines from queries to keys.", *said, *map(as_sentence, drawn.notes)])


MOST_HEADS = 4
"""Heads described in words at most."""


LINE_COLUMNS = (
    "x", "y", "x2", "y2", "query", "key", "head", "index", "kind", "color", "weight", "dash", "width", "faint",
)  # fmt: skip
TOOLTIP = {"query_name": QUERY, "key_name": KEY, "weight_text": "weight", "head_name": "head"}
HIT_COLUMNS = ("x", "y", "x2", "y2", "query", "key", "head", "index", "side", "wide", "rev", *TOOLTIP)


_SIDE = "pointed.side[0]"
_MEANT = (
    f"datum.kind === 'legend' || !isValid(pointed.side) || {_SIDE} === 'line' || "
    f"({_SIDE} === 'query' ? datum.query === pointed.query[0] : "
    f"{_SIDE} === 'key' ? datum.key === pointed.key[0] : datum.head === pointed.head[0])"
)
"""Whether a line belongs to what is pointed at."""

_STRONGER = alt.Opacity("weight:Q", legend=None, scale=alt.Scale(type="pow", exponent=0.6, domain=[0, 1], range=[0, 1]))
"""A power of the weight: a tenth is seen, and many that are nearly nothing are no fog."""

FAINT = 0.3
"""Factor of the opacity of gray lines, before which others stand out: pale and in color they would be small weights."""
_FAINT = "datum.faint && !isValid(pointed.side)"

_POINTED = f"isValid(pointed.side) && {_SIDE} === 'line' && datum.index === pointed.index[0]"


@formed(64)
def _form(gap: float, height: float, colors: Theme) -> Form:
    x, y = frame.pixels()
    ends = {"x": x, "y": y, "x2": "x2:Q", "y2": "y2:Q"}
    return frame.form([_strokes(ends, colors)], gap, height, colors, above=[_hits(ends)])


def _strokes(ends: dict, colors: Theme) -> alt.Chart:
    """The lines as they are seen."""
    dash = alt.when("datum.dash === 1").then(alt.value(list(DASHES[1])))
    for i in range(2, len(DASHES)):
        dash = dash.when(f"datum.dash === {i}").then(alt.value(list(DASHES[i])))
    return (
        alt.Chart(alt.NamedData("lines"))
        .mark_rule(aria=False, tooltip=None)
        .encode(
            **ends,
            stroke=alt.when(_FAINT).then(alt.value(colors.quiet)).otherwise(alt.Stroke("color:N", scale=None)),
            opacity=alt.when(_MEANT).then(_STRONGER).otherwise(alt.value(0)),
            strokeOpacity=alt.when(_FAINT).then(alt.value(FAINT)).otherwise(alt.value(1)),
            strokeWidth=alt.when(_POINTED).then(alt.value(5)).otherwise(alt.StrokeWidth("width:Q", scale=None)),
            strokeDash=dash.otherwise(alt.value([1, 0])),
        )
    )


def _hits(ends: dict) -> alt.Chart:
    """Wider strokes that are not seen, which the pointer meets."""
    pointed = alt.selection_point(
        name="pointed", fields=["side", "query", "key", "head", "index"], on="pointerover", clear="pointerout"
    )
    return (
        alt.Chart(alt.NamedData("hits"))
        .mark_rule(aria=False, opacity=0, cursor="pointer")
        .encode(
            **ends,
            strokeWidth=alt.StrokeWidth("wide:Q", scale=None),
            tooltip=grid.tooltip(TOOLTIP),
        )
        .add_params(grid.clicked("cell", "query", "key", "rev"), pointed)
    )
