"""The model that reads pictures: its drawings show what their labels say, and its shipped weights read them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from attnviz.core import assets
from attnviz.core.amounts import percent
from attnviz.models import trained
from attnviz.sources import cards
from attnviz.training import shapes

FRESH = 11
"""Seed of pictures that neither the training nor the card has drawn."""


@pytest.fixture(scope="module")
def model():
    return shapes.load()


@pytest.fixture(scope="module")
def held_out():
    return shapes.pictures(FRESH, 500)


def test_the_sentences_are_right(model, held_out):
    """On pictures that were never drawn before; by chance one in 36 would be."""
    share = shapes.accuracies(model, *held_out)

    assert share["sentence"] > 0.95
    assert min(share.values()) == share["sentence"]


def test_the_heads_that_look_at_a_shape_are_what_reads_it(model, held_out):
    """Off at [CLS], the heads on the red shape take its form away, not that of the blue one; and vice versa."""
    behaviors = cards.card("shapes").behaviors
    right = {
        color: shapes.accuracies(
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
    assert f"{red} of the red shapes are right and {other} of the blue shapes" in page
    assert f"with those of the blue shape off, {same} and {blue}, as many as by chance" in page
