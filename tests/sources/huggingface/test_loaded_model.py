"""A model that a person loaded, as it is: quantized, with adapters, in parts on disk, of remote code."""

import json
import shutil
from pathlib import Path

import peft
import pytest
import torch
import transformers
import zoo
from peft import LoraConfig, get_peft_model
from torch import nn

import attnviz
from attnviz import Edits
from attnviz.core.errors import InputError
from attnviz.core.record import Record

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
