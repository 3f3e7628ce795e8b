"""How every model is trained: the same loop, from a seed, with a progress bar, checkpoints and a learning curve."""

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from attnviz.models import trained


def checkpoint(model: nn.Module, folder: Path, step: int) -> None:
    """Write the weights after a step to a file of their own."""
    trained.write(model, folder / f"{step:05d}{trained.ENDING}")


@dataclass(frozen=True)
class Recipe:
    """How one model is made.

    Attributes:
        name: the folder in assets/models.
        config: its sizes; `config.build()` gives the model with random weights.
        vocabularies: the words of each language, without the special tokens; none of a model that reads no text.
        loss: the loss of one batch, drawn with the given random numbers.
        score: a share from 0 to 1 on held-out data, for the learning curve.
        steps: updates of the weights, with Adam; the rate rises over the first 5 % and falls to 0 along a cosine.
        kept: after how many steps the weights are kept; the last is `steps`.
        write: writes the files of a kept moment into a folder.
    """

    name: str
    config: Any
    vocabularies: dict[str, tuple[str, ...]]
    loss: Callable[[nn.Module, random.Random], Tensor]
    score: Callable[[nn.Module], float]
    steps: int
    kept: tuple[int, ...]
    rate: float = 1e-3
    weight_decay: float = 0.01
    seed: int = 0
    write: Callable[[nn.Module, Path, int], None] = checkpoint
    every: int = 100
    """The learning curve has a point after so many steps."""


def train(recipe: Recipe, *, folder: Path | None = None) -> nn.Module:
    """Train, and write weights, vocabularies and the learning curve.

    One thread, so that the same seed gives the same weights however many cores there are.
    """
    assert recipe.kept[-1] == recipe.steps
    folder = trained.folder(recipe.name) if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"*{trained.ENDING}"):
        old.unlink()
    if recipe.vocabularies:
        words = {language: list(words) for language, words in recipe.vocabularies.items()}
        _write(folder / "vocabulary.json", words)
    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    draw, model = random.Random(recipe.seed), recipe.config.build()
    optimizer = torch.optim.AdamW(model.parameters(), recipe.rate, betas=(0.9, 0.98), weight_decay=recipe.weight_decay)
    warm = max(1, recipe.steps // 20)
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, 1.0, warm),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, recipe.steps - warm),
        ],
        [warm],
    )
    curve, start, losses = [], time.process_time(), []  # of one core, whoever else computes
    with tqdm(range(recipe.steps + 1), desc=recipe.name, unit="step") as bar:
        for step in bar:
            if step in recipe.kept:
                recipe.write(model, folder, step)
            if step % recipe.every == 0 or step == recipe.steps:
                model.eval()
                with torch.inference_mode():
                    score = recipe.score(model)
                model.train()
                loss = sum(losses) / len(losses) if losses else None
                curve.append({"step": step, "loss": loss, "score": score})
                bar.set_postfix(loss=loss, score=score)
                losses = []
            if step < recipe.steps:
                loss = recipe.loss(model, draw)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                losses.append(float(loss.detach()))
    minutes = (time.process_time() - start) / 60
    _write(folder / "learning.json", {"seed": recipe.seed, "minutes": round(minutes, 1), "curve": curve})
    return model.eval()


def is_held_out(text: str) -> bool:
    """One text in ten is never trained on: which, depends on its letters alone."""
    return blake2b(text.encode(), digest_size=4).digest()[0] % 10 == 0


def _write(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
