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
import math
import attnviz, torch
from torch import nn
from own_models import WORDS, Translator, Writer, tokenize
from tutorial import Inverted, Transformer

class Backwards(Writer):
    def mask(self, ids):
        return ~super().mask(ids)

class Masked(Writer):
    def __init__(self, of):
        super().__init__()
        self.of = of
    def mask(self, ids):
        return self.of(ids, torch.ones(ids.shape[1], ids.shape[1]))

class Broken(Writer):
    def forward(self, ids):
        logits = super().forward(ids)
        return torch.cat([logits[:, :-1], math.nan * logits[:, -1:]], 1)

class Ruled(Writer):
    def forward(self, ids):
        return super().forward(ids).index_fill(-1, torch.tensor([0]), -math.inf)

class Official(nn.Module):
    def __init__(self, memory):
        super().__init__()
        self.embed, self.head, self.memory = nn.Embedding(len(WORDS), 12), nn.Linear(12, len(WORDS)), memory
        self.transformer = nn.Transformer(12, 2, 2, 2, 24, 0.0, batch_first=True)
    def forward(self, ids, read):
        padding, later = ids == 0, torch.ones(read.shape[1], read.shape[1], dtype=torch.bool).triu(1)
        masks = {"tgt_mask": later, "src_key_padding_mask": padding}
        masks |= {"memory_key_padding_mask": padding} if self.memory else {}
        return self.head(self.transformer(self.embed(ids), self.embed(read), **masks))

class Joined(nn.Module):
    def __init__(self, order):
        super().__init__()
        self.embed, self.head, self.order = nn.Embedding(len(WORDS), 12), nn.Linear(12, len(WORDS)), order
        self.attn = nn.MultiheadAttention(12, 3, batch_first=True)
    def forward(self, ids):
        x, n = self.embed(ids), ids.shape[1]
        mask = (ids == 0)[:, None].expand(-1, n, n)
        mask = mask.repeat(3, 1, 1) if self.order == "repeat" else mask.repeat_interleave(3, 0)
        return self.head(x + self.attn(x, x, x, attn_mask=mask)[0])

class Own(nn.Module):
    # scores of one head times a factor, with a mask before the softmax or after it
    def __init__(self, factor, late):
        super().__init__()
        self.embed, self.head = nn.Embedding(len(WORDS), 16), nn.Linear(16, len(WORDS))
        self.factor, self.late = factor, late
    def forward(self, ids):
        x, n = self.embed(ids)[:, None], ids.shape[1]
        may, scores = torch.ones(n, n).tril().bool(), x @ x.mT * self.factor
        weights = scores.softmax(-1) * may if self.late else scores.masked_fill(~may, -math.inf).softmax(-1)
        return self.head((x + weights @ x)[:, 0])

def documents(ids, ones):
    own = (ids == IDS_DOG).cumsum(1)
    return (own[:, None, :] == own[:, :, None])[:, None] & ones.tril().bool()

IDS_DOG = WORDS.index("dog")

def masked(of, **given): return build(Masked(of), **given)
def times_infinity(): return masked(lambda ids, ones: ones.triu(1) * -math.inf)
def floats(): return masked(lambda ids, ones: ones.tril())
def prefix(): return masked(lambda ids, ones: ones.tril().index_fill(1, torch.arange(3), 1).bool())
def sees_nothing(): return masked(lambda ids, ones: ones.bool() & False)
def of_documents(): return masked(documents, pad=0)
def causal_and_padding(): return masked(lambda ids, ones: ones.tril().bool() & (ids != 0)[:, None, None], pad=0)
def usual_scale(): return build(Own(1 / 4, False))
def other_scale(): return build(Own(1 / 16, False))
def late_mask(): return build(Own(1 / 4, True))
def broken(): return build(Broken())
def ruled(): return build(Ruled())
def repeated(): return build(Joined("repeat"), pad=0)
def interleaved(): return build(Joined("repeat_interleave"), pad=0)
def reads(model):
    code = {"words": WORDS, "pad": 0, "call": lambda model, ids, read: model(ids, read)}
    return attnviz.wrap(model, tokenize, "the cat sat on ||| the dog", **code)
def official(): torch.manual_seed(0); return reads(Official(True))
def official_forgetful(): torch.manual_seed(0); return reads(Official(False))

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


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("usual_scale", ""),
        ("other_scale", "scores are scaled by 0.0625, where 1/√d_k is 0.25"),
        ("late_mask", "masks after the softmax"),
    ],
)
def test_what_is_unusual_about_attention_is_a_note(checked, capsys, name, says):
    """Also beside a leak test, in words and as JSON; a note alone leaves the status 0."""
    status, out = checked(name)
    notes = json.loads(checked(name, "--json")[1].partition("attnviz: ")[0])["notes"]
    main(["leaks", TEXT, "--model", f"my_models.py:{name}"])
    of_leaks = capsys.readouterr().out

    assert status == 0
    assert len(notes) == bool(says)
    for told in (out, of_leaks):
        assert ("note attention: " in told) is bool(says)
        assert says in told


def test_padding_that_is_seen_is_an_error(checked):
    """It names the heads that look at it."""
    status, out = checked("nothing")
    assert status == 1
    assert "error padding: outputs move by up to" in out
    assert "of encoder layer 0 · attn.0: row" in out
    assert "gives padding" in out

    assert checked("padding")[0] == 0


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("times_infinity", "the mask of decoder layer 0 holds NaN, first at query 0 key 0 (0 * -inf is NaN"),
        ("broken", "The output is NaN at position 5 “mat”, so nothing can be compared: all attention is finite"),
    ],
)
def test_nan_is_an_error_and_never_no_leak(checked, name, says):
    """With its first place and the likely cause; a word that is ruled out by -inf is no NaN."""
    status, out = checked(name)
    assert status == 1
    assert f"error nan: {says}" in out or says in out
    assert "no output moved" not in out

    assert checked("ruled")[0] == 0


def test_floats_of_0_and_1_that_are_added_are_named(checked):
    """Also where nobody said that the model is causal."""
    status, out = checked("floats")

    assert status == 1
    assert "error values: the mask of encoder layer 0 · attn.0" in out
    assert "added to the scores: it blocks nothing" in out


def test_a_model_in_which_nothing_is_seen_is_not_green(checked, capsys):
    """Neither by its masks nor by the leak test alone."""
    status, out = checked("sees_nothing")
    assert status == 1
    assert "Hidden tokens: not tested. No output moved with another token than its own" in out

    assert main(["leaks", TEXT, "--model", "my_models.py:sees_nothing"]) == 3
    said = capsys.readouterr().out
    assert "not tested, as no output moved with another token" in said
    assert "expected: every key blocked" in said
    assert main(["leaks", TEXT, "--model", "my_models.py:sees_nothing", "--promised", "causal"]) == 3
    assert main(["leaks", TEXT, "--model", "my_models.py:right"]) == 0


def test_masks_that_are_made_of_tokens_are_right(checked, capsys):
    """Changing a separator changes the mask itself, which is no leak, and said."""
    checked("right")  # writes the file's folder into sys.path
    status = main(["check", "the cat dog on the mat", "--model", "my_models.py:of_documents"])
    out = capsys.readouterr().out

    assert status == 0
    assert "What stands at position 2 decides the mask itself, so nothing is said of it." in out
    assert checked("causal_and_padding", "--strict")[0] == 0


def test_padding_of_an_encoder_reaches_cross_attention(checked):
    """Where nn.Transformer is not given memory_key_padding_mask; the heads of cross-attention are named."""
    status, out = checked("official_forgetful")
    assert status == 1
    assert "error padding: outputs move by up to" in out
    assert "of cross layer" in out

    assert checked("official", "--strict")[0] == 0


def test_masks_of_another_sentence_show_in_a_batch(checked):
    """(B * H, Q, K) made by repeat instead of repeat_interleave, which one sentence alone cannot show."""
    status, out = checked("repeated")
    assert status == 1
    assert "Padding: no output moved" in out
    assert "error batch: outputs move by up to" in out

    assert checked("interleaved", "--strict")[0] == 0


def test_a_model_is_held_against_a_kind_by_its_name(checked):
    """Those that --help lists."""
    assert checked("prefix", "--intent", "prefix-lm")[0] == 0
    assert checked("right", "--intent", "causal-window")[0] == 1
    assert checked("right", "--intent", "causal")[0] == 0


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
        (["--intent", "nonsense"], "No kind of mask is called 'nonsense'."),
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
