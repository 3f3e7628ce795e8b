"""The texts of a handout: Markdown as the page Learn sets it, and nothing that could be run."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz import lessons
from attnviz.export.handout import Section, handout, markdown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a word (its *query*), **bold**", "<p>a word (its <em>query</em>), <strong>bold</strong></p>"),
        ("`<sos>` and `a *b*`", "<p><code>&lt;sos&gt;</code> and <code>a *b*</code></p>"),
        ("**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"),
        ("2 * 3 * 4 <b>", "<p>2 * 3 * 4 &lt;b&gt;</p>"),
        (
            "[here](https://a.b/c?d=1&e) [no](javascript:x)",
            '<p><a href="https://a.b/c?d=1&amp;e">here</a> [no](javascript:x)</p>',
        ),
        ("- a\n- *b*", "<ul><li>a</li><li><em>b</em></li></ul>"),
        ("a\n\n- b", "<p>a</p>\n<ul><li>b</li></ul>"),
        ("W_Q x_1", "<p>W_Q x_1</p>"),
    ],
)
def test_marks_of_markdown_are_set(text, expected):
    assert markdown(text) == expected


@given(st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters="*`[]-"), min_size=1))
def test_a_text_without_marks_is_itself(text):
    assert html.unescape(markdown(text)) == f"<p>{text}</p>"


@pytest.mark.parametrize("name", lessons.SHIPPED)
def test_no_mark_is_left_in_a_shipped_lesson(name):
    """In ideas, definitions, tasks, answers and notes."""
    for step in lessons.named(name).steps:
        terms = tuple(f"{term.name} {term.means} {term.source}" for term in step.terms)
        texts = (*step.idea.split("\n\n"), step.do, step.question, step.answer, step.notes, *terms)
        paper = handout("a", [], [Section("b", texts, choices=step.choices)]).decode()

        assert not re.search(r"[*`]", paper[paper.index("<h1>") :])
