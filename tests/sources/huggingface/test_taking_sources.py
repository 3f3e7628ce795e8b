"""Parts of the run of another text in whole models, against hooks of the test."""

import shutil
from contextlib import contextmanager

import pytest
import torch
import zoo
from torch.testing import assert_close

import attnviz
from attnviz import Edits, Site, Take
from attnviz.core.errors import InputError
from attnviz.sources.huggingface import loading
from attnviz.studies import ablation

A, B = "the cat sat on the mat", "the dog ran on the rug"
PARTS = ("output", "pattern", "values")
HEADS, WIDTH = 4, 8


@pytest.fixture
def tiny(tmp_path):
    def load(family, name):
        zoo.save(family, name, tmp_path / name)
        return attnviz.load(str(tmp_path / name))

    yield load
    loading._models.clear()
    shutil.rmtree(tmp_path)


def logits(model, text=A, *takes, **more):
    return attnviz.analyze(text, model, Edits(taken=takes, **more)).prediction.logits


def models(tiny):
    yield attnviz.load("story")
    yield attnviz.load("induction")
    for family, name in (("gpt2", "GPT2LMHeadModel"), ("llama", "LlamaForCausalLM"), ("bert", "BertForMaskedLM")):
        yield tiny(family, name)


def test_all_of_b_is_b_and_nothing_is_a(tiny):
    """The input of layer 0 decides everything; a text that takes from itself is unchanged."""
    for model in models(tiny):
        kind, last = model.sites[0].kind, model.sites[-1]

        assert torch.equal(logits(model, A, Take(B, "stream", Site(kind, 0))), logits(model, B)), model.name
        assert torch.equal(logits(model, A, Take(A, "stream", last)), logits(model, A)), model.name
        for part in PARTS:
            assert_close(logits(model, A, Take(A, part, last)), logits(model, A), atol=1e-5, rtol=1e-5)
            assert not torch.allclose(logits(model, A, Take(B, part, last)), logits(model, A), atol=1e-4)


@pytest.mark.parametrize(("family", "name"), [("albert", "AlbertForMaskedLM"), ("gpt_neox", "GPTNeoXForCausalLM")])
def test_the_input_of_a_later_layer_is_its_hidden_state(family, name, tiny):
    """ALBERT calls one module for all layers."""
    model = tiny(family, name)
    own = model.loaded.model
    ids = torch.tensor([[t.id for t in model.tokenize([B])[0].tokens]])
    site = model.sites[-1]
    state = zoo.build(family, name)(ids, output_hidden_states=True).hidden_states[site.layer]
    taken, _ = model.resolved(model.tokenize([A]), Edits(taken=(Take(B, "stream", site),)))

    assert_close(taken.donors[0].tensors["stream"], state, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(logits(model, A, Take(B, "stream", site)), logits(model, A), atol=1e-3)
    assert all(not module._forward_pre_hooks for module in own.modules())


@contextmanager
def replaced(module, change, *, before):
    def hook(module, given, output=None):
        return (change(given[0].clone()), *given[1:]) if before else change(output.clone())

    handle = module.register_forward_pre_hook(hook) if before else module.register_forward_hook(hook)
    yield
    handle.remove()


@pytest.mark.parametrize(("part", "positions"), [*((part, None) for part in PARTS), ("output", 2), ("values", 2)])
def test_gpt2_as_with_hooks(part, positions, tiny):
    """The slice of a head in the input of c_proj, or in the output of c_attn."""
    model = tiny("gpt2", "GPT2LMHeadModel")
    own, layer, head = model.loaded.model, 1, 2
    module = own.transformer.h[layer].attn.c_proj if part == "output" else own.transformer.h[layer].attn.c_attn
    cut = slice(head * WIDTH, head * WIDTH + WIDTH)
    whole = HEADS * WIDTH
    starts = {"output": (0,), "pattern": (0, whole), "values": (2 * whole,)}[part]
    rows = slice(None) if positions is None else slice(positions, positions + 1)
    a, b = (torch.tensor([[t.id for t in model.tokenize([text])[0].tokens]]) for text in (A, B))
    kept = {}

    def put(tensor):
        for start in starts:
            there = slice(cut.start + start, cut.stop + start)
            tensor[:, rows, there] = kept["b"][:, rows, there]
        return tensor

    own.set_attn_implementation("eager")
    with torch.no_grad():
        with replaced(module, lambda tensor: kept.setdefault("b", tensor), before=part == "output"):
            own(b)
        with replaced(module, put, before=part == "output"):
            expected = own(a).logits
    own.set_attn_implementation("attnviz")

    take = Take(B, part, Site("decoder", layer), head, positions)
    record = attnviz.analyze(A, model, Edits(taken=(take,)))

    assert_close(record.prediction.logits, expected, atol=1e-5, rtol=1e-5)
    assert record.edits.taken == (take,)
    took = model.with_stream(record)  # its parts, outputs of heads among them, sum to the logits
    assert took.stream is not None
    with pytest.raises(InputError, match="so the logits are not taken apart"):
        model.with_stream(attnviz.analyze(A, model, Edits(taken=(Take(B, "stream", Site("decoder", 1)),))))


def test_steps_of_the_house_hold_what_went_on():
    """Their outputs sum to the logits; a file keeps them."""
    model = attnviz.load("story")
    for part in PARTS:
        record = attnviz.analyze(A, model, Edits(taken=(Take(B, part, Site("decoder", 1), 0),)))

        assert model.with_stream(record).stream is not None
        again = attnviz.read(attnviz.files.saved(record))
        assert again.edits == record.edits
        assert torch.equal(again.step(Site("decoder", 1)).outputs(), record.step(Site("decoder", 1)).outputs())


def test_texts_of_other_lengths_are_aligned_by_hand():
    """At one position, from another one; else both counts are in the refusal."""
    model, long = attnviz.load("story"), "the big black dog ran on the rug"
    site = Site("decoder", 0)
    count, other = (model.tokenize([text])[0].length for text in (A, long))

    with pytest.raises(InputError, match=f"has {count} tokens and .* {other}: take at one position"):
        logits(model, A, Take(long, "output", site))
    with pytest.raises(InputError, match=f"There is no position {other}"):
        logits(model, A, Take(long, "stream", site, None, 2, other))

    for position in (None, 1):
        with pytest.raises(InputError, match=f"{other}: take at one position"):
            logits(model, A, Take(long, "pattern", site, None, position))

    same = logits(model, A, *(Take(A, "stream", site, None, i, i) for i in range(count)))
    assert torch.equal(same, logits(model))
    moved = logits(model, A, Take(long, "stream", site, None, 2, 4))  # "dog" in the place of "cat" is not at its place
    assert_close(moved[:, :2], logits(model)[:, :2])
    assert not torch.allclose(moved[:, 2:], logits(model)[:, 2:])


def test_a_model_that_writes_reads_the_same_words_in_both_runs():
    """Its decoder reads what it writes without the other text; the encoder's input decides all it then predicts."""
    model, other = attnviz.load("translator"), "the dog sleeps"
    text = "the cat sleeps"
    before = attnviz.analyze(text, model)
    taken = attnviz.analyze(text, model, Edits(taken=(Take(other, "stream", Site("encoder", 0)),)))
    expected = model.run(model.tokenize([other]), targets=before.targets)

    assert taken.targets == before.targets
    assert torch.equal(taken.prediction.logits, expected.prediction.logits)
    for part in PARTS:
        took = attnviz.analyze(text, model, Edits(taken=(Take(other, part, Site("cross", 0)),)))
        assert not torch.equal(took.prediction.logits, before.prediction.logits)


def test_what_is_not_there_is_refused():
    model = attnviz.load("story")
    for take, why in (
        (Take(B, "output", Site("encoder", 0)), "has no encoder layer 0"),
        (Take(B, "output", Site("decoder", 0), 99), "There is no head 99 of decoder layer 0"),
    ):
        with pytest.raises(InputError, match=why):
            logits(model, A, take)
    saved = attnviz.sources.saved.Saved("one", attnviz.analyze(A, model))
    with pytest.raises(InputError):
        saved.run(saved.tokenize([A]), Edits(taken=(Take(B, "output", Site("decoder", 0)),)))


@pytest.mark.parametrize(("family", "name"), [("falcon", "FalconForCausalLM"), ("gptj", "GPTJForCausalLM")])
def test_a_captured_model_takes_nothing_and_a_sweep_says_so(family, name, tiny):
    """As one `Take` does: a number of 0 for every head would say that no head carries anything."""
    model = tiny(family, name)
    with pytest.raises(InputError) as single:
        logits(model, A, Take(B, "output", model.sites[0], 0))
    for part in PARTS:
        with pytest.raises(InputError) as swept:
            ablation.carried(model, model.tokenize([A]), B, part=part)

        assert str(swept.value) == str(single.value)
        assert str(swept.value).startswith("Nothing can be taken from another text here")
