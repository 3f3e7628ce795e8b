"""Tiny vision models of each family with random weights, as folders with their image processors."""

from pathlib import Path

import torch
import transformers as hf
from families import SIDES

LAYER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
SMALL = LAYER | {"image_size": 32, "patch_size": 8}
_SQUARE = {"size": {"height": 32, "width": 32}}
_CROPPED = {"size": {"shortest_edge": 40}, "crop_size": {"height": 32, "width": 32}}


def _detr():
    backbone = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"])
    none = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
    return hf.DetrConfig(**none, backbone_config=backbone, d_model=32, num_queries=7, **SIDES)


_STAGES = {"num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [4, 2], "num_attention_heads": [1, 2]}
_STAGES |= {"hidden_sizes": [16, 32], "patch_sizes": [7, 3], "strides": [4, 2], "mlp_ratios": [2, 2]}
_WINDOWS = {"patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "num_labels": 3}
_WORDS = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}

FAMILIES = {
    "vit": lambda: (
        hf.ViTForImageClassification(hf.ViTConfig(**SMALL, num_labels=3)),
        hf.ViTImageProcessorPil(**_SQUARE),
    ),
    "deit": lambda: (
        hf.DeiTForImageClassification(hf.DeiTConfig(**SMALL, num_labels=3)),
        hf.DeiTImageProcessorPil(size={"height": 40, "width": 40}, crop_size=_SQUARE["size"]),
    ),
    "beit": lambda: (
        hf.BeitForImageClassification(hf.BeitConfig(**SMALL, use_relative_position_bias=True, num_labels=3)),
        hf.BeitImageProcessorPil(**_SQUARE, do_center_crop=False),
    ),
    "dinov2": lambda: (hf.Dinov2Model(hf.Dinov2Config(**SMALL)), hf.BitImageProcessorPil(**_CROPPED)),
    "dinov2-registers": lambda: (
        hf.Dinov2WithRegistersModel(hf.Dinov2WithRegistersConfig(**SMALL, num_register_tokens=4)),
        hf.BitImageProcessorPil(**_CROPPED),
    ),
    "dinov3": lambda: (
        hf.DINOv3ViTModel(hf.DINOv3ViTConfig(**SMALL, num_register_tokens=2)),
        hf.ViTImageProcessorPil(**_SQUARE),
    ),
    "siglip": lambda: (
        hf.SiglipModel(hf.SiglipConfig(vision_config=SMALL, text_config=_WORDS | {"intermediate_size": 32})),
        hf.SiglipImageProcessorPil(**_SQUARE),
    ),
    "clip": lambda: (
        hf.CLIPModel(hf.CLIPConfig(vision_config=SMALL, text_config=_WORDS | {"intermediate_size": 32})),
        hf.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=_SQUARE["size"]),
    ),
    "segformer": lambda: (
        hf.SegformerForImageClassification(hf.SegformerConfig(**_STAGES, decoder_hidden_size=32, num_labels=3)),
        hf.SegformerImageProcessorPil(size={"height": 64, "width": 64}),
    ),
    "detr": lambda: (
        hf.DetrForObjectDetection(_detr()),
        hf.DetrImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 128}),
    ),
}

WINDOWED = {
    "swin": lambda: (
        hf.SwinForImageClassification(hf.SwinConfig(**_WINDOWS, image_size=32)),
        hf.ViTImageProcessorPil(**_SQUARE),
    ),
    "swin-padded": lambda: (
        hf.SwinForImageClassification(hf.SwinConfig(**_WINDOWS, image_size=36)),
        hf.ViTImageProcessorPil(size={"height": 36, "width": 36}),
    ),
    "swinv2": lambda: (
        hf.Swinv2ForImageClassification(hf.Swinv2Config(**_WINDOWS | {"window_size": 3}, image_size=36)),
        hf.ViTImageProcessorPil(size={"height": 36, "width": 36}),
    ),
}
"""Models that attend within windows; some stages are padded to windows, some shifts are not half of one."""


def uneven(model: torch.nn.Module) -> torch.nn.Module:
    """A model with random weights that are large enough for attention to be uneven."""
    for weight in model.parameters():
        if weight.dim() > 1 and weight.is_floating_point():
            weight.data.add_(torch.randn_like(weight) * weight.shape[-1] ** -0.5)
    return model


def save(path: Path, model: torch.nn.Module, *processors) -> Path:
    """Write the folder of a model whose attention is uneven."""
    for part in (uneven(model), *processors):
        part.save_pretrained(path)
    return path


def folder(path: Path, family: str) -> Path:
    """A folder of a tiny model of a family."""
    torch.manual_seed(0)
    return save(path, *(FAMILIES | WINDOWED)[family]())
