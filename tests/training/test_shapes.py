"""The model that reads pictures: its drawings show what their labels say, and its shipped weights read them."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torch import Generator

from attnviz.core import assets
from attnviz.core.amounts import percent
from attnviz.models import trained
from attnviz.sources import cards
from attnviz.training import shapes
from attnviz.training.shapes import CLASSES, draw, scenes

FRESH = 11
"""Seed of pictures that neither the training nor the card has drawn."""


@pytest.fixture(scope="module")
def model():
    return shapes.load()


@pytest.fixture(scope="module")
def held_out():
    return shapes.pictures(FRESH, 500)


def pixels(picture: np.ndarray, color: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the red or the blue pixels of an (h, w, 3) picture, by their color alone."""
    red, green, blue = np.moveaxis(picture.astype(float) + 1, -1, 0)
    inside = {
        "red": (red > 1.7 * green) & (red > 1.7 * blue),
        "blue": (blue > 1.35 * green) & (blue > 1.9 * red),
    }
    return inside[color].nonzero()


def relation(picture: np.ndarray) -> str:
    """Direction from the blue pixels to the red ones."""
    red, blue = (np.array([np.median(axis) for axis in pixels(picture, color)]) for color in ("red", "blue"))
    down, right = red - blue
    across = "left of" if right < 0 else "right of"
    return across if abs(right) > abs(down) else "above" if down < 0 else "below"


def shape(picture: np.ndarray, color: str) -> str:
    """Kind of a shape by its moment of inertia over its squared area, which no turn and no size changes."""
    rows, columns = pixels(picture, color)
    inertia = (rows.var() + columns.var()) / len(rows)
    ideal = {"circle": 1 / (2 * math.pi), "square": 1 / 6, "triangle": 1 / (3 * math.sqrt(3))}
    return min(ideal, key=lambda name: abs(ideal[name] - inertia))


def drawn(seed: int, number: int, side: int, noise: float = 1) -> tuple[list[str], list[np.ndarray]]:
    """Labels and (side, side, 3) pictures, with that share of their noise."""
    chance = Generator().manual_seed(seed)
    made = scenes(chance, number)
    made = replace(made, noise=made.noise * noise)
    pictures = draw(made, side, chance).permute(0, 2, 3, 1).numpy()
    return [CLASSES[label] for label in made.label.tolist()], list(pictures)


def test_a_label_is_true_of_its_picture():
    """The colors of the pixels alone give the places of red and blue and the form of each."""
    labels, pictures = drawn(0, 150, 256, noise=0)

    for label, picture in zip(labels, pictures, strict=True):
        assert label == f"a red {shape(picture, 'red')} {relation(picture)} a blue {shape(picture, 'blue')}"


def test_the_sentences_are_right(model, held_out):
    """On pictures that were never drawn before; by chance one in 36 would be."""
    share = shapes.right(model, *held_out)

    assert share["sentence"] > 0.95
    assert all(share[part] >= share["sentence"] for part in shapes.PARTS)


def test_the_heads_that_look_at_a_shape_are_what_reads_it(model, held_out):
    """Off at [CLS], the heads on the red shape take its form away, not that of the blue one; and vice versa."""
    behaviors = cards.card("shapes").behaviors
    right = {
        color: shapes.right(
            model,
            *held_out,
            *((one.site, one.heads[0]) for one in behaviors if one.role == f"{color} shape"),
            rows=shapes.CLS,
        )
        for color in ("red", "blue")
    }

    assert right["red"]["red shape"] < 0.75 < 0.95 < right["red"]["blue shape"]
    assert right["blue"]["blue shape"] < 0.5 < 0.95 < right["blue"]["red shape"]


def test_transformers_opens_the_folder_and_reads_the_examples():
    """As any other: a model and an image processor that needs no torchvision, by the path of the folder."""
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    folder = trained.folder("shapes")
    model = AutoModelForImageClassification.from_pretrained(folder)
    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    for label in shapes.EXAMPLES:
        with Image.open(assets.path(shapes.file(label))) as picture:
            logits = model(**processor(picture, return_tensors="pt")).logits

        assert model.config.id2label[int(logits.argmax())] == label
        assert logits.softmax(-1).max() > 0.8


def test_the_example_pictures_are_what_the_code_draws():
    for label in shapes.EXAMPLES:
        with Image.open(assets.path(shapes.file(label))) as picture:
            assert np.array_equal(np.asarray(picture), np.asarray(shapes.example(label)))


def test_the_documentation_names_its_numbers():
    """A row of the table of models, and one for each role of a head."""
    card = cards.card("shapes")
    measured = "<br>".join(f"{percent(measure.value)} {measure.what}" for measure in card.measured[:3])
    heads = [
        f"| {one.site.head(one.heads[0])} | {one.does} | {percent(one.shares[0])} | {percent(one.off[0])} |"
        for one in card.behaviors
    ]
    page = (Path(__file__).parents[2] / "docs/models.md").read_text(encoding="utf-8")

    for row in (f"| `shapes` | {card.does} | {measured} |", *heads):
        assert row in page.splitlines()
    assert f"without each (with all: {percent(card.behaviors[0].on)})" in page
    red, other, same, blue = (percent(card.measured[i].value) for i in (6, 7, 10, 11))
    assert f"leave {red} of the red shapes right and {other} of the blue ones" in page
    assert f"leave {same} and {blue}, as many as by chance" in page
