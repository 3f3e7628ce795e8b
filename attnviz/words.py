"""Sentences about records: what one cell says, and what a picture shows for those who cannot see it."""

from collections.abc import Sequence

import numpy as np

from attnviz import metrics, tables
from attnviz.core.display import isolated, shown
from attnviz.core.edits import Site
from attnviz.core.masks import Mask
from attnviz.core.record import Record, Step

MOST_NAMED = 3
"""So many tokens are named in a description."""


def quoted_token(text: str, position: int) -> str:
    """A token as it stands in a sentence: in quotes, with its position."""
    return f"{quoted(text)} ({position})"


def quoted(text: str) -> str:
    """A token or a word as it stands in a sentence: in quotes."""
    return isolated(f"'{shown(text)}'")


def cell(record: Record, site: Site, head: int | str, query: int, key: int, sentence: int = 0) -> str:
    """One cell as a sentence."""
    step = record.step(site)
    off = " This head is off: its output is not used." if head in step.heads_off else ""
    return f"{_cell(record, site, head, query, key, sentence)}{off}"


def _cell(record: Record, site: Site, head: int | str, query: int, key: int, sentence: int) -> str:
    step = record.step(site)
    found = metrics.cells(step, head, sentence=sentence, rows=slice(query, query + 1), columns=slice(key, key + 1))
    rows, columns = tables.labels_of(record, site, sentence)
    looker, looked = quoted_token(rows[query], query), quoted_token(columns[key], key)
    state, weight = int(found.states[0, 0]), float(found.weights[0, 0])
    if state == metrics.EMPTY:
        return f"{looker} has no key left to look at; its weights are {_POLICIES[step.empty_rows]}."
    if state == metrics.BLOCKED:
        return f"{looked} may not be looked at by {looker}: blocked by {found.reasons[found.blocked[0, 0] - 1]}."
    if state == metrics.NAN:
        return f"The weight that {looker} gives to {looked} is not a number."
    of = "its attention" if isinstance(head, int) else f"its attention ({head} of {all_heads(step)})"
    looker += _predicting(tables.predicted_of(record, site, sentence), query)
    return f"{looker} gives {weight:.2f} of {of} to {looked}."


def _predicting(predicted: Sequence[str] | None, query: int) -> str:
    """What a query predicts, to stand behind it; nothing where it predicts nothing."""
    return f", predicting {quoted(predicted[query])}," if predicted and predicted[query] else ""


def all_heads(step: Step) -> str:
    """What is combined; a head that is off still has weights, and they count."""
    return f"all {step.num_heads} heads, also those off" if step.heads_off else "all heads"


def strongest(record: Record, site: Site, head: int | str, sentence: int = 0) -> str:
    """The cell with the largest weight below 1 as a sentence: a query that has but one key to look at gives it 1."""
    most, at = metrics.strongest(record.step(site), head, sentence=sentence)
    if not most.size:
        return ""
    query = int(np.where(most < 1, most, 0).argmax())
    return cell(record, site, head, query, int(at[query]), sentence)


_POLICIES = {"zero": "zeros", "nan": "NaN", "uniform": "spread evenly over all keys", "error": "undefined"}


def head(record: Record, site: Site, head: int | str, window: dict) -> str:
    """The size, the strongest weights, and what was changed."""
    step = record.step(site)
    rows, columns = tables.labels_of(record, site, window["sentence"])
    queries, keys = np.arange(step.shape[2])[window["rows"]], np.arange(step.shape[3])[window["columns"]]
    comma = "," if step.heads_off else ""
    what = f"Head {head}" if isinstance(head, int) else f"The {head} of {all_heads(step)}{comma}"
    text = f"{what} of {site}, {len(queries)} queries by {len(keys)} keys."
    most, at = metrics.strongest(step, head, **window)
    order = np.argsort(-most, kind="stable")[:MOST_NAMED]
    pairs = ((most[i], queries[i], keys[at[i]]) for i in order if most[i] > 0)
    predicted = tables.predicted_of(record, site, window["sentence"])
    looks = [
        f"{quoted_token(rows[q], q)}{_predicting(predicted, q)} looks most at {quoted_token(columns[k], k)}: {w:.2f}"
        for w, q, k in pairs
    ]
    changed = record.edits.in_words()
    parts = [text, f"{'; '.join(looks)}." if looks else "No weight is above zero."]
    return " ".join([*parts, f"Changed: {', '.join(changed)}."] if changed else parts)


def heads(record: Record, site: Site, largest: Sequence[str]) -> str:
    step = record.step(site)
    queries, keys = step.shape[2:]
    most = ", ".join(f"{head}: {weight}" for head, weight in enumerate(largest))
    off = f" Off: {', '.join(map(str, sorted(step.heads_off)))}." if step.heads_off else ""
    heads = "1 head" if step.num_heads == 1 else f"{step.num_heads} heads"
    return f"{heads} of {site}, each a map of {queries} queries by {keys} keys. Largest weight by head: {most}.{off}"


def mask(mask: Mask, rows: Sequence[str], columns: Sequence[str], sentence: int) -> str:
    blocks = metrics.row_blocks(mask, len(rows), len(columns), sentence)
    open_keys = [count for block in blocks for count in block.sum(1).tolist()]
    allowed, of = sum(open_keys), f"{len(rows)} queries by {len(columns)} keys"
    last = ""
    if len(rows):
        last = f" The last query, {quoted_token(rows[-1], len(rows) - 1)}, may look at {open_keys[-1]} keys."
    return f"Mask '{mask}', {of}: {allowed} of {len(rows) * len(columns)} cells may attend.{last}"


def change(moved: np.ndarray, labels: Sequence[str]) -> str:
    text = f"How far the output vector of each of {len(moved)} tokens moved, as a share of its length."
    if not moved.any():
        return f"{text} None moved."
    order = np.argsort(-np.nan_to_num(moved, nan=np.inf), kind="stable")[:MOST_NAMED]
    amounts = {i: f"{moved[i]:.1%}" if np.isfinite(moved[i]) else str(moved[i]).replace("nan", "NaN") for i in order}
    named = ", ".join(f"{quoted_token(labels[i], i)} {amounts[i]}" for i in order if moved[i] != 0)
    return f"{text} Most: {named}."
