"""A vision model that tells where a red shape is relative to a blue shape: recipe, measurements and card.

The model is saved as a folder for transformers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import avg_pool2d, cross_entropy
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessorPil

from attnviz.core.edits import Site
from attnviz.models import trained
from attnviz.training import probe, report
from attnviz.training.drawing import CLASSES, RELATIONS, SHAPES, Scenes, coverage, distances, draw, scenes
from attnviz.training.probe import Head, Look
from attnviz.training.recipe import Recipe
from attnviz.training.report import Role

BATCH = 64


SIDE, PATCH = 64, 8
"""Pixels per side of a picture, and of a patch."""
HEADS = 4
SPREAD = 0.08
"""Standard deviation of initial weights; with transformers' default of 0.02, this narrow model learns much later."""


def build() -> ViTForImageClassification:
    """Build the model with random weights from torch's generator."""
    config = ViTConfig(
        image_size=SIDE,
        patch_size=PATCH,
        hidden_size=64,
        num_attention_heads=HEADS,
        num_hidden_layers=2,
        intermediate_size=128,
        initializer_range=SPREAD,
        id2label=dict(enumerate(CLASSES)),
        label2id={label: i for i, label in enumerate(CLASSES)},
    )
    return ViTForImageClassification(config)


def pictures(seed: int, number: int) -> tuple[Scenes, Tensor]:
    """Draw scenes, and the input of the model: (B, 3, side, side) from -1 to 1."""
    generator = Generator().manual_seed(seed)
    batch = scenes(generator, number)
    return batch, draw(batch, SIDE, generator) / 127.5 - 1


def loss(model: nn.Module, generator: Random) -> Tensor:
    """Compute the cross-entropy of the labels for a batch of new pictures."""
    batch, read = pictures(generator.getrandbits(62), BATCH)
    return cross_entropy(model(pixel_values=read).logits, batch.label)


def accuracy(model: nn.Module) -> float:
    """Measure the accuracy on 500 held-out pictures."""
    batch, read = pictures(1, 500)
    return float((model(pixel_values=read).logits.argmax(-1) == batch.label).float().mean())


def load() -> ViTForImageClassification:
    """Load the shipped model, which can return its attention weights."""
    return ViTForImageClassification.from_pretrained(trained.folder("shapes"), attn_implementation="eager").eval()


def write(model: nn.Module, folder: Path, step: int) -> None:
    """Write a folder that transformers can load: the model and its image processor."""
    model.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # safetensors makes files that only their owner can read
    size = {"height": SIDE, "width": SIDE}
    ViTImageProcessorPil(size=size, resample=2, image_mean=[0.5] * 3, image_std=[0.5] * 3).save_pretrained(folder)


RECIPE = Recipe(
    name="shapes",
    build=build,
    vocabularies={},
    loss=loss,
    score=accuracy,
    steps=3_500,
    checkpoints=(3_500,),
    rate=3e-3,
    write=write,
)
HELD_OUT = 2
"""Seed of the measured pictures, which training does not use."""
CLS = slice(0, 1)
"""Position of [CLS]."""
PARTS = ("sentence", "relation", "red shape", "blue shape")
ROLES = {
    "red shape": Role("red shape", "looks from [CLS] at the red shape", "rows of [CLS]"),
    "blue shape": Role("blue shape", "looks from [CLS] at the blue shape", "rows of [CLS]"),
    "same shape": Role(
        "same shape", "looks from a patch of either shape at the patches of that shape", "rows of such patches"
    ),
    "other shape": Role(
        "other shape", "looks from a patch of either shape at the patches of the other", "rows of such patches"
    ),
}
GOAL = 0.97


@contextmanager
def off(model: nn.Module, *heads: Head, rows: slice = slice(None)) -> Iterator[None]:
    """Set the outputs of heads to zero before W_O, at all tokens or only in some rows."""
    hooks = []
    for site, head in heads:
        projection = model.vit.layers[site.layer].attention.o_proj

        def zero(_, inputs: tuple[Tensor], head: int = head) -> Tensor:
            outputs = inputs[0].unflatten(-1, (HEADS, -1)).clone()
            outputs[:, rows, head] = 0
            return outputs.flatten(-2)

        hooks.append(projection.register_forward_pre_hook(zero))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@torch.inference_mode()
def right(model: nn.Module, scenes: Scenes, read: Tensor, *heads: Head, rows: slice = slice(None)) -> dict[str, float]:
    """Measure the accuracy for each of PARTS with heads off, at all tokens or only in some rows."""
    with off(model, *heads, rows=rows):
        predicted = torch.cat([model(pixel_values=part).logits.argmax(-1) for part in read.split(250)])
    shapes, relations = len(SHAPES), len(RELATIONS)
    equal = (
        predicted == scenes.label,
        predicted // shapes % relations == scenes.relation,
        predicted // (shapes * relations) == scenes.kind[:, 0],
        predicted % shapes == scenes.kind[:, 1],
    )
    return {part: float(hits.float().mean()) for part, hits in zip(PARTS, equal, strict=True)}


def regions(scenes: Scenes, side: int, patch: int) -> Tensor:
    """Mark the tokens of the red shape, the blue shape, the third shape and the background: (4, B, 1 + patches).

    A patch belongs to the shape that covers most of it, or to the background if that is less than an eighth.
    """
    share, shape = avg_pool2d(coverage(distances(scenes, side)), patch).flatten(2).max(1)
    region = torch.where(share < 1 / 8, 3, shape)
    region = torch.cat((torch.full_like(region[:, :1], 4), region), 1)  # [CLS] has no region
    return torch.stack([region == i for i in range(4)])


@torch.inference_mode()
def looks(model: nn.Module, scenes: Scenes, read: Tensor) -> dict[Head, dict[str, Look]]:
    """Measure the attention of each head to the patterns of ROLES; the model must return its weights."""
    red, blue, *_ = regions(scenes, SIDE, PATCH)
    cls = torch.arange(red.shape[1]) == 0

    def between(queries: Tensor, keys: Tensor) -> Tensor:
        return queries.unsqueeze(-1) & keys.unsqueeze(-2)

    patterns = {
        "red shape": between(cls, red),
        "blue shape": between(cls, blue),
        "same shape": between(red, red) | between(blue, blue),
        "other shape": between(red, blue) | between(blue, red),
    }
    parts = [model(pixel_values=part, output_attentions=True).attentions for part in read.split(250)]
    layers = [torch.cat(layer) for layer in zip(*parts, strict=True)]
    allowed = torch.ones_like(patterns["same shape"])
    return {
        (Site("encoder", i), head): {
            name: probe.look(layer[:, head], pattern, allowed) for name, pattern in patterns.items()
        }
        for i, layer in enumerate(layers)
        for head in range(HEADS)
    }


def card(number: int) -> dict[str, Any]:
    """Measure the shipped model on `number` held-out pictures, for its card."""
    model, (batch, read) = load(), pictures(HELD_OUT, number)
    measured, complete = looks(model, batch, read), right(model, batch, read)
    texts = f"{number:,} held-out pictures"

    def sentences(*heads: Head) -> float:
        return right(model, batch, read, *heads)["sentence"]

    findings = report.findings(measured, ROLES, sentences, texts=texts, answers="sentences", by="shares")
    rows = [(f"{part}s right, of {texts}", share, GOAL) for part, share in complete.items()]
    for color in ("red", "blue"):
        looking = [finding for finding in findings if finding["role"] == f"{color} shape"]
        heads = [(Site("encoder", finding["layer"]), finding["heads"][0]) for finding in looking]
        shares = right(model, batch, read, *heads, rows=CLS)
        what = f"s right with the heads that look at the {color} shape off at [CLS]"
        rows += [(f"{part}{what}", share, None) for part, share in shares.items()]
    sizes = {
        "sentences": len(CLASSES),
        "layers": model.config.num_hidden_layers,
        "heads per layer": HEADS,
        "numbers for each token (d_model)": model.config.hidden_size,
        "patches of a picture": (SIDE // PATCH) ** 2,
        "weights": sum(weight.numel() for weight in model.parameters()),
    }
    first = min(findings, key=lambda finding: finding["off"][0])
    opens = Site("encoder", first["layer"]), first["heads"][0]
    return report.card("shapes", opens=opens, sizes=sizes, measured=rows, findings=findings, steps=RECIPE.steps)
