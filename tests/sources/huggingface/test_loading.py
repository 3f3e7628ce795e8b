"""From a folder to a model: what is checked before, what it is for, and what is refused with which numbers."""

import json
import socket
from pathlib import Path

import fake_hub
import pytest
import torch
import transformers
import zoo
from families import TAPPED
from safetensors.torch import load_file, save_file
from torch import Tensor

import attnviz
from attnviz.core import progress
from attnviz.core.errors import AttnvizError, Canceled
from attnviz.sources.huggingface import files, hub, loading

BROKEN_MERGES = b'{"model": {"type": "BPE", "vocab": {}, "merges": [[1]]}}'


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """No test here asks anybody, and none sees another's cache."""

    def refuse(*_: object) -> None:
        raise AssertionError("a connection was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.delenv("ATTNVIZ_MODELS", raising=False)


@pytest.fixture(scope="session")
def story(tmp_path_factory) -> Path:
    return fake_hub.write(tmp_path_factory.mktemp("loading") / "gpt2")


def made(kind: str, **settings) -> transformers.PreTrainedModel:
    cls = getattr(transformers, kind)
    return cls(cls.config_class(**TAPPED[cls.config_class.__name__.removesuffix("Config")] | settings))


def refusal(folder: Path) -> str:
    with pytest.raises(AttnvizError) as caught:
        loading.load(str(folder))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "task", "loads"),
    [
        ("LlamaForCausalLM", "next", "LlamaForCausalLM"),
        ("BertForMaskedLM", "fill", "BertForMaskedLM"),
        ("BertForPreTraining", "fill", "BertForMaskedLM"),
        ("BertForSequenceClassification", "labels", "BertForSequenceClassification"),
        ("BertModel", "vectors", "BertModel"),
        ("BertForTokenClassification", "tokens", "BertForTokenClassification"),
        ("BertForNextSentencePrediction", "states", "BertModel"),
        ("ElectraForPreTraining", "states", "ElectraModel"),
        ("T5ForConditionalGeneration", "write", "T5ForConditionalGeneration"),
        ("T5EncoderModel", "vectors", "T5EncoderModel"),
        ("BartModel", "write", "BartForConditionalGeneration"),
    ],
)
def test_what_a_model_is_for_is_told_by_its_architecture(tmp_path, kind, task, loads):
    """It is loaded with the head it has, all weights in it, through our attention."""
    original = made(kind)
    folder = fake_hub.write(tmp_path / kind, original)

    loaded = loading.load(str(folder))

    assert (loaded.task, type(loaded.model).__name__) == (task, loads)
    assert not loaded.trial.is_captured
    assert not loaded.model.training
    assert not any(weight.requires_grad for weight in loaded.model.parameters())
    saved = original.state_dict()
    assert all(saved[name].equal(tensor) for name, tensor in loaded.model.state_dict().items() if name in saved)
    assert loaded.tokenizer("the cat", return_offsets_mapping=True)["offset_mapping"][1:3] == [(0, 3), (4, 7)]
    assert (loaded.name, loaded.commit, loaded.device.type) == (folder.name, None, "cpu")


@pytest.mark.parametrize(
    ("saved", "used"),
    [("float16", "float32"), ("bfloat16", "bfloat16"), ("float64", "float64"), ("float32", "float32")],
)
def test_weights_keep_their_type_except_halves_on_a_processor(tmp_path, saved, used):
    """float16 is slow and narrow there."""
    folder = fake_hub.write(tmp_path / "model", made("GPT2LMHeadModel").to(getattr(torch, saved)))

    loaded = loading.load(str(folder))

    assert loaded.dtype == getattr(torch, used) == loaded.model.dtype


@pytest.mark.parametrize(("kind", "longest"), [("RobertaForMaskedLM", 62), ("BertModel", 64), ("T5EncoderModel", None)])
def test_how_many_tokens_a_model_reads_is_known(tmp_path, kind, longest):
    """RoBERTa's positions begin after that of padding; T5 has no end."""
    assert loading.load(str(fake_hub.write(tmp_path / kind, made(kind)))).longest == longest


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"vocab_size": 2**30}, "describes a model of"),
        ({"n_inner": "many"}, "fit|cannot be built"),
        ({"n_head": 3}, "cannot be built"),
        ({"n_embd": 4}, "another shape: transformer.h.0.attn.c_attn.bias"),
        ({"quantization_config": {"bits": 4}}, "is quantized"),
        ({"model_type": "story9"}, "model_type is 'story9'"),
        ({"model_type": "story9", "auto_map": {"AutoModel": "x.Y"}}, "code of its own, which attnviz does not run"),
        ({"model_type": None}, "names no model that transformers knows"),
    ],
)
def test_a_configuration_is_not_believed(story, tmp_path, change, says):
    """Numbers that could not be meant, and those that the weights deny, are said before anything is built."""
    folder = fake_hub.copy(story, tmp_path / "other", **change)

    sentence = refusal(folder)

    assert any(part in sentence for part in says.split("|"))


@pytest.mark.parametrize(
    ("file", "damage", "said"),
    [
        *(
            ("config.json", lambda data, text=text: text, "config.json")
            for text in (b"{", b"[]", b"[" * 100_000, b"\xe9")
        ),
        ("tokenizer.json", lambda data: b"", "has no tokenizer that can be used: "),
        ("tokenizer.json", lambda data: BROKEN_MERGES, "has no tokenizer that can be used: "),
        (files.SINGLE, lambda data: b"", "are damaged: delete the file"),
        (files.SINGLE, lambda data: data[:-8], "are damaged: delete the file"),
        (files.SINGLE, lambda data: data.replace(b'"shape":[8]', b'"shape":[9]', 1), "are damaged: delete the file"),
    ],
)
def test_a_damaged_file_is_named(story, tmp_path, file, damage, said):
    """Whatever stands in it: no JSON, a file that ends early, weights of another shape."""
    path = fake_hub.copy(story, tmp_path / "other") / file
    path.write_bytes(damage(path.read_bytes()))

    assert said in refusal(path.parent)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("ViTModel", "reads pictures and has no preprocessor_config.json"),
        ("HubertModel", "reads sounds and has no preprocessor_config.json"),
        ("VideoMAEModel", "does not read text alone, nor pictures alone"),
    ],
)
def test_what_reads_no_text_is_no_language_model(story, tmp_path, kind, said):
    """Pictures and sounds need what prepares them; other inputs are seen in Python."""
    config = getattr(transformers, kind).config_class()
    folder = fake_hub.copy(story, tmp_path / "other")
    config.architectures = [kind]
    config.save_pretrained(folder)

    assert said in refusal(folder)


def test_a_missing_weight_is_named(story, tmp_path):
    """It would be a random number."""
    folder = fake_hub.copy(story, tmp_path / "other")
    weights = load_file(folder / files.SINGLE)
    weights["transformer.h.0.renamed"] = weights.pop("transformer.h.0.ln_1.weight")
    save_file(weights, folder / files.SINGLE, {"format": "pt"})

    assert "lack 1 weights of the model" in (sentence := refusal(folder))
    assert "transformer.h.0.ln_1.weight" in sentence


@pytest.mark.parametrize("shard", ["../model.safetensors", "none.safetensors"])
def test_an_index_lists_files_of_its_own_folder(story, tmp_path, shard):
    """And no others of this machine."""
    folder = fake_hub.copy(story, tmp_path / "other")
    (folder / files.SINGLE).rename(tmp_path / files.SINGLE)
    (folder / files.INDEX).write_text(json.dumps({"weight_map": {"x": shard}}))

    assert "are not there" in refusal(folder)


def test_shards_are_loaded(tmp_path):
    """As they come for large models."""
    model = made("GPT2LMHeadModel")
    folder = fake_hub.write(tmp_path / "model", model)
    (folder / files.SINGLE).unlink()
    model.save_pretrained(folder, max_shard_size="2kB")
    assert len(files.weights(folder)) > 1

    assert loading.load(str(folder)).model.lm_head.weight.equal(model.lm_head.weight)


def test_a_load_that_is_canceled_gives_no_model(story):
    """A model whose first runs were ended is not taken for one that cannot be changed."""
    with progress.report_to(progress.Progress(1, canceled=True)), pytest.raises(Canceled):
        loading.load(str(story))

    assert loading.load(str(story)).trial.takes_rules


def test_what_cannot_be_used_is_not_fetched(tmp_path, story, monkeypatch):
    """From a name to a model in one call; of one for pictures, without tokenizer or too large, no weights come."""

    monkeypatch.undo()  # this test asks a hub of its own
    config = transformers.ViTConfig(architectures=["ViTModel"])
    picture = fake_hub.copy(story, tmp_path / "picture")
    config.save_pretrained(picture)
    with fake_hub.running() as (fake, address):
        fake_hub.connect(monkeypatch, address, tmp_path / "cache")
        fake.add("tiny/story", story)
        fake.add("tiny/picture", picture)
        fake.add("tiny/mute", story)
        fake.add("tiny/large", story)

        loaded = loading.load("tiny/story@v1")

        assert (loaded.name, loaded.commit, loaded.task) == ("tiny/story@v1", fake_hub.COMMIT, "next")
        with pytest.raises(AttnvizError, match="has no preprocessor_config"):
            loading.load("tiny/picture")
        del fake.files["tiny/mute"]["tokenizer.json"]
        with pytest.raises(AttnvizError, match="no tokenizer"):
            loading.load("tiny/mute")
        monkeypatch.setattr(loading, "free_bytes", lambda device: 3_000)
        with pytest.raises(AttnvizError, match="needs about"):
            loading.load("tiny/large")
        assert [path for path in fake.paths("GET") if path.endswith(".safetensors")] == [
            "/tiny/story/resolve/v1/model.safetensors"
        ]
        assert hub.find("tiny/story@v1").kind == "cached"


# Weights of 4 bits in blocks that share a scale (MXFP4), as those of GPT-OSS: unpacked when they are read

WIDTHS = {"hidden_size": 128, "intermediate_size": 64, "head_dim": 64}
"""Heads as wide as those of GPT-OSS."""
FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
"""Numbers of 4 bits by their code: a sign, two bits of an exponent, and one of a fraction."""
BLOCK = 32


def packed(folder: Path, dtype: torch.dtype) -> dict[str, Tensor]:
    """Save a tiny GPT-OSS with experts of random codes and scales; gives what these are, by hand."""
    zoo.save("gpt_oss", "GptOssForCausalLM", folder, **WIDTHS)
    path, unpacked, saved = folder / "model.safetensors", {}, {}
    chance = torch.Generator().manual_seed(0)
    for name, weight in load_file(path).items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            saved[name] = weight.to(dtype)
            continue
        experts, inner, outer = weight.shape
        codes = torch.randint(16, (experts, outer, inner // BLOCK, BLOCK), generator=chance, dtype=torch.uint8)
        scales = torch.randint(118, 125, (experts, outer, inner // BLOCK), generator=chance, dtype=torch.uint8)
        saved[f"{name}_blocks"] = codes[..., 0::2] | codes[..., 1::2] << 4
        saved[f"{name}_scales"] = scales
        numbers = FP4[codes.long()] * torch.exp2(scales.float() - 127)[..., None]
        unpacked[name] = numbers.reshape(experts, outer, inner).transpose(1, 2)
    save_file(saved, path, metadata={"format": "pt"})
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"quantization_config": {"quant_method": "mxfp4"}}))
    return unpacked


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
def test_weights_are_those_unpacked_by_hand_and_attention_is_eager(tmp_path, dtype, atol):
    """Bit for bit, in the type of the other weights."""
    unpacked = packed(tmp_path, dtype)
    source = attnviz.load(str(tmp_path))
    record = source.run(source.tokenize(["A cat sat."]))
    weights = source.loaded.model.state_dict()

    assert source.facts.dtype == dtype
    assert source.facts.notes == ("4-bit weights, unpacked",)
    assert source.read_only is None
    for name, expected in unpacked.items():
        assert torch.equal(weights[name], expected.to(dtype))

    settings = transformers.AutoConfig.from_pretrained(tmp_path)
    del settings.quantization_config
    own = transformers.GptOssForCausalLM._from_config(settings, dtype=dtype, attn_implementation="eager").eval()
    read = load_file(tmp_path / "model.safetensors")
    own.load_state_dict({name: read[name] for name in own.state_dict() if name in read} | unpacked)
    ids = torch.tensor([[token.id for token in record.sentences[0].tokens]])
    with torch.no_grad():
        attentions = own(ids, output_attentions=True).attentions
    for step, expected in zip(record.steps, attentions, strict=True):
        mine = torch.stack([step.weights(head) for head in range(step.num_heads)])
        assert torch.allclose(mine[..., :-1].float(), expected[0].float(), atol=atol)  # eager leaves the sink out


def test_a_configuration_that_the_blocks_deny_is_not_believed(tmp_path):
    """Each byte of them is two numbers, and a scale is none."""
    packed(tmp_path, torch.bfloat16)
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(settings | {"num_local_experts": 64}))

    with pytest.raises(AttnvizError, match="describes a model of"):
        loading.load(str(tmp_path))
