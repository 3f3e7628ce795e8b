"""Each page, run as Streamlit runs it, without a browser."""

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.ui import cache
from attnviz.ui.shared import state, words
from attnviz.ui.shared.mask import MASK
from attnviz.ui.text import literal

CAUSAL = "Causal (hide the future) · all layers"


def heads_page():
    from attnviz.ui import frame
    from attnviz.ui.heads.page import page

    frame.body(page, frame.selection())


def masks_page():
    from attnviz.ui import frame
    from attnviz.ui.masks.page import page

    frame.body(page, frame.selection(), title="Masks")


def opened(page=heads_page, **link) -> AppTest:
    """A page opened by a link, with its menus open: with random weights if it says nothing of a model, without a link
    if that is None."""
    app = AppTest.from_function(page, default_timeout=60)
    for menu in ("mask menu", "display", "parameters", "training step"):
        app.session_state[menu] = True
    for name, value in ({"model": "scratch"} | link).items():
        if value is not None:
            app.query_params[name] = value
    return app.run()


def html(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html"))


def button(app: AppTest, label: str):
    return next(b for b in app.button if b.label in (label, literal(label)))


def press_eye(app: AppTest, head: int) -> AppTest:
    """The page after a head was switched off or on at its thumbnail."""
    eyes = app.button_group(key="heads_off eyes")
    return eyes.set_value(sorted({*eyes.value} ^ {head})).run()


PAGES = pytest.mark.parametrize("page", [heads_page, masks_page])


@PAGES
def test_a_page_opens_without_a_complaint(page):
    """The first screen shows pictures and no error."""
    app = opened(page)

    assert not app.exception
    assert 'role="alert"' not in html(app)
    assert len(app.get("vega_lite_chart")) == 2


@pytest.mark.parametrize(("model", "cell"), [("scratch", "1.3"), ("story", "3.1"), ("translator", "2.1")])
@PAGES
def test_a_link_that_names_a_cell_names_its_site(page, model, cell):
    """Each page begins at a site of its own; on another page the same link shows the cell of the same map."""
    app = opened(page, model=model, cell=cell)

    assert app.query_params["cell"] == cell
    assert app.query_params["layer"]

    link = {"model": model} | dict(app.query_params.items())
    other = opened(heads_page if page is masks_page else masks_page, **link)

    assert other.query_params == app.query_params


@PAGES
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "There is no text yet"),
        (" \n\t ", "There is no text yet"),
    ],
)
def test_text_that_cannot_be_drawn_gets_one_sentence_and_stays(page, text, words):
    """The sentence says what is wrong with which number; nothing typed is lost; a good text works again."""
    app = opened(page)
    app.text_area(key="text").set_value(text).run()

    assert not app.exception
    assert html(app).count('class="note') == 1
    assert words in html(app)
    assert app.text_area(key="text").value == text

    app.text_area(key="text").set_value("fine again").run()

    assert 'role="alert"' not in html(app)


def test_back_is_taken_also_where_something_reports_at_the_same_moment():
    """The run that Back asks for then says nothing of Back; the address says it."""
    app = opened(text="one two", off="e0.1")
    app.text_area(key="text").set_value("three").run()
    app.run()
    app.query_params["text"] = "one two"
    app.run()

    assert app.text_area(key="text").value == "one two"
    assert (app.query_params["text"], app.query_params["heads_off"]) == ("one two", "e0.1")


def test_what_a_browser_says_before_it_has_the_new_link_takes_nothing_back():
    """A change that comes before the link of the change before it arrived is another change, not a step back."""
    app = opened(text="one two", off="e0.1")
    app.text_area(key="text").set_value("three").run()
    app.query_params["text"] = "one two"
    button(app, "head 1 of encoder layer 0 off").click().run()

    assert app.text_area(key="text").value == "three"
    assert app.query_params["text"] == "three"
    assert "heads_off" not in app.query_params


def test_the_states_of_the_latest_addresses_are_kept_for_back(monkeypatch):
    monkeypatch.setattr(state, "MOST_VISITED", 2)
    app = opened(text="one")
    for text in ("two", "three", "four"):
        app.text_area(key="text").set_value(text).run()

    assert [dict(link)["text"] for link in app.session_state["state"].state[state.VISITED]] == [
        ("two",),
        ("three",),
        ("four",),
    ]


def test_a_head_that_is_off_is_named_and_can_be_put_back():
    """Switching a head off shows a chip and the change of the output; the chip undoes it."""
    app = opened()
    press_eye(app, 1)

    assert app.query_params["heads_off"] == "e0.1"
    assert len(app.get("vega_lite_chart")) == 3

    press_eye(app, 1)

    assert "heads_off" not in app.query_params

    press_eye(app, 1)
    button(app, "head 1 of encoder layer 0 off").click().run()

    assert "heads_off" not in app.query_params
    assert len(app.get("vega_lite_chart")) == 2


def test_all_none_and_invert_work_on_the_layer_shown():
    """none switches every head of the layer off, invert turns the choice around, all puts everything back."""
    app = opened(layer="e1", off="e0.3-e1.0")
    button(app, "invert").click().run()

    assert app.query_params["heads_off"] == "e0.3-e1.1-e1.2-e1.3"

    button(app, "none").click().run()

    assert app.query_params["heads_off"] == "e0.3-e1.0-e1.1-e1.2-e1.3"

    button(app, "all").click().run()

    assert app.query_params["heads_off"] == "e0.3"


def test_reset_all_gives_the_untouched_model_back():
    """Masks, padding and heads return to how the model is."""
    app = opened(text="one two three\none", mask="subsequent.window", own_mask="false", off="e0.0-e1.2")
    button(app, "Reset all").click().run()

    assert not [b for b in app.button if b.label == "Reset all"]
    assert set(app.query_params) <= {"model", "text"}


def test_a_link_restores_what_it_says():
    """Text, sizes, tokenizer, layer, head, mask, colors, sums and the selected cell come back."""
    link = {
        "text": "to be or not",
        "tokenizer": "characters",
        "num_heads": "2",
        "num_layers": "3",
        "seed": "7",
        "layer": "e2",
        "head": "mean",
        "mask": "subsequent.window-4-0",
        "colors": "logarithmic",
        "sums": "true",
        "cell": "3.1",
        "heads_off": "e2.1",
    }
    app = opened(**link)

    assert not app.exception
    assert 'class="note' not in html(app)
    assert app.text_area(key="text").value == "to be or not"
    assert app.number_input(key="num_layers").value == 3
    assert app.number_input(key="mask window before").value == 4
    assert "(mean of all 2 heads, also those off)" in html(app)
    assert button(app, "head 1 of encoder layer 2 off")


@pytest.mark.parametrize(
    "link",
    [
        {"layer": "e77"},
        {"layer": "x"},
        {"head": "99999"},
        {"mask": "nonsense"},
        {"tokenizer": "klingon"},
        {"d_model": "-4"},
        {"d_model": "99999999999999999999"},
        {"seed": "1e9"},
        {"heads_off": "zzz"},
        {"cell": "a.b"},
        {"nonsense": "1"},
        {"bias": "perhaps"},
    ],
)
def test_a_bad_link_opens_the_default_with_a_notice(link):
    """What cannot be read is named in one notice, and the page works."""
    app = opened(**link)

    assert not app.exception
    assert html(app).count('class="note notice"') == 1
    assert f"link setting &quot;{next(iter(link))}&quot;" in html(app)
    assert len(app.get("vega_lite_chart")) == 2


def test_sizes_that_do_not_fit_are_refused_by_name():
    """num_heads must divide d_model; the sentence gives both."""
    app = opened(d_model="10", num_heads="4")

    assert "d_model is 10 and num_heads is 4" in html(app)


def test_padding_can_be_left_unmasked():
    """With two sentences of different length the padding mask can be switched off, and that is a change."""
    app = opened(text="one two three\none", sentence="2")
    app.toggle(key="own_mask").set_value(False).run()

    assert button(app, "padding not masked")


@pytest.mark.parametrize("page", [heads_page, masks_page])
def test_rows_without_keys_follow_a_policy_that_can_be_chosen(page):
    """The choice stands in the menu of masks; an error is one sentence, and can be taken back."""
    app = opened(page, mask="prefix-0")
    policies = app.selectbox(key="empty")
    for policy in ("nan", "uniform"):
        policies.set_value(policy).run()

        assert not app.exception
        assert button(app, f"fully masked rows: {policy}")

    policies.set_value("error").run()

    assert "Choose zero, nan or uniform." in html(app)

    button(app, "fully masked rows: error").click().run()

    assert 'role="alert"' not in html(app)
    assert len(app.get("vega_lite_chart")) >= 2


def test_the_masks_page_opens_on_the_subsequent_mask():
    """It is the first thing seen, as long as nobody has chosen; what is chosen is linked, also that nothing is."""
    app = opened(masks_page)

    assert button(app, CAUSAL)
    assert "mask" not in app.query_params

    button(app, CAUSAL).click().run()

    assert app.query_params["mask"] == "none"
    assert "Original model" in captions(app)
    assert "Original model" in captions(opened(masks_page, mask="none"))


def test_looking_at_the_masks_page_changes_nothing():
    """Its subsequent mask is for looking; on the Heads page nothing is masked until somebody chooses."""
    app = opened(masks_page)

    assert app.session_state["state"].state[MASK] is None
    assert "Original model" not in captions(opened())


def test_a_link_that_names_what_is_not_there_says_so():
    """A head of layer 7 of two, and a cell outside of six tokens, are dropped with a notice."""
    app = opened(heads_off="e7.1-e0.1", cell="99.99")

    assert html(app).count('class="note notice"') == 1
    assert "e7.1 does not exist" in html(app)
    assert "99.99 does not exist" in html(app)
    assert app.query_params["heads_off"] == "e0.1"
    assert "cell" not in app.query_params


def captions(app: AppTest) -> str:
    return " ".join(caption.value for caption in app.caption)


def test_examples_fill_the_sentence_box():
    """Each example is a text that works."""
    app = opened()
    for name, text in words.EXAMPLES.items():
        app.menu_button(key="example").click(name).run()

        assert app.text_area(key="text").value == text
        assert 'role="alert"' not in html(app)


def test_every_picture_is_described_in_words():
    """Beside each picture stands what it shows, for those who cannot see it; the chart is never rebuilt for it."""
    app = opened(mask="subsequent")

    assert html(app).count('class="unseen"') == len(app.get("vega_lite_chart")) == 3
    assert "4 heads of encoder layer 0, each a map of 6 queries by 6 keys." in html(app)
    assert "Head 0 of encoder layer 0, 6 queries by 6 keys." in html(app)
    assert "How far the output vector of each of 6 tokens moved" in html(app)
    assert len({chart.proto.alt for chart in app.get("vega_lite_chart")}) == 1


def test_the_strongest_cell_is_said_in_words_until_one_is_selected():
    """The first screen has a sentence about the picture on it."""
    assert "gives 0.46 of its attention to" in html(opened(head="0", text="a b c d"))


def test_runs_are_shared_between_sessions():
    """The same text with the same edits is run once, whoever asks."""
    cache.SHARED.clear()
    opened(text="shared between two")
    known = cache.SHARED.keys()
    opened(text="shared between two")

    assert set(cache.SHARED.keys()) == set(known)


def test_tokens_that_one_visitor_hides_are_shown_to_the_next():
    """Sessions share no view: who makes each sentence a row hides no tokens by it."""
    text = {"model": "story", "text": "The cat sat. The dog ran."}
    opened(**text, view="sentences.hide")
    app = opened(**text)
    app.button_group(key="view words").set_value("sentences").run()

    assert not app.exception
    assert app.query_params["view"] == "sentences"
