"""A vision model that tells where a red shape is relative to a blue shape: pictures, recipe, measurements and card.

Pictures are drawn from signed distances: sharp at any size, reproducible from a seed. Positions and lengths are
fractions of the picture's side, x to the right and y down. B pictures are drawn at once. The model is saved as a folder
for transformers.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from PIL import Image
from torch import Generator, Tensor, nn
from torch.nn.functional import avg_pool2d, cross_entropy, pad
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessorPil

from attnviz.core.edits import Site
from attnviz.models import trained
from attnviz.training import probe
from attnviz.training.probe import Head, Look, Role
from attnviz.training.recipe import Recipe

BATCH = 64
SIDE, PATCH = 64, 8
"""Pixels per side of a picture, and of a patch."""
HEADS = 4
SPREAD = 0.08
"""Standard deviation of initial weights; with transformers' default of 0.02, this narrow model learns much later."""
SHAPES = ("circle", "square", "triangle")
RELATIONS = ("left of", "above", "right of", "below")
"""Position of the red shape relative to the blue shape."""
CLASSES = tuple(f"a red {red} {relation} a blue {blue}" for red in SHAPES for relation in RELATIONS for blue in SHAPES)
OUTER = (1.0, 0.9 * math.sqrt(2), 1.3)
"""Distance from the center of a shape to its outermost point, in radii; it makes areas similar."""
HUES = ((-0.03, 0.03), (0.58, 0.66), (0.12, 0.4))
"""Hue ranges of the red shape, the blue shape, and the third shape, which is yellow or green."""
TILT = math.radians(20)
EXAMPLES = {
    "a red circle left of a blue square": 2,
    "a red triangle above a blue circle": 5,
    "a red square below a blue triangle": 0,
}
"""Labels of the shipped pictures, and for each the index of its scene among those with that label."""
EXAMPLE_SIDE = 320


@dataclass(frozen=True)
class Scenes:
    """Shapes of B pictures: a red, a blue and a third shape, whose radius is 0 if there is none."""

    kind: Tensor  # (B, 3), index of SHAPES
    relation: Tensor  # (B,), index of RELATIONS
    place: Tensor  # (B, 3, 2), x and y of the center
    radius: Tensor  # (B, 3)
    angle: Tensor  # (B, 3), rotation in radians
    color: Tensor  # (B, 3, 3), red, green and blue from 0 to 1
    ground: Tensor  # (B, 2, 3), background colors at two opposite ends
    slope: Tensor  # (B,), direction from one end of the background to the other, in radians
    noise: Tensor  # (B,), standard deviation of the noise in a channel

    @property
    def label(self) -> Tensor:
        """Indices of CLASSES, (B,)."""
        return (self.kind[:, 0] * len(RELATIONS) + self.relation) * len(SHAPES) + self.kind[:, 1]


def scenes(generator: Generator, count: int) -> Scenes:
    """Draw `count` random scenes.

    The line between the shapes is within 32° of the direction named by the relation, so that labels are unambiguous.
    """

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        """Draw numbers from `low` to `high`, (B, *shape)."""
        return low + (high - low) * torch.rand(count, *shape, generator=generator)

    kind = torch.randint(len(SHAPES), (count, 3), generator=generator)
    relation = torch.randint(len(RELATIONS), (count,), generator=generator)
    radius = uniform(0.1, 0.155, 3)
    outer = radius * torch.tensor(OUTER)[kind] + 0.01  # with a margin

    # the red and the blue shape, not touching
    touching = outer[:, 0] + outer[:, 1]  # distance between their centers if they touch
    direction = relation * math.pi / 2 + math.radians(32) * uniform(-1, 1)
    offset = torch.stack((direction.cos(), direction.sin()), 1)  # from red to blue
    longest = ((0.97 - touching) / offset.abs().amax(1)).clamp(max=0.65)  # both fit into the picture
    added = (longest - touching - 0.02).clamp(min=0) * uniform(0, 1)
    offset = offset * (touching + 0.02 + added).unsqueeze(1)
    lowest = torch.maximum(outer[:, :1], outer[:, 1:2] - offset)
    highest = torch.minimum(1 - outer[:, :1], 1 - outer[:, 1:2] - offset)
    red = lowest + (highest - lowest) * uniform(0, 1, 2)
    red_and_blue = torch.stack((red, red + offset), 1)

    # the third shape, at the one of 12 random places that is farthest from both
    candidates = uniform(0.16, 0.84, 12, 2)
    clearance = (torch.cdist(candidates, red_and_blue) - outer[:, :2].unsqueeze(1)).amin(2) - outer[:, 2:]
    third = candidates[torch.arange(count), clearance.argmax(1)]
    is_absent = (clearance.amax(1) < 0.02) | (uniform(0, 1) < 0.4)
    radius[:, 2] = torch.where(is_absent, 0.0, radius[:, 2])

    # colors
    hue = torch.stack([uniform(*hues) for hues in HUES], 1)
    ground = rgb(uniform(0, 1, 2), uniform(0.05, 0.3, 2), uniform(0.3, 0.97, 1).expand(-1, 2) + uniform(-0.08, 0.03, 2))
    return Scenes(
        kind=kind,
        relation=relation,
        place=torch.cat((red_and_blue, third.unsqueeze(1)), 1),
        radius=radius,
        angle=uniform(-TILT, TILT, 3),
        color=rgb(hue, uniform(0.7, 0.95, 3), uniform(0.65, 0.98, 3)),
        ground=ground,
        slope=uniform(0, 2 * math.pi),
        noise=uniform(0, 0.04),
    )


def rgb(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """Convert colors from HSV to RGB, with the channels in a last axis of 3; all numbers are from 0 to 1."""
    sixths = (hue.unsqueeze(-1) * 6 + torch.tensor([5.0, 3.0, 1.0])) % 6  # position of the hue for R, G and B
    darkening = torch.minimum(sixths, 4 - sixths).clamp(0, 1)
    return value.unsqueeze(-1) * (1 - saturation.unsqueeze(-1) * darkening)


def distances(scenes: Scenes, side: int) -> Tensor:
    """Compute the signed distance of each pixel from the edge of each shape, negative inside: (B, 3, side, side)."""
    axis = (torch.arange(side) + 0.5) / side
    by_shape = (scenes.kind, scenes.radius, scenes.angle, scenes.place[..., 0], scenes.place[..., 1])
    kind, radius, angle, center_x, center_y = [values[..., None, None] for values in by_shape]  # (B, 3, 1, 1)
    x, y = axis - center_x, axis.unsqueeze(1) - center_y
    across = (x * angle.cos() + y * angle.sin()).abs_()  # distances from the axes of the rotated shape
    down = y * angle.cos() - x * angle.sin()
    circle = torch.hypot(across, down) - radius
    square = torch.maximum(across, down.abs()) - 0.9 * radius  # half a side, by OUTER
    triangle = torch.maximum(across * (math.sqrt(3) / 2) - down / 2, down) - 0.65 * radius  # inradius, by OUTER
    edge = torch.where(kind == 2, triangle, torch.where(kind == 1, square, circle))
    return edge.masked_fill_(radius == 0, 1.0)  # no pixel is inside an absent shape


def coverage(distance: Tensor) -> Tensor:
    """Compute the share of each pixel that is inside a shape, 0 to 1, from the output of `distances`; same size."""
    return (0.5 - distance * distance.shape[-1]).clamp_(0, 1)


def draw(scenes: Scenes, side: int, generator: Generator) -> Tensor:
    """Draw (B, 3, side, side) pictures as bytes: background, soft shadows, shapes lit from top left, noise."""
    axis = torch.arange(side) / (side - 1) - 0.5
    slope = scenes.slope[:, None, None]
    share = (slope.cos() * axis + slope.sin() * axis.unsqueeze(1)).unsqueeze(1) / math.sqrt(2) + 0.5  # of color 2
    first_color, second_color = scenes.ground[..., None, None].unbind(1)
    picture = torch.lerp(first_color, second_color, share)
    covered = coverage(distances(scenes, side))
    shift, blur = round(0.025 * side), round(0.02 * side)  # of the shadow, in pixels
    shadow = pad(covered.amax(1, keepdim=True), (shift, 0, shift, 0))[..., :side, :side]
    for _ in range(3):  # three box filters are nearly a Gaussian filter
        shadow = avg_pool2d(shadow, 2 * blur + 1, stride=1, padding=blur)
    picture *= 1 - 0.4 * shadow
    light = 1 - 0.3 * (axis + axis.unsqueeze(1))  # 1.3 at the top left corner, 0.7 at the bottom right
    for i, inside in enumerate(covered.split(1, 1)):
        correction = 0.6 * (scenes.place[:, i].mean(1) - 0.5)[:, None, None, None]  # the shade is 1 at the center
        shade = (light + correction).clamp(0.75, 1.2)
        picture.lerp_(scenes.color[:, i, :, None, None] * shade, inside)
    picture += scenes.noise[:, None, None, None] * torch.randn(picture.shape, generator=generator)
    return (picture.clamp_(0, 1) * 255).round_().byte()


def file(label: str) -> str:
    """Return the path of an example picture in the assets."""
    return f"pictures/{label.removeprefix('a ').replace(' a ', ' ').replace(' ', '-')}.png"


def example(label: str) -> Image.Image:
    """Draw a scene of EXAMPLES, large and without noise."""
    batch = scenes(Generator().manual_seed(3), 2_000)
    index = (batch.label == CLASSES.index(label)).nonzero().flatten()[EXAMPLES[label]]
    single = Scenes(**{field.name: getattr(batch, field.name)[index : index + 1] for field in fields(Scenes)})
    picture = draw(replace(single, noise=torch.zeros(1)), EXAMPLE_SIDE, Generator())
    return Image.fromarray(picture[0].permute(1, 2, 0).numpy())


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


def pictures(seed: int, count: int) -> tuple[Scenes, Tensor]:
    """Draw scenes, and the input of the model: (B, 3, side, side) from -1 to 1."""
    generator = Generator().manual_seed(seed)
    batch = scenes(generator, count)
    return batch, draw(batch, SIDE, generator) / 127.5 - 1


def loss(model: nn.Module, generator: Random) -> Tensor:
    """Compute the cross-entropy of the labels for a batch of new pictures."""
    batch, pixels = pictures(generator.getrandbits(62), BATCH)
    return cross_entropy(model(pixel_values=pixels).logits, batch.label)


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
    steps=3_500,
    checkpoints=(3_500,),
    rate=3e-3,
    write=write,
)
HELD_OUT = 2
"""Seed of the measured pictures, which training does not use."""
CLS = slice(0, 1)
"""Position of [CLS]."""
BATCH_SIZE = 250
"""Number of pictures measured in one run."""
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
def without_heads(model: nn.Module, *heads: Head, rows: slice = slice(None)) -> Iterator[None]:
    """Set the outputs of heads to zero before W_O, at all tokens or only in some rows."""

    def zero(head: int, _, inputs: tuple[Tensor]) -> Tensor:
        """Forward pre-hook of W_O: set a head's output, one part of its input, to zero."""
        outputs = inputs[0].unflatten(-1, (HEADS, -1)).clone()
        outputs[:, rows, head] = 0
        return outputs.flatten(-2)

    hooks = []
    for site, head in heads:
        projection = model.vit.layers[site.layer].attention.o_proj
        hooks.append(projection.register_forward_pre_hook(partial(zero, head)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@torch.inference_mode()
def accuracies(
    model: nn.Module, scenes: Scenes, pixels: Tensor, *heads: Head, rows: slice = slice(None)
) -> dict[str, float]:
    """Measure the accuracy of the whole sentence and of its parts, with heads off at all tokens or in some rows."""
    with without_heads(model, *heads, rows=rows):
        predicted = torch.cat([model(pixel_values=batch).logits.argmax(-1) for batch in pixels.split(BATCH_SIZE)])
    red_and_relation, blue = predicted // len(SHAPES), predicted % len(SHAPES)  # the inverse of `Scenes.label`
    is_correct = {
        "sentence": predicted == scenes.label,
        "relation": red_and_relation % len(RELATIONS) == scenes.relation,
        "red shape": red_and_relation // len(RELATIONS) == scenes.kind[:, 0],
        "blue shape": blue == scenes.kind[:, 1],
    }
    return {name: float(hits.float().mean()) for name, hits in is_correct.items()}


def regions(scenes: Scenes, side: int, patch: int) -> Tensor:
    """Mark the tokens of the red shape, the blue shape, the third shape and the background: (4, B, 1 + patches).

    A patch belongs to the shape that covers most of it, or to the background if no shape covers an eighth of it.
    """
    share, shape = avg_pool2d(coverage(distances(scenes, side)), patch).flatten(2).max(1)
    region = torch.where(share < 1 / 8, 3, shape)
    region = torch.cat((torch.full_like(region[:, :1], 4), region), 1)  # 4: [CLS] has no region
    return torch.stack([region == i for i in range(4)])


@torch.inference_mode()
def measure_heads(model: nn.Module, scenes: Scenes, pixels: Tensor) -> dict[Head, dict[str, Look]]:
    """Measure the attention of each head to the patterns of ROLES; the model must return its weights."""
    red, blue, *_ = regions(scenes, SIDE, PATCH)
    cls = torch.arange(red.shape[1]) == 0

    def between(queries: Tensor, keys: Tensor) -> Tensor:
        """Mark the cells of some queries and keys, boolean (B, Q, K)."""
        return queries.unsqueeze(-1) & keys.unsqueeze(-2)

    patterns = {
        "red shape": between(cls, red),
        "blue shape": between(cls, blue),
        "same shape": between(red, red) | between(blue, blue),
        "other shape": between(red, blue) | between(blue, red),
    }
    batches = [model(pixel_values=batch, output_attentions=True).attentions for batch in pixels.split(BATCH_SIZE)]
    allowed, measured = torch.ones_like(patterns["same shape"]), {}
    for layer, weights_of_batches in enumerate(zip(*batches, strict=True)):
        for head, weights in enumerate(torch.cat(weights_of_batches).unbind(1)):
            looks = {name: probe.measure_head(weights, pattern, allowed) for name, pattern in patterns.items()}
            measured[Site("encoder", layer), head] = looks
    return measured


def card(count: int) -> dict[str, Any]:
    """Measure the shipped model on `count` held-out pictures, for its card."""
    model = load()
    batch, pixels = pictures(HELD_OUT, count)
    texts = f"{count:,} held-out pictures"

    def accuracy_off(*heads: Head) -> float:
        """Measure the accuracy of sentences with heads off."""
        return accuracies(model, batch, pixels, *heads)["sentence"]

    looks = measure_heads(model, batch, pixels)
    findings = probe.findings(looks, ROLES, accuracy_off, texts=texts, answers="sentences", by="shares")
    shares = accuracies(model, batch, pixels)
    rows = [(f"{part}s right, of {texts}", share, GOAL) for part, share in shares.items()]
    for color in ("red", "blue"):
        matching = [finding for finding in findings if finding["role"] == f"{color} shape"]
        heads = [(Site("encoder", finding["layer"]), finding["heads"][0]) for finding in matching]
        shares = accuracies(model, batch, pixels, *heads, rows=CLS)
        ending = f"s right with the heads that look at the {color} shape switched off at [CLS]"
        rows += [(f"{part}{ending}", share, None) for part, share in shares.items()]
    sizes = {
        "sentences": len(CLASSES),
        "layers": model.config.num_hidden_layers,
        "heads per layer": HEADS,
        "numbers for each token (d_model)": model.config.hidden_size,
        "patches of a picture": (SIDE // PATCH) ** 2,
        "weights": sum(weight.numel() for weight in model.parameters()),
    }
    most_needed = min(findings, key=lambda finding: finding["off"][0])
    opens = Site("encoder", most_needed["layer"]), most_needed["heads"][0]
    return probe.card("shapes", opens=opens, sizes=sizes, measured=rows, findings=findings, steps=RECIPE.steps)
