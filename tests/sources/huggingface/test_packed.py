"""Weights of 4 bits in blocks that share a scale (MXFP4), as those of GPT-OSS: unpacked when they are read."""

import json
from pathlib import Path

import pytest
import torch
import transformers
import zoo
from safetensors.torch import load_file, save_file
from torch import Tensor

import attnviz
from attnviz.core.errors import InputError
from attnviz.sources.huggingface import loading

WIDTHS = {"hidden_size": 128, "intermediate_size": 64, "head_dim": 64}
"""Heads as wide as those of GPT-OSS."""
FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
"""Numbers of 4 bits by their code: a sign, two bits of an exponent, and one of a fraction."""
BLOCK = 32
TEXT = "A cat sat."


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
    record = source.run(source.tokenize([TEXT]))
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

    with pytest.raises(InputError, match="describes a model of"):
        loading.load(str(tmp_path))
