"""Lessons from the shell."""

import os
from urllib.parse import parse_qs

import pytest

from attnviz import cli, lessons
from attnviz.ui import launch


@pytest.fixture
def opened(monkeypatch):
    """The links that the app would open."""
    links = []
    monkeypatch.setattr(launch, "launch", lambda *given: links.append(given[-1]))
    monkeypatch.delenv(lessons.FILE, raising=False)
    return links


def test_without_a_name_the_lessons_are_listed(capsys, opened):
    """One line each, and nothing opens."""
    assert cli.main(["lesson"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(lessons.SHIPPED)
    assert "(20 minutes)" in lines[1]
    assert not opened


def test_a_shipped_lesson_opens_at_its_first_step(opened):
    assert cli.main(["lesson", "45-minutes", "--present"]) == 0

    page, _, settings = opened[0].partition("?")
    assert page == "learn"
    assert parse_qs(settings) == {"lesson": ["45-minutes"], "present": ["true"]}


def test_a_lesson_of_ones_own_is_read_by_the_server(opened, tmp_path, monkeypatch):
    """The link names no file; the server is told where it is."""
    monkeypatch.setenv(lessons.FILE, "")
    (tmp_path / "mine.toml").write_text('title = "Mine"\n[[step]]\nchapter = 3\n')

    assert cli.main(["lesson", str(tmp_path / "mine.toml")]) == 0

    assert parse_qs(opened[0].partition("?")[2])["lesson"] == [lessons.OWN]
    assert os.environ[lessons.FILE] == str(tmp_path / "mine.toml")


@pytest.mark.parametrize(("text", "says"), [(None, "No such file"), ('title = "Mine"', "has no steps")])
def test_a_lesson_that_cannot_be_opened_says_why(opened, tmp_path, capsys, text, says):
    """In one line, with exit status 2."""
    if text:
        (tmp_path / "mine.toml").write_text(text)

    assert cli.main(["lesson", str(tmp_path / "mine.toml")]) == 2

    assert says in capsys.readouterr().err
    assert not opened


def test_a_handout_is_one_file_that_a_browser_prints(opened, tmp_path, capsys):
    """Its texts are set as on the page: no mark of Markdown is left; another format is refused."""
    (tmp_path / "mine.toml").write_text(
        'title = "Mine"\n[[step]]\ntitle = "Привет"\nidea = "A **word** *looks*."\nquestion = "Where?"\ndo = "Look."\n'
        'choices = ["here", "there"]\nright = "here"\nanswer = "Here, ∑ √d_k."\nnotes = "Ask"\n'
        'link = "?model=scratch&text=привет мир"\nshows = ["map"]\n',
        encoding="utf-8",
    )
    file = tmp_path / "paper.html"

    assert cli.main(["lesson", str(tmp_path / "mine.toml"), "--handout", str(file), "--solutions"]) == 0
    assert not opened

    paper = file.read_text(encoding="utf-8")
    for part in ("1. Привет", "A <strong>word</strong> <em>looks</em>.", "<li>there</li>", "Here, ∑ √d_k.", "Ask"):
        assert part in paper

    assert cli.main(["lesson", "20-minutes", "--handout", "paper.pdf"]) == 2
    assert "A handout is an .html file, not 'paper.pdf'" in capsys.readouterr().err
