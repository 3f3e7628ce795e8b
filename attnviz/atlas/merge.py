"""Shards to one atlas, in the order of their numbers: so the same shards give the same bytes, whenever each was made.

Memory grows with the heads, never with the shards.
"""

from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from attnviz.analysis.heads import THRESHOLDS, roles
from attnviz.atlas import sketch
from attnviz.core.errors import InputError

QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}

LEVEL = 0.95
"""Level of the confidence intervals of a mean over texts: by Student's t, texts taken as drawn independently."""

KEYS = ["kind", "site", "head", "name"]

Tables = dict[str, pd.DataFrame]
"""The parts of an atlas by their names: heads, classes, distances, effects, examples, pairs, problems, totals."""


def merged(shards: Iterable[Path], keep: int, pairs: int) -> Tables:
    """All numbers of some shards together; so many texts of each metric and so many pairs of each head."""
    total = reduce(lambda earlier, later: _joined(earlier, later, keep, pairs), map(_read, shards))
    sums = total["sums"]
    by_kind = {kind: _with_intervals(sums[sums["kind"] == kind]) for kind in ("metric", "class", "effect")}
    columns = ["site", "head", "name", "mean", "low", "high", "spread", "texts"]
    tables = {
        "heads": _heads(by_kind["metric"], total["keys"], total["counts"]).merge(_complete(total["dropped"])),
        "classes": by_kind["class"][[*columns, "by_token", "even"]],
        "effects": by_kind["effect"].query("texts > 0")[columns],
        "distances": _distances(sums[sums["kind"] == "distance"]),
        "examples": _ranked(total["examples"], ["site", "head", "name"], sums),
        "pairs": _ranked(total["pairs"], ["site", "head"], sums),
        **{name: total[name] for name in ("problems", "totals")},
    }
    whole = dict.fromkeys(("head", "line", "texts", "query", "key", "rank"), "int64")
    return {
        name: part.astype({column: kind for column, kind in whole.items() if column in part}).reset_index(drop=True)
        for name, part in tables.items()
    }


def _ranked(rows: pd.DataFrame, by: list[str], sums: pd.DataFrame) -> pd.DataFrame:
    """In the order of sites, heads and metrics, and in each the largest first, whose rank is 1."""
    places = {name: {value: i for i, value in enumerate(dict.fromkeys(sums[name]))} for name in by}
    rows = rows.sort_values(by, key=lambda column: column.map(places[column.name]), kind="stable")
    return rows.assign(rank=rows.groupby(by, sort=False).cumcount() + 1)


def _read(path: Path) -> dict[str, Any]:
    """A shard as what can be joined."""
    table = pq.read_table(path)
    part = table.drop_columns(["bins", "counts"]).to_pandas()
    sums = part[part["kind"].isin(["metric", "class", "effect", "distance"])].reset_index(drop=True)
    is_metric = pa.compute.equal(table["kind"], "metric")
    metrics = table.filter(is_metric)
    sizes = pa.compute.list_value_length(metrics["bins"]).to_numpy()
    bins, counts = (pa.compute.list_flatten(metrics[name]).to_numpy().astype(np.int64) for name in ("bins", "counts"))
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    place = ["site", "head"]
    examples = _largest(part, "example")[[*place, "name", "value", "file", "line"]]
    words = ["query", "key", "query_token", "key_token"]
    pairs = _largest(part, "pair")[[*place, "value", *words, "file", "line"]]
    problems = part[part["kind"] == "problem"][["file", "line", "name"]].rename(columns={"name": "problem"})
    totals = part[part["kind"] == "shard"][["texts", "num", "den"]].astype("int64")
    return {
        "sums": sums[[*KEYS, "texts", "mean", "m2", "num", "den", "even"]],
        "keys": numbers * sketch.WIDTH + bins,
        "counts": counts,
        "examples": examples,
        "pairs": pairs,
        "dropped": part[part["kind"] == "dropped"][[*place, "value"]],
        "problems": problems,
        "totals": totals.rename(columns={"num": "tokens", "den": "empty_lines"}),
    }


def _largest(part: pd.DataFrame, kind: str) -> pd.DataFrame:
    return part[part["kind"] == kind].sort_values("value", ascending=False, kind="stable")


def _joined(earlier: dict[str, Any], later: dict[str, Any], keep: int, most: int) -> dict[str, Any]:
    """Tables of two shards together; of equal values those of the earlier shard come first."""
    every = {name: pd.concat([earlier[name], later[name]]) for name in ("examples", "pairs", "dropped", "problems")}
    order = every["examples"].sort_values("value", ascending=False, kind="stable")
    pairs = every["pairs"].sort_values("value", ascending=False, kind="stable")
    pairs = pairs.drop_duplicates(["site", "head", "query_token", "key_token"])
    keys, counts = (np.concatenate([earlier[name], later[name]]) for name in ("keys", "counts"))
    keys, counts = sketch.counted(keys, counts)
    return {
        "sums": _summed(earlier["sums"], later["sums"]),
        "keys": keys,
        "counts": counts,
        "examples": order.groupby(["site", "head", "name"], sort=False).head(keep),
        "pairs": pairs.groupby(["site", "head"], sort=False).head(most),
        "dropped": every["dropped"].groupby(["site", "head"], sort=False, as_index=False).max(),
        "problems": every["problems"],
        "totals": earlier["totals"].reset_index(drop=True) + later["totals"].reset_index(drop=True),
    }


def _summed(earlier: pd.DataFrame, later: pd.DataFrame) -> pd.DataFrame:
    """Counts, means and squared deviations of two sets of texts as one (Chan, Golub and LeVeque 1979), row by row."""
    if not earlier[KEYS].equals(later[KEYS]):
        raise InputError("Two shards of the atlas hold other heads or numbers; give another folder to build it anew.")
    a, b = (part["texts"].to_numpy(dtype=np.float64) for part in (earlier, later))
    with np.errstate(invalid="ignore"):
        share = np.where(a + b > 0, b / np.maximum(a + b, 1), 0)
    apart = later["mean"] - earlier["mean"]
    means = {name: earlier[name] + share * (later[name] - earlier[name]) for name in ("mean", "even")}
    m2 = earlier["m2"] + later["m2"] + apart**2 * a * share
    sums = {name: earlier[name] + later[name] for name in ("texts", "num", "den")}
    return earlier.assign(**means, m2=m2, **sums)


def _with_intervals(sums: pd.DataFrame) -> pd.DataFrame:
    """The mean by text, its interval and the spread of texts, and the quotient over all tokens; NaN where unknown."""
    from scipy import stats  # a second, and workers merge nothing

    texts = sums["texts"].to_numpy(dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(texts > 0, sums["mean"], np.nan)
        spread = np.sqrt(np.where(texts > 1, sums["m2"], np.nan) / (texts - 1))
        width = stats.t.ppf((1 + LEVEL) / 2, np.maximum(texts - 1, 1)) * spread / np.sqrt(texts)
        by_token = sums["num"] / sums["den"]
    return sums.assign(mean=mean, low=mean - width, high=mean + width, spread=spread, by_token=by_token)


def _heads(metrics: pd.DataFrame, keys: np.ndarray, counts: np.ndarray) -> pd.DataFrame:
    """A row per head: of each metric the mean by text under its name, and the rest under `<name>_low` and so on."""
    ends = np.searchsorted(keys, np.arange(1, len(metrics)) * sketch.WIDTH)
    pieces = zip(np.split(keys % sketch.WIDTH, ends), np.split(counts, ends), strict=True)
    pieces, bounds = list(pieces), [LEAST.get(name, 0.0) for name in metrics["name"]]
    ranks = [sketch.quantiles(*piece, tuple(QUANTILES.values())) for piece in pieces]
    fails = [sketch.below(*piece, bound) for piece, bound in zip(pieces, bounds, strict=True)]
    metrics = metrics.assign(**dict(zip(QUANTILES, np.array(ranks).T, strict=True)), **{FAILS: fails})
    columns: dict[str, Any] = {}
    for name, part in metrics.groupby("name", sort=False):
        if not columns:
            sites = part["site"].str.split(" layer ", expand=True)
            columns = {"site": part["site"], "kind": sites[0], "layer": sites[1].astype(int), "head": part["head"]}
            columns = {key: values.to_numpy() for key, values in columns.items()}
        columns[name] = part["mean"].to_numpy()
        columns |= {f"{name}_{key}": part[key].to_numpy() for key in ENDS}
        columns[f"{name}_texts"] = part["texts"].to_numpy(dtype=np.int64)
        if name in LEAST:
            columns[f"{name}_{FAILS}"] = part[FAILS].to_numpy()
    table = pd.DataFrame(columns)
    first = [next(iter(roles(row)), None) for row in table.to_dict("records")]
    table.insert(4, "role", pd.Series([role and role.name for role in first], dtype=object))
    table.insert(5, "role_fails", [np.nan if role is None else role.fails for role in first])
    return table


def _complete(dropped: pd.DataFrame) -> pd.DataFrame:
    """Weight per head above which no pair is missing in the shards: one above a half is its row's largest."""
    return dropped.assign(pairs_above=dropped["value"].clip(lower=0.5)).drop(columns="value")


LEAST = {rule.metric: rule.least for rule in THRESHOLDS}

FAILS = "fails"
"""Column of a metric that suggests a role: share of texts on which it is below the role's threshold, within 0.4%."""

ENDS = ("low", "high", "spread", "texts", "by_token", *QUANTILES)
"""Endings of the columns of a metric, but for its mean."""


def columns_of(name: str) -> list[str]:
    """Columns of a metric in the table of heads."""
    ends = (*ENDS, FAILS) if name in LEAST else ENDS
    return [name, *(f"{name}_{end}" for end in ends)]


def _distances(sums: pd.DataFrame) -> pd.DataFrame:
    """As `ByDistance.curve` of all texts together: bins that double to either side, negative before the query."""
    sums = sums.assign(bin=sums["name"].astype(int))
    far = 2.0 ** (sums["bin"].abs() - 1)
    sign = np.sign(sums["bin"])
    share = sums["num"] / sums.groupby(["site", "head"])["num"].transform("sum")
    ends = {"nearest": (sign * far).astype(int), "furthest": (sign * (2 * far - 1)).astype(int)}
    rows = sums.assign(**ends, share=share, pairs=sums["den"].astype("int64"), mean=sums["num"] / sums["den"])
    return rows[rows["den"] > 0][["site", "head", "nearest", "furthest", "share", "pairs", "mean"]]
