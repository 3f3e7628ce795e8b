"""The Parquet file of a shard: rows of several kinds in one table, written whole or not at all.

kind      one row per                    with
metric    site, head, metric             texts, mean, m2 (the sum of squared deviations from the mean), num and den
                                         (the quotient over all rows of all texts), bins and counts (see `sketch`)
class     site, head, class of tokens    the same without the sketch, and even: the mean of an even spread
distance  site, head, bin                num (weights), den (pairs that may attend)
effect    site, head, effect             texts, mean, m2
example   site, head, metric             value, file, line: the texts with the largest values
pair      site, head                     value (the weight), file, line, query, key, query_token, key_token
dropped   site, head                     value: the largest weight of a pair that is not among them
problem                                  file, line, name (what is wrong with it)
shard                                    texts, num (tokens), den (empty lines)
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from attnviz.analysis.heads import METRICS
from attnviz.atlas import sketch
from attnviz.atlas.classes import CLASSES
from attnviz.atlas.corpus import EMPTY, Shard
from attnviz.atlas.measure import FURTHEST, Measured, OfSite, Options, named
from attnviz.core import whole
from attnviz.core.edits import Site
from attnviz.studies.ablation import EFFECTS

NAMES = tuple(measure.name for measure in METRICS)

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("kind", "site", "name", "file", "query_token", "key_token")),
        *((name, pa.float64()) for name in ("mean", "m2", "num", "den", "even", "value")),
        *((name, pa.list_(pa.int32())) for name in ("bins", "counts")),
        *((name, pa.int32()) for name in ("head", "query", "key")),
        *((name, pa.int64()) for name in ("texts", "line")),
    ]
)

MOST_NAMED = 100
"""Problems of a shard that are named; of more, it is said how many."""


def table(measured: Measured, shard: Shard, options: Options) -> pa.Table:
    """Rows of a shard."""
    parts, offset = [], 0
    for site, measurement in measured.sites.items():
        heads = measurement.sums.shape[2]
        parts += [_metrics(site, measurement), _classes(site, measurement), _distances(site, measurement)]
        parts += [_examples(site, measurement, measured, options), *_pairs(site, measurement, measured)]
        parts.append(_effects(site, measured.effects[:, offset : offset + heads]))
        offset += heads
    parts = [part.assign(file=shard.file) if "line" in part else part for part in parts]
    parts += [_problems(measured, shard), _counts(measured)]
    return pa.concat_tables([_typed(part) for part in parts])


def write(rows: pa.Table, path: Path) -> None:
    """Write a file: what has its name is whole, whatever ends the process or the machine."""
    with whole.unfinished(path) as part:
        pq.write_table(rows, part, compression="zstd")
        with part.open("rb") as file:
            os.fsync(file.fileno())


def _typed(part: pd.DataFrame) -> pa.Table:
    count = len(part)
    arrays = [pa.array(part[f.name], f.type, from_pandas=True) if f.name in part else None for f in SCHEMA]
    columns = [pa.nulls(count, f.type) if array is None else array for f, array in zip(SCHEMA, arrays, strict=True)]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _grid(kind: str, site: Site, heads: int, names: tuple[str, ...], **columns: Any) -> pd.DataFrame:
    """A row per head and name, in this order, of (H, names) arrays."""
    where = {"kind": kind, "site": str(site), "head": np.repeat(np.arange(heads), len(names))}
    flat = {name: np.reshape(values, heads * len(names)) for name, values in columns.items()}
    return pd.DataFrame(where | {"name": np.tile(names, heads)} | flat)


def _by_text(values: np.ndarray) -> dict[str, np.ndarray]:
    """Count, mean and sum of squared deviations over the first axis; NaN is left out."""
    finite = np.isfinite(values)
    count = finite.sum(0)
    mean = np.where(finite, values, 0).sum(0) / np.maximum(count, 1)
    return {"texts": count, "mean": mean, "m2": np.where(finite, (values - mean) ** 2, 0).sum(0)}


def _metrics(site: Site, measurement: OfSite) -> pd.DataFrame:
    values = measurement.values
    _, heads, names = values.shape
    num, den = np.where(np.isfinite(values), measurement.sums, 0).sum(1)
    part = _grid("metric", site, heads, NAMES, **_by_text(values), num=num, den=den)
    indices = np.flatnonzero(np.isfinite(values)) % (heads * names)
    keys, counts = sketch.counted(indices * sketch.WIDTH + sketch.bins(values[np.isfinite(values)]))
    ends = np.searchsorted(keys, np.arange(1, heads * names) * sketch.WIDTH)
    each = ((keys % sketch.WIDTH), counts)
    part["bins"], part["counts"] = (pd.Series(np.split(array, ends), dtype=object) for array in each)
    return part


def _classes(site: Site, measurement: OfSite) -> pd.DataFrame:
    with np.errstate(invalid="ignore"):
        share, even = measurement.shares / measurement.rows[None, ..., None]
    counted = {
        "num": measurement.shares[0].sum(0),
        "den": np.broadcast_to(measurement.rows.sum(0)[:, None], even.shape[1:]),
    }
    return _grid("class", site, even.shape[1], CLASSES, **_by_text(share), **counted, even=_by_text(even)["mean"])


def _distances(site: Site, measurement: OfSite) -> pd.DataFrame:
    bins = tuple(str(i) for i in range(-FURTHEST, FURTHEST + 1))
    return _grid(
        "distance", site, measurement.distance.shape[1], bins, num=measurement.distance[0], den=measurement.distance[1]
    )


def _effects(site: Site, effects: np.ndarray) -> pd.DataFrame:
    return _grid("effect", site, effects.shape[1], tuple(EFFECTS), **_by_text(effects))


def _examples(site: Site, measurement: OfSite, measured: Measured, options: Options) -> pd.DataFrame:
    """The texts with the largest values of each metric; of equal ones those that come first."""
    values = np.where(np.isfinite(measurement.values), measurement.values, -np.inf)
    order = np.argsort(-values, axis=0, kind="stable")[: options.keep]
    best = np.take_along_axis(values, order, 0)
    head, name, rank = (best > -np.inf).transpose(1, 2, 0).nonzero()
    lines = np.array([text.line for text, _ in measured.read], dtype=np.int64)
    where = {"kind": "example", "site": str(site), "head": head, "name": np.array(NAMES)[name]}
    return pd.DataFrame(where | {"value": best[rank, head, name], "line": lines[order[rank, head, name]]})


def _pairs(site: Site, measurement: OfSite, measured: Measured) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The largest weight of every two tokens, and of these the largest; and of each head the largest of the others."""
    columns = ("text", "head", "query", "key", "value")
    part = pd.DataFrame(dict(zip(columns, measurement.pairs, strict=False)))
    part = part.sort_values(["head", "value", "text", "query"], ascending=[True, False, True, True])
    places = list(zip(part["text"], part["query"], part["key"], strict=True))
    read = [sentence for _, sentence in measured.read]
    targets = measured.written or read
    query_texts, key_texts = (
        (read if site.kind == "encoder" else targets),
        (targets if site.kind == "decoder" else read),
    )
    part["query_token"] = [query_texts[text].tokens[query].text for text, query, _ in places]
    part["key_token"] = [key_texts[text].tokens[key].text for text, _, key in places]
    part["line"] = [measured.read[text][0].line for text in part.pop("text")]
    dropped = _grid("dropped", site, len(measurement.dropped), ("",), value=measurement.dropped)
    return part.assign(kind="pair", site=str(site)), dropped


def _problems(measured: Measured, shard: Shard) -> pd.DataFrame:
    wrong = [problem for problem in measured.problems if named(problem)]
    rows = [(shard.file, problem.line, problem.error) for problem in wrong[:MOST_NAMED]]
    if len(wrong) > MOST_NAMED:
        rows.append((shard.file, wrong[MOST_NAMED].line, f"{len(wrong) - MOST_NAMED:,} more lines could not be read."))
    return pd.DataFrame(rows, columns=["file", "line", "name"]).assign(kind="problem")


def _counts(measured: Measured) -> pd.DataFrame:
    empty = sum(problem.error == EMPTY for problem in measured.problems)
    return pd.DataFrame([{"kind": "shard", "texts": len(measured.read), "num": measured.tokens, "den": empty}])
