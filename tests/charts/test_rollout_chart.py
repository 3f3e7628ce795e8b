"""Attention rollout through all layers: the map, and one of its rows."""

import numpy as np
import pytest
from pictures import data, record_of, texts

from attnviz import figures
from attnviz.analysis import sentences
from attnviz.analysis.rollout import mixed, rollout
from attnviz.charts.theme import LIGHT
from attnviz.core.amounts import percent
from attnviz.figures.attribution import Traced

SHARES = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]])


def traced(names=("a", "b", "c"), shares=None):
    record = record_of(list(names))
    found = mixed(record)
    return Traced(record, found, 0, rollout(found)[-1].numpy() if shares is None else shares)


def cells(chart, name):
    return [row[name] for row in data(chart, "cells")]


def test_the_map_holds_the_shares():
    """Each cell its own number, the color ending at the largest."""
    half = figures.rollout(traced(shares=SHARES / 2)).chart

    assert cells(half, "share") == (SHARES / 2).ravel().tolist()
    assert data(half, "meta")[0]["top"] == 0.5
    assert [row["label"] for row in data(half, "rows")] == [row["label"] for row in data(half, "columns")] == [*"abc"]
    assert cells(half, "ground")[0] == LIGHT.ramp[-1]


def test_a_token_that_cannot_have_arrived_is_hatched():
    """A share of exactly 0, and the legend says so; where every token arrives, nothing is hatched."""
    causal = np.tril(np.full((4, 4), 0.25))

    for shares, there in ((causal, True), (np.full((4, 4), 0.25), False)):
        chart = figures.rollout(traced(["one", "two", "three", "four"], shares=shares)).chart
        assert ("no path" in str(data(chart, "legend"))) is there
        assert [path is not None for path in cells(chart, "path")] == (shares.ravel() == 0).tolist()


def test_numbers_beside_bars_and_in_tables_are_those_of_the_metrics():
    one = traced(["one", "two", "three", "four"])
    figure = figures.rollout_row(one, 3)

    assert figure.table["rollout"].tolist() == one.shares[3].tolist()
    assert {percent(value) for value in one.shares[3]} <= {*texts(figure.chart)}
    table = figures.rollout(one).table
    assert table.query("query == 1 and key == 2")["share"].item() == one.shares[1, 2]
    assert table.query("query == 1")["share"].sum() == pytest.approx(1)


def test_what_reaches_a_position_is_said_in_words():
    """The largest first."""
    said = sentences.reached(SHARES[2], ["a", "b", "c"], 2)

    assert said == "“c” (2) is mixed from: itself 50.0%, “a” (0) 25.0%, “b” (1) 25.0%."
    assert "58.3% of a position on average" in sentences.reaches(SHARES, ["a", "b", "c"])
    assert "50.0% of position “b” (1) comes from “a” (0)" in sentences.reaches(SHARES, ["a", "b", "c"])
