"""Choices of the first rows that every page shares: each is in the link, and does what it says to the record."""

import re
from html import unescape

import pytest
import torch
from test_app import button, choices, html, opened

from attnviz import api
from attnviz.core.edits import Edits, Site
from attnviz.core.request import Request
from attnviz.ui import cache
from attnviz.ui.text import literal

SITE = Site("decoder", 1)


def menu(key: str, **address: str):
    """Run a page of a model with one of its menus open."""
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


@pytest.mark.parametrize(
    ("page", "name", "value", "near"),
    [
        ("Overview", "part", "Corpsu", " Did you mean 'Corpus'?"),
        ("Overview", "sort", "beauty", ""),
        ("Overview", "form", "lines", ""),
        ("Overview", "role", "hero", ""),
        ("Heads", "form", "picture", ""),
        ("Masks", "lab", "play", ""),
        ("Masks", "library", "numpy", ""),
    ],
)
def test_a_link_that_asks_for_what_the_page_does_not_have_is_told_so_in_one_sentence(page, name, value, near):
    app = opened(page, model="story", **{name: value})

    assert notices(app) == [f"The link's {name} was left out: '{value}' is not a choice here.{near}"]


def test_a_link_that_asks_for_a_text_that_is_not_there_is_told_so():
    assert notices(opened(model="story", sentence="7")) == ["The link asks for text 7: the page has 1 text."]


@pytest.mark.parametrize("page", ["Heads", "Steps", "Masks"])
@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("cell", "99.2", "a cell"),
        ("cell", "2.99", "a cell"),
        ("pins", "q1-k99", "a word"),
        ("zoom", "9.12.0.3", "a part"),
    ],
)
def test_a_place_that_the_map_does_not_have_is_left_out_with_a_sentence(page, name, value, what):
    app = opened(page, model="story", text="The cat sat", **{name: value})

    size = "4 rows and 4 columns, counted from 0"
    assert notices(app) == [f"The link asks for {what} outside of this map, which has {size}."]
    kept = {("query", 1)} if name == "pins" else ()
    assert {*(choices(app)[name] or ())} == {*kept}


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [("heads_off", "d0.1-d9.1", "head 1 of decoder layer 9 switched off"), ("also", "1-9", "head 9")],
)
def test_heads_that_the_model_does_not_have_are_left_out_with_a_sentence(name, value, what):
    app = opened(model="story", layer="d1", head="0", **{name: value})

    (said,) = notices(app)
    assert said.startswith(f"The link asks for {what}: ")
    assert len(choices(app)[name]) == 1


def notices(app) -> list[str]:
    """Sentences about what was left out."""
    return [unescape(note) for note in re.findall(r'<div class="note notice"[^>]*>([^<]*)</div>', html(app))]


def test_what_another_page_lacks_is_not_the_link_s_and_leaves_the_next_link():
    """A form of heads, then Overview, which has other forms: nothing is said, and its link opens as it is."""
    app = opened(model="story", form="lines")
    assert choices(app)["form"] == "lines"
    app.session_state["title"] = "Overview"
    app.run()

    assert "left out" not in html(app)
    assert choices(app)["form"] is None


@pytest.mark.parametrize("part", ["Corpus", "Model card"])
def test_no_example_word_stands_in_what_a_head_does(part):
    """The card of the model has two."""
    behaviors = cache.source("story").card.behaviors
    examples = re.findall(r"\(“.*?”\)", " ".join(behavior.does for behavior in behaviors))
    app = opened("Overview", model="story", layer="d1", head="0", part=part)
    roles = next(frame.value for frame in app.dataframe if "does" in frame.value)

    assert len(examples) == 2
    assert not [example for example in examples if example in html(app) + " ".join(roles["does"])]
