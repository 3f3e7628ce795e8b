"""Pictures of a red and a blue shape, drawn from signed distances: sharp at any size, reproducible from a seed.

Positions and lengths are fractions of the picture's side, x to the right and y down. B pictures are drawn at once.
"""

import math
from dataclasses import dataclass, fields, replace

import torch
from PIL import Image
from torch import Generator, Tensor
from torch.nn.functional import avg_pool2d, pad

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
    """Shapes of B pictures: a red, a blue and a third one, whose radius is 0 if there is none.

    Attributes:
        kind: (B, 3) indices of SHAPES.
        relation: (B,) indices of RELATIONS.
        place, radius, angle: (B, 3, 2), (B, 3) and (B, 3).
        color: (B, 3, 3), red, green and blue from 0 to 1.
        ground, slope: (B, 2, 3) background colors at two opposite ends, and (B,) direction between the ends.
        noise: (B,) standard deviation of the noise in a channel.
    """

    kind: Tensor
    relation: Tensor
    place: Tensor
    radius: Tensor
    angle: Tensor
    color: Tensor
    ground: Tensor
    slope: Tensor
    noise: Tensor

    @property
    def label(self) -> Tensor:
        """Indices of CLASSES, (B,)."""
        return (self.kind[:, 0] * len(RELATIONS) + self.relation) * len(SHAPES) + self.kind[:, 1]


def scenes(generator: Generator, number: int) -> Scenes:
    """Draw random scenes.

    The line between the shapes is within 32° of the direction named by the relation, so that labels are unambiguous.
    """

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(number, *shape, generator=generator)

    kind = torch.randint(len(SHAPES), (number, 3), generator=generator)
    relation = torch.randint(len(RELATIONS), (number,), generator=generator)
    radius = uniform(0.1, 0.155, 3)
    outer = radius * torch.tensor(OUTER)[kind] + 0.01
    both = outer[:, 0] + outer[:, 1]
    direction = relation * math.pi / 2 + math.radians(32) * uniform(-1, 1)
    offset = torch.stack((direction.cos(), direction.sin()), 1)  # from red to blue
    longest = ((0.97 - both) / offset.abs().amax(1)).clamp(max=0.65)
    offset = offset * (both + 0.02 + (longest - both - 0.02).clamp(min=0) * uniform(0, 1)).unsqueeze(1)
    low = torch.maximum(outer[:, :1], outer[:, 1:2] - offset)
    high = torch.minimum(1 - outer[:, :1], 1 - outer[:, 1:2] - offset)
    red = low + (high - low) * uniform(0, 1, 2)
    pair = torch.stack((red, red + offset), 1)

    tried = uniform(0.16, 0.84, 12, 2)
    room = (torch.cdist(tried, pair) - outer[:, :2].unsqueeze(1)).amin(2) - outer[:, 2:]
    best = room.argmax(1)
    third = tried[torch.arange(number), best]
    absent = (room.amax(1) < 0.02) | (uniform(0, 1) < 0.4)
    radius[:, 2] = torch.where(absent, 0.0, radius[:, 2])

    hue = torch.stack([uniform(*hues) for hues in HUES], 1)
    ground = rgb(uniform(0, 1, 2), uniform(0.05, 0.3, 2), uniform(0.3, 0.97, 1).expand(-1, 2) + uniform(-0.08, 0.03, 2))
    return Scenes(
        kind,
        relation,
        torch.cat((pair, third.unsqueeze(1)), 1),
        radius,
        uniform(-TILT, TILT, 3),
        rgb(hue, uniform(0.7, 0.95, 3), uniform(0.65, 0.98, 3)),
        ground,
        uniform(0, 2 * math.pi),
        uniform(0, 0.04),
    )


def rgb(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """Convert colors to red, green and blue in a last axis of 3, all from 0 to 1."""
    parts = (hue.unsqueeze(-1) * 6 + torch.tensor([5.0, 3.0, 1.0])) % 6
    return value.unsqueeze(-1) * (1 - saturation.unsqueeze(-1) * torch.minimum(parts, 4 - parts).clamp(0, 1))


def distances(scenes: Scenes, side: int) -> Tensor:
    """Compute the signed distance of each pixel from the edge of each shape, negative inside: (B, 3, side, side)."""
    axis = (torch.arange(side) + 0.5) / side
    x = axis - scenes.place[..., 0, None, None]
    y = axis.unsqueeze(1) - scenes.place[..., 1, None, None]
    cos, sin, radius = (part[..., None, None] for part in (scenes.angle.cos(), scenes.angle.sin(), scenes.radius))
    across, down = (x * cos + y * sin).abs_(), y * cos - x * sin
    kind, root = scenes.kind[..., None, None], math.sqrt(3) / 2
    edge = torch.hypot(across, down) - radius
    edge = torch.where(kind == 1, torch.maximum(across, down.abs()) - 0.9 * radius, edge)
    edge = torch.where(kind == 2, torch.maximum(across * root - down / 2, down) - 0.65 * radius, edge)
    return edge.masked_fill_(radius == 0, 1.0)


def coverage(distance: Tensor) -> Tensor:
    """Compute the share of each pixel inside each shape, 0 to 1, from its distance; the array shape stays."""
    return (0.5 - distance * distance.shape[-1]).clamp_(0, 1)


def draw(scenes: Scenes, side: int, generator: Generator) -> Tensor:
    """Draw (B, 3, side, side) pictures as bytes: background, soft shadows, shapes lit from top left, noise."""
    axis = torch.arange(side) / (side - 1) - 0.5
    slope = scenes.slope[:, None, None]
    share = (slope.cos() * axis + slope.sin() * axis.unsqueeze(1)).unsqueeze(1) / math.sqrt(2) + 0.5
    picture = torch.lerp(*scenes.ground[..., None, None].unbind(1), share)
    covered = coverage(distances(scenes, side))
    shift, blur = round(0.025 * side), round(0.02 * side)
    shadow = pad(covered.amax(1, keepdim=True), (shift, 0, shift, 0))[..., :side, :side]
    for _ in range(3):
        shadow = avg_pool2d(shadow, 2 * blur + 1, stride=1, padding=blur)
    picture *= 1 - 0.4 * shadow
    light = 1 - 0.3 * (axis + axis.unsqueeze(1))
    for i, inside in enumerate(covered.split(1, 1)):
        shade = (light + 0.6 * (scenes.place[:, i].mean(1) - 0.5)[:, None, None, None]).clamp(0.75, 1.2)
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
