"""Circuits of the weights in the panel About this model: opened alone, and why there are none."""

import pytest
from streamlit.testing.v1 import AppTest
from test_pages import html
from test_pages_models import model_page

from attnviz.analysis.circuits import LACKING, seconds
from attnviz.ui import cache
from attnviz.ui.about import circuits, words


def panel(model: str, *, is_open: bool = True) -> AppTest:
    app = AppTest.from_function(model_page, default_timeout=60)
    app.session_state["circuits"] = is_open
    app.query_params["model"] = model
    app.run()
    assert not app.exception
    return app


def table(app: AppTest):
    return app.dataframe[0].value


def test_a_model_shows_its_heads_and_how_they_compose():
    app = panel("constructed")
    rows = table(app).set_index("place")

    assert rows.loc["decoder 1.0", "induction"] == pytest.approx(1)
    assert rows.loc["decoder 1.0", "through"] == "decoder 0.0"
    assert "copying" not in rows
    assert LACKING["copying"] in html(app)
    assert "Largest K-composition of 16 pairs: 0.0 to 1.0, 0.1250" in html(app)
    app.button_group(key="composition").set_value("Q: queries").run()
    assert "Largest Q-composition of 16 pairs: 0.0 to 1.3, 0.1250" in html(app)


def test_cross_attention_is_left_out_in_words():
    app = panel("translator")

    assert set(table(app)["place"].str.split().str[0]) == {"decoder"}
    assert words.CROSS_LEFT_OUT in html(app)


def test_nothing_is_computed_before_it_is_opened(monkeypatch):
    monkeypatch.setattr(circuits, "seconds", lambda weights: pytest.fail("computed unasked"))

    assert words.CIRCUITS_ARE not in html(panel("induction", is_open=False))


def test_what_takes_long_is_asked_for_with_its_cost(monkeypatch):
    """On a click, and then it is there; above what the server takes there is no button, but why."""
    monkeypatch.setattr(circuits, "seconds", lambda weights: 5 + seconds(weights))
    cache.SHARED.clear()
    app = panel("induction")

    assert not app.dataframe
    assert "About 5 s on this machine." in html(app)
    app.button(key="measure circuits").click().run()
    assert len(table(app)) == 4
    monkeypatch.setattr(circuits, "seconds", lambda weights: 1e4)
    app = panel("story")
    assert "4 heads: about 167 minutes" in html(app)
    assert not app.dataframe


def test_a_model_whose_weights_are_not_known_says_so(monkeypatch):
    from attnviz.sources.base import Source
    from attnviz.sources.scratch import Scratch

    monkeypatch.setattr(Scratch, "model_weights", Source.model_weights)

    assert "The projections of &#x27;scratch&#x27; are not known here, so its circuits are not." in html(
        panel("scratch")
    )
