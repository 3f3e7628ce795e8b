"""Models by name in the box of models: found, asked for, downloaded, canceled, refused; on 127.0.0.1 alone."""

import shutil
import sys
import time
from pathlib import Path

import pytest
from test_app import choices, html, opened

sys.path.insert(0, str(Path(__file__).parents[1] / "sources" / "huggingface"))

import fake_hub
import zoo
from huggingface_hub import constants
from streamlit.testing.v1 import AppTest
from transformers import AutoTokenizer

from attnviz.core import assets
from attnviz.link import Choices
from attnviz.sources.huggingface import loading
from attnviz.ui import cache, runs
from attnviz.ui.inputs import OTHER

NAME, CAT = "tiny/story", "the cat sat on the mat"
PATIENCE = 60
"""Seconds that a test waits for what must come."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return fake_hub.write(tmp_path_factory.mktemp("models") / "gpt2")


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch):
    """End all loads and clear the caches after each test."""
    monkeypatch.delenv("ATTNVIZ_MODELS", raising=False)
    yield
    for job in runs.LOADS.running:
        job.canceled = True
        assert job.settled.wait(PATIENCE)
    cache.SHARED.clear()
    loading._models.clear()


@pytest.fixture
def hub(folder, tmp_path, monkeypatch):
    """A hub with one model, and an empty cache."""
    with fake_hub.running() as (fake, address):
        fake_hub.connect(monkeypatch, address, tmp_path / "cache")
        fake.add(NAME, folder)
        yield fake


def typed(app: AppTest, name: str) -> AppTest:
    """Type a name into the box of models and wait until it is found or refused."""
    app.selectbox("model").set_value(OTHER).run()
    return settled(app.text_input("model name").set_value(name).run())


def settled(app: AppTest) -> AppTest:
    """Run the page until it waits for no model."""
    ends = time.monotonic() + PATIENCE
    while runs.LOADS.running:
        assert time.monotonic() < ends
        time.sleep(0.05)
        app.run()
    app.run()
    assert not app.exception
    return app


def button(app: AppTest, label: str):
    return next(one for one in app.button if one.label.startswith(label))


def test_a_finding_about_a_model_stands_below_the_row_of_every_page(tmp_path):
    """As long as the model is chosen."""
    zoo.save_unread(tmp_path)
    for page in ("Heads", "Masks"):
        app = settled(opened(page, model=str(tmp_path), text="A cat"))

        assert "The model leaves 8 weights of its files unread: model.layers.0" in html(app)
    app.selectbox("model").set_value("story").run()
    assert "unread" not in html(app)


def test_a_folder_opens_at_once_stands_in_the_link_and_undo_goes_back(folder):
    app = opened(model="story", text=CAT)

    typed(app, str(folder))

    assert choices(app)["model"] == app.query_params["model"] == str(folder)
    assert choices(app)["text"] == CAT
    assert "gpt2" in {app.selectbox("model").options[i] for i in range(len(app.selectbox("model").options))}
    app.button("Undo").click().run()
    assert choices(app)["model"] == "story"
    linked = settled(opened(model=str(folder), text=CAT))
    assert choices(linked) == Choices({"model": str(folder), "text": CAT})
    assert 'class="note' not in html(linked)


def test_a_download_says_its_size_first_and_then_stands_on_the_page(hub):
    """Nothing is fetched before a person says so, and the page stays until the model is here."""
    app = typed(opened(model="story", text=CAT), NAME)

    assert choices(app)["model"] == "story"
    assert app.get("vega_lite_chart")
    assert f"{NAME} is not on this machine. Download " in html(app)
    assert not [path for path in hub.paths("GET") if "safetensors" in path]
    settled(button(app, "Download").click().run())

    assert choices(app)["model"] == NAME
    assert 'class="note' not in html(app)


def test_not_now_leaves_the_page_as_it_is(hub):
    app = typed(opened(model="story", text=CAT), NAME)

    button(app, "Not now").click().run()

    assert NAME not in html(app)
    assert choices(app) == Choices({"model": "story", "text": CAT})


def test_a_download_is_canceled_and_another_is_asked_about_again(hub, monkeypatch):
    app = typed(opened(model="story", text=CAT), NAME)
    hub.fault = "hang in a file"
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
    button(app, "Download").click().run()
    (bar,) = app.get("progress")
    (job,) = runs.LOADS.running

    button(app, "Cancel").click().run()

    assert NAME in bar.proto.text
    assert job.settled.wait(PATIENCE)
    assert not app.get("progress")
    assert choices(app)["model"] == "story"


@pytest.mark.parametrize(
    ("name", "fault", "sentence"),
    [
        ("no/such", None, "There is no model"),
        ("stroy", 404, "Did you mean &#x27;story&#x27;?"),
        ("a b", None, "is no name of a model"),
        (NAME, "gated", "is gated"),
        ("/no/such/folder", None, "The folder"),
    ],
)
def test_a_name_that_gives_no_model_is_one_sentence_and_the_page_stays(hub, name, fault, sentence):
    """The sentence stands once; the next click asks for nothing again."""
    app = opened(model="story", text=CAT)
    hub.fault = fault

    app.selectbox("model").set_value(OTHER).run()
    app.text_input("model name").set_value(name).run()
    while app.get("progress"):
        time.sleep(0.05)
        app.run()

    assert sentence in html(app)
    assert html(app).count('class="note') == 1
    app.run()
    assert 'class="note' not in html(app)
    assert choices(app) == Choices({"model": "story", "text": CAT})
    assert app.get("vega_lite_chart")
    assert not runs.LOADS.running


def test_a_model_of_a_link_that_is_not_there_is_one_sentence(hub):
    app = settled(opened(model="no/such", text=CAT))

    assert html(app).count('class="note') == 1
    assert "There is no model &#x27;no/such&#x27;" in html(app)
    assert choices(app)["text"] == CAT


def test_a_server_that_others_reach_loads_what_it_lists_alone(folder, monkeypatch):
    """It neither offers a box for names nor lists what a visitor has opened."""
    monkeypatch.setattr("attnviz.ui.model_loading.serves_others", lambda: True)
    app = opened(model=str(folder))

    assert "may not be loaded here" in html(app)
    assert OTHER not in app.selectbox("model").options
    monkeypatch.setenv("ATTNVIZ_MODELS", NAME)

    assert NAME in opened(model="story").selectbox("model").options


def test_another_visitor_does_not_see_what_one_has_opened(folder):
    typed(opened(model="story"), str(folder))

    assert "gpt2" not in opened(model="story").selectbox("model").options


def test_a_text_of_unknown_words_is_offered_a_model_that_reads_any():
    app = opened(model="story", text="das ist ein langer deutscher Satz über the cat")

    assert "This model knows 2 of 9 words" in html(app)
    settled(app.button("reads any").click().run())

    assert "This model knows" not in html(app)
    assert choices(app)["text"].startswith("das ist")


def test_a_model_of_pictures_is_not_offered_for_a_text_that_was_typed():
    shapes = "shapes" in opened(model="story").selectbox("model").options
    app = opened(model="story", text=CAT)

    assert shapes
    assert "shapes" not in app.selectbox("model").options


def test_a_picture_opened_beside_a_model_of_texts_says_which_model_reads_it():
    picture = next(assets.path("pictures").glob("*.png"))
    app = opened(model="story", text=CAT)
    app.session_state["open menu"] = True
    app.run()

    app.file_uploader[0].set_value((picture.name, picture.read_bytes(), "image/png")).run()

    assert "this model reads only text: choose another model, such as shapes." in html(app)
    assert "shapes" in app.selectbox("model").options


def test_compare_takes_a_name_for_b(folder):
    app = settled(opened("Compare", model="story", text=CAT, b=f"model={folder}&part=model"))

    assert 'class="note error' not in html(app)
    assert app.selectbox("b model").value == str(folder)
    assert app.get("vega_lite_chart")


def test_a_text_is_the_turn_of_a_chat_with_a_system_prompt(folder, tmp_path):
    """A model whose tokenizer has a chat template reads the text as the template writes it."""
    tokenizer = AutoTokenizer.from_pretrained(shutil.copytree(folder, tmp_path / "chat"))
    tokenizer.chat_template = "{% for turn in messages %}{{ turn['role'] + ' ' + turn['content'] + ' ' }}{% endfor %}"
    tokenizer.save_pretrained(tmp_path / "chat")
    app = settled(opened(model=str(tmp_path / "chat"), text=CAT))
    app.toggle("chat on").set_value(True).run()
    app.text_input("chat").set_value("be a dog").run()
    source, request = app.session_state["model and request"]

    assert not app.exception
    assert choices(app)["chat"] == "be a dog"
    assert cache.sentences(source, request)[0].text == f"system be a dog user {CAT} "

    app.toggle("chat on").set_value(False).run()
    assert choices(app)["chat"] is None
