"""Measure where the heads of the shapes model look on held-out pictures, and what it gets right with heads off."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d

from attnviz.training.shapes.drawing import RELATIONS, SHAPES, Scenes, coverage, distances

Head = tuple[int, int]
"""A layer and a head."""
CLS = slice(0, 1)
"""Position of [CLS]."""
PARTS = ("sentence", "relation", "red shape", "blue shape")


@contextmanager
def off(model: nn.Module, *heads: Head, rows: slice = slice(None)) -> Iterator[None]:
    """Set the outputs of heads to zero, at all tokens or at some, before they are mixed."""

    def cut(layer: int):
        def zero(_, inputs: tuple[Tensor]) -> Tensor:
            mixed = inputs[0].unflatten(-1, (model.config.num_attention_heads, -1)).clone()
            mixed[:, rows, [head for place, head in heads if place == layer]] = 0
            return mixed.flatten(-2)

        return zero

    with ExitStack() as hooks:
        for layer in {layer for layer, _ in heads}:
            projection = model.vit.layers[layer].attention.o_proj
            hooks.enter_context(projection.register_forward_pre_hook(cut(layer)))
        yield


@torch.inference_mode()
def right(model: nn.Module, scenes: Scenes, read: Tensor, *heads: Head, rows: slice = slice(None)) -> dict[str, float]:
    """Shares of pictures of which each of PARTS is right, with heads switched off, at all tokens or at some."""
    with off(model, *heads, rows=rows):
        predicted = torch.cat([model(pixel_values=part).logits.argmax(-1) for part in read.split(250)])
    shapes, relations = len(SHAPES), len(RELATIONS)
    pairs = (
        (predicted, scenes.label),
        (predicted // shapes % relations, scenes.relation),
        (predicted // (shapes * relations), scenes.kind[:, 0]),
        (predicted % shapes, scenes.kind[:, 1]),
    )
    return {part: float((one == other).float().mean()) for part, (one, other) in zip(PARTS, pairs, strict=True)}


def regions(scenes: Scenes, side: int, patch: int) -> Tensor:
    """Token masks, (5, B, 1 + patches): of the red shape, the blue one, the third, the background, and [CLS].

    A patch is of the shape that covers most of it, if that is an eighth at least, else of the background.
    """
    share, shape = avg_pool2d(coverage(distances(scenes, side)), patch).flatten(2).max(1)
    place = torch.where(share < 1 / 8, 3, shape)
    place = torch.cat((torch.full_like(place[:, :1], 4), place), 1)
    return torch.stack([place == i for i in range(5)])


@dataclass(frozen=True)
class Looks:
    """Mean shares of a head's weights, from 0 to 1.

    Attributes:
        cls: from [CLS], on the red shape, the blue one, the third, the background and [CLS]; by name.
        same, other: from the patches of either shape, on its own patches and on those of the other.
        near: from all patches, on the patch itself and the eight around it.
    """

    cls: dict[str, float]
    same: float
    other: float
    near: float


REGIONS = ("red shape", "blue shape", "third shape", "background", "[CLS]")


def looks(weights: Tensor, place: Tensor) -> Looks:
    """Measure (B, n, n) weights of a head against the regions of its pictures."""

    def mean(pairs: tuple[tuple[int, int], ...]) -> float:
        """Mean over all rows of one region of the weight on another, for pairs of both."""
        rows = [(weights * place[target].unsqueeze(1)).sum(2)[place[source]] for source, target in pairs]
        return float(torch.cat(rows).mean())

    cls = {name: float((weights[:, 0] * place[i]).sum(1).mean()) for i, name in enumerate(REGIONS)}
    near = float((weights[:, 1:, 1:] * around(weights.shape[1] - 1)).sum(2).mean())
    return Looks(cls, mean(((0, 0), (1, 1))), mean(((0, 1), (1, 0))), near)


def around(patches: int) -> Tensor:
    """Pairs of patches that are the same or touch, also at a corner: (patches, patches)."""
    side = round(patches**0.5)
    places = torch.cartesian_prod(torch.arange(side), torch.arange(side))
    return (places.unsqueeze(1) - places).abs().amax(2) <= 1


@torch.inference_mode()
def measure(model: nn.Module, scenes: Scenes, read: Tensor) -> dict[Head, Looks]:
    """Measure every head of a model that gives its weights, and as head (-1, 0) one that looks evenly."""
    place = regions(scenes, model.config.image_size, model.config.patch_size)
    parts = [model(pixel_values=part, output_attentions=True).attentions for part in read.split(250)]
    layers = [torch.cat(layer) for layer in zip(*parts, strict=True)]
    every = {(i, j): looks(layer[:, j], place) for i, layer in enumerate(layers) for j in range(layer.shape[1])}
    return every | {(-1, 0): looks(torch.full_like(layers[0][:, 0], 1 / layers[0].shape[-1]), place)}
