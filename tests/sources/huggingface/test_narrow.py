"""Loading runs a narrow copy and never the model; what the copy cannot show, the first run of the model does."""

from dataclasses import replace

import pytest
import torch
import transformers
import zoo
from torch import nn

from attnviz.core import progress
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.huggingface import eager, first_run, loading, narrow, running, source, tapped, trial
from attnviz.sources.huggingface.source import HuggingFace

GPT2 = {"n_embd": 128, "n_head": 2, "n_inner": 256}
LLAMA = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64}
WIDE = {
    ("gpt2", "GPT2LMHeadModel"): GPT2,
    ("llama", "LlamaForCausalLM"): LLAMA,
    ("gemma2", "Gemma2ForCausalLM"): LLAMA,
    ("bert", "BertForSequenceClassification"): {"hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 256},
    ("t5", "T5ForConditionalGeneration"): {"d_model": 128, "d_kv": 64, "d_ff": 256, "num_heads": 2},
    ("falcon", "FalconForCausalLM"): {"hidden_size": 128, "num_attention_heads": 2},
}
"""Sizes with heads of 64 numbers, as those of trained models."""
EACH = pytest.mark.parametrize(("family", "name"), WIDE)


@pytest.fixture(autouse=True)
def nothing_is_kept():
    yield
    source._models.clear()
    trial._trials.clear()


@pytest.fixture
def opened(tmp_path):
    """Save a model of heads as large as trained ones have, and open it."""

    def open(family="gpt2", name="GPT2LMHeadModel", at="model", **more) -> HuggingFace:
        folder = tmp_path / at
        zoo.save(family, name, folder, **WIDE[family, name] | more)
        return HuggingFace(str(folder))

    return open


@pytest.fixture
def forwards():
    """Widths of the embeddings of all models that are called, in the order of the calls."""
    widths = []

    def note(module: nn.Module, *_: object) -> None:
        if isinstance(module, transformers.PreTrainedModel) and not inside:
            widths.append(module.get_input_embeddings().weight.shape[1])
        inside.append(module)

    inside: list[nn.Module] = []
    hooks = torch.nn.modules.module
    before = hooks.register_module_forward_pre_hook(note)
    after = hooks.register_module_forward_hook(lambda *_: inside.pop() and None, always_call=True)
    yield widths
    before.remove()
    after.remove()


def run(model: HuggingFace, texts=zoo.TEXTS, **more):
    return model.run(model.tokenize(list(texts)), **more)


# Loading


@EACH
def test_loading_runs_no_forward_of_the_model(opened, forwards, family, name):
    """Only its copy runs; and the first run is one run, which is as the copy was."""
    model = opened(family, name)
    wide = model.loaded.model.get_input_embeddings().weight.shape[1]

    assert forwards
    assert wide not in forwards
    forwards.clear()
    record = run(model)
    assert model.loaded.is_checked
    assert name.endswith("ForConditionalGeneration") or forwards == [wide]
    zoo.check(model, record)


@EACH
def test_a_copy_shows_what_the_model_shows(opened, family, name):
    """Heads, layers, width, masks that are rules, what is not shown: a trial of the model itself gives the same."""
    loaded = opened(family, name).loaded
    trial._trials[loaded.first_run.key] = None
    source._models.clear()
    itself = opened(family, name).loaded

    assert itself.first_run is None
    assert itself.trial == loaded.trial
    assert itself.keeps_own_attention == loaded.keeps_own_attention


@pytest.mark.sweep
@pytest.mark.parametrize(("family", "name"), zoo.combinations())
def test_a_copy_of_every_class_shows_what_the_model_shows(tmp_path, monkeypatch, family, name):
    """Of all that are shown; a copy of these tiny models is allowed narrower heads."""
    monkeypatch.setattr(narrow, "HEAD", 2)
    if {family, name} & zoo.UNBUILT or not zoo.reads_text(family, name):
        return
    zoo.save(family, name, tmp_path)
    try:
        loaded = loading.load(str(tmp_path))
    except AttnvizError:
        return
    if loaded.first_run:
        run(HuggingFace(str(tmp_path)))
        assert trial._trials[loaded.first_run.key]
        trial._trials[loaded.first_run.key] = None
        assert loading.load(str(tmp_path)).trial == loaded.trial


def test_a_class_and_configuration_are_tried_once(opened, forwards):
    """Another folder changes nothing; another softcap does."""
    opened("gemma2", "Gemma2ForCausalLM")
    forwards.clear()
    opened("gemma2", "Gemma2ForCausalLM", at="other")

    assert not forwards
    opened("gemma2", "Gemma2ForCausalLM", at="third", attn_logit_softcapping=3.0)
    assert forwards


def test_a_copy_takes_no_random_numbers_of_others(opened):
    """What runs meanwhile finds the global ones as they were."""
    loaded = opened().loaded
    before = torch.get_rng_state()
    copy = narrow.copy(loaded, narrow.config(loaded.config)[0])

    assert torch.equal(torch.get_rng_state(), before)
    assert all(weight.any() for weight in copy.model.parameters())


def test_a_model_that_is_narrow_itself_or_has_odd_widths_is_tried_itself(tmp_path, opened):
    """There is nothing to gain, or no copy whose widths fit each other."""
    for family, name in (("gpt2", "GPT2LMHeadModel"), ("gemma4_text", "Gemma4ForCausalLM")):
        zoo.save(family, name, tmp_path / name)

        assert HuggingFace(str(tmp_path / name)).loaded.first_run is None
    assert opened(n_inner=251).loaded.first_run is None


def test_all_widths_are_divided_by_one_number():
    """Heads, layers, groups and settings stay; windows act in a short text; ids stay within the fewer words."""
    gemma = transformers.Gemma2Config(eos_token_id=[1, 107_000])
    config, factor = narrow.config(gemma)

    assert factor == 32
    wide = ("hidden_size", "intermediate_size", "head_dim")
    assert [getattr(gemma, name) // getattr(config, name) for name in wide] == [32, 32, 32]
    same = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "layer_types", "attn_logit_softcapping")
    assert all(getattr(gemma, name) == getattr(config, name) for name in same)
    assert (config.sliding_window, config.vocab_size, config.eos_token_id) == (4, 512, [1, 107_000 % 512])
    assert gemma.hidden_size == 2304


def test_a_copy_with_long_rope_factors_keeps_one_of_each_pair():
    """They are as many as half a head is wide."""
    factors = {"short_factor": [1.0] * 48, "long_factor": [2.0] * 48, "rope_type": "longrope", "rope_theta": 1e4}
    factors |= {"factor": 32.0, "original_max_position_embeddings": 4096}
    config, factor = narrow.config(
        transformers.Phi3Config(rope_parameters=factors, num_attention_heads=32, hidden_size=3072, pad_token_id=0)
    )

    assert factor == 8
    assert len(config.rope_parameters["short_factor"]) == 6


# What only the first run shows


def only_wide(function, planted):
    """A function that does something else where heads are as wide as the model's."""

    def either(module, query, *rest, **settings):
        return (planted if query.shape[-1] == 64 else function)(module, query, *rest, **settings)

    return either


@pytest.mark.parametrize("edits", [Edits(), Edits(temperature=2.0)])
def test_another_formula_that_only_the_model_shows_is_seen_in_its_own_code(opened, monkeypatch, edits):
    """Its first run, with edits or without, is what a model tried itself gives: captured, and the model's numbers."""
    attend = tapped._attend
    monkeypatch.setattr(
        tapped, "_attend", only_wide(attend, lambda *call, scaling, **more: attend(*call, scaling=scaling / 2, **more))
    )
    model = opened("llama", "LlamaForCausalLM")

    assert not model.loaded.keeps_own_attention
    record = run(model, edits=edits)
    assert model.loaded.trial.is_captured
    assert model.facts.trial.is_captured
    if edits == Edits():
        zoo.check(model, record)


def test_what_the_model_alone_shows_is_refused_in_the_same_sentence(opened, monkeypatch):
    """Read-only, as one that was tried itself; and so is the next of its class, from the beginning."""
    attend = tapped._attend
    planted = lambda *call, **more: 2 * attend(*call, **more)  # noqa: E731
    monkeypatch.setattr(tapped, "_attend", only_wide(attend, planted))
    monkeypatch.setattr(trial, "_captured", lambda loaded: 1 / 0)
    model, sentence = opened(), "gives other numbers with attnviz's attention than with its own: its weights can be"

    assert model.read_only is None
    with pytest.raises(InputError, match=sentence):
        run(model, edits=Edits(heads_off={(Site("decoder", 0), 0)}))
    zoo.check(model, run(model))
    assert sentence in opened(at="next").read_only


def test_weights_that_only_the_model_gives_otherwise_are_not_captured(opened, monkeypatch):
    """A captured model gives its weights in its first run, and they have to be those of its scores."""
    are_weights = eager.are_weights
    monkeypatch.setattr(
        eager, "are_weights", lambda step, *rest: step.query.shape[-1] != 64 and are_weights(step, *rest)
    )
    model = opened("falcon", "FalconForCausalLM")

    assert model.loaded.trial.is_captured
    record = run(model)
    assert model.read_only == trial.OWN.format("FalconForCausalLM").rstrip(".") + (
        ": its weights can be shown, but masks and heads cannot be changed."
    )
    assert record.read_only


def test_an_error_that_only_the_model_raises_says_what_to_send(opened, monkeypatch):
    """It is the sentence of a model that cannot be loaded."""
    linear = nn.functional.linear

    def fails(x, weight, *rest):
        if weight.shape[-1] == 128:
            raise RuntimeError("a shape is wrong")
        return linear(x, weight, *rest)

    model = opened()
    monkeypatch.setattr(nn.functional, "linear", fails)
    with pytest.raises(AttnvizError, match=r"cannot be run: RuntimeError, a shape is wrong.* Please send us"):
        run(model)


@pytest.mark.parametrize(
    "facts", [{"d_model": 64}, {"heads": {Site("decoder", 0): 2}}, {"heads": {Site("decoder", n): 3 for n in range(2)}}]
)
def test_a_run_that_is_not_as_the_trial_is_refused(opened, facts):
    """Another width, a layer more, other heads."""
    model = opened()
    loaded = replace(model.loaded, trial=replace(model.loaded.trial, **facts))
    sentences = model.tokenize(zoo.TEXTS)
    read, lengths = running.inputs(sentences, loaded), tuple(sentence.length for sentence in sentences)

    with pytest.raises(AttnvizError, match="GPT2LMHeadModel does not run as a narrow copy of it"):
        running.watched(loaded, Edits(), read, lengths)
    assert not loaded.is_checked


def test_a_long_first_run_is_compared_at_its_beginning(opened, monkeypatch):
    """Also where a rule stands for the mask; it is no attention call of the run."""
    monkeypatch.setattr(running, "LONG", 8)
    monkeypatch.setattr(tapped, "COMPARED", 4)
    compared = []
    monkeypatch.setattr(tapped, "differ", lambda ours, own: compared.append(ours) or first_run.differ(ours, own))
    model, run_progress = opened(), progress.Progress(2)
    with progress.watched(run_progress):
        record = run(model, ["A" * 40])

    assert run_progress.done == len(record.steps) == 2
    assert [part.shape[0] for part in compared] == [4]
    assert str(record.steps[0].mask) == "causal"


@EACH
def test_a_first_run_in_16_bits_is_as_the_trial(opened, tmp_path, family, name):
    """A copy has 32 bits, and rounding is no other formula."""
    folder = opened(family, name).model
    getattr(transformers, name).from_pretrained(folder, dtype=torch.bfloat16).save_pretrained(folder)
    source._models.clear()
    model = HuggingFace(folder)
    run(model)

    assert model.loaded.dtype is torch.bfloat16
    assert model.loaded.first_run.passed


def test_a_model_continues_a_text_only_after_a_run_that_was_checked(opened):
    """The first tokens that it writes are held to its trial, too."""
    model = opened()
    model.continuation(*model.tokenize(["A cat"]))

    assert model.loaded.is_checked
