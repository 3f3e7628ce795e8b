"""Heads whose weights were set by hand, so that the right picture is known beforehand."""

from dataclasses import dataclass

import torch

from attnviz import tokenizers
from attnviz.core.edits import Edits
from attnviz.core.record import Record
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence
from attnviz.models import constructed
from attnviz.sources import cards


@dataclass(frozen=True)
class Constructed:
    """A previous-token, a first-token, a same-token, a uniform head, and an induction head above them, for any text."""

    name = "constructed"
    provenance = "constructed"
    read_only = None
    sites = constructed.Constructed.sites
    num_heads = constructed.Constructed.num_heads
    d_model = 4 * constructed.D_K

    @property
    def card(self) -> cards.Card:
        return cards.card(self.name)

    def tokenize(self, texts: list[str]) -> tuple[Sentence, ...]:
        return tokenizers.batch(tokenizers.load("words"), texts)

    def unknown(self, texts: list[str]) -> dict[str, tuple[str, ...]]:
        """None: every token has an id of its own."""
        return {}

    def run(self, sentences: tuple[Sentence, ...], edits: Edits = Edits()) -> Record:
        ids = torch.tensor([[token.id for token in sentence.tokens] for sentence in sentences])
        lengths, tap = tuple(sentence.length for sentence in sentences), Tap(edits)
        with torch.inference_mode():
            output = constructed.build()(ids, lengths, tap=tap)
        return Record(sentences, self.name, self.provenance, edits, tuple(tap.steps), output)
