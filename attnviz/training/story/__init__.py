"""The language model of short stories: how it is trained, and what its card says."""

import random
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attnviz.models import trained
from attnviz.models.transformer import Config
from attnviz.training.harness import Recipe
from attnviz.training.story import report
from attnviz.training.story.evidence import look
from attnviz.training.story.grammar import stories
from attnviz.training.story.measure import PAD, SOS, UNK, VOCABULARY, batch, cases, correct

BATCH = 64
FORGOTTEN = 0.02
"""The share of the words that are read as <unk> in training, so that an unknown word does little harm."""


def loss(model: nn.Module, draw: random.Random) -> Tensor:
    """How surprised the model is by the next words of one batch of stories."""
    drawn = stories(draw, held_out=False)
    ids, targets = batch([next(drawn) for _ in range(BATCH)])
    forgotten = torch.tensor([[draw.random() < FORGOTTEN for _ in row] for row in ids]) & (ids > SOS)
    ids = ids.masked_fill(forgotten, UNK)
    return cross_entropy(model(ids)[1].flatten(0, 1), targets.flatten(), ignore_index=PAD)


@cache
def _judged() -> tuple:
    return tuple(cases(kind, 200) for kind in ("pronoun", "verb"))


def score(model: nn.Module) -> float:
    """The share of held-out pronouns and verbs that are right; the two kinds count alike."""
    return sum(correct(model, tested) for tested in _judged()) / 2


RECIPE = Recipe(
    name="story",
    config=Config(len(VOCABULARY), d_model=128, num_heads=2, num_layers=2, d_ff=256, longest=64),
    vocabularies={"english": VOCABULARY.words},
    loss=loss,
    score=score,
    steps=3000,
    kept=(0, 100, 200, 300, 400, 500, 700, 1000, 1700, 3000),
    rate=2e-3,
)


def card(sentences: int) -> dict[str, Any]:
    """The card, measured on so many held-out words of each kind with the shipped weights."""
    model = trained.load(RECIPE.name)
    return report.card(model, look(model, sentences), name=RECIPE.name, steps=RECIPE.steps, batch=BATCH)
