"""The model that learns to repeat: its shipped weights and their heads."""

from random import Random

import pytest
import torch

from attnviz.core.edits import Edits, Site
from attnviz.models import trained
from attnviz.training.induction import VOCABULARY, accuracy, best, measure_heads, sample


@pytest.fixture(scope="module")
def held_out():
    return sample(Random(7), 200, held_out=True)


@pytest.fixture(scope="module")
def model():
    return trained.load("induction")


def test_the_heads_are_what_does_it(model, held_out):
    """A previous-token head below, an induction head above; without either, words are not found."""
    measured = measure_heads(model, held_out)
    previous, finder = best(measured, "previous"), best(measured, "induction")
    cut = measure_heads(model, held_out, Edits(heads_off={previous}))

    assert (previous[0].layer, finder[0].layer) == (0, 1)
    assert min(measured[previous]["previous"].weight, measured[finder]["induction"].weight) > 0.9
    assert cut[finder]["induction"].weight < 0.2
    assert accuracy(model, held_out) > 0.95
    assert accuracy(model, held_out, Edits(heads_off={previous})) < 0.2
    assert accuracy(model, held_out, Edits(heads_off={(Site("decoder", 1), 0), (Site("decoder", 1), 1)})) < 0.02


def test_the_model_was_not_born_with_it(held_out):
    """Before training no head looks back, and words are guessed by chance."""
    newborn = trained.load("induction", 0)

    assert max(named["induction"].weight for named in measure_heads(newborn, held_out[:50]).values()) < 0.2
    assert accuracy(newborn, held_out) < 0.02


@pytest.mark.parametrize(
    ("text", "next_word"),
    [
        ("The cat sat down. The cat sat", "down"),
        ("the cat sat on the mat because it was tired. The cat sat on the mat because it was", "tired"),
        ("river seven window apple cold bread river seven", "window"),
        ("Emma found an old book. Emma found an old", "book"),
    ],
)
def test_typed_words_said_twice_are_continued(model, text, next_word):
    """Short inputs too, and ones whose words make sense."""
    ids = torch.tensor([[1, *(token.id for token in VOCABULARY.encode(text))]])

    assert VOCABULARY.names[int(model(ids)[1][0, -1].argmax())] == next_word
