"""How well passages are continued, and what the heads look at meanwhile, with some of them off if asked for."""

from dataclasses import dataclass

import torch
from torch import nn

from attnviz.core.edits import Edits, Site
from attnviz.core.tap import Tap
from attnviz.training import patterns
from attnviz.training.induction.texts import Drawn, tensors, told

Head = tuple[int, int]
"""Layer and head."""


@torch.inference_mode()
def accuracy(model: nn.Module, drawn: list[Drawn], edits: Edits = Edits()) -> float:
    """The share of the words that a passage tells which are guessed right."""
    read, after = tensors(drawn)
    asked = told(drawn) & (after >= 0)
    guesses = model(read, tap=Tap(edits, keep=False))[1].argmax(-1)
    return float((guesses == after)[asked].float().mean())


@dataclass(frozen=True)
class Measured:
    """Weights of each head of a model on what it may look for."""

    previous: dict[Head, float]
    """Mean weight on the word before."""
    before_that: dict[Head, float]
    """Mean weight on the word two before."""
    prefix: dict[Head, float]
    """Mean weight on the words after earlier occurrences of the word read, where a passage is said again."""

    @property
    def finder(self) -> Head:
        """The head that looks most at the words after earlier occurrences."""
        return max(self.prefix, key=self.prefix.__getitem__)

    @property
    def behind(self) -> Head:
        """The head that looks most at the word before."""
        return max(self.previous, key=self.previous.__getitem__)


@torch.inference_mode()
def measure(model: nn.Module, drawn: list[Drawn], edits: Edits = Edits()) -> Measured:
    """Measure where every head looks, off or not."""
    read, again, tap = tensors(drawn)[0], told(drawn), Tap(edits)
    model(read, tap=tap)
    behind, further, following = patterns.back(read), patterns.back(read, 2), patterns.after_same(read)
    found = Measured({}, {}, {})
    for step in tap.steps:
        for head in range(step.num_heads):
            name, weights = (step.site.layer, head), patterns.weights(step, head)
            found.previous[name] = patterns.share(weights[:, 1:], behind[:, 1:])
            found.before_that[name] = patterns.share(weights[:, 2:], further[:, 2:])
            found.prefix[name] = patterns.share(weights, following, again)
    return found


def evenly(drawn: list[Drawn]) -> tuple[float, float]:
    """`previous` and `prefix` of a head that looks evenly at everything it may see."""
    read = tensors(drawn)[0]
    even = patterns.ideal(patterns.seen(read))
    previous = patterns.share(even[:, 1:], patterns.back(read)[:, 1:])
    return previous, patterns.share(even, patterns.after_same(read), told(drawn))


def off(*heads: Head) -> Edits:
    return Edits(heads_off=frozenset((Site("decoder", layer), head) for layer, head in heads))
