"""Outputs that move: with masks that depend on the tokens, models that keep a state, and batches of several kinds."""

import pytest
import torch
from own_models import IDS, WORDS, Server, Translator, Writer, tokenize
from torch import nn

import attnviz
from attnviz.core.errors import InputError, UnsteadyError
from attnviz.core.masks import Subsequent

TEXT = "the cat sat on the mat dog ran"


def wrapped(model, text=TEXT, **given):
    torch.manual_seed(0)
    return attnviz.wrap(model, tokenize, text, words=WORDS, **{"pad": 0} | given)


class Sparse(Writer):
    """Each query sees the keys that it likes best: of the past, or of the whole text where it `leaks`."""

    def __init__(self, leaks):
        torch.manual_seed(0)
        super().__init__(layers=1)
        self.leaks = leaks

    def mask(self, ids):
        n, x = ids.shape[1], self.embed(ids)
        causal = torch.ones(n, n, dtype=torch.bool).tril()
        liked = (x @ x.mT).masked_fill(~(causal | self.leaks), -torch.inf)
        best = torch.zeros_like(liked, dtype=torch.bool).scatter(-1, liked.topk(min(3, n), -1).indices, True)
        return (best & (causal | self.leaks) | torch.eye(n, dtype=torch.bool))[:, None]


class OfModules(nn.Module):
    """PyTorch's own encoder, which takes masks with True = masked, from code of a mask."""

    def __init__(self, mask, padding):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Embedding(len(WORDS), 16), nn.Linear(16, len(WORDS))
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.mask, self.padding = mask, padding

    def forward(self, ids):
        names = {"torch": torch, "n": ids.shape[1], "ids": ids, "pad": 0, "padding": ids == 0}
        mask, padding = eval(self.mask, names), eval(self.padding, names)
        return self.head(self.blocks(self.embed(ids), mask, src_key_padding_mask=padding))


RIGHT = "torch.ones(n, n, dtype=torch.bool).triu(diagonal=1)", "ids == pad"


@pytest.mark.parametrize(
    ("mask", "padding", "fault", "place"),
    [
        ("torch.ones(n, n, dtype=torch.bool).triu(2)", RIGHT[1], "Causal part off by one", 0),
        ("torch.ones(n, n, dtype=torch.bool).tril()", RIGHT[1], "Causal part inverted", 0),
        (RIGHT[0], "ids != pad", "Padding inverted", 1),
    ],
)
def test_a_repair_is_written_for_the_module_that_takes_the_mask(mask, padding, fault, place):
    """nn.MultiheadAttention reads True as masked: the repair, taken literally, leaves nothing wrong."""
    report = attnviz.check_model(wrapped(OfModules(mask, padding).eval()), TEXT, intent="causal")
    error = next(finding for finding in report.findings if finding.message.startswith(fault))
    repair = error.fix.partition(": ")[2].partition(". (")[0].rstrip(".")
    repair = repair.partition("such as ")[2] if place else repair
    mended = attnviz.check_model(wrapped(OfModules(*RIGHT[:place], repair, *RIGHT[place + 1 :]).eval()), TEXT)

    assert repair == RIGHT[place]
    assert not [finding for finding in mended.findings if finding.severity == "error"]


def test_a_mask_of_the_tokens_is_tested_by_the_outputs():
    """The promise is that of a causal decoder; leaking cells are listed, and colored as leaks."""
    right = attnviz.leak_test(wrapped(Sparse(False)), promised=Subsequent())
    leaking = attnviz.leak_test(wrapped(Sparse(True)), promised=Subsequent())

    assert right.pairs == ()
    assert right.tested.all()
    assert any("changes the mask itself, so only the future is judged" in note for note in right.notes)
    assert leaking.pairs
    assert all(key > query for query, key in leaking.pairs)
    assert int((leaking.states == 4).sum()) == len(leaking.pairs)


def test_a_leaking_mask_of_the_tokens_never_passes_in_silence():
    """Without a promise it is asked for; with an intent the leak is an error, and found in the mask."""
    source = wrapped(Sparse(True))
    report = attnviz.check_model(source, intent="causal")

    with pytest.raises(InputError, match="changes the mask itself: say what the mask must hide, --intent causal"):
        attnviz.leak_test(source)
    assert report.status() == 1
    assert [finding.fix for finding in report.findings if finding.rule == "leak"] == [
        "The mask causes this: fix the mask first."
    ]
    for intent in (None, "causal"):
        assert attnviz.check_model(wrapped(Sparse(False)), intent=intent).status(strict=True) == 0


class WrongPadding(Writer):
    """Takes a word for padding."""

    def mask(self, ids):
        return super().mask(ids) & (ids != IDS["cat"])[:, None, None, :]


def test_a_word_that_the_mask_takes_for_padding_is_named():
    """Whatever else a mask of the tokens may hide: nobody can look at this one."""
    report = attnviz.check_model(wrapped(WrongPadding()), intent="causal")

    assert report.status() == 1
    (finding,) = (finding for finding in report.findings if finding.severity == "error")
    assert finding.message == "“cat” (1) is hidden from every query, although it is not padding."


class Keeping(Writer):
    """Adds what it has kept of all calls before."""

    kept = 0.0

    def forward(self, ids):
        self.kept = self.kept + 0.1
        return super().forward(ids) + self.kept


def test_what_a_model_keeps_between_calls_is_told_apart_from_dropout():
    source = wrapped(Keeping())
    report = attnviz.check_model(source)
    with pytest.raises(UnsteadyError, match="the model keeps state between calls"):
        attnviz.same_run(source, [TEXT, "the cat"], "batched")

    assert [finding.rule for finding in report.findings] == ["random"]
    assert "the model keeps state between calls" in report.findings[0].message


class Capped(Server):
    """Leaves out the softcap of its scores where there is a cache."""

    def forward(self, ids, cache=None, **given):
        self.has_cache = cache is not None
        return super().forward(ids, cache=cache, **given)


def test_scores_that_are_made_in_another_way_with_a_cache_are_named(monkeypatch):
    torch.manual_seed(1)
    model = Capped().eval()

    def attend(q, k, v, mask):
        scores = 4 * q @ k.mT
        scores = scores if model.has_cache else scores.tanh()
        return scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v

    monkeypatch.setattr("own_models.scaled_dot_product_attention", attend)
    result = attnviz.same_run(
        model,
        [TEXT, "the cat sat"],
        "cached",
        call=lambda model, ids, cache=None: model(ids, cache),
        tokenizer=tokenize,
    ).results[0]

    assert (result.cause, result.layer) == ("scores", 0)
    assert "its scale, softcap and bias by distance" in result.fix


class Padded(Translator):
    """A translator whose decoder has a mask of padding, on the axis of the keys or, wrong, of the queries: softmax then
    makes NaN of the rows of padding, which the next layer spreads."""

    axis = 1

    def forward(self, source, target):
        memory, x, seen = self.embed(source), self.embed(target), (source != 0)[:, None, None]
        memory = memory + self.encoder_attn_self(memory, seen)
        n = target.shape[1]
        mask = torch.ones(n, n, dtype=torch.bool).tril() & (target != 0).unsqueeze(self.axis)
        for _ in range(2):
            x = x + (x @ x.mT).masked_fill(~mask, -torch.inf).softmax(-1) @ x
        return self.head(x + self.cross_attn(x, seen, memory))


@pytest.mark.parametrize(("axis", "status"), [(1, 0), (2, 1)])
def test_the_text_of_a_decoder_is_padded_too(axis, status):
    """So that padding of the target on the wrong axis, (B, Q, 1), is found."""
    model = Padded()
    model.axis = axis
    source = wrapped(model, "the cat sat on ||| the dog ran", call=lambda model, ids, read: model(ids, read))
    report = attnviz.check_model(source)

    assert report.status(strict=True) == status
    assert [finding.rule for finding in report.findings if finding.severity == "error"] == ["nan"] * status


class Small(Writer):
    """Takes few texts at once."""

    most = 2

    def forward(self, ids):
        if len(ids) > self.most:
            raise RuntimeError("the cache is for few texts")
        return super().forward(ids)


@pytest.mark.parametrize("most", [1, 2])
def test_a_model_with_a_largest_batch_is_tested_with_smaller_ones(most, monkeypatch):
    monkeypatch.setattr(Small, "most", most)
    small, usual = (attnviz.leak_test(wrapped(model)) for model in (Small(), Writer()))
    report = attnviz.check_model(wrapped(Small()))

    assert small.promised.equal(usual.promised)
    assert small.tested.all()
    assert report.status(strict=True) == 0
    assert any("not tested further" in line for line in report.skipped) is (most == 1)
