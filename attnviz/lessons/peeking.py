"""Why a model must not attend to the word it predicts: two small models train on the same random words.

Random words cannot be predicted, so the loss of a model with a causal mask ends at log(WORDS), the loss of a guess. A
model without a mask copies the answer from the next position, and its training loss goes to zero; when it generates,
the next position does not exist yet, and the model has learned nothing useful.
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
"""Tokens per text."""
STEPS = 120
BATCH = 32
EVERY = 5
"""Updates between two recorded losses."""
RATE = 3e-3
GUESS = math.log(WORDS)
"""The loss of a guess, in nats."""


@dataclass(frozen=True)
class PeekingRun:
    """Training result of one model.

    Attributes:
        losses: pairs (index of the update, loss of its batch in nats).
        generation_loss: final loss in nats with a causal mask, as in generation, where later words do not exist yet.
    """

    losses: tuple[tuple[int, float], ...]
    generation_loss: float


class PeekingHead(nn.Module):
    """One attention layer with one head, which predicts a word at each position from the unmasked positions."""

    def __init__(self):
        super().__init__()
        config = Config(vocabulary=WORDS, d_model=32, num_heads=1, num_layers=1, d_ff=0, longest=LENGTH)
        self.embedding = Embedding(WORDS, config)
        self.stack = Layers("decoder", config.d_model, 1, 1)
        self.unembedding = nn.Linear(config.d_model, WORDS)

    def forward(self, ids: Tensor, mask: Mask | None) -> Tensor:
        """Compute the logits of the next word, (B, n) -> (B, n, WORDS)."""
        return self.unembedding(self.stack(self.embedding(ids), mask))


def learn(mask: Mask | None, *, steps: int = STEPS, seed: int = 0, shift: int = 1) -> PeekingRun:
    """Train on random texts, with or without a mask; the same seed gives the same texts and initial weights.

    The caller's random state is not changed.

    Args:
        shift: distance from a position to the word that it predicts; 0 reproduces a bug.
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
    """Compute the mean of -log p(next word) over a new batch of random texts, in nats."""
    texts = torch.randint(WORDS, (BATCH, LENGTH))
    logits = model(texts, mask)[:, : LENGTH - shift]
    return F.cross_entropy(logits.flatten(0, 1), texts[:, shift:].flatten())
