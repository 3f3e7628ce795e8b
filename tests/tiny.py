"""Tiny models with random weights in the files of the trained ones, for tests that must not depend on a training."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest import mock

import torch

from attnviz.core import assets
from attnviz.models import trained
from attnviz.models.transformer import Config
from attnviz.sources import cards
from attnviz.sources import trained as sources
from attnviz.tokenizers import EOS, SPECIAL

ENGLISH = "the a black red cat dog chair mat sleeps sat on eats and it was . ,".split()
FRENCH = "le la un noir rouge chat chien chaise dort sur mange et l' oiseau était . , ?".split()

SIZES = {"d_model": 15, "num_heads": 3, "num_layers": 2, "d_ff": 14}
LONGEST = 13
"""Positions of both models."""

STEPS = (0, 20, 300)
"""Training steps after which the weights were saved."""

OPENS = {"translator": ("cross", 1, 2), "story": ("decoder", 0, 1)}


@cache
def doubled(name: str, step: int | None = None) -> trained.Model:
    return trained.read(trained.weights_path(name, trained.checkpoints(name)[-1] if step is None else step)).double()


@contextmanager
def in_float64() -> Iterator[None]:
    """Let the trained models compute in float64, so that laws hold to many digits on any processor."""
    with mock.patch.object(trained, "load", doubled):
        yield


def config(name: str) -> Config:
    written = 4 + len(FRENCH) if name == "translator" else 0
    return Config(vocabulary=4 + len(ENGLISH), longest=LONGEST, written=written, **SIZES)


def write(root: Path, name: str) -> Path:
    """Write the folder of a model: weights for each of `STEPS`, vocabularies and a card."""
    folder = root / "models" / name
    for seed, step in enumerate(STEPS):
        torch.manual_seed(seed)
        model = config(name).build()
        with torch.no_grad():
            for parameter in model.parameters():  # far from the start of a training, where all words are alike
                parameter.mul_(2).add_(torch.randn_like(parameter) * 0.1)
            model.unembedding.bias[SPECIAL[EOS]] += 1.2  # so that what is written ends here and there
        trained.write(model, trained.weights_path(name, step))
    words = {"english": ENGLISH} | ({"french": FRENCH} if name == "translator" else {})
    (folder / "vocabulary.json").write_text(json.dumps(words), "utf-8")
    (folder / "card.json").write_text(json.dumps(card(name)), "utf-8")
    return folder


def card(name: str) -> dict:
    kind, layer, head = OPENS[name]
    return {
        "title": f"A tiny {name}",
        "does": "Says something at random.",
        "made": "Not trained at all.",
        "trained_on": "Nothing.",
        "sizes": {"words": len(ENGLISH), "parameters": 12345},
        "measured": [{"what": "of 100 sentences are right", "value": 0.125, "goal": 0.9}],
        "findings": [
            {
                "kind": kind,
                "layer": layer,
                "heads": [head],
                "role": "about",
                "does": "looks about",
                "known": "Seen once.",
            }
        ],
        "cannot": ["translate a sentence."],
        "examples": ["the black cat sleeps"],
        "opens": {"kind": kind, "layer": layer, "head": head},
    }


def install(root: Path, patch) -> Path:
    """Put the tiny models where the shipped ones are, for as long as the monkeypatch holds."""
    real = assets.path
    patch.setattr(assets, "path", lambda name: root / name if name.startswith("models/") else real(name))
    for name in OPENS:
        write(root, name)
    forget()
    return root / "models"


def forget() -> None:
    """Clear the cache of models that were read."""
    trained.load.cache_clear()
    sources._vocabularies.cache_clear()
    cards.card.cache_clear()
