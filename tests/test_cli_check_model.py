"""The command `check --model`: a model's masks, the future and its padding, with an exit status for CI."""

import inspect
import json
import sys

import pytest
from own_models import Attention

from attnviz import api, cli
from attnviz.cli import main

TEXT = "the cat sat on the mat"
FILE = """
import math
import attnviz, torch
from torch import nn
from own_models import WORDS, Server, Translator, Writer, tokenize

class Backwards(Writer):
    def mask(self, ids):
        return ~super().mask(ids)

class Masked(Writer):
    def __init__(self, of):
        super().__init__()
        self.of = of
    def mask(self, ids):
        return self.of(ids, torch.ones(ids.shape[1], ids.shape[1]))

class Turned(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(len(WORDS), 16), nn.Linear(16, len(WORDS))
    def forward(self, ids):
        x = self.embed(ids)
        return self.head((x @ x.mT / 4).softmax(-2) @ x)

class Broken(Writer):
    def forward(self, ids):
        logits = super().forward(ids)
        return torch.cat([logits[:, :-1], math.nan * logits[:, -1:]], 1)

class Dropped(Writer):
    def forward(self, ids):
        return nn.functional.dropout(super().forward(ids), self.p)

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

def masked(of, **given): return build(Masked(of), **given)
def times_infinity(): return masked(lambda ids, ones: ones.triu(1) * -math.inf)
def prefix(): return masked(lambda ids, ones: ones.tril().index_fill(1, torch.arange(3), 1).bool())
def late_mask(): return build(Own(1 / 4, True))
def broken(): return build(Broken())
def dropped(p=0.5):
    model = Dropped()
    model.p = p
    return build(model, pad=0)
def dropped_little(): return dropped(0.1)
def softmax_of_queries(): return build(Turned(), pad=0)
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

def right(): return build(Writer(), pad=0)
def served(fault=""):
    def call(model, ids, tokens=None, positions=None, documents=None, cache=None):
        return model(ids, None if documents is None else positions, documents, tokens, cache)
    return build(Server(fault), call=call)
def served_uncut(): return served("window ignored")
def inverted(): return build(Backwards(), pad=0)
def nothing(): return build(Writer(hides="nothing"), pad=0)
def two_faults(): return masked(lambda ids, ones: ones.tril(1).bool() & (ids == 0)[:, None, None], pad=0)
def batch():
    ids = torch.tensor([[1, 2, 3, 0, 0], [1, 2, 3, 4, 5]])
    return {"input_ids": ids, "attention_mask": (ids == 0).long()}
def nonsense(): return 3
def alone(): return torch.nn.Linear(2, 2)
def nothing_but_padding(): return build(Writer(hides="padding"), pad=0)
"""


@pytest.fixture
def checked(capsys, tmp_path, monkeypatch):
    """Function that checks a model of that file; it returns the status and the output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "my_models.py").write_text(FILE)

    def run(name: str, *options: str, text: str = TEXT) -> tuple[int, str]:
        status = main(["check", f"my_models.py:{name}", text, *options])
        out, err = capsys.readouterr()
        return status, out + err

    yield run
    sys.modules.pop("my_models", None)


def errors(out: str) -> list[str]:
    """The rules of the errors that were printed."""
    return [line.split()[1].rstrip(":") for line in out.splitlines() if line.startswith("error ")]


def test_a_right_model_passes(checked):
    """The text names the kind of model and says that its masks, the future, padding and other texts are fine."""
    status, out = checked("right")

    assert status == 0
    assert "attnviz: the code of my_models.py is run, then " in out
    assert out.startswith(
        f"Writer on '{TEXT}': 2 attention calls\nAssumed: a causal decoder with padding. If it is an "
    )
    for part in (
        "Nothing wrong was found.",
        "Hidden tokens: no output",
        "Padding: no output",
        "Other texts: no output",
    ):
        assert part in out


def test_an_inverted_mask_is_found(checked):
    """By the modules that use it, with cells and a way to mend it."""
    status, out = checked("inverted")

    assert (status, errors(out)) == (1, ["inverted"])
    lines, first = inspect.getsourcelines(Attention.forward)
    line = first + next(i for i, text in enumerate(lines) if "scaled_dot_product_attention(" in text)
    assert f"coder layer 0 · attn.0 (own_models.py:{line}), " in out
    assert f"coder layer 1 · attn.1 (own_models.py:{line})" in out
    assert "query 0 key 1" in out
    assert "fix: " in out


def test_a_model_that_hides_nothing_is_asked_about(checked):
    """It is a mistake if the model predicts the next token, which it cannot tell: 3, and what to say."""
    status, out = checked("nothing_but_padding")
    assert status == 3
    assert "question: Does the model predict the next token? No mask hides the future." in out

    assert checked("nothing_but_padding", "--intent", "two-way")[0] == 0
    assert "need padding" in checked("nothing_but_padding", "--intent", "two-way", "--pad", "none")[1]
    status, out = checked("nothing_but_padding", "--intent", "causal")
    assert (status, errors(out)) == (1, ["future-leak"])
    assert "15 outputs saw a token that is hidden (causal, through 2 layers), first in decoder" in out


def test_a_mask_after_the_softmax_is_an_error(checked):
    """Its rows do not sum to 1."""
    status, out = checked("late_mask", "--pad", "none")

    assert (status, errors(out)) == (1, ["late-mask"])
    assert "after the softmax" in out


def test_a_softmax_over_the_queries_is_an_error(checked):
    """Though there is no attention to show."""
    status, out = checked("softmax_of_queries")

    assert (status, errors(out)) == (1, ["softmax-axis"])
    assert "fix: Take it over the keys" in out

    status, out = checked("softmax_of_queries", "--json")
    (finding,) = json.loads(out.partition("attnviz: ")[0])["findings"]
    assert (status, finding["rule"]) == (1, "softmax-axis")


@pytest.mark.parametrize("name", ["dropped", "dropped_little"])
def test_dropout_in_evaluation_is_an_error_and_no_other(checked, name):
    """Outputs that differ by chance say nothing of padding."""
    status, out = checked(name)

    assert (status, errors(out)) == (1, ["random"])
    assert "self.training" in out


def test_padding_that_is_seen_is_an_error(checked):
    """The heads that look at it stand beside it."""
    status, out = checked("nothing", "--intent", "two-way")
    assert (status, errors(out)) == (1, ["deviation"])
    assert "Padding missing." in out
    assert "Outputs move by up to" in out
    assert "of encoder layer 0 · attn.0 gives up to" in out

    assert checked("nothing_but_padding", "--intent", "two-way")[0] == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("times_infinity", "the mask of decoder layer 0 holds NaN, first at query 0 key 0 (0 * -inf is NaN"),
        ("broken", "The output is NaN at position 5 “mat”, so nothing can be compared: all attention is finite"),
    ],
)
def test_nan_is_an_error_and_never_no_leak(checked, name, message):
    """With its first place and the likely cause; a word that is ruled out by -inf is no NaN."""
    status, out = checked(name, "--pad", "none")
    assert status == 1
    assert "nan" in errors(out)
    assert message in out
    assert "no output moved" not in out

    assert checked("ruled", "--pad", "none")[0] == 0


def test_padding_of_an_encoder_reaches_cross_attention(checked):
    """nn.Transformer is called without memory_key_padding_mask; the text names the heads of cross-attention."""
    status, out = checked("official_forgetful")
    assert (status, errors(out)) == (1, ["deviation"])
    assert "of cross layer" in out

    assert checked("official", "--strict")[0] == 0


def test_masks_of_another_sentence_show_in_a_batch(checked):
    """(B * H, Q, K) made by repeat instead of repeat_interleave, which one sentence alone cannot show."""
    for options in ((), ("--intent", "two-way")):
        status, out = checked("repeated", *options)
        assert (status, errors(out)) == (1, ["broadcast"])
        assert "interleave" in out

    assert checked("interleaved", "--strict", "--intent", "two-way")[0] == 0


def test_a_model_is_held_against_an_intent(checked):
    """By its name, or as a mask."""
    assert checked("prefix", "--pad", "none", "--intent", "causal | prefix(3)")[0] == 0
    assert checked("right", "--intent", "causal & window(1)")[0] == 1
    assert checked("right", "--intent", "two-way")[0] == 1
    assert checked("right", "--intent", "window(1)")[0] == 1
    assert "in: decoder layer 0" in checked("nothing_but_padding", "--intent", "causal & window(1)")[1]


def test_beside_an_error_nothing_says_no_leak(checked, tmp_path):
    """A mask that lacks its prefix hides more than it should: what such a mask hides is no verdict."""
    status, out = checked("right", "--intent", "causal | prefix(3)", "-o", "leaks.svg")

    assert (status, errors(out)) == (1, ["deviation"])
    assert "Hidden tokens: not judged until the errors are fixed;" in out
    assert "no leak" not in (out + (tmp_path / "leaks.svg").read_text()).lower()
    assert "Leak test: no output moved with a token that its mask hides" in (tmp_path / "leaks.svg").read_text()

    status, out = checked("right", "-o", "leaks.svg")

    assert "Leak test: no leak" in (tmp_path / "leaks.svg").read_text()


def test_what_is_changed_is_checked(checked):
    """The masks are those that act, with the edits."""
    assert checked("right", "--set", "own_mask=false", "--intent", "causal")[0] == 1
    assert checked("nothing_but_padding", "--mask", "causal", "--intent", "causal")[0] == 0


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("right", ["--shape", "1,1,2,2"], "--shape applies to arrays only; leave it out."),
        ("right", ["--intent", "nonsense"], "No mask is called 'nonsense'."),
        ("right", ["--pad", "x"], "'x' is not an id; give a whole number, or none"),
        ("batch", [], "A text applies to models only; leave it out."),
        (
            "alone",
            [],
            "'my_models.py:alone' gives a model without its tokenizer: let",
        ),
        (
            "nonsense",
            [],
            "'my_models.py:nonsense' gives 'int', which is neither a model nor a batch; let it return attnviz.wrap",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(checked, name, options, message):
    status, out = checked(name, *options)
    assert status == 2
    assert message in out


def test_a_model_of_ones_own_opens_on_its_check(checked, monkeypatch):
    """On the page Masks, whatever is found."""
    checked("right")
    monkeypatch.setattr(api, "OFFERED", {})

    assert cli._link("my_models.py:two_faults") == "masks?model=Masked&lab=model"
    assert cli._link("my_models.py:right") == "masks?model=Writer&lab=model"


def test_ways_to_run_a_model_are_compared(checked):
    """By what the call of `attnviz.wrap` takes; a way that needs more is named."""
    status, out = checked("right", "--runs", "right,batched,packed")
    assert status == 0
    assert "Runs: right: the same answer." in out
    assert "Runs: packed: not tried. The call of the model takes no documents" in out

    status, out = checked("served", "--pad", "none", "--runs", "all")
    assert (status, out.count("the same answer.")) == (0, 7)
    status, out = checked("served_uncut", "--pad", "none", "--runs", "cached")
    assert (status, errors(out)) == (1, ["runs"])
    assert "has no window where the text alone has a window of 4 tokens" in out

    status, out = checked("nothing", "--intent", "two-way", "--runs", "right")
    assert (status, errors(out)) == (1, ["deviation"])
    assert "note runs: right: Text 1 sees padding" in out

    status, out = checked("right", "--runs", "sideways")
    assert (status, "There is no run 'sideways'." in out) == (2, True)


def test_a_shipped_model_is_checked_by_its_name(capsys):
    """The future is hidden from the story's decoder, and padding from the translator's encoder."""
    assert main(["check", "the cat sat down .", "--model", "story"]) == 0
    assert main(["check", "the cat sleeps .", "--model", "translator"]) == 0
    assert "Padding: no output moved" in capsys.readouterr().out
    assert main(["check", "the cat sat down .", "--model", "story", "--pad", "0"]) == 2
