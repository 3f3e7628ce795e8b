"""Heads whose weights were set by hand, so that the right picture is known beforehand."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnviz import tokenizers
from attnviz.core.edits import Edits, Site
from attnviz.core.record import Record
from attnviz.core.stream import Embedded, ModelWeights, Origin
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence
from attnviz.models import constructed, streams
from attnviz.models.multihead import Watching
from attnviz.models.transformer import sinusoidal
from attnviz.sources import cards
from attnviz.sources.base import Source


@dataclass(frozen=True)
class Constructed(Source):
    """A previous-token, a first-token, a same-token, a uniform head, and an induction head above them, for any text."""

    names = ("constructed",)
    name = "constructed"
    provenance = "constructed"
    sites = constructed.ConstructedHeads.sites
    num_heads = constructed.ConstructedHeads.num_heads
    d_model = 4 * constructed.D_K

    @property
    def card(self) -> cards.Card:
        return cards.card(self.name)

    def tokenize(self, texts: list[str]) -> tuple[Sentence, ...]:
        return tokenizers.batch(tokenizers.load("words"), texts)

    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        self.check_targets(targets)
        tap = Tap(self.resolved(sentences, edits)[0])
        output = _run(sentences, tap)
        return Record(sentences, self.name, self.provenance, edits, tuple(tap.steps), output)

    def origin(self, record: Record, site: Site) -> Origin:
        """Input of a call before its projections; positions have columns of their own, so both parts are added."""
        record.step(site)
        tap = Watching(self.edits_of(record), until=site)
        with tap.reached:
            _run(record.sentences, tap)
        whole = constructed.embed(_ids(record.sentences))
        positions = torch.zeros_like(whole[0])
        positions[:, constructed.POSITION] = whole[0, :, constructed.POSITION]
        words = whole.clone()
        words[..., constructed.POSITION] = 0
        embedded = Embedded(words, positions)
        return replace(tap.origin(site, embedded, embedded), is_normalized=False)

    def model_weights(self) -> ModelWeights:
        """Embeddings of `streams.SAMPLE` tokens: it reads any text, and every token has a code."""
        words, positions = torch.zeros(2, streams.SAMPLE, self.d_model)
        words[:, constructed.TOKEN] = constructed.codes(torch.arange(streams.SAMPLE))
        positions[:, constructed.POSITION] = sinusoidal(streams.SAMPLE, constructed.D_K)
        return streams.attention_weights(constructed.build().stack, words, positions)


def _ids(sentences: tuple[Sentence, ...]) -> Tensor:
    """(B, n)."""
    return torch.tensor([[token.id for token in sentence.tokens] for sentence in sentences])


def _run(sentences: tuple[Sentence, ...], tap: Tap) -> Tensor:
    """(B, n, d_model)."""
    with torch.inference_mode():
        return constructed.build()(_ids(sentences), tuple(sentence.length for sentence in sentences), tap=tap)
