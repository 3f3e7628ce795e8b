"""Files that a person opens in the app: each is a model of that session alone."""

import gc
import io
import json
import random
import re
import wave
import weakref
import zipfile
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import streamlit as st
import torch
from PIL import Image
from safetensors.torch import save as to_bytes
from streamlit.testing.v1 import AppTest
from test_pages import button, html

import attnviz
from attnviz import Edits, Site, cases, files
from attnviz.core.errors import PICTURES, AttnvizError
from attnviz.core.request import Request
from attnviz.figures.mask import TARGETS
from attnviz.ui import cache
from attnviz.ui.shared import files as opened
from attnviz.ui.shared import photos, text_file
from attnviz.ui.shared.state import _KEY

TEXT = "The cat sat on the mat"
HOSTILE = '<img src=x onerror="document.title=1">[a](javascript:1)$x$'


def any_page(name):
    from importlib import import_module

    from attnviz.ui import frame

    if name == "about":
        from attnviz.ui import settings
        from attnviz.ui.about import panel

        frame.body(lambda source, lines: panel.content(source, settings.LINKED), frame.selection())
    else:
        frame.body(import_module(f"attnviz.ui.{name}.page").page, frame.selection())


def page(name="heads", **link):
    app = AppTest.from_function(any_page, default_timeout=60, args=(name,))
    for key, value in ({"model": "story", "text": "a dog ran"} | link).items():
        app.query_params[key] = value
    return app.run()


def drop(app, *given):
    """Drop files, each a name and its bytes."""
    app.file_uploader[0].set_value([(name, content, "") for name, content in given]).run()
    assert not app.exception
    return app


@pytest.fixture(scope="module")
def case():
    return files.saved(attnviz.analyze(TEXT, "story"), settings={"state": {"layer": ["d1"], "head": ["1"], "a": ["b"]}})


@pytest.fixture(scope="module")
def weights():
    """Of two heads, whose rows sum to 2."""
    file = io.BytesIO()
    np.savez(file, weights=np.full((2, 3, 3), 2 / 3))
    return file.getvalue()


def mutated(content: bytes, number: int) -> bytes:
    """The bytes of a file with a few of them changed, the first more often; some are cut."""
    chance, changed = random.Random(number), bytearray(content)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(min(len(content), chance.choice((64, 400, len(content)))))
        one, size = bytes([chance.randrange(256)]), chance.randrange(2**16).to_bytes(4, "little")
        part = chance.choice((one, size, b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x80"))
        changed[place : place + len(part)] = part
    return bytes(changed[: chance.randrange(len(changed))] if chance.random() < 0.1 else changed)


def small_files(case: bytes, weights: bytes) -> dict[str, bytes]:
    """A file of every kind that opens, by its name."""
    made = {
        "a.attn": case,
        "a.npz": weights,
        "a.csv": b"0.5,0.5\n1,0\n",
        "a.json": b'{"weights": [[1, 0], [0.5, 0.5]]}',
    }
    made |= {"a.txt": b"hello text", "a.safetensors": to_bytes({"weights": torch.eye(3)})}
    file, picture = io.BytesIO(), Image.effect_noise((24, 16), 50).convert("RGB")
    for ending, format in (("png", "PNG"), ("jpg", "JPEG"), ("webp", "WEBP")):
        picture.save(file, format)
        made[f"a.{ending}"], file = file.getvalue(), io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 4000, 0, "NONE", ""))
        sound.writeframes(bytes(range(250)) * 4)
    made["a.wav"], file = file.getvalue(), io.BytesIO()
    np.save(file, np.eye(3))
    made["a.npy"], file = file.getvalue(), io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("case.attn", case)
    return made | {"a.zip": file.getvalue()}


def test_a_file_that_is_changed_anywhere_opens_or_is_refused_in_one_sentence(case, weights):
    """Of every kind; a WAV file of 500 bytes with a chunk that lies about its size once replaced the page."""
    opens = Counter()
    for name, content in small_files(case, weights).items():
        read = text_file.read if name == "a.txt" else cases.source
        read = photos.read if name.endswith((*PICTURES, ".wav")) else read
        read(name, content)
        for number in range(2000 if name == "a.wav" else 150):
            try:
                read(name, mutated(content, number))
            except AttnvizError as error:
                assert re.fullmatch(r"[^\n]+\.", str(error))
            else:
                opens[name] += 1

    assert 200 < opens["a.wav"] < 1800


@pytest.mark.parametrize("name", ["heads", "overview", "masks", "steps", "compare"])
def test_a_file_opens_on_any_page(name, case, weights):
    """It opens where it was saved, is one more model, and waits with what was typed; weights alone, too."""
    app = drop(page(name), ("case.attn", case))

    assert app.selectbox(key="model").options[:2] == ["case.attn", "translator"]
    assert (app.text_area(key="text").value, app.text_area(key="text").disabled) == (TEXT, True)
    link = {"model": "file:case.attn", "layer": "d1", "head": "1", "text": "a dog ran"}
    assert {key: app.query_params[key] for key in link} == link
    assert 'role="alert"' not in html(app)

    drop(app, ("weights.npz", weights))
    assert re.search(r"weights.npz: encoder layer 0: \d+ rows of \d+ not summing to 1", html(app))
    app.selectbox(key="model").set_value("story").run()
    assert app.text_area(key="text").value == "a dog ran"


def test_a_run_without_predictions_predicts_nothing_on_the_page_of_masks():
    """The next words of its own text are no predictions; of random weights they stand for those of a decoder."""
    one = files.saved(replace(attnviz.analyze(TEXT, "scratch"), prediction=None))
    app = drop(page("masks"), ("one.attn", one))

    assert TARGETS not in texts_of(app)
    assert TARGETS in texts_of(page("masks", model="scratch"))


def test_of_a_run_that_was_opened_the_weights_are_judged_first(case):
    """No word of it can be changed, so its model cannot be; that is said where somebody asks for it."""
    app = drop(page("masks", tab="Check"), ("case.attn", case))

    assert app.button_group(key="checked").value == "this head's weights"

    app.button_group(key="checked").set_value("this model").run()

    assert "holds one run" in html(app)


def texts_of(app) -> str:
    """What is written in the pictures of a page."""
    return "".join(chart.proto.spec + str(chart.proto.datasets) for chart in app.get("vega_lite_chart"))


def test_a_link_to_a_file_asks_for_it_and_then_applies(case):
    """Also its changes, which act on this attention, as the page says."""
    app = page(model="file:case.attn", site="d0", show="2", mask="window-2", off="d0.1", cell="2.1")
    assert html(app).count('role="alert"') == 1
    assert "This page shows the file &#x27;case.attn&#x27;, which a link does not hold: drop it here again" in html(app)

    drop(app, ("case.attn", case))

    assert "alert" not in html(app)
    assert app.query_params["layer"] == "d0"
    assert app.query_params["cell"] == "2.1"
    assert any(one.label == "head 1 of decoder layer 0 off" for one in app.button)
    assert "A change acts on this attention alone: the rest of the model is not in the file." in html(app)
    assert "No prediction after a change" in html(app)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("case.attn", b"", "no file of a record"),
        ("case.attn", b"\x10" * 5000, "no file of a record"),
        ("words.docx", b"PK", "its name must end in .attn, .npz"),
        ("picture.png", b"\x89PNG", "is no picture of PNG, JPEG or WebP"),
        ("weights.npy", b"\x93NUMPY\x01\x00", "damaged"),
        (f"{HOSTILE * 9}.csv", b"1,2\n3", "rows of different lengths"),
    ],
)
def test_a_file_that_cannot_be_opened_gets_one_sentence_and_changes_nothing(name, content, says):
    app = page(cell="1.0")
    before = dict(app.query_params)

    drop(app, (name, content))

    assert html(app).count('role="alert"') == 1
    assert says in html(app)
    assert "<img" not in html(app)
    assert dict(app.query_params) == before
    app.run()
    assert "alert" not in html(app)


def test_a_file_of_many_tokens_opens():
    np.save(file := io.BytesIO(), np.full((5000, 1), 1.0, "float32"))

    app = drop(page(), ("long.npy", file.getvalue()))

    assert "alert" not in html(app)
    assert "5,000 queries by 1 key" in html(app)


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((20_000, 1, 1), "has 20,000 heads in a layer; this page shows up to 512 of a file."),
        ((1, 200_000), "has 200,000 keys; this page shows up to 32,768 of a file."),
        ((200_000, 1), "has 200,000 queries; this page shows up to 32,768 of a file."),
    ],
)
def test_a_file_of_more_than_a_page_shows_gets_one_sentence(shape, says):
    """A page of it would take minutes."""
    rows = np.full(shape, 1 / shape[-1]).round(7)

    app = drop(page(), ("large.json", json.dumps(rows.tolist()).encode()))

    assert says in html(app)
    assert html(app).count('role="alert"') == 1
    assert app.query_params["model"] == "story"


def test_of_a_file_of_many_tokens_the_box_shows_the_beginning():
    """All of it would be sent at each click."""
    np.savez(file := io.BytesIO(), weights=np.full((2, 30_000), 1 / 30_000), tokens=["a", "b"], keys=["token"] * 30_000)
    app = drop(page(), ("keys.npz", file.getvalue()))

    assert "alert" not in html(app)
    assert app.text_area(key="text begins").disabled
    assert len(app.text_area(key="text begins").value) < 1100
    assert not [one for one in app.button if one.label == "Replace"]


@pytest.mark.parametrize("content", ["true,false\nfalse,true", "[[true, false]]"])
def test_a_file_of_a_mask_is_sent_to_the_page_that_reads_it(content):
    app = drop(page(), ("mask.csv", content.encode()))

    assert "holds booleans, as a mask does, and no weights" in html(app)
    assert "in the app the page Masks, under Check" in html(app)
    assert app.query_params["model"] == "story"


@pytest.mark.parametrize("name", ["heads", "overview", "steps", "compare"])
def test_no_text_of_a_file_becomes_code_or_another_model(name):
    """Whatever a file calls its model, its tokens, its findings and its state."""
    record = attnviz.analyze([TEXT, "a dog"], "story")
    tokens = tuple(replace(one, text=HOSTILE) for one in record.sentences[0].tokens)
    first = replace(record.sentences[0], text=f"{HOSTILE}\n\0", tokens=tokens)
    texts = (first, record.sentences[1])
    evil = {"source": HOSTILE, "provenance": HOSTILE, "findings": (HOSTILE,), "unseen": HOSTILE, "sentences": texts}
    steps = tuple(replace(step, name=HOSTILE) for step in record.steps)
    state = {"model": ["translator"], "text": [HOSTILE], "heads_off": ["d0.0"], HOSTILE: [HOSTILE], "layer": [HOSTILE]}
    made = {"attnviz": HOSTILE, "torch": [HOSTILE], "name": HOSTILE, "state": state, "link": {"model": 3}}
    content = files.saved(replace(record, steps=steps, **evil), settings=made)
    app = drop(page(name), (f"{HOSTILE}.attn", content))

    assert "<img" not in html(app)
    assert app.query_params["model"].startswith("file:")
    assert "heads_off" not in app.query_params
    assert app.query_params["text"] == "a dog ran"
    button(app, "Undo").click().run()
    assert app.query_params["model"] == "story"
    button(app, "Redo").click().run()
    assert app.text_area(key="text").value.startswith(HOSTILE)


def test_a_session_has_few_files_and_each_can_be_closed(weights):
    """A name that is there already gets a number."""
    app = drop(page("about"), *[("weights.npz", weights)] * opened.MOST_FILES)
    assert app.selectbox(key="model").options[1] == "weights.npz (2)"

    drop(app, ("weights.npz", weights))
    assert "4 files are open: close one in “About this model”" in html(app)

    button(app, "Close this file").click().run()
    assert app.selectbox(key="model").value == "translator"
    assert len(app.session_state[_KEY].state[opened.OPEN]) == 3


def test_files_of_all_sessions_have_a_bound(weights, monkeypatch):
    monkeypatch.setattr(opened, "MOST_BYTES", 100)

    assert "There is no memory for &#x27;weights.npz&#x27;" in html(drop(page(), ("weights.npz", weights)))


def test_a_file_is_gone_with_its_session(case):
    """No other session sees it; nothing that was made of it stays in memory, drawn and changed as it was."""
    app = drop(page(heads_off="d0.1"), ("case.attn", case))
    app.run()
    record = weakref.ref(app.session_state[_KEY].state[opened.OPEN]["file:case.attn"].record)
    assert "case.attn" not in page().selectbox(key="model").options
    kept = len(cache.SHARED)

    del app
    gc.collect()
    cache.forget_the_dead()
    gc.collect()

    assert record() is None
    assert len(cache.SHARED) < kept


def test_two_files_are_compared_and_a_file_with_a_model(case):
    """Where its changes cannot reach the other, that stays as it is."""
    other = files.saved(attnviz.analyze(TEXT, "story", Edits(heads_off={(Site("decoder", 0), 0)})))
    app = drop(page("compare"), ("one.attn", other), ("two.attn", case))
    app.selectbox(key="b what").set_value("model").run()

    assert app.selectbox(key="b model").options[:3] == ["one.attn", "translator", "story"]
    assert "The row that differs most is" in html(app)
    for name in ("file:one.attn", "story"):
        app.selectbox(key="b model").set_value(name).run()
        assert not app.exception
        assert "alert" not in html(app)
    assert "drop it here again" in html(page("compare", b="model-file:gone.attn"))


def test_the_code_of_a_picture_reads_the_file(case, tmp_path, monkeypatch):
    """And makes the same record."""
    from attnviz import figures
    from attnviz.ui.shared import code

    source = cases.source("case.attn", case)
    record = cache.record(source, Request(source.one_run))
    lines = code.python(figures.head(record, Site("decoder", 1), 0), cache.maker)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "case.attn").write_bytes(case)
    scope = {}
    exec(lines, scope)

    assert torch.equal(scope["record"].steps[1].weights(0), record.steps[1].weights(0))


@pytest.mark.parametrize(
    ("name", "key", "link"),
    [
        ("heads", "lines", {"as": "lines", "layer": "d1", "head": "1", "heads_off": "d0.1", "cell": "2.1"}),
        ("overview", "every", {"sort": "self"}),
        ("masks", "head", {"mask": "subsequent"}),
        ("steps", "everything", {"query": "3"}),
        ("compare", "difference", {"b": "head-d0.1"}),
    ],
)
def test_what_a_page_exports_opens_where_it_was_and_in_its_model(monkeypatch, name, key, link):
    """In the state of the page, with its changes as a part of the run; in the model they are changes again."""
    made = {}
    monkeypatch.setattr(st, "download_button", lambda label, **options: made.update({label: options["data"]}))
    app = page(name, text=TEXT, **link)
    app.session_state[f"take {key}"] = True
    app.run()
    with zipfile.ZipFile(io.BytesIO(made["Download everything"]())) as archive:
        content = archive.read("case.attn")
        assert sum(one.endswith(".svg") for one in archive.namelist()) >= 2
    other = drop(page("about"), ("case.attn", content))

    told = dict(app.query_params)
    of_run = {"as", "layer", "head", "cell", "sort", "query", "b"}
    assert {one: other.query_params.get(one) for one in of_run} == {one: told.get(one) for one in of_run}
    assert ("changed: head 1 of decoder layer 0 off" in html(other)) == ("heads_off" in link)
    assert {"mask", "heads_off"}.isdisjoint(other.query_params)
    button(other, "Open in its model").click().run()
    assert dict(other.query_params) == told


def test_what_was_changed_in_a_file_is_changed_in_its_model_too():
    """Heads off and rules are added to those of the file; the form is the one that was chosen last."""
    state = {"layer": ["d1"], "as": ["lines"]}
    link = {"model": ["story"], "text": [TEXT], **state, "heads_off": ["d0.1"], "mask": ["window-3"]}
    content = files.saved(attnviz.analyze(TEXT, "story"), settings={"state": state, "link": link})
    app = drop(
        page("about", model="file:case.attn", **{"layer": "d1", "heads_off": "d1.0", "as": "map"}),
        ("case.attn", content),
    )

    button(app, "Open in its model").click().run()

    told = {"model": "story", "text": TEXT, "layer": "d1", "heads_off": "d0.1-d1.0", "mask": "window(3)", "as": "map"}
    assert dict(app.query_params) == told
