"""Records as tidy pandas tables, one row per fact: the data of figures and CSV files.

Column names are fixed; tokens are the raw text. Above `MOST_CELLS` cells, a table has only the `STRONGEST` open keys of
each query, with exact weights; the column `rest` is the sum of all other weights, and the table's note says so.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from attnviz import analysis
from attnviz.analysis.align import AlignedPair
from attnviz.analysis.blocks import row_slices
from attnviz.analysis.views import AttentionView, SeenMask
from attnviz.check.leaks import STATES, LeakTest
from attnviz.core.display import as_sentence, without_surrogates
from attnviz.core.record import Record

MOST_CELLS = 512 * 512
"""Maximum number of cells of which each has a row."""
STRONGEST = 16
"""Maximum number of keys per query in a table with more than `MOST_CELLS` cells."""


def weights_table(view: AttentionView, head: int | str) -> pd.DataFrame:
    """Make a table with a row per cell: query, query_token, key, key_token, weight, score, state, rule.

    If the model predicts words, a column `predicts` follows query_token. `state` is one of `analysis.STATES`; `rule`
    names the rule that blocks a cell. Combined heads and merged words have no score; a note describes the view.
    """
    return _weights(view, head, many=len(view.queries) * len(view.keys) > MOST_CELLS)


def heads_table(view: AttentionView) -> pd.DataFrame:
    """Make a `weights_table` of all heads of a site, with a first column "head"."""
    num_heads = view.step.num_heads
    many = num_heads * len(view.queries) * len(view.keys) > MOST_CELLS
    tables = [_weights(view, head, many=many, num_heads=num_heads) for head in range(num_heads)]
    for head, table_of_head in enumerate(tables):
        table_of_head.insert(0, "head", head)
    table = pd.concat(tables, ignore_index=True)
    table.attrs = dict(tables[0].attrs)
    return table


def mask_table(view: SeenMask) -> pd.DataFrame:
    """Make a table with a row per cell of a mask: query, query_token, key, key_token, may_attend, rule.

    A note describes the view. Above `MOST_CELLS` cells, a key is left out if the key before it is blocked by the same
    rule, or both are open; queries after about `MOST_CELLS` rows are left out. The note says so.
    """
    many, cells, count = len(view.queries) * len(view.keys) > MOST_CELLS, [], 0
    for rows, reasons, rule_numbers in view.blocks():
        is_listed = np.ones(rule_numbers.shape, bool)
        if many:  # only cells whose rule differs from that of the key before
            is_listed[:, 1:] = rule_numbers[:, 1:] != rule_numbers[:, :-1]
        i, j = is_listed.nonzero()
        cells.append((i + rows.start, j, _pick(("", *reasons), rule_numbers[i, j])))
        count += len(i)
        if many and count > MOST_CELLS:
            break
    i, j, rules = (np.concatenate(arrays) for arrays in zip(*cells, strict=True))
    note = f"Of {len(view.keys):,} keys, only those with another rule (or none) than the key before."
    if i[-1] + 1 < len(view.queries):
        last = view.queries.starts[i[-1]]
        note = f"{note} Only queries 0 to {last:,} of {len(view.queries):,}: the table would be too long."
    return _table(_view_columns(view, i, j) | {"may_attend": rules == "", "rule": rules}, note if many else "", view)


def change_table(before: Record, after: Record, *, sentence: int = 0) -> pd.DataFrame:
    """Make a table with a row per token: position, token, change (see `analysis.output_change`)."""
    change = analysis.output_change(before, after, sentence).numpy()
    tokens = _texts(after.read[sentence].labels[: len(change)])
    return pd.DataFrame({"position": np.arange(len(change)), "token": tokens, "change": change})


def comparison_table(both: AlignedPair) -> pd.DataFrame:
    """Make a table with a row per cell of two aligned maps, with the positions and tokens in each map.

    The numbers are `a`, `b`, `difference`, and `variation`, the total variation of the whole row. Positions missing
    from a map are empty. Above `MOST_CELLS` cells, only the `STRONGEST` largest differences of each row are listed.
    """
    count = _count(len(both.rows)) if len(both.rows) * len(both.columns) > MOST_CELLS else None
    cells = []
    for rows in row_slices(len(both.rows), len(both.columns)):
        part = both.part(rows)
        (a, _), (b, _), difference = *part.maps, part.difference
        i, j = _largest(np.nan_to_num(difference, nan=-1.0), count)
        cells.append((i + rows.start, j, a[i, j], b[i, j], difference[i, j]))
    i, j, a, b, difference = (np.concatenate(arrays) for arrays in zip(*cells, strict=True))
    columns: dict[str, np.ndarray] = {}
    for side_index, (side, name) in enumerate(((both.a, "a"), (both.b, "b"))):
        for axis, (axis_name, pairs, indices) in enumerate((("query", both.rows, i), ("key", both.columns, j))):
            positions = [pair[side_index] for pair in pairs]
            texts = [None if position is None else side.tokens[axis][position].text for position in positions]
            columns[f"{axis_name}_{name}"] = np.array(positions, dtype=object)[indices]
            columns[f"{axis_name}_token_{name}"] = _pick(texts, indices)
    numbers = {"a": a, "b": b, "difference": difference, "variation": both.variation[i]}
    note = f"Of {len(both.columns):,} keys, the {count} of each query that differ most." if count else ""
    return _table(columns | numbers, note)


def numbers_table(numbers: np.ndarray, name: str, queries: Sequence[str], keys: Sequence[str]) -> pd.DataFrame:
    """Make a table with a row per cell of an array, (Q, K): query, query_token, key, key_token and the number.

    Above `MOST_CELLS` cells, only the `STRONGEST` largest numbers of each query are listed.
    """
    count = _count(len(queries)) if numbers.size > MOST_CELLS else None
    i, j = _largest(numbers, count)
    note = f"Of {len(keys):,} keys, the {count} with the largest {name.replace('_', ' ')} of each query."
    return _table(_cells(i, j, queries, keys) | {name: numbers[i, j]}, note if count else "")


def reached_table(numbers: dict[str, np.ndarray], texts: Sequence[str]) -> pd.DataFrame:
    """Make a table with a row per token: key, key_token, and a column for each array in `numbers`, such as rollout."""
    return pd.DataFrame({"key": np.arange(len(texts)), "key_token": _texts(texts)} | numbers)


def leaks_table(test: LeakTest) -> pd.DataFrame:
    """Make a table with a row per cell of a leak test: query, query_token, key, key_token, moved, promised, state.

    `moved` is the change of the query's output, relative to its length, if the key's token is changed; NaN if that was
    not tested. `promised` tells whether the query may see the key; `state` is one of `attnviz.check.leaks.STATES`.
    """
    i, j = _largest(test.moved.numpy())
    texts = ([token.text for token in tokens] for tokens in (test.queries, test.keys))
    numbers = {"moved": test.moved.numpy().ravel(), "promised": test.promised.numpy().ravel()}
    return pd.DataFrame(_cells(i, j, *texts) | numbers | {"state": _pick(STATES, test.states.numpy().ravel())})


def labels_table(record: Record, *, before: Record | None = None, sentence: int = 0) -> pd.DataFrame:
    """Make a table with a row per class, most probable first: label, probability, probability_before (with `before`).

    For a regression: label, number, and number_before.
    """
    ranked = analysis.labels(record, before=before, sentence=sentence)
    name = "number" if analysis.is_number(record) else "probability"
    return _ranked_table({"label": _texts([label.word for label in ranked])}, ranked, name, before is not None)


def next_word_table(
    record: Record, position: int, *, before: Record | None = None, sentence: int = 0, count: int = 5
) -> pd.DataFrame:
    """Make a table with a row per probable word after a position: position, token, word, probability; see `next_words`.

    Given a run `before` a change with the same tokens up to the position, there is also probability_before.
    """
    ranked = analysis.next_words(record, position, before=before, sentence=sentence, count=count)
    token = analysis.token_at(record, position, sentence=sentence)
    columns = {"position": np.full(len(ranked), position), "token": _texts([token] * len(ranked))}
    words = _texts([next_word.word for next_word in ranked])
    is_comparable = before is not None and analysis.same_input(before, record, position, sentence=sentence)
    return _ranked_table(columns | {"word": words}, ranked, "probability", is_comparable)


def _ranked_table(
    columns: dict[str, np.ndarray], ranked: Sequence[analysis.NextWord], name: str, with_before: bool
) -> pd.DataFrame:
    """Make a table of ranked words: `columns`, then the column `name`, and `name`_before for a run before a change."""
    columns = columns | {name: np.array([word.probability for word in ranked], np.float64)}
    if with_before:
        columns[f"{name}_before"] = np.array([word.before for word in ranked], np.float64)
    return pd.DataFrame(columns)


def step_by_step_table(record: Record, *, before: Record | None = None, sentence: int = 0) -> pd.DataFrame:
    """Make a table with a row per position, or per blank: position, token, word, probability.

    See `analysis.predicted_words`. Given a run `before` a change, there are also token_before, word_before and
    probability_before; if the runs differ in length, cells of the shorter run are empty.
    """
    runs = {"": record} if before is None else {"": record, "_before": before}
    predictions = {ending: analysis.predicted_words(run, sentence=sentence) for ending, run in runs.items()}
    longest = max(predictions.values(), key=len)
    columns = {"position": np.array([prediction.position for prediction in longest], np.int64)}
    for ending, predicted in predictions.items():
        missing = [None] * (len(longest) - len(predicted))
        columns[f"token{ending}"] = _texts([prediction.token for prediction in predicted] + missing)
        columns[f"word{ending}"] = _texts([prediction.word for prediction in predicted] + missing)
        probabilities = [prediction.probability for prediction in predicted]
        columns[f"probability{ending}"] = np.array(probabilities + missing, np.float64)
    return pd.DataFrame(columns)


def _weights(view: AttentionView, head: int | str, *, many: bool, num_heads: int = 1) -> pd.DataFrame:
    """Make a table of all cells of a head or, if `many`, of the strongest of each query; `num_heads` share a limit."""
    if many:
        return _strongest(view, head, _count(len(view.queries) * num_heads))
    cells = view.cells([head])[0]
    columns = _view_columns(view, *_largest(cells.weights)) | {
        "weight": cells.weights.ravel(),
        "score": None if cells.scores is None else cells.scores.ravel(),
        "state": _pick(analysis.STATES, cells.states.ravel()),
        "rule": _pick(("", *cells.reasons), cells.blocked.ravel()),
    }
    return _table(columns, "", view)


def _view_columns(view: AttentionView | SeenMask, i: np.ndarray, j: np.ndarray) -> dict[str, np.ndarray]:
    """Make the columns query, query_token, predicts (if known), key, key_token of cells in rows i and columns j."""
    columns = {"query": view.queries.starts[i], "query_token": _pick(view.queries.labels, i)}
    if isinstance(view, AttentionView) and view.predicted is not None:
        columns["predicts"] = _pick(view.predicted, i)
    return columns | {"key": view.keys.starts[j], "key_token": _pick(view.keys.labels, j)}


def _strongest(view: AttentionView, head: int | str, count: int) -> pd.DataFrame:
    """Make a table of the `count` strongest open keys of each query, computed in blocks of rows."""
    cells = []
    for rows in view.blocks():
        block = view.block(head, rows)
        all_weights = torch.from_numpy(block.weights)
        is_blocked = torch.from_numpy(block.blocked > 0)
        sizes = all_weights.abs().nan_to_num(nan=torch.inf).masked_fill(is_blocked, -1.0)  # NaN first, blocked last
        largest = sizes.topk(min(count, len(view.keys)), dim=1)
        is_open, keys = (largest.values >= 0).numpy(), largest.indices.numpy()
        weights = np.take_along_axis(block.weights, keys, 1)
        scores = np.zeros_like(weights) if block.scores is None else np.take_along_axis(block.scores, keys, 1)
        rest = all_weights.double().sum(1).numpy() - np.where(is_open, weights, 0).sum(1, dtype=np.float64)
        rest = rest if view.step.linear else rest.clip(min=0)  # not below 0 by rounding
        row_of_cell, _ = np.nonzero(is_open)
        listed = [array[is_open] for array in (keys, weights, scores)]
        cells.append([row_of_cell + rows.start, *listed, rest[row_of_cell]])
    i, j, weights, scores, rest = (np.concatenate(arrays) for arrays in zip(*cells, strict=True))
    states = _pick(analysis.STATES, np.where(np.isnan(weights), analysis.NAN, analysis.WEIGHT))
    numbers = {"weight": weights, "score": scores if view.has_scores(head) else None, "state": states, "rule": ""}
    strongest = "strongest that" if count == 1 else f"{count} strongest that"
    note = f"Of {len(view.keys):,} keys, the {strongest} each query may attend to; rest: all others together."
    return _table(_view_columns(view, i, j) | numbers | {"rest": rest}, note, view)


def _table(columns: dict[str, object], note: str, view: AttentionView | SeenMask | None = None) -> pd.DataFrame:
    """Make a table; `attrs["note"]` tells which rows are left out (`note`) and which tokens a view merges or hides."""
    table, notes = pd.DataFrame(columns), [note] if note else []
    if isinstance(view, AttentionView):
        notes += map(as_sentence, view.rule)
    if view is not None:
        notes += map(as_sentence, view.notes)
    if notes:
        table.attrs["note"] = " ".join(notes)
    return table


def _count(queries: int) -> int:
    """Return the number of keys per query in a table with more than `MOST_CELLS` cells."""
    return max(1, min(STRONGEST, MOST_CELLS // max(1, queries)))


def _largest(cells: np.ndarray, count: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and columns of the `count` cells farthest from 0 in each row; None for all cells."""
    if count is None:
        i, j = np.indices(cells.shape)
        return i.ravel(), j.ravel()
    j = np.argsort(-np.abs(cells), axis=1, kind="stable")[:, :count]
    return np.repeat(np.arange(len(cells)), j.shape[1]), j.ravel()


def _cells(i: np.ndarray, j: np.ndarray, queries: Sequence[str], keys: Sequence[str]) -> dict[str, np.ndarray]:
    """Make the columns query, query_token, key, key_token, with an entry for each cell in row i and column j."""
    return {"query": i, "query_token": _pick(queries, i), "key": j, "key_token": _pick(keys, j)}


def _pick(names: Sequence[str], codes: np.ndarray) -> np.ndarray:
    """Look up the name for each index in an array."""
    return _texts(names)[codes]


def _texts(texts: Sequence[str | None]) -> np.ndarray:
    """Make a column of texts, or of None. Lone surrogates, which pandas refuses, become U+FFFD."""
    return np.array([text if text is None else without_surrogates(text) for text in texts], dtype=object)
