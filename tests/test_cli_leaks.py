"""The command `leaks`: what is printed, what is written, and the exit status."""

import csv
from functools import partial

import pytest
import tiny

CAT = "the black cat"


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        yield tiny.install(tmp_path_factory.mktemp("assets"), patch)
    tiny.forget()


@pytest.fixture
def run(run):
    """Runs the command in an empty folder; gives status, stdout and stderr."""
    return partial(run, "leaks")


def test_no_leak_is_0(run):
    status, out, err = run(CAT, "--model", "story")

    assert (status, err) == (0, "")
    assert out.startswith("Leak test: no leak · decoder, 2 layers · story\n")


def test_a_leak_is_1_and_each_is_told(run, tmp_path):
    """The table has one row for each cell."""
    status, out, _ = run(CAT, "--model", "story", "--no-own-mask", "-o", "leaks.csv", "-o", "leaks.png")

    leaks = [line for line in out.splitlines() if " saw " in line]
    assert status == 1
    assert leaks[0].startswith("position 0 “<sos>” saw position 1 “the”: its output moved by ")
    assert len(leaks) == 6
    assert out.endswith("leaks.csv\nleaks.png\n")
    rows = list(csv.DictReader((tmp_path / "leaks.csv").read_text("utf-8-sig").splitlines()))
    assert sum(row["state"] == "saw what it must not" for row in rows) == 6


def test_a_layer_and_a_promise_can_be_asked_for(run):
    scratch = ("one two three", "--model", "scratch", "--mask", "window=1")

    assert run(*scratch)[0] == 0
    status, out, _ = run(*scratch, "--promised", "window=0", "--layer", "0")
    assert status == 1
    assert out.startswith("Leak test: 2 leaks · encoder layer 0 · scratch\n  expected: window (0 before, 0 after)\n")


def test_nothing_hidden_is_3(run):
    status, out, _ = run("one two three", "--model", "scratch")

    assert status == 3
    assert out.startswith("Leak test: not tested, as no token is hidden from any output")


def test_many_leaks_are_counted(run):
    _, out, _ = run(" ".join("abcdefgh"), "--model", "scratch", "--promised", "window=0")

    assert "... and 36 more; -o leaks.csv lists them" in out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--layer", "7"), "'story' has no decoder layer 7. It has: decoder layer 0, decoder layer 1."),
        (("--kind", "encoder"), "'story' has no 'encoder'. It has: decoder."),
        (("--most", "2"), "at most 2 of them; here are 3."),
        (("--sentence", "2"), "There is no sentence 2; there are 1, counted from 1."),
        (("--promised", "what"), "there is no rule 'what'. There are: block_diffusion, "),
    ],
)
def test_what_does_not_fit_is_2_and_one_line(run, options, says):
    status, out, err = run(CAT, "--model", "story", *options)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_words_that_are_not_known_are_told(run):
    assert "does not know “zebra”" in run("the zebra", "--model", "story")[2]
