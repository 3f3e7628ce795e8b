"""Make the tables of a shard, merge them, and make the tables of a finished atlas, as Parquet files in a folder.

numbers    a row per head and metric      site, head, name, texts, mean, m2 (sum of squared deviations from the mean)
bins       a row per number and bin       row (in numbers), bin, count: see `_bins`
distances  a row per head and distance    bin, weight, pairs (number of open pairs)
examples   texts with the largest values  row (in numbers), value, file, line
pairs      pairs with largest weights     place (index of the head), site, head, value, tokens, file, line, query, key
dropped    a row per head                 value: the largest weight of a pair that is missing in pairs
problems   lines that were not read       file, line, problem
totals     one row                        texts, tokens, empty_lines

Shards are merged in the order of their numbers, so the same shards always give the same bytes. Memory grows with the
number of heads, not with the number of shards.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from attnviz.analysis.heads import METRICS, THRESHOLDS, roles
from attnviz.atlas.corpus import EMPTY, Shard
from attnviz.atlas.measure import FURTHEST, NAMES, Measured, Options
from attnviz.core import storage
from attnviz.core.errors import InputError
from attnviz.studies.ablation import EFFECTS

Tables = dict[str, pd.DataFrame]

QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
LEVEL = 0.95
"""Level of the confidence interval of a mean over texts, by Student's t for independent texts."""
LEAST = {rule.metric: rule.least for rule in THRESHOLDS}
FAILS = "fails"
"""Ending of the column with the share of texts on which a metric is below the threshold of its role, within 0.4%."""
ENDS = ("low", "high", "spread", "texts", *QUANTILES)
"""Endings of the columns of a metric, except its mean."""
HEAD = ["site", "head"]


def columns_of(name: str) -> list[str]:
    """List the columns of a metric in the table of heads."""
    ends = (*ENDS, FAILS) if name in LEAST else ENDS
    return [name, *[f"{name}_{end}" for end in ends]]


def write(tables: Tables, folder: Path) -> None:
    """Write each table atomically to a file in a folder; raise OSError, which names the file, if that fails."""
    folder.mkdir(exist_ok=True)
    for name, table in tables.items():
        with storage.temporary_file(folder / f"{name}.parquet") as path:
            pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path, compression="zstd")
            with path.open("rb") as file:
                os.fsync(file.fileno())


def merged(shards: list[Path], options: Options) -> Tables:
    """Merge the tables from the folders of shards into the tables of a finished atlas."""
    tables: Tables = {}
    for folder in shards:
        shard_tables = {path.stem: pd.read_parquet(path) for path in sorted(folder.iterdir())}
        tables = _join(tables, shard_tables, options) if tables else shard_tables
    return _finish(tables)


# A shard


def of_shard(measured: Measured, shard: Shard, options: Options) -> Tables:
    """Make the tables of a shard from its measurements."""
    lines = np.array([line.line for line, _ in measured.read], dtype=np.int64)
    sites = measured.sites.items()
    names = [(str(site), head) for site, numbers in sites for head in range(len(numbers.dropped))]
    heads = pd.DataFrame(names, columns=HEAD)
    rows = heads.loc[heads.index.repeat(len(NAMES))].assign(name=np.tile(NAMES, len(heads)))
    values = measured.values.reshape(len(lines), len(rows))  # a column per row of the table "numbers"
    is_number = np.isfinite(values)
    count, sums = is_number.sum(0), np.where(is_number, values, 0).sum(0)
    mean = sums / np.maximum(count, 1)
    m2 = np.where(is_number, (values - mean) ** 2, 0).sum(0)
    text, row = is_number.nonzero()
    bins = pd.DataFrame({"row": row, "bin": _bins(values[text, row]), "count": 1})
    examples = pd.DataFrame({"row": row, "value": values[text, row], "file": shard.file, "line": lines[text]})
    weight, pairs = np.concatenate([numbers.distance for _, numbers in sites], 1)  # both (N, D)
    head_of_bin = heads.loc[heads.index.repeat(2 * FURTHEST + 1)]
    bin_numbers = np.tile(np.arange(-FURTHEST, FURTHEST + 1), len(heads))
    types = {"file": object, "line": np.int64, "problem": object}
    problems = [(shard.file, problem.line, problem.error) for problem in measured.problems if problem.error != EMPTY]
    empty = len(measured.problems) - len(problems)
    tokens = sum(sentence.length for _, sentence in measured.read)
    return {
        "numbers": rows.assign(texts=count, mean=mean, m2=m2),
        "bins": _sum_counts(bins),
        "distances": head_of_bin.assign(bin=bin_numbers, weight=weight.ravel(), pairs=pairs.ravel()),
        "examples": _keep_largest(examples, "row", options.keep),
        "pairs": _pairs(measured, shard, lines),
        "dropped": heads.assign(value=np.concatenate([numbers.dropped for _, numbers in sites])),
        "problems": pd.DataFrame(problems, columns=[*types]).astype(types),
        "totals": pd.DataFrame({"texts": [len(lines)], "tokens": [tokens], "empty_lines": [empty]}),
    }


def _pairs(measured: Measured, shard: Shard, lines: np.ndarray) -> pd.DataFrame:
    """Make the table `pairs` of a shard; `lines` are the line numbers of its texts."""
    sentences = [sentence for _, sentence in measured.read]
    targets = measured.written or sentences
    tables, earlier_heads = [], 0
    for site, numbers in measured.sites.items():
        pairs = numbers.pairs
        query_texts = targets if site.kind != "encoder" else sentences
        key_texts = targets if site.kind == "decoder" else sentences
        columns = {
            "place": earlier_heads + pairs.head,
            "site": str(site),
            "head": pairs.head,
            "value": pairs.weight,
            "query": pairs.query,
            "key": pairs.key,
            "query_token": [query_texts[i].tokens[q].text for i, q in zip(pairs.text, pairs.query, strict=True)],
            "key_token": [key_texts[i].tokens[k].text for i, k in zip(pairs.text, pairs.key, strict=True)],
            "file": shard.file,
            "line": lines[pairs.text],
        }
        tables.append(pd.DataFrame(columns))
        earlier_heads += len(numbers.dropped)
    return pd.concat(tables).astype({"query_token": object, "key_token": object})


def _bins(values: np.ndarray) -> np.ndarray:
    """Compute the bin of each value, int64: the upper 16 bits of its float32, which is the value as bfloat16.

    Larger values have larger bins. A quantile from bins has a relative error of at most 1/256, as in DDSketch (Masson,
    Rim and Lee 2019), and counts add up exactly in any order, unlike in a t-digest or a KLL sketch.
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.int64)
    is_odd = (bits >> 16) & 1
    return (bits + 0x7FFF + is_odd) >> 16  # rounded to the nearest, a tie to the even one


def _values(bins: np.ndarray) -> np.ndarray:
    """Compute the value that represents each bin, the inverse of `_bins`."""
    return (bins.astype(np.int64) << 16).astype(np.uint32).view(np.float32).astype(np.float64)


# Two shards


def _join(earlier: Tables, later: Tables, options: Options) -> Tables:
    """Merge the tables of two shards; among equal values, those of the earlier shard come first."""
    both = {name: pd.concat([earlier[name], later[name]], ignore_index=True) for name in earlier}
    pairs = both["pairs"].sort_values("value", ascending=False, kind="stable")
    sums = earlier["distances"][["weight", "pairs"]] + later["distances"][["weight", "pairs"]]
    dropped = np.maximum(earlier["dropped"]["value"], later["dropped"]["value"])
    return {
        "numbers": _merge_means(earlier["numbers"], later["numbers"]),
        "bins": _sum_counts(both["bins"]),
        "distances": earlier["distances"].assign(weight=sums["weight"], pairs=sums["pairs"]),
        "examples": _keep_largest(both["examples"], "row", options.keep),
        "pairs": _keep_largest(pairs.drop_duplicates(["place", "query_token", "key_token"]), "place", options.pairs),
        "dropped": earlier["dropped"].assign(value=dropped),
        "problems": both["problems"],
        "totals": earlier["totals"] + later["totals"],
    }


def _merge_means(earlier: pd.DataFrame, later: pd.DataFrame) -> pd.DataFrame:
    """Merge counts, means and squared deviations of two sets of texts, per row (Chan, Golub and LeVeque 1979)."""
    if not earlier[[*HEAD, "name"]].equals(later[[*HEAD, "name"]]):
        raise InputError("Two shards of the atlas differ in heads or metrics; give another folder to build it anew.")
    texts = earlier["texts"] + later["texts"]
    share_of_later = later["texts"] / texts.clip(lower=1)
    difference = later["mean"] - earlier["mean"]
    m2 = earlier["m2"] + later["m2"] + difference**2 * earlier["texts"] * share_of_later
    return earlier.assign(texts=texts, mean=earlier["mean"] + share_of_later * difference, m2=m2)


def _sum_counts(bins: pd.DataFrame) -> pd.DataFrame:
    """Add the counts of equal bins of a row of `numbers`."""
    return bins.groupby(["row", "bin"], as_index=False)["count"].sum()


def _keep_largest(rows: pd.DataFrame, by: str, most: int) -> pd.DataFrame:
    """Keep the `most` rows with the largest "value" for each value of the column `by`."""
    ordered = rows.sort_values("value", ascending=False, kind="stable").sort_values(by, kind="stable")
    return ordered.groupby(by, sort=False).head(most).reset_index(drop=True)


# A finished atlas


def _finish(tables: Tables) -> Tables:
    """Make the tables that `Atlas` reads: heads, effects, distances, examples, pairs, problems and totals."""
    numbers = _add_intervals(tables["numbers"])
    is_metric = numbers["name"].isin([metric.name for metric in METRICS])
    examples = tables["examples"].join(numbers[[*HEAD, "name"]], on="row")
    effects = numbers[numbers["name"].isin(EFFECTS) & (numbers["texts"] > 0)]
    finished = {
        "heads": _heads(numbers[is_metric], tables["bins"], tables["dropped"]),
        "effects": effects.drop(columns="m2"),
        "distances": _distances(tables["distances"]),
        "examples": examples.assign(rank=examples.groupby("row").cumcount() + 1).drop(columns="row"),
        "pairs": tables["pairs"].assign(rank=tables["pairs"].groupby("place").cumcount() + 1).drop(columns="place"),
        "problems": tables["problems"],
        "totals": tables["totals"],
    }
    return {name: table.reset_index(drop=True) for name, table in finished.items()}


def _add_intervals(numbers: pd.DataFrame) -> pd.DataFrame:
    """Add the mean over texts, its confidence interval, and the standard deviation over texts; NaN where undefined."""
    from scipy import stats  # takes a second, and workers do not need it

    texts = numbers["texts"].to_numpy(dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(texts > 0, numbers["mean"], np.nan)
        spread = np.sqrt(np.where(texts > 1, numbers["m2"], np.nan) / (texts - 1))
        width = stats.t.ppf((1 + LEVEL) / 2, np.maximum(texts - 1, 1)) * spread / np.sqrt(texts)
    return numbers.assign(mean=mean, low=mean - width, high=mean + width, spread=spread)


def _heads(numbers: pd.DataFrame, bins: pd.DataFrame, dropped: pd.DataFrame) -> pd.DataFrame:
    """Make the table of heads, with the columns that `Atlas.heads` describes.

    `pairs_above` is at least 0.5: a larger weight is the largest of its row, so its pair is not missing.
    """
    bins_by_row = dict(iter(bins.groupby("row")))
    table = dropped[HEAD].copy()
    kind_and_layer = table["site"].str.split(" layer ", expand=True)
    table.insert(1, "kind", kind_and_layer[0])
    table.insert(2, "layer", kind_and_layer[1].astype(int))
    columns: dict[str, Any] = {}
    for name, rows in numbers.groupby("name", sort=False):
        quantiles = [_quantiles(bins_by_row.get(row), LEAST.get(name, 0.0)) for row in rows.index]
        rows = rows.join(pd.DataFrame(quantiles, columns=[*QUANTILES, FAILS], index=rows.index))
        columns[name] = rows["mean"].to_numpy()
        for column in columns_of(name)[1:]:
            columns[column] = rows[column.removeprefix(f"{name}_")].to_numpy()
    table = pd.concat([table, pd.DataFrame(columns)], axis=1)
    first_roles = [next(iter(roles(row)), None) for row in table.to_dict("records")]
    table.insert(4, "role", pd.Series([role and role.name for role in first_roles], dtype=object))
    table.insert(5, "role_fails", [np.nan if role is None else role.fails for role in first_roles])
    return table.assign(pairs_above=dropped["value"].clip(lower=0.5))


def _quantiles(bins: pd.DataFrame | None, bound: float) -> list[float]:
    """Compute `QUANTILES` (the lower of two values) and the share of values below a bound, from binned counts."""
    if bins is None:  # the metric has no value for this head
        return [np.nan] * (len(QUANTILES) + 1)
    cumulative = np.cumsum(bins["count"].to_numpy())
    ranks = np.floor(np.array([*QUANTILES.values()]) * (cumulative[-1] - 1))  # of the sorted values, from 0
    values = _values(bins["bin"].to_numpy()[np.searchsorted(cumulative, ranks, side="right")])
    below = bins["count"][bins["bin"] < _bins(np.array([bound]))[0]].sum()
    return [*values, float(below / cumulative[-1])]


def _distances(sums: pd.DataFrame) -> pd.DataFrame:
    """Make the table of distances over all texts, in the bins of `ByDistance.curve`, negative before the query."""
    sign = np.sign(sums["bin"])  # 0 for bin 0, so that both ends are 0
    nearest = 2.0 ** (sums["bin"].abs() - 1)
    share = sums["weight"] / sums.groupby(HEAD)["weight"].transform("sum")
    ends = {"nearest": (sign * nearest).astype(int), "furthest": (sign * (2 * nearest - 1)).astype(int)}
    rows = sums.assign(**ends, share=share, mean=sums["weight"] / sums["pairs"], pairs=sums["pairs"].astype("int64"))
    return rows[rows["pairs"] > 0][[*HEAD, "nearest", "furthest", "share", "pairs", "mean"]]
