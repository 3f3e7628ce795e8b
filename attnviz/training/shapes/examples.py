"""The example pictures of the shapes model."""

from dataclasses import fields, replace

import torch
from PIL import Image
from torch import Generator

from attnviz.training.shapes.drawing import CLASSES, Scenes, draw, scenes

EXAMPLES = {
    "a red circle left of a blue square": 2,
    "a red triangle above a blue circle": 5,
    "a red square below a blue triangle": 0,
}
"""Labels, and which of the held-out scenes with that label is drawn."""
SIDE = 320


def file(label: str) -> str:
    """Path of an example picture in the assets."""
    return f"pictures/{label.removeprefix('a ').replace(' a ', ' ').replace(' ', '-')}.png"


def example(label: str) -> Image.Image:
    """Draw a scene of EXAMPLES, large and without noise."""
    drawn = scenes(Generator().manual_seed(3), 2_000)
    place = (drawn.label == CLASSES.index(label)).nonzero().flatten()[EXAMPLES[label]]
    alone = Scenes(**{field.name: getattr(drawn, field.name)[place : place + 1] for field in fields(Scenes)})
    picture = draw(replace(alone, noise=torch.zeros(1)), SIDE, Generator())
    return Image.fromarray(picture[0].permute(1, 2, 0).numpy())
