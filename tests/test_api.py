"""Public functions of attnviz, called by their names."""

import numpy as np
import pytest
import tiny
import torch
from PIL import Image

import attnviz
from attnviz import api, cli
from attnviz.core.errors import InputError
from attnviz.export.explore import live_page
from attnviz.models import trained

HEADS_OFF = frozenset({(attnviz.Site("encoder", 0), 1)})


def test_a_text_becomes_a_record():
    record = attnviz.analyze("The cat sat", "scratch", num_heads=2, num_layers=3)

    assert record.sentences[0].labels == ("The", "cat", "sat")
    assert [step.num_heads for step in record.steps] == [2, 2, 2]


def test_edits_reach_the_run():
    record = attnviz.analyze("The cat sat", "scratch", edits=attnviz.Edits(attnviz.Subsequent(), HEADS_OFF))

    assert record.steps[0].weights(0).triu(1).eq(0).all()
    assert record.steps[0].output(1).eq(0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: attnviz.load("no name"),
            "'no name' is no name of a model; names look like 'gpt2' or 'google-bert/bert-base-uncased'. "
            f"The models that ship with attnviz are: {', '.join(api.SOURCES)}.",
        ),
        (
            lambda: attnviz.load("scratch", heads=4),
            "The source 'scratch' has no setting 'heads'. It has: tokenizer, sos, d_model, num_heads, num_layers, "
            "seed, positions, bias.",
        ),
        (
            lambda: attnviz.load("scratch", num_heads=7),
            "d_model is 64 and num_heads is 7; num_heads must divide d_model. Try 4 or 8 heads.",
        ),
        (lambda: attnviz.analyze("", "scratch"), "Sentence 1 is empty; type at least one word in it."),
        (lambda: attnviz.analyze([], "scratch"), "There is no sentence; type at least one."),
        (lambda: attnviz.analyze(["a", 3]), "Give a text as a string, or several texts as a list of strings; given 3."),
        (
            lambda: attnviz.analyze("a", attnviz.load("scratch"), seed=1),
            "The setting 'seed' needs the name of a source, not a source.",
        ),
        (
            lambda: attnviz.analyze("a", "scratch", attnviz.Edits(heads_off=HEADS_OFF), num_heads=1),
            "There is no head 1 of encoder layer 0; there are 1, counted from 0.",
        ),
        (
            lambda: attnviz.analyze("a", "scratch", attnviz.Edits(heads_off={(attnviz.Site("cross", 0), 0)})),
            "'scratch' has no cross layer 0. It has: encoder layer 0, encoder layer 1.",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence(call, message):
    with pytest.raises(InputError) as caught:
        call()

    assert str(caught.value) == message


@pytest.mark.parametrize("picture", [np.zeros((2, 2, 3)), torch.zeros(3, 2, 2), Image.new("RGB", (2, 2))])
def test_a_picture_in_the_place_of_a_text_is_refused_with_the_way_for_pictures(picture):
    with pytest.raises(InputError, match=r"Give a text as a string.*attnviz\.picture"):
        attnviz.analyze(picture)


def test_a_picture_s_file_is_refused_with_the_way_for_pictures(tmp_path, monkeypatch, capsys):
    """Wherever a model, a saved run or an array is asked for."""
    Image.new("RGB", (2, 2)).save(tmp_path / "cat.jpg")
    monkeypatch.chdir(tmp_path)

    for call in (attnviz.read, attnviz.load):
        with pytest.raises(InputError, match=r"'cat.jpg' is a picture, .*attnviz\.picture"):
            call("./cat.jpg")
    for words in (["check", "cat.jpg"], ["open", "cat.jpg"]):
        assert cli.main(words) == 2
        assert "'cat.jpg' is a picture" in capsys.readouterr().err


def test_a_model_of_texts_refuses_a_picture(tmp_path, capsys):
    """In Python, and in the shell by the name of its file."""
    Image.new("RGB", (20, 20)).save(tmp_path / "cat.jpg")

    with pytest.raises(InputError, match=r"'story' reads text alone, and this is a picture"):
        attnviz.analyze(attnviz.picture(tmp_path / "cat.jpg"), "story")
    assert cli.main(["predict", str(tmp_path / "cat.jpg"), "--model", "story"]) == 2
    assert "'story' reads text alone, and this is a picture" in capsys.readouterr().err


def test_a_token_and_a_report_read_like_sentences():
    first, second = attnviz.analyze("The cat", "scratch", sos=True).sentences[0].tokens[:2]
    report = attnviz.check.check(torch.ones(4, 4).bool().tril(1), intent="causal", convention="may-attend")

    assert str(first) == f"“<sos>” (id {first.id}, in no place of the text, special)"
    assert str(second) == f"“The” (id {second.id}, characters 0 to 3)"
    assert str(report) == "\n".join(report.lines())
    assert str(report).endswith("1 error")


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Install tiny models in the place of the shipped ones."""
    yield tiny.install(tmp_path, monkeypatch)
    tiny.forget()


def test_without_a_name_a_trained_model_runs(small):
    """The first of all: what it wrote, and what it held probable."""
    record = attnviz.analyze("the black cat")

    assert next(iter(api.SOURCES)) == api.DEFAULT == record.source == "translator"
    assert record.provenance == "trained here"
    assert record.prediction.written == (record.targets[0].text,)


def test_an_unknown_name_is_answered_with_those_that_exist():
    with pytest.raises(AttributeError, match=r"attnviz has no 'analyse'\. It has: analyze, load,"):
        attnviz.analyse  # noqa: B018


def test_a_live_page_of_no_model_or_of_weights_that_are_none_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(InputError, match=r"^There is no 'storry' that runs in a page. Did you mean 'story'\?$"):
        attnviz.live("storry")
    with pytest.raises(InputError, match=r"^These weights are not a model of attnviz\.models; write them with"):
        live_page(b"\x08" + bytes(15), ["a"], "a")
    weights = trained.weights_path("induction", trained.checkpoints("induction")[-1]).read_bytes()
    with pytest.raises(InputError, match=r"^The weights of 'model' are for 429 words; the vocabulary has 1\.$"):
        live_page(weights, ["a"], "a")
