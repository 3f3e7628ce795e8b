"""A first visit: an empty link, the claim, and three cards."""

import pytest
from test_pages import button, heads_page, html, masks_page, opened, press_eye
from test_pages_models import plainly_said

import attnviz
from attnviz import api
from attnviz.analysis.views import View
from attnviz.core.edits import Site
from attnviz.core.request import Request
from attnviz.sources import saved
from attnviz.ui import cache, settings
from attnviz.ui.shared import look, pictures, state, welcome
from attnviz.ui.shared.setting import PROBLEMS, read


def linked(link) -> dict[str, str]:
    """A link as a test reads it."""
    return {name: value for name, (value,) in link.items()}


@pytest.mark.parametrize("page", [heads_page, masks_page])
def test_an_empty_link_opens_as_if_another_had_been_followed(page):
    """The same state, and the same link; only the cards are there besides, on the page that they speak of."""
    first, followed = opened(page, model=None), opened(page, **linked(welcome.FIRST))

    assert first.query_params == followed.query_params == linked(welcome.FIRST)
    assert (welcome.CLAIM in html(first)) == (page is heads_page)
    assert welcome.CLAIM not in html(followed)


def test_the_first_picture_shows_what_it_is_about():
    """It opens on the row that has the head's role: "because", which predicts "it", looks at "cat"."""
    state = read(welcome.FIRST, settings.LINKED)
    source = cache.source("story")
    at = look.ViewContext(source, Request(source.card.examples[:1]), 0, state[look.SITE], state[look.SHOW], dark=False)
    record = at.record
    query, key = pictures.default_cell(at, View())
    tokens = [token.text for token in record.read[0].tokens]
    weights = record.step(state[look.SITE]).weights(state[look.SHOW])[query]

    assert (tokens[query], tokens[key], tokens[query + 1]) == ("because", "cat", "it")
    assert int(weights.argmax()) == key
    assert float(weights[key]) > 0.8


@pytest.mark.parametrize("name", welcome.CARDS)
def test_a_card_sets_a_state_and_asks_a_question(name):
    """Its link can be read in full; the question stands in the place of the claim, and can be closed."""
    card = welcome.CARDS[name]

    assert not read(card.link, settings.LINKED)[PROBLEMS]

    app = opened(model=None)
    button(app, name).click().run()

    assert not app.exception
    assert app.query_params == linked(card.link)
    assert card.question in html(app)
    assert card.frame in html(app)

    button(app, "Close").click().run()

    assert card.question not in html(app)
    assert app.query_params == linked(card.link)


def test_a_card_says_what_it_replaced_and_nothing_typed_is_lost():
    """Also what was typed and not applied when the card was pressed: one Undo brings it back."""
    app = opened(model=None)
    button(app, "Read a map").click().run()

    assert "Opened:" not in html(app)

    next(one for one in app.text_area if one.label == "Sentence").set_value("the dog ran")
    button(app, "Hide the future").click().run()

    assert "Opened: model translator, another text." in html(app)

    button(app, "Switch off a head").click().run()

    assert "Opened: model story, another text." in html(app)

    for _ in range(2):
        button(app, "Undo").click().run()

    assert app.query_params["text"] == "the dog ran"


def test_beside_a_text_of_ones_own_a_card_acts_on_that_text():
    """One press each; a model that hides the future by itself stays, and that is said."""
    app = opened(model=None)
    app.text_area(key="text").set_value("the dog ran").run()

    assert welcome.CLAIM not in html(app)
    assert welcome.words.TRY_HERE in html(app)

    button(app, "Switch off a head").click().run()

    assert (app.query_params["text"], app.query_params["heads_off"]) == ("the dog ran", "d1.0")
    assert welcome.words.OFF_HERE in html(app)

    button(app, "Undo").click().run()

    assert welcome.words.TRY_HERE in html(app)

    button(app, "Hide the future").click().run()

    assert (app.query_params["text"], app.query_params["model"]) == ("the dog ran", "story")
    assert "mask" not in app.query_params
    assert welcome.words.FUTURE_HIDDEN in html(app)
    assert ".st-key-picture-head" in html(app)


@pytest.mark.parametrize("model", ["induction", "constructed", "scratch"])
def test_a_card_keeps_the_model_that_was_chosen(model):
    """Also where no text was typed: that of the model stays, too."""
    app = opened(model=None)
    app.selectbox(key="model").set_value(model).run()
    text = app.text_area(key="text").value
    button(app, "Hide the future").click().run()

    assert app.selectbox(key="model").value == model
    assert app.text_area(key="text").value == text


def test_the_future_is_hidden_for_a_text_of_ones_own_in_one_press():
    """In a model that saw it, at a layer that did; it stays hidden once another head is off, too."""
    app = opened(model=None)
    app.text_area(key="text").set_value("the dog ran").run()
    app.selectbox(key="model").set_value("translator").run()
    button(app, "Hide the future").click().run()

    assert app.query_params["text"] == "the dog ran"
    assert (app.query_params["mask"], app.query_params["layer"]) == ("causal", "e0")
    assert welcome.words.FUTURE_HERE in html(app)
    assert "st-key-mask-menu" in html(app)

    button(app, "Switch off a head").click().run()

    assert (app.query_params["mask"], app.query_params["heads_off"]) == ("causal", "e0.3")

    app.text_area(key="text").set_value("the cat ran").run()

    assert welcome.words.TRY_HERE in html(app)


def test_a_text_that_nobody_typed_gives_way_to_that_of_another_model():
    """That of the first visit too: what repeats opens on a text that does."""
    app = opened(model=None)
    app.selectbox(key="model").set_value("induction").run()

    assert "text" not in app.query_params
    assert "tired. The cat" in app.text_area(key="text").value


def test_what_the_cards_ask_has_an_answer():
    """Without the future a mouse becomes "il"; with its head off the model no longer names who gets the ball."""
    app = opened(model=None)
    button(app, "Hide the future").click().run()

    assert "<u>qu&#x27;il</u>" in html(app)
    assert "<u>qu&#x27;elle</u>" in html(app)

    app.selectbox(key="layer").set_value(Site("cross", 1)).run()

    assert "The mask does not act on cross layer 1." in html(app)
    assert welcome.words.THREE_TO_TRY in html(app)  # the question is about another layer

    button(app, "See encoder layer 0").click().run()

    assert app.query_params["layer"] == "e0"
    assert "The mask does not act" not in html(app)

    button(app, "Causal (hide the future) · encoder, decoder").click().run()

    assert welcome.CARDS["Hide the future"].undone in html(app)
    assert "<u>" not in html(app)

    button(app, "Switch off a head").click().run()

    assert "<u>“tom”</u>" in html(app)
    assert "To predict the next word “paul”, “to” (13) gives" in html(app)
    assert "Most changed prediction, after “to” (13): “paul” 17.5%before: “tom” 99.0%" in plainly_said(app)

    press_eye(app, 0)

    assert welcome.CARDS["Switch off a head"].undone in html(app)
    assert welcome.FRAMED not in html(app)
    assert "Most changed" not in html(app)

    press_eye(app, 1)

    assert welcome.words.THREE_TO_TRY in html(app)
    assert app.query_params["head"] == "1"  # what was switched is what is shown


def test_another_text_lets_go_of_the_cell_and_of_the_question():
    """What was selected, and what was asked, was about the text before."""
    app = opened(model=None)
    button(app, "Read a map").click().run()
    app.text_area(key="text").set_value("Anna and Tom went to the park. Anna gave the ball to").run()

    assert "cell" not in app.query_params
    assert welcome.words.THREE_TO_TRY in html(app)
    assert "To predict the next word “tom”, “to” (13) gives" in html(app)


def test_what_nobody_chose_has_a_link_of_its_own():
    """A reload of the translator as it opens is no first visit."""
    app = opened(model=api.DEFAULT)

    assert app.query_params == linked(state.NOTHING) == {"model": api.DEFAULT}
    assert welcome.CLAIM not in html(app)


def test_a_first_visit_its_model_alone_and_a_text_alone_open_in_one_model():
    """The model by its name has the sentence and the head of a first visit; each link says which model it is of."""
    first, named, typed = opened(model=None), opened(model="story"), opened(model=None, text="the dog ran")

    assert (
        named.text_area(key="text").value == first.text_area(key="text").value == cache.source("story").card.examples[0]
    )
    assert named.selectbox(key="layer").value == first.selectbox(key="layer").value
    assert named.selectbox(key="head").value == first.selectbox(key="head").value
    assert typed.query_params == {"model": "story", "text": "the dog ran"}
    assert welcome.CLAIM not in html(typed)


def test_a_link_to_a_part_of_a_page_alone_opens_what_an_empty_one_does():
    """Also with a tab there is one default; the link of what was chosen says so, and is not taken for it."""
    app = opened(masks_page, model=None, tab="Check")

    assert app.query_params["model"] == "story"
    assert app.query_params["tab"] == "Check"

    chosen = opened(masks_page, model=api.DEFAULT, tab="Check")

    assert chosen.query_params == {"model": api.DEFAULT, "tab": "Check"}


@pytest.mark.parametrize("link", [{}, {"text": "a dog"}, {"tab": "Check"}])
def test_where_a_person_brought_a_model_an_address_without_one_opens_that(link, monkeypatch):
    """The last one; without the claim of a first visit, which speaks of another."""
    monkeypatch.setattr(api, "OFFERED", {})
    for name in ("mine", "newer"):
        api.offer(saved.Saved(name, attnviz.analyze("a dog ran", "story")))

    app = opened(heads_page, model=None, **link)

    assert app.selectbox(key="model").value == "newer"
    assert app.query_params["model"] == "newer"
    assert welcome.CLAIM not in html(app)
    assert "alert" not in html(app)
