"""The tab of what each head adds to a word: its answer is that of Python, and a link holds what was chosen."""

from html import escape

import pytest
from test_pages import html, opened
from test_pages_overview import overview_page, patient  # noqa: F401 (a fixture)

import attnviz
from attnviz import analysis, api
from attnviz.studies import ablation
from attnviz.ui import budget


def answer(name, text, *, target=None, **word):
    """The sentence from Python."""
    source = api.load(name)
    record = attnviz.analyze(text, source, target=target, stream=True)
    targets = source.tokenize_targets([target]) if target else ()
    falls = ablation.logit_falls(source, record.sentences, targets=targets, **word)
    return analysis.contributions(record, **word).in_words(falls)


def test_the_page_says_what_python_does():
    """Where the word is said again, of the last token, with all three pictures."""
    text = "The cat sat down. The cat sat"
    app = opened(overview_page, model="induction", panel="Contributions", text=text)

    assert not app.exception
    assert escape(answer("induction", text)) in html(app)
    assert len(app.get("vega_lite_chart")) == 3
    assert app.selectbox(key="word").value == "down"


def test_a_link_holds_the_position_and_both_words():
    """As it is opened, and after a choice; of the most probable word it holds nothing."""
    text, link = "The cat sat down. The cat sat", {"query": "7", "word": "cat", "minus": "sat"}
    app = opened(overview_page, model="induction", panel="Contributions", text=text, **link)
    assert escape(answer("induction", text, token="cat", minus="sat", position=7)) in html(app)

    app.selectbox(key="query").set_value(8).run()
    minus, word = (app.selectbox(key=key).options[2] for key in ("minus", "word"))
    app.selectbox(key="minus").set_value(minus).run()
    app.selectbox(key="word").set_value(word).run()
    assert {name: app.query_params[name] for name in link} == {"query": "8", "word": word, "minus": minus}
    assert escape(answer("induction", text, token=word, minus=minus, position=8)) in html(app)
    app.selectbox(key="minus").set_value(None).run()
    app.selectbox(key="word").set_value("down").run()

    assert not {"word", "minus"} & {*app.query_params}
    assert escape(answer("induction", text)) in html(app)


def test_a_word_that_is_not_there_is_refused_with_one_that_is():
    """And another one can be chosen at once."""
    app = opened(overview_page, model="induction", panel="Contributions", word="dwon", text="The cat sat")

    assert escape("'induction' has no token 'dwon'. Did you mean 'down'?") in html(app)
    assert not app.get("vega_lite_chart")
    word = app.selectbox(key="word")
    word.set_value(word.options[0]).run()
    assert len(app.get("vega_lite_chart")) == 3


def test_a_translation_is_asked_for_its_last_word_and_reads_its_target():
    """Not for the end of the text, where all of them end."""
    app = opened(overview_page, model="translator", panel="Contributions", text="the cat", target="le chien noir")

    assert escape(
        answer("translator", "the cat", target="le chien noir", position=int(app.selectbox(key="query").value))
    ) in html(app)
    assert app.selectbox(key="word").value != "<eos>"


@pytest.mark.parametrize(("model", "why"), [("scratch", "predicts no words"), ("shapes", "")])
def test_a_model_without_a_stream_says_why(model, why):
    """In one sentence in the place of the pictures."""
    app = opened(overview_page, model=model, panel="Contributions")

    assert not app.exception
    assert why in html(app)
    assert not app.get("vega_lite_chart")


def test_a_test_that_takes_long_waits_for_its_button(monkeypatch):
    """What the heads add is there at once."""
    monkeypatch.setattr(budget, "SILENT", -1.0)
    app = opened(overview_page, model="story", panel="Contributions")
    assert len(app.get("vega_lite_chart")) == 2
    assert "adds most to" in html(app)
    assert "Off, the logit" not in html(app)

    app.button(key="each off").click().run()

    assert len(app.get("vega_lite_chart")) == 3
    assert "Off, the logit" in html(app)
