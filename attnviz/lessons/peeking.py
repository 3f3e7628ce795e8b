"""Why a model that predicts the next word must not see it: two small models learn from the same random words.

Words that are drawn at random cannot be predicted, so that an honest model ends at the loss of a guess, log(WORDS). A
model without a mask reads the answer in the next column, and its loss goes to zero; where it has to write, there is no
next column yet, and what it learned is of no use.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnviz.core.masks import Mask, Subsequent
from attnviz.models.transformer import Config, Embedding, Layers

WORDS = 16
LENGTH = 12
"""Tokens of a text."""
STEPS = 120
BATCH = 32
EVERY = 5
"""Updates between two points of a curve."""
RATE = 3e-3
GUESS = math.log(WORDS)
"""The loss of a guess, in nats."""


@dataclass(frozen=True)
class PeekingRun:
    """How one model learned.

    Attributes:
        losses: the update and the loss of its batch, in nats.
        writing: the loss at the end, of a model that writes: whatever comes after a position is not there yet.
    """

    losses: tuple[tuple[int, float], ...]
    writing: float


class PeekingHead(nn.Module):
    """One layer of attention with one head: a word for each position, from what the mask lets it see."""

    def __init__(self):
        super().__init__()
        config = Config(vocabulary=WORDS, d_model=32, num_heads=1, num_layers=1, d_ff=0, longest=LENGTH)
        self.embedding = Embedding(WORDS, config)
        self.stack = Layers("decoder", config.d_model, 1, 1)
        self.unembedding = nn.Linear(config.d_model, WORDS)

    def forward(self, ids: Tensor, mask: Mask | None) -> Tensor:
        """(B, n) -> the logits of the word after each, (B, n, WORDS)."""
        return self.unembedding(self.stack(self.embedding(ids), mask))


def learn(mask: Mask | None, *, steps: int = STEPS, seed: int = 0, shift: int = 1) -> PeekingRun:
    """Train on random texts with a mask or none; the same seed gives the same texts and the same first weights.

    The random numbers of the caller stay as they are.

    Args:
        shift: how many words after its own each position is asked for; 0 is a mistake.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = PeekingHead()
        optimizer = torch.optim.Adam(model.parameters(), RATE)
        losses = []
        for step in range(steps + 1):
            loss = _loss(model, mask, shift)
            if step % EVERY == 0:
                losses.append((step, float(loss.detach())))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            return PeekingRun(tuple(losses), float(_loss(model, Subsequent())))


def _loss(model: PeekingHead, mask: Mask | None, shift: int = 1) -> Tensor:
    """The mean of -log p(next word) over fresh texts, in nats."""
    texts = torch.randint(WORDS, (BATCH, LENGTH))
    logits = model(texts, mask)[:, : LENGTH - shift]
    return F.cross_entropy(logits.flatten(0, 1), texts[:, shift:].flatten())
