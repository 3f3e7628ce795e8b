"""The page Heads of the new app: heads that link two words, and patches that are taken out of a picture."""

from dataclasses import replace

from test_app import choices, html, opened

import attnviz
from attnviz import figures, link
from attnviz.core.edits import Site
from attnviz.ui import cache

TEXT = "The cat sat on the mat because it was tired"


def test_heads_that_link_two_words_are_listed_by_their_weight_and_one_click_opens_one():
    app = opened(model="story", text=TEXT, cell="7.2")
    app.session_state["linking"] = True
    app.run()
    first = attnviz.rank(attnviz.analyze(TEXT, "story"), 7, 2).iloc[0]
    site, head = Site(first["kind"], int(first["layer"])), int(first["head"])
    listed = [button for button in app.button if button.key.startswith("links ")]

    assert listed[0].label == f"{first['weight']:.2g} · {site.head(head)}"
    listed[0].click().run()
    after = choices(app)
    assert (after["layer"], after["head"], after["cell"]) == (site, head, (7, 2))


def test_a_patch_is_made_gray_or_hidden_and_one_click_takes_it_back():
    """Gray changes the picture, hidden the mask; both are in the link and the prediction of the whole picture stays."""
    app = opened(model="shapes", form="picture", cell="19.0")
    before = cache.record(*_asked(app))
    pills = next(group for group in app.button_group if group.key == "gray")

    pills.set_value(["gray in the picture"]).run()
    assert not app.exception
    assert (choices(app)["gray"], choices(app)["mask"]) == ((19,), None)
    assert "For the whole picture: predicted label" in html(app)
    gray = cache.record(*_asked(app))
    assert not gray.step(gray.sites[0]).query.equal(before.step(gray.sites[0]).query)
    next(group for group in app.button_group if group.key == "gray").set_value(["hidden from all heads"]).run()
    assert (choices(app)["gray"], choices(app)["mask"].text) == ((), "blank(19)")
    site = gray.sites[0]
    assert (cache.record(*_asked(app)).step(site).weights(0)[:, 19] == 0).all()
    app.button("Undo").click().run()
    app.button("chip Gray patches: 1").click().run()

    assert choices(app)["gray"] == ()
    assert "For the whole picture" not in html(app)


def _asked(app):
    """Source and request of the page, with its edits."""
    source, request = app.session_state["model and request"]
    return source, replace(request, edits=link.edits(choices(app)))


def test_how_it_writes_is_chosen_and_stays_once_the_menu_is_closed():
    app = opened(model="story", text="the girl near the dogs was happy because")
    app.session_state["how written"] = True
    app.run()
    app.number_input("new tokens").set_value(2).run()
    app.session_state["how written"] = False
    app.run()
    assert not app.number_input
    app.button("continue").click().run()

    assert not app.exception
    assert len(choices(app)["answer"]) == 2


def test_a_form_that_selects_nothing_is_drawn_without_a_click(monkeypatch):
    """A chart without a selection fails in Streamlit where a click is asked for."""
    form = replace(figures.FORMS["distance"], is_on_page=True)
    monkeypatch.setitem(figures.FORMS, "distance", form)

    app = opened(model="story", text="the cat sat", form="distance")

    assert choices(app)["form"] == "distance"
    assert app.get("vega_lite_chart")


def test_attention_by_distance_is_drawn_beside_the_head():
    app = opened("Overview", model="story", text="the cat sat")
    app.session_state["by distance"] = True
    app.run()

    assert "of the attention goes to keys at most" in html(app)
