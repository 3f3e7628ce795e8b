"""A model that answers otherwise as it was loaded than as it is shown is named, with the size of the difference."""

import functools
import json
import re

import pytest
import torch
import transformers
import zoo
from safetensors.torch import load_file, save_file
from transformers.models.doge import modeling_doge

import attnviz
from attnviz.sources.huggingface import trial


def skipping(make):
    """A function of masks that leaves a causal one out for a kernel, as Doge's did."""

    @functools.wraps(make)
    def without(*arguments, allow_is_causal_skip=None, **settings):
        return make(*arguments, **settings)

    return without


@pytest.fixture
def doge(tmp_path, monkeypatch):
    """A folder with a model whose path of SDPA sees the future, while its eager one does not."""
    zoo.save("doge", "DogeForCausalLM", tmp_path, sliding_window=None)
    monkeypatch.setattr(modeling_doge, "create_causal_mask", skipping(modeling_doge.create_causal_mask))
    name = "create_sliding_window_causal_mask"
    monkeypatch.setattr(modeling_doge, name, skipping(getattr(modeling_doge, name)))
    return tmp_path


def test_a_mask_that_is_lost_under_sdpa_is_named_with_its_size(doge):
    """The finding has the largest difference of the logits, and the largest logit of the model as it was loaded."""
    source = attnviz.load(str(doge))
    own = transformers.DogeForCausalLM.from_pretrained(doge).eval()
    sentences = source.tokenize(trial.TEXTS[1:])
    with torch.inference_mode():
        logits = own(torch.tensor([[token.id for token in sentences[0].tokens]])).logits
    record = source.run(sentences)
    off, most = (logits - record.prediction.logits).abs().max(), logits.abs().max()
    (sentence,) = source.findings

    sizes = re.fullmatch(
        r"DogeForCausalLM gives other outputs under sdpa than under eager: (\S+) of (\S+)\. .*", sentence
    )
    assert record.findings == (sentence,)
    assert [float(sizes[1]), float(sizes[2])] == pytest.approx([float(off), float(most)], rel=0.06)
    assert off > 0.01 * most


def test_a_loaded_model_is_held_to_the_attention_that_it_has(doge):
    """Under eager nothing differs; under SDPA the same sentence is said, and the model stays as it was."""
    for implementation, count in (("eager", 0), ("sdpa", 1)):
        model = transformers.DogeForCausalLM.from_pretrained(doge, attn_implementation=implementation)

        assert len(attnviz.load(model, zoo.tokenizer()).findings) == count
        assert model.config._attn_implementation == implementation


def test_a_class_and_configuration_are_tried_once(tmp_path, monkeypatch):
    """A second model of the same class and configuration is not run when it is loaded; another configuration is."""
    tried, first_trial = [], trial._first_trial
    monkeypatch.setattr(trial, "_first_trial", lambda one: tried.append(one.name) or first_trial(one))
    for name, heads in {"a": 4, "b": 4, "c": 8}.items():
        zoo.save("bert", "BertForMaskedLM", tmp_path / name, num_attention_heads=heads)

        assert {*attnviz.load(str(tmp_path / name)).heads.values()} == {heads}
    assert tried == ["a", "c"]


@pytest.mark.parametrize(
    ("family", "name", "words"),
    [
        ("layoutlm", "LayoutLMForMaskedLM", "the place of each token on its page (bbox)"),
        ("tapas", "TapasModel", "the column, the row and the rank of each token in its table (token_type_ids)"),
        ("bert", "BertModel", ""),
    ],
)
def test_an_input_that_a_model_is_not_given_is_a_finding(tmp_path, family, name, words):
    """A text alone opens, and the record says what it was read without."""
    zoo.save(family, name, tmp_path)
    source = attnviz.load(str(tmp_path))
    record = source.run(source.tokenize(trial.TEXTS))

    expected = (f"{name} also reads {words}, which attnviz leaves out: its numbers are those without it",)
    assert source.findings == record.findings == (expected if words else ())


def test_weights_that_stay_unread_are_a_finding(tmp_path):
    """A file with biases beside a configuration without them."""
    zoo.save_unread(tmp_path)

    (sentence,) = attnviz.load(str(tmp_path)).findings
    assert sentence.startswith("The model leaves 8 weights of its files unread: model.layers.0.self_attn.k_proj.bias,")
    assert sentence.endswith("q_proj.bias and 5 more")


def test_a_model_whose_files_have_another_prefix_for_its_body_opens(tmp_path):
    """As LlamaForQuestionAnswering has, whose body is called transformer, beside a head of its own."""
    zoo.build("llama", "LlamaForCausalLM").save_pretrained(tmp_path)
    zoo.tokenizer().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": ["LlamaForQuestionAnswering"]}))
    weights = load_file(tmp_path / "model.safetensors")
    own = {
        f"transformer.{name.removeprefix('model.')}": value for name, value in weights.items() if "lm_head" not in name
    }
    own |= {"qa_outputs.weight": torch.zeros(2, 32), "qa_outputs.bias": torch.zeros(2)}
    save_file(own, tmp_path / "model.safetensors", {"format": "pt"})
    source = attnviz.load(str(tmp_path))

    assert source.facts.task == "states"
    assert torch.equal(source.loaded.model.embed_tokens.weight, weights["model.embed_tokens.weight"])
