"""The picture of a leak test."""

import math

import torch
from pictures import data, leaks, legend, lines, title

from attnviz.charts.theme import LIGHT
from attnviz.check.leaks import LeakTest
from attnviz.core.masks import Subsequent
from attnviz.core.tokens import Token

SAID = ["The", "cat", "sat", "down"]


def made(labels=SAID, *, keys=None, saw=((1, 0), (1, 2), (0, 0)), special=(3,), **settings) -> LeakTest:
    """A test in which some queries saw some keys, under a causal promise; special tokens were not changed."""
    queries = tuple(Token(text, i, 0, 0, special=i in special) for i, text in enumerate(labels))
    columns = queries if keys is None else tuple(Token(text, i, 0, 0) for i, text in enumerate(keys))
    moved = torch.zeros(len(queries), len(columns), dtype=torch.float64)
    for cell in saw:
        moved[cell] = 0.25
    if keys is None:
        moved[:, list(special)] = math.nan
    promised = Subsequent().grid(*moved.shape)
    given = {"noise": 0.0, "tolerance": 1e-5, "where": "decoder layer 0", "promise": "causal"} | settings
    return LeakTest(moved, promised, queries=queries, keys=columns, source="story", provenance="random", **given)


def said(chart):
    return [title(chart), *lines(chart), *legend(chart)]


def test_a_red_cell_says_who_saw_whom():
    """With a mark of its own, so that it is told apart without its color."""
    cells = data(leaks(made()), "cells")
    red = [cell for cell in cells if cell["ground"] == LIGHT.leak]

    assert [(cell["query"], cell["key"]) for cell in red] == [(1, 2)]
    assert red[0]["says"] == "position 1 “cat” saw position 2 “sat”: its output moved by 25.0%"
    assert red[0]["path"] not in {cell["path"] for cell in cells if cell is not red[0]}


def test_the_first_leak_is_said_below_or_the_chosen_cell():
    assert "position 1 “cat” saw position 2 “sat”:" in " ".join(said(leaks(made())))
    assert "position 2 “sat” did not see position 0" in " ".join(said(leaks(made(), selected=(2, 0))))
