"""A chart as Vega-Lite that every program can read: data inside, nothing that breaks files."""

import html
import json
import math
import re
from typing import Any

import altair as alt
import pandas as pd

_UNDRAWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML 1.0 does not have, and on which vl-convert aborts its process."""

_PARTS = ("layer", "hconcat", "vconcat", "concat")


def of(figure: Any) -> dict:
    """The Vega-Lite of a figure's chart, its description set for those who cannot see it."""
    picture = clean(_to_dict(figure.chart))
    picture.setdefault("description", clean(figure.description or figure.title))
    return picture


def to_json(picture: dict) -> str:
    """The same specification is always the same text."""
    return json.dumps(picture, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def clean(value: Any) -> Any:
    """A JSON value with pictures of control characters, U+FFFD for surrogates, null for NaN and infinities."""
    match value:
        case str():
            return _UNDRAWABLE.sub(_drawable, value)
        case dict():
            return {clean(key): clean(part) for key, part in value.items()}
        case list() | tuple():
            return [clean(part) for part in value]
        case float() if not math.isfinite(value):
            return None
    return value


def named(svg: bytes, figure: Any) -> bytes:
    """The SVG with its name and description, which screen readers read out."""
    name, words = html.escape(clean(figure.title)), html.escape(clean(figure.description), quote=False)
    head, rest = svg.decode().split(">", 1)
    return f'{head} role="img" aria-label="{name}"><desc>{words}</desc>{rest}'.encode()


def _drawable(match: re.Match) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


def _to_dict(chart: Any) -> dict:
    """`chart.to_dict()`, without Altair's limit of 5,000 rows, its global switches, and its check against a schema.

    The check takes two thirds of the time, and tells nobody who exports anything; the tests make it. Streamlit turns
    the switches while it draws in another thread; a chart converted at that moment loses its data.
    """
    tables: dict[int, pd.DataFrame] = {}
    try:
        picture = _by_name(chart, tables).to_dict(validate=False)
    except ValueError:  # A chart that leaves the types of its fields to Altair needs its data beside them.
        return chart.to_dict(validate=False)
    rows = {
        _name(place): alt.to_values(_without_surrogates(table))["values"] for place, table in enumerate(tables.values())
    }
    picture["datasets"] = picture.get("datasets", {}) | rows
    # The theme "default" is off while Streamlit draws: what it sets is set here.
    view = picture.setdefault("config", {}).setdefault("view", {})
    view.setdefault("continuousWidth", 300)
    view.setdefault("continuousHeight", 300)
    return picture


def _by_name(chart: Any, tables: dict[int, pd.DataFrame]) -> Any:
    """A copy of the chart that calls its tables by name; `tables` collects them by identity."""
    if isinstance(chart, dict):  # a part that is written out has names alone
        return chart
    chart = chart.copy(deep=False)
    if isinstance(chart.data, pd.DataFrame):
        tables.setdefault(id(chart.data), chart.data)
        chart.data = alt.NamedData(_name(list(tables).index(id(chart.data))))
    for part in _PARTS:
        if isinstance(inner := chart._get(part), list):
            chart[part] = [_by_name(view, tables) for view in inner]
    if isinstance(inner := chart._get("spec"), alt.TopLevelMixin):
        chart["spec"] = _by_name(inner, tables)
    return chart


def _without_surrogates(table: pd.DataFrame) -> pd.DataFrame:
    """pandas itself stumbles on them while Altair turns a table into rows."""
    texts = {name: clean(table[name].tolist()) for name in table if table[name].dtype == object}
    return table.assign(**texts) if texts else table


def _name(place: int) -> str:
    return f"table-{place}"
