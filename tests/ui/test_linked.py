"""The folds of Heads under a selected cell: heads that link its words, heads that matter for the prediction there."""

from streamlit.testing.v1 import AppTest
from test_pages import button, heads_page, html

import attnviz
from attnviz import api
from attnviz.core.edits import Site
from attnviz.studies import ablation

TEXT = "The cat sat on the mat because it was tired"


def opened(**link):
    app = AppTest.from_function(heads_page, default_timeout=60)
    app.session_state["linking"] = app.session_state["mattering"] = True
    for name, value in link.items():
        app.query_params[name] = value
    return app.run()


def test_heads_that_link_two_words_are_listed_and_open():
    app = opened(model="story", text=TEXT, cell="7.2")
    first = attnviz.rank(attnviz.analyze(TEXT, "story"), 7, 2).iloc[0]
    site, head = Site(first["kind"], int(first["layer"])), int(first["head"])

    assert not app.exception
    button(app, f"{site.brief(head)}: {first['weight']:.2f}").click().run()

    assert (app.query_params["layer"], app.query_params["head"]) == (f"d{site.layer}", str(head))
    assert app.query_params["cell"] == "7.2"


def test_heads_that_matter_for_a_prediction_are_listed():
    app = opened(model="story", text=TEXT, cell="7.2")
    source = api.load("story")
    first = ablation.sweep(source, source.tokenize([TEXT])).changes_at(7).iloc[0]
    name = Site(first["kind"], int(first["layer"])).brief(int(first["head"]))

    assert [one for one in app.button if one.label == f"{name}: {first['change']:.3f}"]
    assert "How much the prediction at" in html(app)


def test_without_a_selected_cell_nothing_is_listed():
    app = opened(model="story", text=TEXT)

    assert "Heads that link" not in " ".join(one.label for one in app.expander)
