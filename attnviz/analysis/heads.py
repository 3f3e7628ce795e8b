"""Metrics and roles of each head, heads that attend from one word to another, and heads that differ most from a head.

Rows of padding, without an open key or with NaN are left out; a metric without rows is missing (`pandas.NA`), not NaN.
"""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from attnviz.analysis import batch
from attnviz.analysis.batch import HeadBlock, Sums
from attnviz.core.amounts import percent
from attnviz.core.edits import KINDS, Site
from attnviz.core.errors import InputError, ShapeError, quoted
from attnviz.core.record import Record, Step
from attnviz.core.tokens import occurrences


@dataclass(frozen=True)
class Metric:
    """A number that describes a head on a text.

    Attributes:
        name, title: name of the column, and title for readers.
        formula: LaTeX for one row i; a head has the mean over its rows.
        where: meaning of other letters in the formula, and the rows that count, with LaTeX between $; "" if not needed.
        range: smallest and largest value as text, with LaTeX between $.
        low, high: ends of the range; `high` is None if it depends on the text or does not exist.
        source, means: first publication, and meaning in one sentence.
        kinds: kinds of sites for which the metric exists.
        mixing: kinds of weights for which the metric exists; weights of linear attention do not sum to 1.
        needs: data for the metric: "weights", or "values", which a read-only record lacks.
        main: whether a page shows it first.
        measure: function from a block to the numerator and the denominator of the metric.
    """

    name: str
    title: str
    formula: str
    range: str
    low: float
    source: str
    means: str
    measure: Callable[[HeadBlock], Sums]
    where: str = ""
    high: float | None = None
    kinds: tuple[str, ...] = KINDS
    mixing: tuple[str, ...] = ("softmax",)
    needs: str = "weights"
    main: bool = False

    def applies(self, record: Record, block: HeadBlock) -> bool:
        """Whether the metric exists for the attention call of a block; a read-only record has no values."""
        if block.step.site.kind not in self.kinds or block.step.mixing not in self.mixing:
            return False
        if not block.same_tokens and "cross" not in self.kinds:
            return False
        return self.needs == "weights" or not record.read_only


def _read_metric(fields: dict[str, Any]) -> Metric:
    """Make a metric from its table in metrics.toml, where `measure` is the name of a function of `batch`."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    return Metric(**values | {"measure": getattr(batch, fields["measure"])})


_TOML = Path(__file__).with_name("metrics.toml").read_text(encoding="utf-8")
METRICS = tuple(map(_read_metric, tomllib.loads(_TOML)["metric"]))
MAIN = tuple(metric.name for metric in METRICS if metric.main)
"""Names of the metrics that a page shows first."""


def metric(name: str) -> Metric:
    """Look up a metric by name, or raise InputError with the names that exist."""
    metrics = {metric.name: metric for metric in METRICS}
    if name not in metrics:
        raise InputError(f"There is no metric {name!r}. Available: {', '.join(metrics)}.")
    return metrics[name]


def head_metrics(
    record: Record,
    sentence: int = 0,
    site: Site | None = None,
    *,
    names: Sequence[str] | None = None,
    report: Callable[[int, int], None] = lambda done, of: None,
) -> pd.DataFrame:
    """Compute a table with a row per head: site, kind, layer, head, all `METRICS`, rows, left_out.

    `rows` is the number of measured rows, `left_out` the number of rows without an open key or with NaN.

    Args:
        site: attention call to measure; None for all.
        names: metrics to measure; None for all. The columns of other metrics have missing values.
        report: callback with the number of weights measured so far, and the total.
    """
    steps = record.steps if site is None else (record.step(site),)
    metrics = [metric for metric in METRICS if names is None or metric.name in names]
    total, done, tables = weights_of_all(steps), 0, []
    for step in steps:
        num_heads, texts = step.num_heads, range(sentence, sentence + 1)
        sums = torch.zeros(2, num_heads, len(metrics), dtype=torch.float64)  # numerators and denominators
        rows, left_out = torch.zeros(2, num_heads, dtype=torch.long)
        for block in batch.blocks(step, batch.sides_of(record, step), texts, dtype=torch.float64):
            rows += block.measured[0].sum(1)
            left_out += block.num_left_out[0]
            sums += sums_of(record, block, metrics)[:, 0]
            report(done + block.rows.stop * num_heads * step.shape[3], total)
        done += weights_of_all([step])
        columns = {"site": str(step.site), "kind": step.site.kind, "layer": step.site.layer, "head": range(num_heads)}
        columns |= {metric.name: [None] * num_heads for metric in METRICS}
        for metric, sums_of_heads in zip(metrics, sums.permute(2, 1, 0).tolist(), strict=True):
            columns[metric.name] = [numerator / count if count else None for numerator, count in sums_of_heads]
        table = pd.DataFrame(columns | {"rows": rows.tolist(), "left_out": left_out.tolist()})
        tables.append(table.astype({metric.name: "Float64" for metric in METRICS}))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def weights_of_all(steps: Sequence[Step]) -> int:
    """Count the weights of all heads of some attention calls, for one text."""
    return sum(step.num_heads * step.shape[2] * step.shape[3] for step in steps)


def sums_of(record: Record, block: HeadBlock, metrics: Sequence[Metric] = METRICS) -> Tensor:
    """Compute numerators and denominators of M metrics in a block, (2, B, H, M), float64; 0 if one does not exist."""
    sums = torch.zeros(2, *block.measured.shape[:2], len(metrics), dtype=torch.float64)
    for index, metric in enumerate(metrics):
        if metric.applies(record, block):
            sums[..., index] = torch.stack(metric.measure(block))
    return sums


def seconds(record: Record, sentence: int = 0) -> float:
    """Estimate the seconds of `head_metrics`, by measuring a few rows."""
    step = max(record.steps, key=lambda step: step.shape[2] * step.shape[3])
    start, num_rows, texts = perf_counter(), min(32, step.shape[2]), range(sentence, sentence + 1)
    block = next(batch.blocks(step, batch.sides_of(record, step), texts, dtype=torch.float64))
    sums_of(record, replace(block, rows=slice(0, num_rows), position=torch.arange(num_rows)))
    seconds_per_weight = (perf_counter() - start) / (num_rows * step.num_heads * step.shape[3])
    return seconds_per_weight * weights_of_all(record.steps)


@dataclass(frozen=True)
class Threshold:
    """Rule for a role: the metric `metric` is at least `least`, but the metric `unless` (a simpler role) is less."""

    name: str
    metric: str
    least: float
    unless: str | None = None


THRESHOLDS: tuple[Threshold, ...] = (
    Threshold("previous token", "previous", 0.6),
    Threshold("next token", "next", 0.6),
    Threshold("itself", "self", 0.6),
    Threshold("first token (sink)", "first", 0.6),
    Threshold("special tokens", "special", 0.6, unless="first"),
    Threshold("same token elsewhere", "duplicate", 0.5),
    Threshold("induction", "induction", 0.5),
    Threshold("looks evenly", "evenness", 0.9),
)
"""Rules of all roles: more than half of the weight; for duplicates and induction, which are rarer, half is enough."""


@dataclass(frozen=True)
class Role:
    """Suggested role of a head, the evidence in words, and the value of its metric, 0 to 1, as a mean over the texts.

    `fails` is the share of the texts on which the metric is below the threshold; None for a single text.
    """

    name: str
    evidence: str
    value: float
    fails: float | None = None


def roles(row: Mapping[str, Any] | pd.Series) -> tuple[Role, ...]:
    """Suggest roles of a head, the strongest first, from its row of `head_metrics` or `Atlas.heads`."""
    numbers = {name: float(value) for name, value in row.items() if not isinstance(value, str) and pd.notna(value)}
    num_texts, suggested = int(numbers.get("texts", 1)), []
    for rule in THRESHOLDS:
        value = numbers.get(rule.metric, -1.0)  # lacks the metric: below every threshold
        is_explained = rule.unless is not None and numbers.get(rule.unless, 0.0) >= rule.least
        if value < rule.least or is_explained:
            continue
        num_measured = int(numbers.get(f"{rule.metric}_texts", num_texts))
        texts = f"on {num_measured} of {num_texts} texts"
        if num_measured == num_texts:
            texts = "on this text" if num_texts == 1 else f"on average over {num_texts} texts"
        fails = numbers.get(f"{rule.metric}_fails")
        failures = "" if fails is None else f"; in {percent(fails, 0)} of them it fails (is below {rule.least:g})"
        suggested.append(Role(rule.name, f"{rule.name}: {value:.2f} {texts}{failures}", value, fails))
    return tuple(sorted(suggested, key=lambda role: role.value, reverse=True))


def jensen_shannon(a: Tensor, b: Tensor) -> Tensor:
    """Compute the Jensen-Shannon divergence of distributions, (..., K) -> (...), in nats: 0 if equal, at most ln 2.

    H((a + b) / 2) - (H(a) + H(b)) / 2: Lin 1991, Divergence Measures Based on the Shannon Entropy.
    """
    if a.shape != b.shape:
        raise ShapeError(f"The maps differ in shape: {tuple(a.shape)} and {tuple(b.shape)}.")
    entropy = torch.special.entr
    return (entropy((a + b) / 2).sum(-1) - (entropy(a) + entropy(b)).sum(-1) / 2).clamp(min=0)


def farthest(
    record: Record, site: Site, head: int, *, sentence: int = 0, count: int = 3
) -> list[tuple[Site, int, float]]:
    """Find the `count` heads that differ most from a head: site, head and Jensen-Shannon divergence in nats.

    Heads of sites of the same kind are compared. The divergence is the mean over the rows measured in both heads: 0
    for equal weights, ln 2 if no key has weight in both. Linear attention, whose weights are not distributions, and
    heads without common measured rows are left out.
    """
    if record.step(site).mixing == "linear":
        return []
    steps = [step for step in record.steps if step.site.kind == site.kind and step.mixing == "softmax"]
    heads = [(step.site, head_index) for step in steps for head_index in range(step.num_heads)]
    if (site, head) not in heads:
        raise InputError(f"{site.head(head).capitalize()} is not among the {len(heads)} heads that were compared.")
    chosen, (sums, counts) = heads.index((site, head)), torch.zeros(2, len(heads), dtype=torch.float64)
    options = {"heads": 2 * len(heads), "dtype": torch.float64}  # each head twice in memory
    texts = range(sentence, sentence + 1)
    blocks_of_steps = [batch.blocks(step, batch.sides_of(record, step), texts, **options) for step in steps]
    for blocks in zip(*blocks_of_steps, strict=True):  # the same rows of all attention calls
        weights = torch.cat([block.weights[0] for block in blocks])
        measured = torch.cat([block.measured[0] for block in blocks])
        for i in range(len(heads)):
            in_both = measured[i] & measured[chosen]
            sums[i] += (jensen_shannon(weights[i], weights[chosen]) * in_both).sum()
            counts[i] += in_both.sum()
    means = (sums / counts.clamp(min=1)).tolist()
    divergences = [(*heads[i], means[i]) for i in range(len(heads)) if i != chosen and counts[i]]
    return sorted(divergences, key=lambda item: item[2], reverse=True)[:count]


def rank(record: Record, query: str | int, key: str | int, *, sentence: int = 0) -> pd.DataFrame:
    """Rank all heads by the weight from one word to another.

    For words of several tokens, the weight is the mean over the tokens of the query and the sum over the tokens of the
    key. If a word occurs several times, the pair of occurrences with the largest weight counts.

    Args:
        query, key: a word or a phrase (case is ignored), or the position of a token, counted from 0.
        sentence: index in the batch.

    Returns:
        Columns site, kind, layer, head, query and key (positions of the words' first tokens), weight; the largest
        weight first. Heads of calls that do not have both words are left out.

    Raises:
        InputError: if no call has both words, or there is no such sentence.
    """
    if not 0 <= sentence < len(record.sentences):
        raise InputError(f"There is no sentence {quoted(sentence)}; there are {len(record.sentences)}, counted from 0.")
    rows = []
    for step in record.steps:
        texts = record.texts(step.site, sentence=sentence)
        tokens = record.tokens(step.site, sentence=sentence)
        spans = []  # of the query and of the key: first token of each occurrence, and the token after its last
        for text, tokens_of_text, word in zip(texts, tokens, (query, key), strict=True):
            if isinstance(word, int):
                spans.append([(word, word + 1)] if 0 <= word < len(tokens_of_text) else [])
                continue
            whole_word = rf"(?<!\w){re.escape(word.strip())}(?!\w)"
            matches = occurrences(text.text, tokens_of_text, whole_word) if word.strip() else []
            spans.append([(first, stop) for first, stop, _ in matches])
        query_spans, key_spans = spans
        for head in range(step.num_heads) if query_spans and key_spans else ():
            pairs = []  # weight and first tokens of each pair of occurrences
            for first_query, stop in query_spans:
                means = step.weights(head, slice(first_query, stop), slice(None), sentence=sentence).double().mean(0)
                pairs += [(float(means[slice(*span)].sum()), first_query, span[0]) for span in key_spans]
            weight, query_token, key_token = max(pairs, key=lambda pair: pair[0])
            rows.append((str(step.site), step.site.kind, step.site.layer, head, query_token, key_token, weight))
    if not rows:
        raise InputError(f"No attention goes from {quoted(query)} to {quoted(key)}: give words that the text has.")
    table = pd.DataFrame(rows, columns=["site", "kind", "layer", "head", "query", "key", "weight"])
    return table.sort_values("weight", ascending=False, kind="stable", ignore_index=True)
