"""Models of other libraries, where they are installed: none of them knows of attnviz."""

import pytest
import torch
from handmade import shown
from torch.testing import assert_close

import attnviz
from attnviz.core.edits import Edits


def captured(model, *given, weights_only=False):
    """What was seen: nothing is changed by that, and a head that is off changes what the model gives."""
    model.eval()
    with torch.no_grad():
        alone = model(*given)
        with attnviz.capture(model) as seen:
            output = model(*given)
        site = next(iter(seen.sites))
        with attnviz.capture(model, Edits().with_heads_off(site, {0})):
            off = model(*given)
    assert torch.equal(output, alone)
    assert not torch.equal(off, alone)
    assert all(step.weights_only == weights_only for step in seen.steps)
    return seen


@pytest.mark.parametrize("fused", [False, True])
def test_timm(fused, monkeypatch):
    """A picture cut into patches, and the token of its class."""
    timm = pytest.importorskip("timm", reason="timm is not installed")
    model = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=3, num_classes=5)
    for block in model.blocks:
        block.attn.fused_attn = fused
    seen = captured(model, torch.randn(2, 3, 64, 64))

    assert seen.heads == dict.fromkeys(seen.sites, 3)
    assert [step.shape for step in seen.steps] == [(2, 3, 17, 17)] * 3
    assert {call.route for call in seen.calls} == {"sdpa" if fused else "scores"}


def test_swin_windows_are_sentences():
    """Each with a map of its own patches, and a bias of where they stand."""
    timm = pytest.importorskip("timm", reason="timm is not installed")
    model = timm.create_model("swin_tiny_patch4_window7_224", img_size=64, window_size=4, num_classes=5)
    seen = captured(model, torch.randn(1, 3, 64, 64))

    assert seen.steps[0].shape == (16, 3, 16, 16)


def test_vit_pytorch():
    vit = pytest.importorskip("vit_pytorch", reason="vit-pytorch is not installed")
    seen = captured(
        vit.ViT(image_size=16, patch_size=4, num_classes=3, dim=24, depth=2, heads=3, mlp_dim=32, dim_head=8),
        torch.randn(2, 3, 16, 16),
    )

    assert [step.shape for step in seen.steps] == [(2, 3, 17, 17)] * 2


OPTIONS = {
    "plain": {},
    "alibi": {"alibi_pos_bias": True, "alibi_num_heads": 3},
    "t5": {"rel_pos_bias": True},
    "rotary": {"rotary_pos_emb": True},
    "scripted": {"attn_softclamp_logits": True},
    "groups": {"attn_kv_heads": 1},
    "cosine": {"attn_qk_norm": True},
    "flash": {"attn_flash": True},
}


@pytest.mark.parametrize("option", OPTIONS)
def test_x_transformers(option):
    """Its many ways to add to scores; where TorchScript does it, only the weights are known."""
    x = pytest.importorskip("x_transformers", reason="x-transformers is not installed")
    layers = x.Decoder(dim=24, depth=2, heads=3, attn_dim_head=8, **OPTIONS[option])
    model = x.TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=layers)
    seen = captured(model, torch.randint(0, 20, (2, 7)), weights_only=option == "scripted")

    assert [step.shape for step in seen.steps] == [(2, 3, 7, 7)] * 2
    assert {site.kind for site in seen.sites} == {"decoder"}


def test_x_transformers_gives_the_same_weights():
    """Beside those that it gives itself."""
    x = pytest.importorskip("x_transformers", reason="x-transformers is not installed")
    model = x.TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=x.Decoder(dim=24, depth=2, heads=3)).eval()
    ids = torch.randint(0, 20, (2, 7))
    with torch.no_grad(), attnviz.capture(model) as seen:
        _, maps = model(ids, return_attn=True)

    for step, own in zip(seen.steps, maps, strict=True):
        assert_close(shown(step), own, atol=1e-6, rtol=0)
