"""Records as tidy tables."""

import numpy as np
import pytest
from pictures import CROSS, SITE, record_of, translation_of

from attnviz.analysis import tables, views
from attnviz.core.edits import Edits
from attnviz.core.masks import Strided, Subsequent, Window
from attnviz.export import csv

WORDS = ["The", "cat", "sat", "The"]


def see_mask(mask, queries, keys):
    return views.see_mask(mask, views.as_tokens(queries), views.as_tokens(keys))


COLUMNS = ["query", "query_token", "key", "key_token", "weight", "score", "state", "rule"]


def test_a_table_of_weights_has_a_row_per_cell_with_the_records_own_numbers():
    record = record_of(WORDS, edits=Edits(mask=Subsequent()))
    step = record.step(SITE)

    table = tables.weights_table(views.see(record, SITE), 1)

    assert list(table.columns) == COLUMNS
    assert (table["weight"].to_numpy(np.float32).reshape(4, 4) == step.weights(1).numpy()).all()
    assert (table["score"].to_numpy(np.float32).reshape(4, 4) == step.scores(1).numpy()).all()
    assert table.query("query == 1 and key == 3")[["key_token", "state", "rule"]].values.tolist() == [
        ["The", "blocked", "causal"]
    ]
    assert set(table[table["state"] == "weight"]["rule"]) == {""}


def test_what_is_left_out_of_a_large_table_is_one_number_for_each_query(monkeypatch):
    """With what is kept it is the sum of the row; a table has no more rows than it may, whatever the length."""
    record = record_of(["w"] * 60, heads=2, edits=Edits(mask=Subsequent()))
    weights = record.step(SITE).weights(0).double()
    monkeypatch.setattr(tables, "MOST_CELLS", 300)

    table = tables.weights_table(views.see(record, SITE), 0)
    every = tables.heads_table(views.see(record, SITE))

    assert "the 5 strongest that each query may attend to; rest: all others together" in table.attrs["note"]
    assert len(table) <= 300
    assert len(every) <= 300
    for query, rows in table.groupby("query"):
        expected = weights[query].sum() - weights[query].topk(min(5, query + 1)).values.sum()
        assert rows["rest"].tolist() == pytest.approx([float(expected)] * len(rows), abs=1e-12)


def test_a_large_mask_of_many_runs_is_listed_as_far_as_there_is_room(monkeypatch):
    """And says how far that is."""
    monkeypatch.setattr(tables, "MOST_CELLS", 300)
    monkeypatch.setattr("attnviz.analysis.blocks.BLOCK", 600)
    striped = Strided(2)

    table = tables.mask_table(see_mask(striped, "w" * 60, "w" * 60))

    assert len(table) < 1_000
    assert f"Only queries 0 to {table['query'].max()} of 60: the table would be too long." in table.attrs["note"]


def test_a_large_mask_has_a_row_per_run_of_keys_and_says_so():
    """Every cell's answer is that of the last row at or before it; 4,096 tokens make 12,000 rows, not 16 million."""
    mask = Subsequent() & Window(3, 1)

    table = tables.mask_table(see_mask(mask, "w" * 600, "w" * 600))

    assert "only those with another rule" in table.attrs["note"]
    assert len(table) < 4 * 600
    row = table[table["query"] == 300]
    assert row["key"].tolist() == [0, 297, 301, 302]
    assert row["may_attend"].tolist() == [False, True, False, False]
    assert row["rule"].tolist() == [f"{Window(3, 1)}", "", "causal", f"causal and {Window(3, 1)}"]
    assert table["query"].nunique() == 600


def test_a_table_says_what_each_row_predicts_where_the_model_says_words():
    """After the token that was read; of a translation the queries are what was written, the keys what was read."""
    record = translation_of(["the", "cat"], {"le": 1.0}, {"chat": 1.0}, {"<eos>": 1.0})

    table, heads = tables.weights_table(views.see(record, CROSS), 0), tables.heads_table(views.see(record, CROSS))

    assert list(table.columns) == ["query", "query_token", "predicts", *COLUMNS[2:]]
    assert table[["query_token", "predicts", "key_token"]].values.tolist()[:3] == [
        ["<sos>", "le", "the"],
        ["<sos>", "le", "cat"],
        ["le", "chat", "the"],
    ]
    assert heads["predicts"].tolist() == table["predicts"].tolist() * 2
    assert len(heads) == 2 * 3 * 2


def test_each_step_has_a_row_and_what_a_run_did_not_reach_is_empty():
    first = {"le": 0.0, "la": 1.0}
    after = translation_of(["the"], first, {"<eos>": 1.0})
    before = translation_of(["the"], first, first, {"<eos>": 1.0})

    alone, both = tables.step_by_step_table(after), tables.step_by_step_table(after, before=before)

    assert alone.values.tolist() == [[0, "<sos>", "la", 1.0], [1, "la", "<eos>", 1.0]]
    columns = ["position", "token", "word", "probability", "token_before", "word_before", "probability_before"]
    assert list(both.columns) == columns
    assert both["word_before"].tolist() == ["la", "la", "<eos>"]
    assert both.loc[2, ["token", "word", "probability"]].isna().all()
    assert b"\r\n2,,,,la,<eos>,1\r\n" in csv(both)
