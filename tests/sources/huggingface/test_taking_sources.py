"""Parts of the run of another text in whole models, as TransformerLens and hidden states have them."""

import pytest
import torch
import zoo
from torch.testing import assert_close

import attnviz
from attnviz import Edits, Site, Take
from attnviz.core.errors import InputError
from attnviz.studies import ablation

pytestmark = pytest.mark.usefixtures("nothing_is_kept")
A, B = "the cat sat on the mat", "the dog ran on the rug"
PARTS = ("output", "pattern", "values")


@pytest.fixture
def tiny(tmp_path):
    def load(family, name):
        zoo.save(family, name, tmp_path / name)
        return attnviz.load(str(tmp_path / name))

    return load


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


def test_positions_are_taken_one_by_one(tiny):
    """A head that takes each position takes the whole; one position changes that position and those after it."""
    model, site = tiny("gpt2", "GPT2LMHeadModel"), Site("decoder", 0)
    length = model.tokenize([A])[0].length
    for part in ("output", "values"):
        each = [Take(B, part, site, 2, position) for position in range(length)]
        changed = (logits(model, A, each[5]) - logits(model)).abs().amax(-1)[0] > 1e-5

        assert_close(logits(model, A, *each), logits(model, A, Take(B, part, site, 2)), atol=1e-5, rtol=1e-5)
        assert not changed[:5].any()
        assert changed[5:].all()


def test_a_stream_that_is_taken_is_not_taken_apart(tiny):
    """Logits are a sum of parts also after an output is taken; what comes before a taken stream is unknown."""
    model, site = tiny("gpt2", "GPT2LMHeadModel"), Site("decoder", 1)

    assert model.with_stream(attnviz.analyze(A, model, Edits(taken=(Take(B, "output", site, 2),)))).stream is not None
    with pytest.raises(InputError, match="so the logits are not taken apart"):
        model.with_stream(attnviz.analyze(A, model, Edits(taken=(Take(B, "stream", site),))))


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
    """A layer, a head; and the rest of the model if the source is a saved run."""
    model = attnviz.load("story")
    for site, head, why in (("encoder", 0, "has no encoder layer 0"), ("decoder", 99, "no head 99 of decoder layer 0")):
        with pytest.raises(InputError, match=why):
            logits(model, A, Take(B, "output", Site(site, 0), head))
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
