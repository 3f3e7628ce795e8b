"""Only runs of a model count as evidence; each failure is one sentence that says what to report."""

import json
import re
from types import SimpleNamespace

import pytest
import torch
import transformers
import zoo
from torch.testing import assert_close

from attnviz.analysis.rollout import mixed
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.huggingface import running, source, tapped
from attnviz.sources.huggingface.source import HuggingFace

pytestmark = pytest.mark.usefixtures("nothing_is_kept")
TO_SEND = re.compile(r"\(attnviz \S+, transformers \S+, torch \S+\)\. Please send us this ")


@pytest.fixture
def opened(tmp_path):
    """Save a tiny model of the zoo, with other settings in its files if some are given, and open it."""

    def open(family, name, config=None, tokenizer=None, **sizes) -> HuggingFace:
        folder = tmp_path / name
        zoo.save(family, name, folder, **sizes)
        for file, settings in (("config.json", config), ("tokenizer.json", tokenizer)):
            if settings:
                held = json.loads((folder / file).read_text(encoding="utf-8"))
                (folder / file).write_text(json.dumps(held | settings), encoding="utf-8")
        return HuggingFace(str(folder))

    return open


def run(model: HuggingFace, texts=zoo.TEXTS, **more):
    return model.run(model.tokenize(list(texts)), **more)


def failing(error: BaseException):
    """A function that raises an error."""

    def fail(*_: object, **__: object):
        raise error

    return fail


# What is unforeseen


def test_an_error_in_a_run_says_what_to_send(opened, monkeypatch):
    """The model, what went wrong in one line, and the versions; after it the model runs as before."""
    model = opened("bert", "BertForMaskedLM")
    before = run(model)

    with monkeypatch.context() as patched:
        patched.setattr(transformers.BertForMaskedLM, "forward", failing(RuntimeError("a shape\nis wrong")))
        with pytest.raises(AttnvizError, match=r"BertForMaskedLM.* cannot be run: RuntimeError, a shape is") as caught:
            run(model)

    assert TO_SEND.search(str(caught.value))
    assert "\n" not in str(caught.value)
    assert torch.equal(run(model).output, before.output)


def test_a_panic_of_a_tokenizer_says_what_to_send(opened, monkeypatch):
    """It is written in Rust, and a panic is no Exception; an interrupt of the app is not taken for one."""
    model = opened("bert", "BertForMaskedLM")

    class PanicException(BaseException):
        pass

    monkeypatch.setattr(source.reading, "sentences", failing(PanicException("index out of bounds")))
    with pytest.raises(AttnvizError, match="cannot be given this text: PanicException, index out of bounds"):
        model.tokenize(["A"])
    monkeypatch.setattr(source.reading, "sentences", failing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        model.tokenize(["A"])


def test_too_little_memory_is_no_fault_to_send(opened, monkeypatch):
    """It says what to do here."""
    model = opened("bert", "BertForMaskedLM")
    error = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes.")
    monkeypatch.setattr(transformers.BertForMaskedLM, "forward", failing(error))
    with pytest.raises(AttnvizError, match=r"needs more memory than is free here\. Shorten the text"):
        run(model)


# What is not believed


def test_attention_of_another_formula_is_seen_in_its_own_code(opened, monkeypatch):
    """A model that gives other numbers with our attention keeps its own: here T5, whose positions are lost."""
    split = tapped._split_mask_and_bias
    monkeypatch.setattr(tapped, "_split_mask_and_bias", lambda mask, bias, keys: split(mask, None, keys))
    model = opened("t5", "T5EncoderModel")

    assert model.loaded.trial.is_captured
    zoo.check(model, run(model))
    zoo.changes(model, run(model))


def test_layers_that_are_not_shown_are_not_followed(opened):
    """Rollout would multiply maps between which a layer lies that nobody sees; those shown keep the model's numbers."""
    record = run(opened("jamba", "JambaForCausalLM"))

    assert record.sites == (Site("decoder", 1),)
    with pytest.raises(InputError, match=r"^Rollout follows all layers, but some layers are not shown here\. Shown of"):
        mixed(record)


@pytest.mark.parametrize(
    ("family", "name", "said"),
    [
        ("nemotron_h", "NemotronHForCausalLM", "counted from 0: 0, 2; the others compute NemotronHMoE"),
        ("zamba", "ZambaForCausalLM", "5 decoder layers, counted from 0: 2, 4; the others compute ZambaMambaMixer"),
    ],
)
def test_a_hybrid_model_says_what_its_other_layers_compute(opened, family, name, said):
    """The layers with attention are numbered; the others are named by the classes that only they have."""
    assert said in opened(family, name).unseen


# Settings of its files


def test_big_bird_is_shown_in_full_up_to_where_it_becomes_sparse(opened):
    """To that length it gives the numbers of its own sparse setting, which switches there; beyond it is refused."""
    model = opened("big_bird", "BigBirdModel", max_position_embeddings=200)
    record = run(model, ["a" * 111])

    assert transformers.AutoConfig.from_pretrained(model.model).attention_type == "block_sparse"
    assert record.steps[0].shape[2:] == (112, 112)
    zoo.check(model, run(model, ["a" * 111, "a"]))
    with pytest.raises(InputError, match=r"has 113 tokens; .* reads up to 112"):
        model.tokenize(["a" * 112])


def test_a_decoder_without_a_first_token_begins_with_padding(opened):
    """As T5's always does; one that names no token at all is refused with what to do."""
    model = opened("t5", "T5ForConditionalGeneration")

    assert not hasattr(model.facts.config, "decoder_start_token_id")
    assert run(model).targets[0].tokens[0].id == 0
    nameless = SimpleNamespace(config=SimpleNamespace(), generation_config=None)
    with pytest.raises(InputError, match=r"does not say with which token .* set decoder_start_token_id in its config"):
        running.begins_with(nameless)


def test_a_tokenizer_that_truncates_or_pads_does_neither(opened):
    """Only the model's own limit counts, and a text beyond it is refused with both numbers."""
    cut = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
    filled = {"strategy": {"Fixed": 40}, "direction": "Left", "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"}
    cut_and_filled = {"truncation": cut, "padding": filled | {"pad_to_multiple_of": None}}
    model = opened("bert", "BertModel", tokenizer=cut_and_filled)
    (sentence,) = model.tokenize(["A cat"])

    assert [token.text for token in sentence.tokens] == [*"A", " ", *"cat", "</s>"]
    with pytest.raises(InputError, match=r"has 101 tokens; .* reads up to 96"):
        model.tokenize(["a" * 100])


def test_an_encoder_that_classifies_needs_no_padding_token(opened):
    """Only a decoder looks for the end of a text by it."""
    model = opened("bert", "BertForSequenceClassification", config={"pad_token_id": None})

    _, logits = run(model).labels
    assert_close(logits[1], run(model, zoo.TEXTS[1:]).labels[1][0], rtol=1e-4, atol=1e-5)
