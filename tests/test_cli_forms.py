"""`attnviz head --as`: a head in each of its forms."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attnviz import analyze, cli
from attnviz.cli.forms import BESIDE_HEADS
from attnviz.cli.parser import renamed
from attnviz.figures import FORMS
from attnviz.figures.base import Figure

HEAD = ("export", "the cat sat down", "--model", "scratch")


def taking(option):
    """Forms of a head that take an option, as an error lists them."""
    return ", ".join(name for name, form in FORMS.items() if option in form.takes)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    return lambda *words: (cli.main([*HEAD, *words]), capsys.readouterr())


def test_lines_of_two_heads_from_one_token(run):
    """The table holds the lines from that token, of both heads, from the given weight on."""
    status, _ = run("--form", "lines", "--beside", "2", "--token", "1", "--least", "0.2", "-o", "a.csv", "-o", "a.svg")
    table = pd.read_csv("a.csv")

    assert status == 0
    assert set(table["query"]) == {1}
    assert set(table["head"]) <= {0, 2}
    assert (table["weight"] >= 0.2).all()


def test_the_text_shaded_by_the_attention_to_a_token(run):
    """The arrays are the column of the head's map."""
    run("-o", "map.npz")
    status, _ = run("--form", "text", "--token", "3", "--to", "-o", "text.npz", "-o", "text.png")

    assert status == 0
    assert np.array_equal(np.load("text.npz")["weights"], np.load("map.npz")["weights"][:, 3])


def test_a_part_of_a_map_is_that_part_of_it(run):
    run("-o", "map.npz")
    status, _ = run("--queries", "1-3", "--keys", "0-1", "-o", "part.npz", "-o", "part.svg")

    assert status == 0
    assert np.array_equal(np.load("part.npz")["weights"], np.load("map.npz")["weights"][1:4, :2])
    assert "queries 1 to 3 of 4, keys 0 to 1 of 4" in (Path.cwd() / "part.svg").read_text("utf-8")


@pytest.mark.parametrize("name", FORMS)
def test_a_form_takes_fields_of_its_figure(name):
    """The page and the shell give these by name."""
    form = FORMS[name]

    assert issubclass(form.figure, Figure)
    assert form.takes <= {field.name for field in fields(form.figure)}


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if form.is_on_page and form.fits is None])
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
        (
            ("--form", "mask", "--head", "1"),
            f"--head is for --form {', '.join(FORMS)}, pushed; not for --form mask.",
        ),
        (("--form", "overview", "--words"), "not for --form overview."),
        (("--queries", "1-4"), "--queries ends at 4; there are 4 queries, counted from 0."),
        (("--cell", "4.0"), "There is no cell 4.0; there are 4 queries and 4 keys, counted from 0."),
        (("--cell", "4"), "'4' is no cell; give 7.2"),
        (("--keys", "3-1"), "'3-1' is no span; give 10-59"),
        (
            ("--form", "distance", "--keys", "0-1"),
            f"--keys is for --form {taking('columns')}; not",
        ),
        (("--form", "?"), f"There is no form '?'. There are: {', '.join([*FORMS, *BESIDE_HEADS])}."),
        (("--form", "picture"), "Neither queries nor keys of encoder layer 0 are patches of a picture"),
        (("--least", "0.1"), f"--least is for --form {taking('least')}; not for --form map."),
        (("--form", "lines", "--row-sums"), f"--row-sums is for --form {taking('row_sums')}; not for --form lines."),
        (
            ("--form", "lines", "--domain", "log"),
            f"--domain is for --form {taking('domain')}, heads, overview; not for --form lines.",
        ),
        (("--form", "lines", "--queries", "0-1", "--token", "2"), "Token 2, sat, is hidden in this view."),
        (("--form", "lines", "--token", "4"), "There is no token 4 to show the attention of; there are 4, from 0."),
        (("--form", "text", "--token", "-1"), "There is no token -1"),
        (("--form", "lines", "--to"), "--to needs a token"),
        (("--sos", "--special", "hide", "--form", "lines", "--token", "0"), "Token 0, <sos>, is hidden in this view."),
        (("--sos", "--special", "hide", "--form", "text", "--token", "0"), "Token 0, <sos>, is hidden in this view."),
        (("--form", "lines", "--least", "nan"), "--least is nan; a weight is from 0 to 1."),
        (("--form", "lines", "--beside", "a"), "'a' are no heads; give 2,3"),
        (("--form", "lines", "--beside", "9"), "There is no head 9"),
    ],
)
def test_what_cannot_be_is_one_sentence(run, words, message):
    status, said = run(*words)

    assert status == 2
    assert message in said.err


@pytest.mark.parametrize(
    ("former", "today", "more"),
    [
        (["head"], ["export"], ["--head", "1"]),
        (["heads"], ["export", "--form", "heads"], []),
        (["mask"], ["export", "--form", "mask"], []),
        (["change"], ["export", "--form", "change"], ["--off", "1"]),
    ],
)
def test_a_former_command_does_what_it_did_and_says_what_replaces_it(
    tmp_path, monkeypatch, capsys, former, today, more
):
    monkeypatch.chdir(tmp_path)
    options = ["the cat sat down", "--model", "scratch", *more]
    statuses = [cli.main([*former, *options, "-o", "a.csv"]), cli.main([*today, *options, "-o", "b.csv"])]

    assert statuses == [0, 0]
    assert Path("a.csv").read_text("utf-8") == Path("b.csv").read_text("utf-8")
    assert f"this command is now 'attnviz {' '.join(today)}'" in capsys.readouterr().err


def test_former_options_of_a_former_command_are_read():
    assert renamed(["head", "a", "--as", "lines"])[0] == ["export", "a", "--form", "lines"]
    assert renamed(["heads", "a", "--all-layers"]) == (["export", "--form", "overview", "a"], "export --form overview")


@pytest.mark.parametrize(("form", "column"), [("lens", "probability"), ("pushed", "adds")])
def test_a_grid_of_words_is_a_form(run, form, column):
    """Of the positions that are named; one that is not there is refused."""
    status, _ = run("--model", "story", "--form", form, "--queries", "1-3", "-o", "words.csv", "-o", "words.svg")

    assert status == 0
    assert set(pd.read_csv("words.csv")["position"]) == {1, 2, 3}
    assert column in pd.read_csv("words.csv")
    status, output = run("--model", "story", "--form", form, "--queries", "1-99")
    assert status
    assert "There are no positions 1 to 99; 0 to 4 exist." in output.err
