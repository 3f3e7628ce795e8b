"""Sources without training: random weights, and heads whose weights are set by hand."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor, nn

from attnviz import tokenizers
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError, check_whole
from attnviz.core.masks import Mask, Padding, Subsequent
from attnviz.core.parameters import parameter, parameters
from attnviz.core.record import Record
from attnviz.core.stream import Embedded, ModelWeights, Origin
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence
from attnviz.models import constructed, streams
from attnviz.models.multihead import InputTap
from attnviz.models.transformer import Layers, sinusoidal
from attnviz.sources import cards
from attnviz.sources.base import Source, lengths_of, token_ids


class Untrained(Source):
    """Layers of attention on the sum of a vector for each token and a vector for its position."""

    is_normalized = True
    mask: Mask | None = None

    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        """Run the layers on a batch; they read no targets and predict no words."""
        self.check_targets(targets)
        if not (sentences and sentences[0].tokens):
            raise InputError("There is no token to look at; type a sentence.")
        tap = Tap(self.resolved(sentences, edits)[0])
        output = self._run(sentences, tap)
        return Record(sentences, self.name, self.provenance, edits, tuple(tap.steps), output)

    def origin(self, record: Record, site: Site) -> Origin:
        """Input of the attention call at a site, from another run of the record."""
        record.step(site)
        tap = InputTap(self.edits_of(record))
        self._run(record.sentences, tap)
        embedded = self._embed(token_ids(record.sentences))
        return replace(tap.origin(site, embedded, embedded), is_normalized=self.is_normalized)

    def model_weights(self) -> ModelWeights:
        """Weights of the layers, with the vectors of only `streams.SAMPLE` tokens, as the vocabulary is open."""
        embedded = self._embed(torch.arange(streams.SAMPLE)[None])
        return streams.attention_weights(self._layers(), embedded.words[0], embedded.positions)

    def _run(self, sentences: tuple[Sentence, ...], tap: Tap) -> Tensor:
        """Run the layers on a batch, and return their output, (B, n, d_model)."""
        embedded, mask, lengths = self._embed(token_ids(sentences)), self.mask, lengths_of(sentences)
        if min(lengths) < embedded.words.shape[1]:
            mask = Padding(lengths) if mask is None else mask & Padding(lengths)
        layers = self._layers()  # built outside of inference mode, so that gradients can be computed later
        with torch.inference_mode():
            x = embedded.words if embedded.positions is None else embedded.words + embedded.positions
            return layers(x, mask, tap=tap)

    @abstractmethod
    def _layers(self) -> Layers:
        """Build the layers of the model, or return those that exist."""

    @abstractmethod
    def _embed(self, ids: Tensor) -> Embedded:
        """Embed token ids, (B, n), and their positions."""


@dataclass(frozen=True)
class Scratch(Untrained):
    """Token embedding, sinusoidal positions, and layers of multi-head attention, all from one seed.

    With `sos`, every sentence begins with ``<sos>``, as the input of a decoder does. The embedding of a token depends
    only on the seed and the token, so it stays the same when the sentence changes.

    Attributes:
        bias: whether the projections have biases.
        positions: whether positions are added to the embeddings.
    """

    tokenizer: str = parameter("Tokenizer", default="words", kind="choice", choices=tokenizers.NAMES)
    sos: bool = False
    d_model: int = parameter("d_model", default=64, least=1, most=512)
    num_heads: int = parameter("Heads", default=4, least=1, most=32)
    num_layers: int = parameter("Layers", default=2, least=1, most=12)
    seed: int = parameter("Seed", default=0, most=2**31 - 1)
    positions: bool = parameter("Positions", default=True, kind="flag")
    bias: bool = parameter("Bias", default=True, kind="flag")

    names = ("scratch",)
    name = "scratch"
    provenance = "random"
    title = "Random weights"
    does = (
        "Random weights, all from one seed: how attention is computed, how masks act and what sizes do, without a "
        "meaning. Nothing is measured."
    )

    def __post_init__(self):
        sizes = {setting.name: setting for setting in parameters(Scratch) if setting.kind == "number"}
        for name, size in sizes.items():
            check_whole(name, getattr(self, name), size.least, size.most)
        if self.d_model % self.num_heads:
            stated = f"d_model is {self.d_model} and num_heads is {self.num_heads}"
            fitting = [n for n in range(1, sizes["num_heads"].most + 1) if self.d_model % n == 0]
            by_distance = sorted(fitting, key=lambda n: abs(n - self.num_heads))
            nearest = sorted(by_distance[:2])
            raise InputError(f"{stated}; num_heads must divide d_model. Try {' or '.join(map(str, nearest))} heads.")
        tokenizers.load(self.tokenizer)

    @property
    def sites(self) -> tuple[Site, ...]:
        return tuple(Site("encoder", layer) for layer in range(self.num_layers))

    def tokenize(self, texts: list[str]) -> tuple[Sentence, ...]:
        return tokenizers.batch(tokenizers.load(self.tokenizer), texts, sos=self.sos)

    def _layers(self) -> Layers:
        return _build_layers(self)

    def _embed(self, ids: Tensor) -> Embedded:
        """Embed token ids: standard normal vectors, (B, n, d_model), and sinusoidal positions, (n, d_model)."""
        words = torch.stack([torch.stack([_vector(self.seed, id, self.d_model) for id in row]) for row in ids.tolist()])
        return Embedded(words, sinusoidal(*words.shape[1:]) if self.positions else None)


@lru_cache(maxsize=4)
def _build_layers(source: Scratch) -> Layers:
    """Build the layers from the seed alone, independent of the global random state and of other threads.

    Biases are drawn after all weights, so that the weights are the same with and without biases. They are random
    because biases of zero, as at the start of training, would have no visible effect.
    """
    with torch.random.fork_rng(devices=[]):
        stack = Layers("encoder", source.d_model, source.num_heads, source.num_layers, bias=source.bias).eval()
    generator = torch.Generator().manual_seed(source.seed)
    for weight in stack.parameters():
        if weight.dim() == 2:
            nn.init.xavier_uniform_(weight, generator=generator)
    if source.bias:
        for attention in (layer.attention for layer in stack.layers):
            for linear in (attention.w_q, attention.w_k, attention.w_v, attention.w_o):
                nn.init.normal_(linear.bias, std=source.d_model**-0.5, generator=generator)
    return stack


@lru_cache(maxsize=8_192)
def _vector(seed: int, token: int, d_model: int) -> Tensor:
    """Draw the standard normal vector of a token id from the seed."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + token)
    return torch.randn(d_model, generator=generator)


@dataclass(frozen=True)
class Constructed(Untrained):
    """A previous-token, a first-token, a same-token, a uniform head, and an induction head above them, for any text."""

    names = ("constructed",)
    name = "constructed"
    provenance = "constructed"
    sites = constructed.ConstructedHeads.sites
    num_heads = constructed.ConstructedHeads.num_heads
    d_model = 4 * constructed.D_K
    is_normalized = False
    mask = Subsequent()

    @property
    def card(self) -> cards.Card:
        return cards.card(self.name)

    def tokenize(self, texts: list[str]) -> tuple[Sentence, ...]:
        return tokenizers.batch(tokenizers.load("words"), texts)

    def _layers(self) -> Layers:
        return constructed.build().stack

    def _embed(self, ids: Tensor) -> Embedded:
        """Embed token ids: codes of tokens, (B, n, d_model), and positions in separate columns, (n, d_model)."""
        words = constructed.embed(ids)
        positions = torch.zeros_like(words[0])
        positions[:, constructed.POSITION] = words[0, :, constructed.POSITION]
        words[..., constructed.POSITION] = 0
        return Embedded(words, positions)

    def model_weights(self) -> ModelWeights:
        weights = super().model_weights()
        weights.embedding[0, constructed.PREVIOUS] = 0  # added only to the first token of a text
        return weights
