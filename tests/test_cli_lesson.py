"""Lessons from the shell."""

import os
import sys
from urllib.parse import parse_qs

import pytest
from pypdf import PdfReader

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


def test_a_handout_is_written_with_its_fonts_inside(opened, tmp_path, capsys):
    """As PDF with tokens of any script, the picture as text; as HTML the same words."""
    (tmp_path / "mine.toml").write_text(
        'title = "Mine"\n[[step]]\ntitle = "Привет"\nidea = "A **word** looks."\nquestion = "Where?"\ndo = "Look."\n'
        'choices = ["here", "there"]\nright = "here"\nanswer = "Here, ∑ √d_k."\nnotes = "Ask"\n'
        'link = "?model=scratch&text=привет мир"\nshows = ["map"]\n',
        encoding="utf-8",
    )
    for name in ("paper.pdf", "paper.html"):
        assert cli.main(["lesson", str(tmp_path / "mine.toml"), "--handout", str(tmp_path / name), "--solutions"]) == 0
    assert not opened

    reader = PdfReader(tmp_path / "paper.pdf")
    text = " ".join(page.extract_text() for page in reader.pages)
    for said in ("Mine", "1. Привет", "A word looks.", "there", "Here, ∑ √d_k.", "мир"):
        assert said in text
    for font in fonts(reader):
        assert {"/FontFile", "/FontFile2", "/FontFile3"} & font.keys()
    assert "<li>there</li>" in (tmp_path / "paper.html").read_text(encoding="utf-8")

    assert cli.main(["lesson", "20-minutes", "--handout", "paper.doc"]) == 2
    assert "It can be: .html, .pdf" in capsys.readouterr().err


def fonts(reader):
    """The descriptors of all fonts of a PDF."""
    for page in reader.pages:
        for font in page["/Resources"].get("/Font", {}).values():
            for inner in font.get_object().get("/DescendantFonts", [font]):
                yield inner.get_object()["/FontDescriptor"]


def test_without_typst_a_pdf_is_refused_with_how_to_install_it(opened, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typst", None)

    assert cli.main(["lesson", "20-minutes", "--handout", str(tmp_path / "paper.pdf")]) == 2

    assert "pip install 'attnviz[pdf]'" in capsys.readouterr().err
