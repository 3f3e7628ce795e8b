"""`attnviz export --form`: a head in each of its forms."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attnviz import analyze
from attnviz.figures import FORMS

HEAD = ("export", "the cat sat down", "--model", "scratch")


@pytest.fixture
def run(run):
    """Function that exports a head; it returns status, stdout and stderr."""
    return lambda *words: run(*HEAD, *words)


def test_lines_of_two_heads_from_one_token(run):
    """The table holds the lines from that token, of both heads, from the given weight on."""
    status, *_ = run(
        "--form", "lines", "--set", "also=2", "--set", "pins=q1", "--set", "least=0.2", "-o", "a.csv", "-o", "a.svg"
    )
    table = pd.read_csv("a.csv")

    assert status == 0
    assert set(table["query"]) == {1}
    assert set(table["head"]) <= {0, 2}
    assert (table["weight"] >= 0.2).all()


def test_the_text_shaded_by_the_attention_to_a_token(run):
    """The arrays are the column of the head's map."""
    run("-o", "map.npz")
    status, *_ = run("--form", "text", "--set", "pins=k3", "--set", "side=to", "-o", "text.npz", "-o", "text.png")

    assert status == 0
    assert np.array_equal(np.load("text.npz")["weights"], np.load("map.npz")["weights"][:, 3])


def test_a_part_of_a_map_is_that_part_of_it(run):
    run("-o", "map.npz")
    status, *_ = run("--set", "zoom=1.3.0.1", "-o", "part.npz", "-o", "part.svg")

    assert status == 0
    assert np.array_equal(np.load("part.npz")["weights"], np.load("map.npz")["weights"][1:4, :2])
    assert "queries 1 to 3 of 4, keys 0 to 1 of 4" in (Path.cwd() / "part.svg").read_text("utf-8")


CLICKABLE = [name for name, form in FORMS.items() if form.is_on_page and form.fits is None and form.selects]


@pytest.mark.parametrize("name", CLICKABLE)
def test_a_click_on_a_form_reaches_the_page(name):
    """As a selection "cell" of the fields that the page reads, which each table of what is clicked holds."""
    record, form = analyze("the cat sat down", "scratch"), FORMS[name]
    figure = form.figure(record, record.sites[0], [0] if "heads" in form.takes else 0)
    (cell,) = (one for one in figure.form.spec["params"] if one["name"] == "cell")
    clicked = cell["select"]["fields"]

    assert clicked == ["query", "key", "rev"]
    assert any(set(clicked) <= set(table) for table in figure.data.values())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "zoom=1.4.0.1"), "The zoom ends at 4.1; there are 4 queries and 4 keys, counted from 0."),
        (("--set", "zoom=2.1.0.1"), "The zoom ends at 1.1; there are 4 queries and 4 keys, counted from 0."),
        (("--set", "cell=4.0"), "The cell is 4.0; there are 4 queries and 4 keys, counted from 0."),
        (("--set", "cell=4"), "--set cell: '4' cannot be read"),
        (("--form", "?"), f"There is no form '?'. Available: {', '.join(FORMS)}, heads, overview,"),
        (("--form", "picture"), "Neither queries nor keys of encoder layer 0 are patches of a picture"),
        (("--form", "lines", "--set", "zoom=0.1.0.3", "--set", "pins=q2"), "Token 2 is not shown in this view"),
        (("--form", "lines", "--set", "pins=q4"), "Token 4 is not shown in this view"),
        (("--form", "lines", "--set", "least=nan"), "--set least: 'nan' cannot be read"),
        (("--form", "lines", "--set", "also=a"), "--set also: 'a' cannot be read"),
        (("--form", "lines", "--set", "also=9"), "There is no head 9"),
    ],
)
def test_what_cannot_be_is_one_sentence(run, words, message):
    status, _, error = run(*words)

    assert status == 2
    assert message in error


@pytest.mark.parametrize(("form", "column"), [("lens", "probability"), ("pushed", "adds")])
def test_a_grid_of_words_is_a_form(run, form, column):
    """The grid has the named positions; a missing position is refused."""
    status, *_ = run("--model", "story", "--form", form, "--set", "zoom=1.3.0.1", "-o", "words.csv", "-o", "words.svg")

    assert status == 0
    assert set(pd.read_csv("words.csv")["position"]) == {1, 2, 3}
    assert column in pd.read_csv("words.csv")
    status, _, error = run("--model", "story", "--form", form, "--set", "zoom=1.99.0.1")
    assert status
    assert "The zoom ends at 99.1; there are 5 queries and 5 keys, counted from 0." in error
