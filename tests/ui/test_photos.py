"""The picture that a model reads: an example, or one that a person dropped; with patches that are taken out of it."""

import io

import pytest
from PIL import Image
from test_opened_files import drop
from test_pages import heads_page, html, masks_page, opened
from test_pages_compare import compare_page
from test_pages_overview import overview_page
from test_pages_steps import steps_page

import attnviz
from attnviz.core import assets
from attnviz.ui.heads.blanking import BLANKED, GRAY
from attnviz.ui.shared import code, photos

CIRCLE, SQUARE = "red circle left of blue square", "red square below blue triangle"


def content(picture=SQUARE, format="PNG"):
    file = io.BytesIO()
    Image.open(photos.PICTURES[picture]).convert("RGB").save(file, format)
    return file.getvalue()


@pytest.mark.parametrize("page", [heads_page, masks_page, overview_page, steps_page, compare_page])
def test_a_vision_model_opens_on_each_page_with_its_first_picture(page):
    """No complaint, and what it says of the picture stands over it."""
    app = opened(page, model="shapes")

    assert 'class="note' not in html(app)
    assert app.get("text_area") == []
    assert "a red circle left of a blue square" in html(app) or page is compare_page


def test_the_attention_of_cls_is_shown_on_the_picture_first():
    """It is from there that the model classifies; the roles that were measured are of it."""
    app = opened(model="shapes")

    assert "“[CLS]” (0) looks most at" in html(app)
    assert "looks from [CLS] at the red shape" in html(app)
    assert "as" not in app.query_params


def test_an_example_is_chosen_and_stands_in_the_link():
    app = opened(model="shapes")
    app.menu_button(key="example picture").click(SQUARE).run()

    assert app.query_params["picture"] == SQUARE
    assert "a red square below a blue triangle" in html(app)
    assert "a red square below a blue triangle" in html(opened(model="shapes", picture=SQUARE))


def test_a_picture_that_is_dropped_is_shown_and_in_no_link():
    app = drop(opened(model="shapes"), ("mine.png", content()))

    assert "a red square below a blue triangle" in html(app)
    assert "mine.png · in no link" in [caption.value for caption in app.caption]
    assert "picture" not in app.query_params


def test_a_picture_that_a_model_of_texts_gets_waits_for_one_that_reads_it():
    """What is on the page stays; the sentence says what to choose, and then the picture is there."""
    app = drop(opened(model="story", text="the cat sat"), ("mine.png", content()))

    assert "mine.png is here, and story reads text: choose a model for it, such as shapes" in html(app)
    assert app.text_area(key="text").value == "the cat sat"

    app.selectbox(key="model").set_value("shapes").run()

    assert "a red square below a blue triangle" in html(app)


def test_a_sound_that_a_model_of_pictures_gets_takes_its_picture_away_from_neither_page_nor_link():
    """It waits for a model that hears."""
    sound = next(iter(photos.SOUNDS.values())).read_bytes()
    app = drop(opened(model="shapes", picture=SQUARE), ("mine.wav", sound))

    assert "mine.wav is here, and shapes reads something else" in html(app)
    assert "a red square below a blue triangle" in html(app)
    assert app.query_params["picture"] == SQUARE

    app = drop(app, ("mine.png", content(CIRCLE)))

    assert "a red circle left of a blue square" in html(app)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("cat.png", b"hello", "is no picture of PNG, JPEG or WebP"),
        ("cat.jpg", b"", "is no picture of PNG, JPEG or WebP"),
        ("cat.wav", b"RIFF", "is no WAV file"),
        ("cat.txt", b"hello text", "is a text, and this model reads none"),
    ],
)
def test_what_is_none_gets_one_sentence_and_the_picture_before_stays(name, given, said):
    app = drop(opened(model="shapes"), (name, given))

    assert said in html(app)
    assert "a red circle left of a blue square" in html(app)


def test_a_link_with_an_unknown_picture_says_which_there_are():
    app = opened(model="shapes", picture="the moon")

    assert "The link names the picture “the moon”" in html(app)
    assert "a red circle left of a blue square" in html(app)


def test_a_patch_is_blank_for_the_attention_and_open_again():
    """The mask is in the link; no query gives it weight; the label is that of the same edits in Python."""
    app = opened(model="shapes", pins="q19")
    app.toggle(key=BLANKED.name).set_value(True).run()

    assert app.query_params["mask"] == "blank(19)"
    assert app.query_params["pins"] == "q19"
    edits = attnviz.Edits(mask=attnviz.Blank((19,)))
    record = attnviz.analyze(attnviz.picture(photos.PICTURES[CIRCLE]), "shapes", edits)
    assert attnviz.analysis.labels(record)[0].word in html(app)

    app.toggle(key=BLANKED.name).set_value(False).run()

    assert "mask" not in app.query_params or app.query_params["mask"] == "none"


def test_a_patch_is_gray_in_the_picture_and_the_whole_one_is_said_beside_it():
    app = opened(model="shapes", pins="q19")
    app.toggle(key=GRAY.name).set_value(True).run()

    assert app.query_params["gray"] == "19"
    assert "Of the whole picture it says “a red circle left of a blue square” 99.9%." in html(app)
    assert app.toggle(key=GRAY.name).value

    app.button(key="blank none").click().run()

    assert "gray" not in app.query_params


def test_the_copied_code_makes_the_same_picture():
    """Of an example by its file."""
    picture = attnviz.picture(assets.path("pictures/red-circle-left-of-blue-square.png"))
    source = attnviz.load("shapes")
    record = attnviz.analyze(picture, source)
    figure = attnviz.figures.patches(record, attnviz.Site("encoder", 0), 1, chosen=0)
    lines = code.python(figure, lambda record: source)

    assert (
        'attnviz.analyze(attnviz.picture(assets.path("pictures/red-circle-left-of-blue-square.png")), "shapes")'
        in lines
    )
    namespace = {}
    exec(lines.rpartition("\n")[0], namespace)
    assert (namespace["figure"].arrays["weights"] == figure.arrays["weights"]).all()


def test_sinks_are_set_aside_where_that_is_asked_for():
    """It is in the link, and the rule stands under the title."""
    app = opened(model="shapes")
    app.segmented_control(key="less").set_value("sinks").run()

    assert app.query_params["less"] == "sinks"
    assert "minus a neutral question" not in html(app)
    assert app.segmented_control(key="less").options == ["weights", "without sinks"]


def test_another_picture_can_be_b():
    """An example, or one that was dropped; no model of texts is offered beside a model of pictures."""
    app = opened(compare_page, model="shapes", b=f"sentence-{SQUARE}")

    assert app.selectbox(key="b sentence").value == SQUARE
    assert CIRCLE not in app.selectbox(key="b sentence").options
    assert 'class="note' not in html(app)
    alone = opened(compare_page, model="shapes", b="model-story")
    models = [box.options for box in alone.selectbox if box.key == "b model"]
    assert models == [] or "story" not in models[0]
