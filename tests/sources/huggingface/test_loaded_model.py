"""A model that a person loaded, as it is: quantized, with adapters, in parts on disk, of remote code."""

import functools
import json
import re
import shutil
from pathlib import Path

import peft
import pytest
import torch
import transformers
import zoo
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from torch import nn
from transformers.models.doge import modeling_doge

import attnviz
from attnviz import Edits
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.sources.huggingface import trial

TEXT = "A cat sat."


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    zoo.save("llama", "LlamaForCausalLM", folder)
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder):
    return transformers.AutoTokenizer.from_pretrained(folder)


def read(folder: Path, **options) -> transformers.PreTrainedModel:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, **options)


def ran(model: nn.Module, tokenizer, edits: Edits = Edits(), **options) -> Record:
    source = attnviz.load(model, tokenizer, **options)
    return source.run(source.tokenize([TEXT]), edits)


def assert_own(model: nn.Module, record: Record) -> None:
    """Compare with the model's own eager attention."""
    model.set_attn_implementation("eager")
    ids = torch.tensor([[token.id for token in record.sentences[0].tokens]])
    with torch.no_grad():
        given = model(ids, output_attentions=True)
    for step, expected in zip(record.steps, given.attentions, strict=True):
        mine = torch.stack([step.weights(head) for head in range(step.num_heads)])
        assert torch.allclose(mine, expected[0], atol=1e-5)


def test_its_weights_are_its_own_and_it_stays_as_it_was(folder, tokenizer):
    """In training, and with the attention that it was loaded with; edits act as in the same model by its folder."""
    model, source = read(folder, attn_implementation="sdpa").train(), attnviz.load(str(folder))
    edits = Edits(heads_off=frozenset({(source.sites[0], 1)}), temperature=2.0)
    record, edited = ran(model, tokenizer), ran(model, tokenizer, edits)

    assert model.training
    assert model.config._attn_implementation == "sdpa"
    assert torch.equal(edited.output, source.run(source.tokenize([TEXT]), edits).output)
    assert_own(model.eval(), record)


def test_adapters_are_on_or_off(folder, tokenizer):
    """Off, the numbers are those of the model without them, bit for bit; each is a source of its own."""
    before = ran(read(folder), tokenizer).output
    config = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    model = get_peft_model(read(folder), config)
    on, off = attnviz.load(model, tokenizer), attnviz.load(model, tokenizer, adapters=False)
    sentences = on.tokenize([TEXT])

    assert on != off
    assert off.name == f"{on.name} without adapters"
    assert torch.equal(off.run(sentences).output, before)
    assert not torch.allclose(on.run(sentences).output, before, atol=1e-3)
    assert_own(model.get_base_model(), on.run(sentences))


@pytest.mark.parametrize("kind", ["PromptTuningConfig", "PrefixTuningConfig", "IA3Config"])
def test_what_peft_adds_is_shown_or_refused(folder, tokenizer, kind):
    """Inputs and keys of its own would be left out, so these are refused; without them the model is shown."""
    is_prompt = kind.startswith("P")
    settings = {"num_virtual_tokens": 3} if is_prompt else {"target_modules": ["k_proj"], "feedforward_modules": []}
    settings |= {} if is_prompt else {"init_ia3_weights": False}
    model = get_peft_model(read(folder), getattr(peft, kind)(task_type="CAUSAL_LM", **settings)).eval()

    if is_prompt:
        with pytest.raises(InputError, match="gives other logits than the LlamaForCausalLM in it: it adds"):
            attnviz.load(model, tokenizer)
        plain = ran(model, tokenizer, adapters=False)
        assert torch.equal(plain.prediction.logits, ran(read(folder), tokenizer).prediction.logits)
        return
    record = ran(model, tokenizer)
    with torch.no_grad():
        own = model(torch.tensor([[token.id for token in record.sentences[0].tokens]])).logits
    assert torch.allclose(record.prediction.logits, own, atol=1e-5)


def test_a_quantized_model_is_shown(folder, tokenizer):
    """Dynamic quantization of all its linear layers; another kind has other layers in the same places."""
    with pytest.warns(DeprecationWarning, match="torch.ao.quantization"):
        model = torch.ao.quantization.quantize_dynamic(read(folder), {nn.Linear})

    assert_own(model, ran(model, tokenizer))


def test_a_model_whose_layers_are_on_disk_gives_the_same(folder, tokenizer, tmp_path):
    """Placed by device_map."""
    places = {"model.embed_tokens": "cpu", "model.layers.0": "cpu", "model.layers.1": "disk", "model.norm": "cpu"}
    places |= {"lm_head": "cpu", "model.rotary_emb": "cpu"}
    model = read(folder, device_map=places, offload_folder=tmp_path)

    assert any(weight.device.type == "meta" for weight in model.parameters())
    assert torch.allclose(ran(model, tokenizer).output, ran(read(folder), tokenizer).output, atol=1e-6)


def test_remote_code_that_the_person_loaded_is_run(folder, tokenizer, tmp_path):
    """Refused by its folder, whose code attnviz does not run; shown as a model."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    code = "from transformers import LlamaConfig, LlamaForCausalLM\n\n"
    code += "class OwnConfig(LlamaConfig):\n    model_type = 'own_llama'\n\n"
    code += "class OwnModel(LlamaForCausalLM):\n    config_class = OwnConfig\n"
    (tmp_path / "modeling_own.py").write_text(code)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"model_type": "own_llama", "architectures": ["OwnModel"]}
    config["auto_map"] = {"AutoConfig": "modeling_own.OwnConfig", "AutoModelForCausalLM": "modeling_own.OwnModel"}
    (tmp_path / "config.json").write_text(json.dumps(config))

    with pytest.raises(InputError, match="code of its own, which attnviz does not run"):
        attnviz.load(str(tmp_path))
    model = read(tmp_path, trust_remote_code=True)
    record = ran(model, tokenizer)

    assert record.prediction is not None
    assert_own(model, record)


def test_it_writes_and_is_opened_in_the_app(folder, tokenizer, monkeypatch):
    """By its name in this process."""
    monkeypatch.setattr(attnviz.api, "OFFERED", {})
    source = attnviz.load(read(folder), tokenizer, title="mine")

    assert attnviz.load(attnviz.api.offer(source)) == source
    assert attnviz.generate(TEXT, source, 4).ids == attnviz.generate(TEXT, str(folder), 4).ids


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda model, tokenizer: (nn.Linear(2, 2), tokenizer), "'Linear' is no model of transformers; for other"),
        (lambda model, tokenizer: (model, None), "None is no tokenizer of transformers; give attnviz.load"),
    ],
)
def test_what_is_no_such_model_is_refused(folder, tokenizer, arguments, message):
    with pytest.raises(InputError, match=message):
        attnviz.load(*arguments(read(folder), tokenizer))
    with pytest.raises(InputError, match="has no adapters of PEFT to leave out"):
        attnviz.load(read(folder), tokenizer, adapters=False)


# A model that answers otherwise as it was loaded than as it is shown


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
