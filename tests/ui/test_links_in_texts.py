"""Every link of the app that stands in a text opens: in README, documentation, course, help of the shell, and cards."""

import re
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from test_app import html, opened

from attnviz import lessons, link
from attnviz.lessons import link_of
from attnviz.ui import main, welcome

ROOT = Path(__file__).parents[2]
TEXTS = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "assets/lessons/course.toml"]
TEXTS += [ROOT / "attnviz/cli/parser.py"]
QUOTED = re.compile(r"""["']([^"'\n]*\?[a-z_]+=[^"'\n]*)["']""")
"""An address with parameters, in quotes."""
LINKS = sorted({text for path in TEXTS for text in QUOTED.findall(path.read_text(encoding="utf-8"))})


def test_there_are_links_to_open():
    """One for each chapter at least, and those of the documentation."""
    assert len(LINKS) > len(lessons.course().steps)


@pytest.mark.parametrize("text", LINKS)
def test_a_link_of_a_text_is_read_without_a_complaint_and_its_page_is_drawn(text):
    parts = urlsplit(text)
    page = parts.path.rpartition("/")[2].title() or main.PAGES[0]
    _, complaints = link.read(parse_qs(parts.query, keep_blank_values=True))
    app = opened(page, **dict(parse_qsl(parts.query, keep_blank_values=True)))

    assert page in main.PAGES
    assert complaints == ()
    assert 'role="alert"' not in html(app)
    assert app.get("vega_lite_chart") or app.radio


@pytest.mark.parametrize("name", welcome.CARDS)
def test_a_card_of_the_first_visit_is_a_link_that_can_be_read(name):
    choices, complaints = link.read(link_of(welcome.CARDS[name].link))

    assert complaints == ()
    assert link.write(choices) == dict(parse_qsl(welcome.CARDS[name].link))
