"""Random words, of which a passage is said again and again: what the induction model reads."""

from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from torch import Tensor

from attnviz.tokenizers import SOS, SPECIAL
from attnviz.tokenizers.vocabulary import UNK, Vocabulary
from attnviz.training.harness import is_held_out

_WORDS = Path(__file__).with_name("words.txt").read_text(encoding="utf-8")
VOCABULARY = Vocabulary((*".,!?", *sorted(_WORDS.split())))
LONGEST = 64
"""Positions, <sos> and all."""

UNKNOWN = 0.02
"""So many of the words are ones that the vocabulary has not, so that an unknown word is nothing new."""


@dataclass(frozen=True)
class Drawn:
    """Words at random: after an opening comes a passage that is said again and again until there are LONGEST words.

    Attributes:
        words: some are `UNK`.
        opening: how many words come before the passage.
        period: how many words the passage has.
    """

    words: tuple[str, ...]
    opening: int
    period: int

    @property
    def text(self) -> str:
        return " ".join(self.words)


def draw(chance: Random) -> Drawn:
    """Only `Random.random` is used: Python promises its numbers in every version."""

    def number(least: int, most: int) -> int:
        return least + int(chance.random() * (most + 1 - least))

    def word() -> str:
        words = VOCABULARY.words
        return UNK if chance.random() < UNKNOWN else words[number(0, len(words) - 1)]

    period = number(4, 20)
    opening = number(0, LONGEST - 2 * period)
    words = [word() for _ in range(opening + period)]
    while len(words) < LONGEST:
        words.append(words[-period])
    return Drawn(tuple(words), opening, period)


def sample(chance: Random, many: int, *, held_out: bool) -> list[Drawn]:
    """Draws whose text is held out, or none of them."""
    found: list[Drawn] = []
    while len(found) < many:
        drawn = draw(chance)
        if is_held_out(drawn.text) == held_out:
            found.append(drawn)
    return found


def tensors(drawn: list[Drawn]) -> tuple[Tensor, Tensor]:
    """Words that are read, (B, LONGEST), from <sos> on, and the word after each; -100 where that is unknown."""
    words = torch.tensor([VOCABULARY.ids(one.words) for one in drawn])
    starts = torch.full((len(drawn), 1), SPECIAL[SOS])
    return torch.cat([starts, words[:, :-1]], 1), words.masked_fill(words == VOCABULARY.names.index(UNK), -100)


def told(drawn: list[Drawn]) -> Tensor:
    """Positions whose word was said one period before, so that the next is known: boolean, (B, LONGEST)."""
    first = torch.tensor([one.opening + one.period + 1 for one in drawn])
    return torch.arange(LONGEST) >= first.unsqueeze(1)
