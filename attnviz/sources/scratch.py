"""A source with random weights: it shows how attention is computed, without training and without a download."""

from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from torch import Tensor, nn

from attnviz import tokenizers
from attnviz.core.cache import BoundedCache
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError, check_whole
from attnviz.core.masks import Padding
from attnviz.core.origin import Embedded, Origin
from attnviz.core.parameters import parameter, parameters
from attnviz.core.record import Record
from attnviz.core.stream import ModelWeights
from attnviz.core.tokens import Sentence
from attnviz.models import streams
from attnviz.models.multihead import Watching
from attnviz.models.transformer import Layers, sinusoidal
from attnviz.sources.base import Source


@dataclass(frozen=True)
class Scratch(Source):
    """Token embedding, sinusoidal positions, and layers of multi-head attention, all from one seed.

    With `sos`, every sentence begins with ``<sos>``, as the input of a decoder does. The embedding of a token depends
    only on the seed and the token, so it stays the same when the sentence changes.

    Attributes:
        bias: whether the projections have biases.
        positions: whether positions are added to the embeddings.
        cloned: whether W_K, W_V and W_O are copies of W_Q, as the Annotated Transformer makes them: the scores are then
            symmetric, and most tokens attend most to themselves.

    Raises:
        InputError: if a size is out of bounds, or num_heads does not divide d_model.
    """

    tokenizer: str = parameter("Tokenizer", default="words", kind="choice", choices=tokenizers.NAMES)
    sos: bool = False
    d_model: int = parameter("d_model", default=64, least=1, most=512)
    num_heads: int = parameter("Heads", default=4, least=1, most=32)
    num_layers: int = parameter("Layers", default=2, least=1, most=12)
    seed: int = parameter("Seed", default=0, most=2**31 - 1)
    positions: bool = parameter("Positions", default=True, kind="flag")
    bias: bool = parameter("Bias", default=True, kind="flag")
    cloned: bool = parameter("Cloned weights", default=False, kind="flag")

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
            near = sorted(sorted(fitting, key=lambda n: abs(n - self.num_heads))[:2])
            raise InputError(f"{stated}; num_heads must divide d_model. Try {' or '.join(map(str, near))} heads.")
        tokenizers.load(self.tokenizer)

    @property
    def sites(self) -> tuple[Site, ...]:
        return tuple(Site("encoder", layer) for layer in range(self.num_layers))

    def tokenize(self, texts: list[str]) -> tuple[Sentence, ...]:
        return tokenizers.batch(tokenizers.load(self.tokenizer), texts, sos=self.sos)

    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        self.check_targets(targets)
        if not (sentences and sentences[0].tokens):
            raise InputError("There is no token to look at; type a sentence.")
        tap = Watching(self.resolved(sentences, edits)[0])
        output = self._run(sentences, tap)
        return Record(sentences, self.name, self.provenance, edits, tuple(tap.steps), output)

    def origin(self, record: Record, site: Site) -> Origin:
        """Input of the attention call at a site, from another run of the record."""
        record.step(site)
        tap = Watching(self.edits_of(record), until=site)
        with tap.reached:
            self._run(record.sentences, tap)
        words = torch.stack([self._words(sentence) for sentence in record.sentences])
        embedded = Embedded(words, sinusoidal(*words.shape[1:]) if self.positions else None)
        return tap.origin(site, embedded, embedded)

    def model_weights(self) -> ModelWeights:
        """Weights of the layers, with the embeddings of only `streams.SAMPLE` tokens, as the vocabulary is open."""
        words = torch.stack([_vector(self.seed, token, self.d_model) for token in range(streams.SAMPLE)])
        positions = sinusoidal(streams.SAMPLE, self.d_model) if self.positions else None
        return streams.attention_weights(_stack(self), words, positions)

    def _run(self, sentences: tuple[Sentence, ...], tap: Watching) -> Tensor:
        """Run the layers on a batch, and return their output, (B, n, d_model)."""
        lengths = tuple(sentence.length for sentence in sentences)
        padded = any(length < len(sentence.tokens) for length, sentence in zip(lengths, sentences, strict=True))
        stack = _stack(self)  # built outside of inference mode, so that gradients can be computed later
        with torch.inference_mode():
            x = torch.stack([self._embed(sentence) for sentence in sentences])
            return stack(x, Padding(lengths) if padded else None, tap=tap)

    def _embed(self, sentence: Sentence) -> Tensor:
        """Input of the layers, (n, d_model): a standard normal vector for each token, plus that of its position."""
        vectors = self._words(sentence)
        return vectors + sinusoidal(len(vectors), self.d_model) if self.positions else vectors

    def _words(self, sentence: Sentence) -> Tensor:
        return torch.stack([_vector(self.seed, token.id, self.d_model) for token in sentence.tokens])


def _stack(source: Scratch) -> Layers:
    """Layers of a source, built once and cached."""
    return _stacks.get(source, partial(_build_layers, source))


_stacks = BoundedCache(200_000_000, lambda stack: sum(weight.nbytes for weight in stack.parameters()))
"""Cache of at most 200 MB: four of the largest models, or thousands of usual size."""


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
    if source.cloned:
        for attention in (layer.attention for layer in stack.layers):
            for name in ("w_k", "w_v", "w_o"):
                getattr(attention, name).load_state_dict(attention.w_q.state_dict())
    return stack


@lru_cache(maxsize=8_192)
def _vector(seed: int, token: int, d_model: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed * 1_000_003 + token)
    return torch.randn(d_model, generator=generator)
