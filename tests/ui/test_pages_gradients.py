"""Gradients on the page Overview, beside rollout: on request, with their cost before, and every choice in the link."""

from html import escape

import pytest
from test_pages import html
from test_pages_overview import chart_texts, opened, overview_page

from attnviz import analysis, api, figures
from attnviz.core.edits import Site
from attnviz.figures.relevance import gap_in_words
from attnviz.studies import gradients
from attnviz.ui import budget, runs

TEXT = "the boy finds a ball"
LINK = {"model": "story", "text": TEXT, "panel": "Rollout"}


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A page that waits for what it measures, however busy the machine is."""
    monkeypatch.setattr(runs, "ANEW", 60.0)


def record():
    return api.load("story"), api.analyze(TEXT, "story")


@pytest.mark.parametrize("method", ["gradient", "integrated"])
def test_the_button_says_the_cost_and_brings_the_picture(monkeypatch, method):
    """Time, runs and memory; nothing is computed before."""
    monkeypatch.setattr(budget, "SILENT", -1.0)
    app = opened(overview_page, **LINK, method=method)

    assert not app.exception
    assert "on this machine." in html(app)
    assert "through the model and back" in html(app)
    assert " of memory." in html(app)
    assert not app.get("vega_lite_chart")
    app.button(key="gradients").click().run()
    assert not app.exception
    assert "logit of" in chart_texts(app)


def test_relevance_is_that_of_the_function_by_word_layer_and_head():
    """Those of the link."""
    source, run = record()
    more = {"method": "gradient", "word": "the", "query": "2", "relevant": "0", "layer": "d1", "head": "1"}
    app = opened(overview_page, **LINK, **more)
    expected = gradients.relevance(source, run, "the", 2)

    assert not app.exception
    for figure in (
        figures.relevance(run, expected, Site("decoder", 1), 1),
        figures.relevance_bars(run, expected, 0),
    ):
        assert escape(figure.description) in html(app)
    app.selectbox(key="word").set_value(analysis.next_words(run, 2)[0].word).run()
    assert "word" not in app.query_params


def test_the_gap_stands_over_integrated_gradients():
    source, run = record()
    app = opened(overview_page, **LINK, method="integrated", integral="20")
    position = 5

    assert not app.exception
    assert escape(gap_in_words(gradients.integrated(source, run, position=position, steps=20))) in html(app)
    app.selectbox(key="integral").set_value(50).run()
    assert escape(gap_in_words(gradients.integrated(source, run, position=position, steps=50))) in html(app)


def test_what_has_no_gradients_says_so():
    """A model without words, a word that is none, and rollout where nobody chose."""
    app = opened(overview_page, model="scratch", panel="Rollout", method="gradient")
    assert "&#x27;scratch&#x27; predicts no words, so there is no logit to differentiate." in html(app)
    app = opened(overview_page, **LINK, method="gradient", word="zzz")
    assert "has no token &#x27;zzz&#x27;" in html(app)
    assert "is mixed from" in html(opened(overview_page, **LINK))
