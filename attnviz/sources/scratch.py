"""Attention with random weights: the mechanics without a meaning, and without a download."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from attnviz import tokenizers
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError, quoted
from attnviz.core.masks import Padding
from attnviz.core.record import Record
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence
from attnviz.models.positions import sinusoidal
from attnviz.models.transformer import Stack

BOUNDS = {"d_model": 512, "num_heads": 32, "num_layers": 12, "seed": 2**31 - 1}


@dataclass(frozen=True)
class Scratch:
    """Token embedding, sinusoidal positions, and layers of multi-head attention, all from one seed.

    With `sos` every sentence begins with ``<sos>``, as the input of a decoder does. A token's embedding depends on the
    seed and the token alone, so it stays the same when the sentence changes.

    Raises:
        InputError: if a size is out of bounds, or num_heads does not divide d_model.
    """

    tokenizer: str = "words"
    sos: bool = False
    d_model: int = 64
    num_heads: int = 4
    num_layers: int = 2
    bias: bool = True
    positions: bool = True
    seed: int = 0

    name = "scratch"
    provenance = "random"
    card = None
    read_only = None

    def __post_init__(self):
        for field, most in BOUNDS.items():
            least, value = (0 if field == "seed" else 1), getattr(self, field)
            if type(value) is not int or not least <= value <= most:
                raise InputError(f"{field} is {quoted(value)}; it must be a whole number from {least} to {most}.")
        if self.d_model % self.num_heads:
            sizes = f"d_model is {self.d_model} and num_heads is {self.num_heads}"
            fitting = [n for n in range(1, BOUNDS["num_heads"] + 1) if self.d_model % n == 0]
            near = sorted(sorted(fitting, key=lambda n: abs(n - self.num_heads))[:2])
            raise InputError(f"{sizes}; num_heads must divide d_model. Try {' or '.join(map(str, near))} heads.")
        tokenizers.load(self.tokenizer)

    @property
    def sites(self) -> tuple[Site, ...]:
        return tuple(Site("encoder", layer) for layer in range(self.num_layers))

    def tokenize(self, texts: list[str]) -> tuple[Sentence, ...]:
        return tokenizers.batch(tokenizers.load(self.tokenizer), texts, sos=self.sos)

    def unknown(self, texts: list[str]) -> dict[str, tuple[str, ...]]:
        """None: every token has an id of its own."""
        return {}

    def run(self, sentences: tuple[Sentence, ...], edits: Edits = Edits()) -> Record:
        if not (sentences and sentences[0].tokens):
            raise InputError("There is no token to look at; type a sentence.")
        lengths = tuple(sentence.length for sentence in sentences)
        padded = any(length < len(sentence.tokens) for length, sentence in zip(lengths, sentences, strict=True))
        tap, stack = Tap(edits), _stack(self)
        with torch.inference_mode():
            x = torch.stack([self._embed(sentence) for sentence in sentences])
            output = stack(x, Padding(lengths) if padded else None, tap=tap)
        return Record(sentences, self.name, self.provenance, edits, tuple(tap.steps), output)

    def _embed(self, sentence: Sentence) -> Tensor:
        """(n, d_model): one standard normal vector per token, plus its position."""
        vectors = torch.stack([_vector(self.seed, token.id, self.d_model) for token in sentence.tokens])
        return vectors + sinusoidal(len(vectors), self.d_model) if self.positions else vectors


@lru_cache(maxsize=8)
def _stack(source: Scratch) -> Stack:
    """The layers, from the seed alone: whatever else draws random numbers meanwhile, here or in another thread.

    Biases are drawn after all weights, so that with and without them the weights are the same; as zeros, as training
    would begin, they would show nothing.
    """
    with torch.random.fork_rng(devices=[]):
        stack = Stack("encoder", source.d_model, source.num_heads, source.num_layers, bias=source.bias).eval()
    generator = torch.Generator().manual_seed(source.seed)
    for parameter in stack.parameters():
        if parameter.dim() == 2:
            nn.init.xavier_uniform_(parameter, generator=generator)
    if source.bias:
        for attention in (layer.attention for layer in stack.layers):
            for linear in (attention.w_q, attention.w_k, attention.w_v, attention.w_o):
                nn.init.normal_(linear.bias, std=source.d_model**-0.5, generator=generator)
    return stack


@lru_cache(maxsize=65_536)
def _vector(seed: int, token: int, d_model: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed * 1_000_003 + token)
    return torch.randn(d_model, generator=generator)
