"""Choices of the first rows that every page shares: each is in the link, and does what it says to the record."""

import torch
from test_app import button, choices, html, opened

from attnviz import api
from attnviz.core.edits import Edits, Site
from attnviz.core.request import Request
from attnviz.ui import cache
from attnviz.ui.text import literal

SITE = Site("decoder", 1)


def menu(key: str, **address: str):
    """A page of a model with one of its menus open."""
    app = opened(**{"model": "story", "layer": "d1", "head": "0"} | address)
    app.session_state[key] = True
    return app.run()


def test_a_target_is_read_by_the_decoder_in_the_place_of_its_own_output():
    """The record is that of `analyze(..., target=...)`, weight by weight."""
    text, target = "The cat sat down.", "le chien noir dort ."
    app = opened(model="translator", text=text)
    app.text_input(key="target").set_value(target).run()

    assert not app.exception
    assert choices(app)["target"] == target
    ours = cache.record(api.load("translator"), Request((text,), targets=(target,)))
    theirs = api.analyze(text, "translator", target=target)
    assert ours.targets == theirs.targets
    assert all(torch.equal(a.weights(0), b.weights(0)) for a, b in zip(ours.steps, theirs.steps, strict=True))


def test_temperature_changes_the_layer_that_is_looked_at_until_every_layer_is_chosen():
    """The chip says which."""
    app = menu("mask menu")
    app.slider(key="temperature").set_value(2.0).run()

    assert choices(app)["scored"] == SITE
    assert button(app, "Temperature 2 in decoder layer 1")
    app.session_state["mask menu"] = True
    app.run()
    app.toggle(key="scored everywhere").set_value(True).run()

    assert choices(app)["scored"] is None
    assert button(app, "Temperature 2 in every layer")


def test_all_changes_are_taken_back_at_once_and_each_by_its_chip():
    app = opened(model="story", heads_off="d1.0", mask="window(1)", temperature="2", empty="uniform")
    button(app, "Temperature 2 in every layer").click().run()

    assert choices(app)["temperature"] == 1
    button(app, "Reset all").click().run()

    assert not app.exception
    assert choices(app).chosen == {"model": "story"}


def test_a_training_step_words_and_colors_are_chosen_under_more():
    app = menu("more")
    steps = cache.source("story").steps
    app.select_slider(key="step").set_value(steps[0]).run()
    assert choices(app)["step"] == steps[0]
    for key, value, chosen in (("view", "words", "view"), ("colors", "log", "colors")):
        app.session_state["more"] = True
        app.run()
        app.segmented_control(key=key).set_value(value).run()

        assert not app.exception
        assert chosen in choices(app).chosen


def test_of_several_texts_one_is_looked_at():
    app = opened(model="story", text="the cat sat\nthe dog ran away")
    app.selectbox(key="sentence").set_value(2).run()

    assert choices(app)["sentence"] == 2
    assert "dog" in html(app)


def test_a_link_says_what_does_not_fit_into_it():
    app = menu("link menu", model="constructed", text="the cat sat " * 800)

    assert "Too long for a link, and left out of it: text" in html(app)


def test_the_built_in_mask_is_switched_off_and_a_mask_acts_on_cross_attention_where_that_is_chosen():
    app = menu("mask menu", model="translator", layer="c1", mask="causal", head="0")
    assert cache.source("translator").sites[-1].kind == "cross"
    app.toggle(key="cross").set_value(True).run()

    assert choices(app)["cross"] is True
    app = menu("mask menu")
    app.toggle(key="own_mask").set_value(False).run()
    source = cache.source("story")
    record = cache.record(source, Request((source.card.examples[0],), edits=Edits(own_mask=False)))

    assert button(app, literal("Built-in mask off"))
    assert record.step(SITE).weights(0).triu(1).sum() > 0
