"""Does an output depend on the padding after its text? Run a text alone and with padding, and see what moved."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.leaks import distance
from attnviz.core.tokens import Token
from attnviz.sources.base import Source

MOVED = 1e-4
"""Share of its length beyond which an output has moved: runs of two lengths differ by a hundredth of it."""
SEEN = 1e-6
"""Weight on padding beyond which a head sees it."""


@dataclass(frozen=True, eq=False)
class PaddingTest:
    """What moved, and which heads look at padding.

    Attributes:
        moved: (n,), how far the output of each token moved, as a share of its length.
        tokens: of the text.
        padding: how many tokens of padding stood behind it.
        heads: site, head, the token that gives most to padding, and how much of its attention that is.
    """

    moved: Tensor
    tokens: tuple[Token, ...]
    padding: int
    heads: tuple[tuple[Site, int, int, float], ...]

    @property
    def is_seen(self) -> bool:
        """Whether an output depends on padding."""
        return bool((self.moved > MOVED).any())


def padding_test(source: Source, text: str, edits: Edits = Edits()) -> PaddingTest:
    """Run a text alone and with padding behind it. What a model writes is not compared, only what it reads.

    Raises:
        InputError: if the source knows no padding.
    """
    (alone,) = source.tokenize([text])
    first, bar, second = text.partition("|||")  # of two texts, the first one is padded
    padded = source.tokenize([text, f"{first} {first}{bar}{second}"])[0]
    if len(padded.tokens) == len(alone.tokens):
        raise InputError(f"'{source.name}' gives a text no padding, so that there is none to see.")
    before, after = (source.run((one,), edits) for one in (alone, padded))
    length, heads = len(alone.tokens), []
    for step in (step for step in after.steps if step.site.kind == "encoder" or not after.targets):
        for head in range(step.num_heads):
            given = step.weights(head, slice(0, length), slice(length, len(padded.tokens))).sum(-1).nan_to_num(1)
            if float(given.max()) > SEEN:
                heads.append((step.site, head, int(given.argmax()), float(given.max())))
    if after.targets:  # what its decoder gets of the encoder's words
        moved = _memory(before, after, length)
    else:
        moved = distance(before.output[0, :length], after.output[0, :length])
    return PaddingTest(moved, alone.tokens, len(padded.tokens) - length, tuple(heads))


def _memory(before, after, length: int) -> Tensor:
    crosses = [next(step for step in record.steps if step.site.kind == "cross") for record in (before, after)]
    return distance(*(torch.cat([step.key[0, :, :length], step.value[0, :, :length]], -1) for step in crosses)).amax(0)
