"""Figures: a picture with its name, its words and its numbers, as the app, the shell, the notebook and files share it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from attnviz import metrics, tables
from attnviz.charts import change as change_chart
from attnviz.charts import heads as heads_chart
from attnviz.charts import heatmap as heatmap_chart
from attnviz.charts import mask_grid as mask_chart
from attnviz.core.display import shown
from attnviz.core.edits import Site
from attnviz.core.masks import Mask
from attnviz.core.record import ALL, Record
from attnviz.core.tokens import Token

LONGEST_NAME = 80


@dataclass(frozen=True, eq=False)
class Figure:
    """One picture and everything that goes with it.

    `chart`, `table` and `arrays` may be given as functions without arguments: then they are made when first asked for.

    Attributes:
        name: a file's stem that says what is shown; ASCII, safe in every file system, at most 80 characters.
        title: one line, with where the weights come from and what was changed.
        description: what the picture shows, in words with its main numbers, for those who cannot see it.
        chart: Vega-Lite, for files, notebooks and small maps.
        screen: a full Vega specification where a large map needs a readout under the pointer; None: show `chart`.
        table: the exact numbers behind the picture.
        arrays: the same as arrays.
        screen_data: what `screen` draws; hand it over as the data beside the specification.
    """

    name: str
    title: str
    description: str
    chart: alt.TopLevelMixin
    screen: dict | None
    table: pd.DataFrame
    arrays: dict[str, np.ndarray]
    screen_data: pd.DataFrame | None = None

    def __post_init__(self):
        later = {name: value for name, value in vars(self).items() if isinstance(value, FunctionType)}
        for name in later:
            object.__delattr__(self, name)
        object.__setattr__(self, "_later", later)

    def __getattr__(self, name: str) -> Any:
        make = vars(self).get("_later", {}).get(name)
        if make is None:
            raise AttributeError(f"A figure has no {name!r}.")
        object.__setattr__(self, name, make())
        return vars(self)[name]


def head(
    record: Record,
    site: Site,
    head: int | str,
    *,
    sentence: int = 0,
    domain: str = "fixed",
    row_sums: bool = False,
    dark: bool = False,
    rows: slice | None = None,
    columns: slice | None = None,
    selected: tuple[int, int] | None = None,
    rev: int = 0,
) -> Figure:
    """The map of one head, or of all heads combined by a name of `metrics.AGGREGATIONS`; see `charts.heatmap`."""
    window = {"sentence": sentence, "rows": rows or ALL, "columns": columns or ALL}
    drawn = {"domain": domain, "row_sums": row_sums, "dark": dark, "selected": selected, "rev": rev}
    what = f"head-{head}" if isinstance(head, int) else f"heads-{head}"
    return Figure(
        name=_name(record.source, site, what, record.sentences[sentence].text),
        title=_title(heatmap_chart.title_of(record, site, head), record),
        description=_describe_head(record, site, head, window),
        chart=lambda: heatmap_chart.heatmap(record, site, head, **window, **drawn),
        screen=None,
        table=lambda: tables.weights_table(record, site, head, **window),
        arrays=lambda: _arrays(record, site, head, window),
    )


def heads(
    record: Record,
    site: Site,
    *,
    sentence: int = 0,
    domain: str = "fixed",
    dark: bool = False,
    focused: int | None = None,
    rev: int = 0,
) -> Figure:
    """Thumbnails of all heads of a site; see `charts.heads`."""
    step = record.step(site)
    off = ", ".join(map(str, sorted(step.heads_off)))
    queries, keys = step.shape[2:]
    return Figure(
        name=_name(record.source, site, "heads", record.sentences[sentence].text),
        title=_title(f"All heads · {site} · {shown(record.source, 40)}", record),
        description=f"{step.num_heads} heads of {site}, each a map of {queries} queries by {keys} keys."
        + (f" Off: {off}." if off else ""),
        chart=lambda: heads_chart.heads(
            record, site, sentence=sentence, domain=domain, dark=dark, focused=focused, rev=rev
        ),
        screen=None,
        table=lambda: tables.heads_table(record, site, sentence=sentence),
        arrays=lambda: _heads_arrays(record, site, sentence),
    )


def mask(
    mask: Mask,
    queries: Sequence[Token | str],
    keys: Sequence[Token | str] | None = None,
    *,
    predicted: Sequence[Token | str] | None = None,
    sentence: int = 0,
    dark: bool = False,
    selected: tuple[int, int] | None = None,
    rev: int = 0,
) -> Figure:
    """The grid of one mask; see `charts.mask_grid`."""
    keys = queries if keys is None else keys
    rows, columns = _texts(queries), _texts(keys)
    return Figure(
        name=_name("mask", str(mask), " ".join(rows)),
        title=f"Mask: {mask}",
        description=_describe_mask(mask, rows, columns, sentence),
        chart=lambda: mask_chart.mask_grid(
            mask, queries, keys, predicted=predicted, sentence=sentence, dark=dark, selected=selected, rev=rev
        ),
        screen=None,
        table=lambda: tables.mask_table(mask, rows, columns, sentence=sentence),
        arrays=lambda: {
            "may_attend": mask.grid(len(rows), len(columns), sentence=sentence).numpy(),
            "query_tokens": _text_array(rows),
            "key_tokens": _text_array(columns),
        },
    )


def change(before: Record, after: Record, *, sentence: int = 0, dark: bool = False) -> Figure:
    """How far each token's output vector moved; see `charts.change`."""
    moved = metrics.output_change(before, after, sentence).numpy()
    most = int(np.nanargmax(moved)) if np.isfinite(moved).any() else 0
    labels = after.sentences[sentence].labels
    words = (
        f"'{shown(labels[most])}' ({most}) moved most, by {moved[most]:.1%} of its length."
        if moved.any()
        else "No token moved."
    )
    return Figure(
        name=_name(after.source, "change", after.sentences[sentence].text),
        title=_title(f"Change of the output · {shown(after.source, 40)}", after),
        description=f"How far the output vector of each of {len(moved)} tokens moved. {words}",
        chart=lambda: change_chart.change(before, after, sentence=sentence, dark=dark),
        screen=None,
        table=lambda: tables.change_table(before, after, sentence=sentence),
        arrays=lambda: {"change": moved, "tokens": _text_array(labels[: len(moved)])},
    )


def in_words(record: Record, site: Site, head: int | str, query: int, key: int, sentence: int = 0) -> str:
    """One cell as a sentence."""
    step = record.step(site)
    found = metrics.cells(step, head, sentence=sentence, rows=slice(query, query + 1), columns=slice(key, key + 1))
    rows, columns = tables.labels_of(record, site, sentence)
    looker, looked = f"'{shown(rows[query])}' ({query})", f"'{shown(columns[key])}' ({key})"
    state, weight = int(found.states[0, 0]), float(found.weights[0, 0])
    if state == metrics.EMPTY:
        return f"{looker} has no key left to look at; its weights are {_POLICIES[step.empty_rows]}."
    if state == metrics.BLOCKED:
        return f"{looked} may not be looked at by {looker}: blocked by {found.reasons[found.blocked[0, 0] - 1]}."
    if state == metrics.NAN:
        return f"The weight that {looker} gives to {looked} is not a number."
    of = "its attention" if isinstance(head, int) else f"its attention ({head} of all heads)"
    return f"{looker} gives {weight:.2f} of {of} to {looked}."


_POLICIES = {"zero": "zeros", "nan": "NaN", "uniform": "spread evenly over all keys", "error": "undefined"}


def _describe_head(record: Record, site: Site, head: int | str, window: dict) -> str:
    step = record.step(site)
    queries, keys = np.arange(step.shape[2])[window["rows"]], np.arange(step.shape[3])[window["columns"]]
    what = f"Head {head}" if isinstance(head, int) else f"The {head} of all heads"
    return f"{what} of {site}, {len(queries)} queries by {len(keys)} keys."


def _describe_mask(mask: Mask, rows: Sequence[str], columns: Sequence[str], sentence: int) -> str:
    allowed = int(mask.grid(len(rows), len(columns), sentence=sentence).sum())
    return f"Mask '{mask}', {len(rows)} queries by {len(columns)} keys: {allowed} of {len(rows) * len(columns)} cells may attend."


def _arrays(record: Record, site: Site, head: int | str, window: dict) -> dict[str, np.ndarray]:
    step = record.step(site)
    found = metrics.cells(step, head, **window)
    rows, columns = tables.labels_of(record, site, window["sentence"])
    arrays = {
        "weights": found.weights,
        "may_attend": found.blocked == 0,
        "queries": found.queries,
        "keys": found.keys,
        "query_tokens": _text_array([rows[q] for q in found.queries]),
        "key_tokens": _text_array([columns[k] for k in found.keys]),
    }
    return arrays if found.scores is None else arrays | {"scores": found.scores}


def _heads_arrays(record: Record, site: Site, sentence: int) -> dict[str, np.ndarray]:
    step = record.step(site)
    heads = range(step.num_heads)
    rows, columns = tables.labels_of(record, site, sentence)
    return {
        "weights": np.stack([step.weights(head, sentence=sentence).numpy() for head in heads]),
        "scores": np.stack([step.scores(head, sentence=sentence).numpy() for head in heads]),
        "may_attend": np.stack([step.may_attend(head, sentence=sentence).numpy() for head in heads]),
        "query_tokens": _text_array(rows),
        "key_tokens": _text_array(columns),
    }


def _text_array(texts: Sequence[str]) -> np.ndarray:
    return np.array([text.encode("utf-8", "replace").decode() for text in texts], dtype=np.str_)


def _texts(tokens: Sequence[Token | str]) -> list[str]:
    return [token if isinstance(token, str) else token.text for token in tokens]


def _title(title: str, record: Record) -> str:
    return " · ".join(part for part in (title, *heatmap_chart.subtitles_of(record)) if part)


def _name(*parts: object) -> str:
    """A file's stem from what is shown."""
    words = "-".join(filter(None, (re.sub(r"[^A-Za-z0-9]+", "-", str(part)).strip("-") for part in parts)))
    return words[:LONGEST_NAME].rstrip("-") or "figure"
