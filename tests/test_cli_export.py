"""`attnviz export LINK`: the picture of a link, in the shell."""

import csv

import pytest


@pytest.mark.parametrize(
    ("link", "command"),
    [
        ("http://127.0.0.1:8501/?model=story&text=the+cat+sat&layer=d0&head=1", "--layer d0 --head 1"),
        (
            "?model=story&text=the+cat+sat&heads_off=d0.1&form=text&layer=d1&head=0",
            "--layer 1 --head 0 --off d0.1 --form text",
        ),
        ("?model=story&text=the+cat+sat&temperature=2&view=words", "--temperature 2 --set view=words"),
        ("overview?model=story&text=the+cat+sat&mask=window(1)", "--form overview --mask window(1)"),
        ("compare?model=story&text=the+cat+sat&b=part%3Dhead%26layer%3Dd1%26head%3D1", "--compare layer=d1&head=1"),
        ("masks?model=story&text=the+cat+sat&mask=causal+%26+window(1)", "--form mask --mask causal&window(1)"),
    ],
)
def test_a_link_is_the_picture_of_the_command(run, link, command):
    """The same numbers."""
    run("export", link, "-o", "link.csv")
    run("export", "the cat sat", "--model", "story", *command.split(), "-o", "command.csv")

    with open("link.csv", encoding="utf-8") as one, open("command.csv", encoding="utf-8") as other:
        assert [*csv.reader(one)] == [*csv.reader(other)]


def test_a_link_without_a_text_is_of_the_first_example_and_a_text_may_begin_like_a_flag(run):
    assert run("export", "?model=story", "-o", "first.png")[0] == 0
    assert run("export", "?model=story&text=-o the cat", "-o", "second.png")[0] == 0


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ("steps?model=story", "is no link to a page with one picture"),
        ("?model=shapes&picture=the+moon", "give the file"),
    ],
)
def test_a_link_that_has_no_picture_in_the_shell_says_why(run, link, reason):
    status, _, message = run("export", link, "-o", "none.png")

    assert status == 2
    assert reason in message
