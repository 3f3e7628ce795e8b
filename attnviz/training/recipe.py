"""Training of the shipped models: recipes, and the training loop."""

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from tqdm import tqdm

from attnviz.models import trained
from attnviz.tokenizers import EOS, PAD, SOS, SPECIAL

START, END, NOTHING = SPECIAL[SOS], SPECIAL[EOS], SPECIAL[PAD]
"""Ids of <sos>, <eos> and <pad>."""


@dataclass(frozen=True)
class Recipe:
    """Settings and functions for training one model.

    Attributes:
        name: folder in assets/models.
        build: function that returns the model with random weights from torch's generator.
        vocabularies: words of each language, without the special tokens; empty for a model that reads no text.
        loss: function that draws a batch with the given random generator and returns its loss.
        steps: number of updates by Adam; the learning rate rises over the first 5 % and falls to 0 along a cosine.
        checkpoints: steps after which the weights are written; the last is `steps`.
        rate: highest learning rate.
        write: function that writes the files of a checkpoint to a folder; None for a file of weights.
    """

    name: str
    build: Callable[[], nn.Module]
    vocabularies: dict[str, tuple[str, ...]]
    loss: Callable[[nn.Module, random.Random], Tensor]
    steps: int
    checkpoints: tuple[int, ...]
    rate: float = 1e-3
    seed: int = 0
    write: Callable[[nn.Module, Path, int], None] | None = None


def train(recipe: Recipe, *, folder: Path | None = None) -> nn.Module:
    """Train a model, and write its weights and vocabularies, and the minutes that it took.

    A single thread is used, so that a seed gives the same weights on any number of cores.
    """
    folder = trained.folder(recipe.name) if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"*{trained.ENDING}"):
        old.unlink()
    if recipe.vocabularies:
        write_json(folder / "vocabulary.json", recipe.vocabularies)
    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    generator, model = random.Random(recipe.seed), recipe.build()
    optimizer = torch.optim.AdamW(model.parameters(), recipe.rate, betas=(0.9, 0.98), weight_decay=0.01)
    warmup = max(1, recipe.steps // 20)
    phases = [LinearLR(optimizer, 0.01, 1.0, warmup), CosineAnnealingLR(optimizer, recipe.steps - warmup)]
    schedule = SequentialLR(optimizer, phases, [warmup])
    start = time.process_time()
    with tqdm(range(recipe.steps + 1), desc=recipe.name, unit="step") as bar:
        for step in bar:
            if step in recipe.checkpoints:
                model.eval()
                if recipe.write is None:
                    trained.write(model, folder / f"{step:05d}{trained.ENDING}")
                else:
                    recipe.write(model, folder, step)
                model.train()
            if step < recipe.steps:
                loss = recipe.loss(model, generator)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                bar.set_postfix(loss=float(loss.detach()), refresh=False)
    minutes = round((time.process_time() - start) / 60, 1)
    write_json(folder / "learning.json", {"seed": recipe.seed, "minutes": minutes})
    return model.eval()


class Dice:
    """Random choices. They use only `Random.random`, whose numbers are the same in every Python version."""

    def __init__(self, generator: random.Random):
        self.random = generator.random

    def choose(self, choices: Sequence[Any]) -> Any:
        """Draw one of the choices, all with the same probability."""
        return choices[int(self.random() * len(choices))]

    def chance(self, share: float) -> bool:
        """Return True with the probability `share`."""
        return self.random() < share


def pad_ids(rows: list[list[int]]) -> tuple[Tensor, tuple[int, ...]]:
    """Join the ids of sentences to one padded tensor, (B, n); also return the lengths of the sentences."""
    lengths = tuple(map(len, rows))
    return torch.tensor([row + [NOTHING] * (max(lengths) - len(row)) for row in rows]), lengths


def is_held_out(text: str) -> bool:
    """Whether a text is excluded from training: about one text in ten, chosen by a hash."""
    return blake2b(text.encode(), digest_size=4).digest()[0] % 10 == 0


def write_json(path: Path, data: Any) -> None:
    """Write readable JSON."""
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
