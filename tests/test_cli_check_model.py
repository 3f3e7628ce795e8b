"""The command `check --model`: a model's masks, the future and its padding, with an exit status for CI."""

import json
import sys

import pytest
import torch
from own_models import WORDS, Translator, Writer, tokenize

import attnviz
from attnviz.cli import main
from attnviz.leaks import leak_test
from attnviz.leaks.padding import padding_test

TEXT = "the cat sat on the mat"
FILE = """
import attnviz, torch
from own_models import WORDS, Translator, Writer, tokenize
from tutorial import Inverted, Transformer

class Backwards(Writer):
    def mask(self, ids):
        return ~super().mask(ids)

def build(model, **given):
    torch.manual_seed(0)
    return attnviz.wrap(model, tokenize, "the cat sat on the mat", words=WORDS, **given)

def tutorial(cls):
    torch.manual_seed(0)
    model = cls(len(WORDS), len(WORDS), 0, 0)
    code = {"words": WORDS, "pad": 0, "call": lambda model, ids, read: model(ids, read)}
    return attnviz.wrap(model, tokenize, "the cat sat on ||| the dog", **code)

def of_tutorial(): return tutorial(Transformer)
def of_tutorial_inverted(): return tutorial(Inverted)
def right(): return build(Writer())
def inverted(): return build(Backwards())
def nothing(): return build(Writer(hides="nothing"), pad=0)
def no_padding_id(): return build(Writer(hides="nothing"))
def padding(): return build(Writer(hides="padding"), pad=0)
"""


@pytest.fixture
def checked(capsys, tmp_path, monkeypatch):
    """Checks a model of that file; gives status and stdout."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "my_models.py").write_text(FILE)

    def run(name: str, *options: str) -> tuple[int, str]:
        status = main(["check", TEXT, "--model", f"my_models.py:{name}", *options])
        out, err = capsys.readouterr()
        return status, out + err

    yield run
    sys.modules.pop("my_models", None)


def test_a_right_model_passes(checked):
    """Its masks, the future and padding are each said to be fine."""
    status, out = checked("right")

    assert status == 0
    assert "attnviz: the code of my_models.py is run." in out
    assert out.startswith(f"Writer on '{TEXT}': 2 attention calls\n")
    for said in ("Masks: nothing wrong", "Hidden tokens: no output moved", "Padding: no output moved when 6 tokens"):
        assert said in out


def test_an_inverted_mask_is_found(checked):
    """By the modules that use it, with cells and a way to mend it."""
    status, out = checked("inverted")

    assert status == 1
    assert "error inverted: the mask of encoder layer 0 · attn.0, encoder layer 1 · attn.1\n" in out
    assert "at: query 0 key 1" in out
    assert "fix: Hand over ~mask" in out


def test_the_inverted_mask_of_a_tutorial_is_found(checked):
    """In its decoder alone, by the mask and by what it does; as it should be, nothing is wrong."""
    assert checked("of_tutorial", "--strict")[0] == 0

    status, out = checked("of_tutorial_inverted")

    masks = "decoder layer 0 · decoder.layers.0.attention, decoder layer 1 · decoder.layers.1.attention"
    assert status == 1
    assert f"error inverted: the mask of {masks}\n" in out
    assert (
        "error leak: 15 outputs saw a token that is hidden (causal, through 2 layers), first in decoder layer 0" in out
    )
    assert "Padding: no output moved" in out


def test_a_model_that_hides_nothing_is_told_what_that_means(checked):
    """It is a mistake if the model is said to be causal; then each leak is named, and where the first one is."""
    status, out = checked("no_padding_id")
    assert status == 0
    assert "No mask hides the future. If the model predicts the next token, that is a mistake: say --causal." in out
    assert "Padding: not tested. Texts of several lengths in one run need padding" in out

    status, out = checked("nothing", "--causal")
    assert status == 1
    assert "error future-leak: the mask of encoder layer 0 · attn.0" in out
    assert "error leak: 15 outputs saw a token that is hidden (causal, through 2 layers), first in encoder" in out
    assert "position 0 “the” saw position 1 “cat”" in out


def test_padding_that_is_seen_is_an_error(checked):
    """It names the heads that look at it."""
    status, out = checked("nothing")
    assert status == 1
    assert "error padding: outputs move by up to" in out
    assert "of encoder layer 0 · attn.0: row" in out
    assert "gives padding" in out

    assert checked("padding")[0] == 0


def test_what_is_found_is_json_too(checked):
    """For a program that reads it."""
    found = json.loads(checked("inverted", "--json")[1].partition("attnviz: ")[0])

    (first, *_) = found["masks"]["encoder layer 0 · attn.0"]["findings"]
    assert first["rule"] == "inverted"
    assert found["future"]["pairs"] == []
    assert found["padding"].startswith("Texts of several lengths")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--shape", "1,1,2,2"], "--shape is of arrays; leave it out beside --model."),
        (["--meant", "nonsense"], "There is no mask 'nonsense'."),
    ],
)
def test_options_that_do_not_fit_are_refused(checked, options, said):
    status, out = checked("right", *options)
    assert status == 2
    assert said in out


def test_a_shipped_model_is_checked_by_its_name(capsys):
    """The future is hidden from the story's decoder, and padding from the translator's encoder."""
    assert main(["check", "the cat sat down .", "--model", "story"]) == 0
    assert main(["check", "the cat sleeps .", "--model", "translator"]) == 0
    assert "Padding: no output moved" in capsys.readouterr().out


def test_a_source_is_tested_on_what_it_begins_with():
    """One line in a test of one's own."""
    source = attnviz.wrap(Writer(), tokenize, TEXT, words=WORDS)

    assert leak_test(source).text == TEXT
    assert not leak_test(source).pairs
    assert not padding_test(source, TEXT).is_seen


def test_padding_of_an_encoder_is_seen_by_what_its_decoder_gets():
    """Weights on padding are named by head, with the row that gives most."""
    torch.manual_seed(1)
    code = {"words": WORDS, "pad": 0, "call": lambda model, ids, read: model(ids, read)}
    source = attnviz.wrap(Translator(), tokenize, f"{TEXT} ||| the dog", **code)
    test = padding_test(source, TEXT)

    assert test.is_seen
    site, head, row, weight = test.heads[0]
    step = source.run((source.tokenize([TEXT, f"{TEXT} {TEXT}"])[0],)).step(site)
    assert weight == pytest.approx(float(step.weights(head)[row, 6:].sum()))
