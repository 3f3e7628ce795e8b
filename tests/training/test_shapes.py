"""The model that reads pictures: its drawings show what their labels say, and its shipped weights read them."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Generator

from attnviz.core import assets
from attnviz.core.amounts import percent
from attnviz.models import trained
from attnviz.sources import cards
from attnviz.training import harness, shapes
from attnviz.training.shapes import examples, measure, recipe
from attnviz.training.shapes.drawing import CLASSES, RELATIONS, SHAPES, draw, scenes

FRESH = 11
"""Seed of pictures that neither the training nor the card has drawn."""


@pytest.fixture(scope="module")
def model():
    return recipe.load()


@pytest.fixture(scope="module")
def held_out():
    return recipe.pictures(FRESH, 500)


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
    """What the pixels say by their colors alone: the places of red and blue, and the form of either."""
    labels, pictures = drawn(0, 150, 256, noise=0)

    for label, picture in zip(labels, pictures, strict=True):
        assert label == f"a red {shape(picture, 'red')} {relation(picture)} a blue {shape(picture, 'blue')}"


def test_pictures_as_the_model_reads_them_show_their_relation():
    """Small and with noise, too."""
    labels, pictures = drawn(1, 400, recipe.SIZES.side)

    assert all(f" {relation(picture)} " in label for label, picture in zip(labels, pictures, strict=True))
    assert set(labels) == set(CLASSES)


def test_pictures_depend_on_the_seed_alone():
    (first, one), (again, two), (_, three) = (drawn(seed, 5, 32) for seed in (4, 4, 5))

    assert first == again
    assert np.array_equal(one, two)
    assert not np.array_equal(one, three)


def test_no_shape_leaves_its_picture_or_touches_another():
    """The patches of a shape are then its own."""
    made = scenes(Generator().manual_seed(6), 300)
    covered = measure.coverage(measure.distances(made, 96))
    edge = torch.cat((covered[..., 0], covered[..., -1], covered[..., 0, :], covered[..., -1, :]), -1)

    assert edge[:, :2].max() == 0
    assert covered.sum(1).max() <= 1


def test_the_sentences_are_right(model, held_out):
    """On pictures that were never drawn before; by chance one in 36 would be."""
    share = measure.right(model, *held_out)

    assert share["sentence"] > 0.95
    assert all(share[part] >= share["sentence"] for part in measure.PARTS)


def test_the_heads_that_look_at_a_shape_are_what_reads_it(model, held_out):
    """Off at [CLS], the heads on the red shape take its form away, not that of the blue one; and vice versa."""
    behaviors = cards.card("shapes").behaviors
    right = {
        color: measure.right(
            model,
            *held_out,
            *((one.site.layer, one.heads[0]) for one in behaviors if one.role == f"{color} shape"),
            rows=measure.CLS,
        )
        for color in ("red", "blue")
    }

    assert right["red"]["red shape"] < 0.75 < 0.95 < right["red"]["blue shape"]
    assert right["blue"]["blue shape"] < 0.5 < 0.95 < right["blue"]["red shape"]


def test_a_head_that_is_off_writes_nothing(model, held_out):
    """With every head of every layer off no picture changes the answer: [CLS] sees no patch."""
    config = model.config
    every = [(layer, head) for layer in range(config.num_hidden_layers) for head in range(config.num_attention_heads)]
    with torch.inference_mode(), measure.off(model, *every):
        blind = model(pixel_values=held_out[1][:3]).logits

    assert torch.equal(blind[0], blind[1])
    assert torch.equal(blind[0], blind[2])


def test_regions_hold_each_token_once(model, held_out):
    """The patches of a red shape hold red pixels of its picture."""
    made, read = held_out
    place = measure.regions(made, recipe.SIZES.side, recipe.SIZES.patch)
    patches = torch.nn.functional.unfold(read, recipe.SIZES.patch, stride=recipe.SIZES.patch)
    color = patches.unflatten(1, (3, -1)).mean(2)  # (B, 3, patches)
    excess = color[:, 0] - color[:, 1:].amax(1)

    assert place.sum(0).eq(1).all()
    assert excess[place[0][:, 1:]].mean() > 0.3
    assert excess[place[3][:, 1:]].mean() < 0.1


def test_a_training_depends_on_its_seed_alone(tmp_path):
    """Two trainings give the same files, byte for byte; another seed gives other weights."""
    threads = torch.get_num_threads()
    short = replace(recipe.RECIPE, steps=2, kept=(2,), score=lambda model: 0.0)
    for folder, seed in (("first", 0), ("again", 0), ("other", 1)):
        harness.train(replace(short, seed=seed), folder=tmp_path / folder)
    torch.set_num_threads(threads)
    first, again, other = (
        {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()}
        for folder in ("first", "again", "other")
    )

    assert set(first) == {"config.json", "learning.json", "model.safetensors", "preprocessor_config.json"}
    assert first["model.safetensors"] == again["model.safetensors"] != other["model.safetensors"]
    assert first["config.json"] == again["config.json"] == (trained.folder("shapes") / "config.json").read_bytes()


def test_transformers_opens_the_folder_and_reads_the_examples():
    """As any other: a model and an image processor that needs no torchvision, by the path of the folder."""
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    folder = trained.folder("shapes")
    model = AutoModelForImageClassification.from_pretrained(folder)
    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    for label in examples.EXAMPLES:
        with Image.open(assets.path(examples.file(label))) as picture:
            logits = model(**processor(picture, return_tensors="pt")).logits

        assert model.config.id2label[int(logits.argmax())] == label
        assert logits.softmax(-1).max() > 0.8


def test_the_example_pictures_are_what_the_code_draws():
    for label in examples.EXAMPLES:
        with Image.open(assets.path(examples.file(label))) as picture:
            assert np.array_equal(np.asarray(picture), np.asarray(examples.example(label)))


def test_the_shipped_card_says_what_a_fresh_measurement_says():
    """Within sampling error; everything but the numbers word for word."""
    shipped = json.loads((trained.folder("shapes") / "card.json").read_text(encoding="utf-8"))
    fresh = shapes.card(300)
    numbers = ("measured", "findings", "heads", "even")

    assert {key: shipped[key] for key in shipped if key not in numbers} == {
        key: fresh[key] for key in fresh if key not in numbers
    }
    for old, new in zip(shipped["measured"][:4], fresh["measured"][:4], strict=True):
        assert old["value"] == pytest.approx(new["value"], abs=0.03)
        assert old["value"] >= old["goal"]
    for old, new in zip(shipped["heads"], fresh["heads"], strict=True):
        assert old["looks"]["cls"] == pytest.approx(new["looks"]["cls"], abs=0.05)
        assert old["off"] == pytest.approx(new["off"], abs=0.08)


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


def test_the_pictures_and_files_are_small():
    """Below 2 MB for the model, and below 80 kB for each picture."""
    assert sum(path.stat().st_size for path in trained.folder("shapes").iterdir()) < 2e6
    assert all(path.stat().st_size < 80_000 for path in assets.path("pictures").iterdir())
    assert len(SHAPES) ** 2 * len(RELATIONS) == len(CLASSES) == 36
