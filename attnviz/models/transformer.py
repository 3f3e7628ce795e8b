"""Transformers written from scratch, with a tap: stacks of layers, a language model, and an encoder-decoder.

Layers are pre-norm: each part reads the normalized vectors and adds its output to the vectors.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.core.edits import Site
from attnviz.core.masks import Mask, Padding, Subsequent
from attnviz.core.tap import Tap
from attnviz.models.multihead import MultiHeadAttention


class Layer(nn.Module):
    """One Transformer layer: self-attention, cross-attention if `cross`, and a feed-forward network if `d_ff` > 0."""

    def __init__(
        self, d_model: int, num_heads: int, *, d_ff: int = 0, cross: bool = False, bias: bool = True, norm: bool = True
    ):
        super().__init__()

        def normalize() -> nn.Module:
            return nn.LayerNorm(d_model) if norm else nn.Identity()

        self.attention = MultiHeadAttention(d_model, num_heads, bias=bias)
        self.norm = normalize()
        self.cross = MultiHeadAttention(d_model, num_heads, bias=bias) if cross else None
        self.cross_norm = normalize() if cross else None
        self.feed_forward = None
        if d_ff:
            widen, narrow = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
            self.feed_forward = nn.Sequential(normalize(), widen, nn.GELU(), narrow)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | Mask | None,
        memory: Tensor | None,
        memory_mask: Tensor | Mask | None,
        *,
        tap: Tap | None,
        site: Site,
    ) -> Tensor:
        """Transform vectors, (B, n, d_model) -> (B, n, d_model), with cross-attention to a memory, (B, K, d_model)."""
        x = x if tap is None else tap.enter(x, site=site)
        normalized = self.norm(x)
        x = x + self.attention(normalized, normalized, normalized, mask, tap=tap, site=site)
        if self.cross is not None:
            cross_site = Site("cross", site.layer)
            x = x + self.cross(self.cross_norm(x), memory, memory, memory_mask, tap=tap, site=cross_site)
        return x if self.feed_forward is None else x + self.feed_forward(x)


class Layers(nn.Module):
    """A stack of layers: the encoder or the decoder of a model."""

    def __init__(self, kind: str, d_model: int, num_heads: int, num_layers: int, **layer: Any):
        super().__init__()
        self.kind = kind
        self.layers = nn.ModuleList(Layer(d_model, num_heads, **layer) for _ in range(num_layers))

    def forward(
        self,
        x: Tensor,
        mask: Tensor | Mask | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | Mask | None = None,
        *,
        tap: Tap | None = None,
    ) -> Tensor:
        """Apply all layers in order, (B, n, d_model) -> (B, n, d_model)."""
        for i, layer in enumerate(self.layers):
            x = layer(x, mask, memory, memory_mask, tap=tap, site=Site(self.kind, i))
        return x


@dataclass(frozen=True)
class Config:
    """Sizes of a model.

    Attributes:
        vocabulary: number of input words.
        written: number of output words of an encoder-decoder, the words that it writes; 0 for a language model, whose
            output words are its input words.
        longest: maximum number of tokens.
    """

    vocabulary: int
    d_model: int
    num_heads: int
    num_layers: int
    d_ff: int
    longest: int
    written: int = 0

    def build(self) -> "LanguageModel | EncoderDecoder":
        """Build a model of these sizes, with random weights."""
        return EncoderDecoder(self) if self.written else LanguageModel(self)

    @property
    def sites(self) -> tuple[Site, ...]:
        """All attention calls, in the order of the forward pass."""
        layers = range(self.num_layers)
        if not self.written:
            return tuple(Site("decoder", layer) for layer in layers)
        encoder = tuple(Site("encoder", layer) for layer in layers)
        return encoder + tuple(Site(kind, layer) for layer in layers for kind in ("decoder", "cross"))


def sinusoidal(length: int, d_model: int) -> Tensor:
    """Sines and cosines of geometrically growing wavelengths, (length, d_model); section 3.5 of Vaswani et al. 2017.

    Even columns hold sines, odd columns cosines; an odd d_model ends with a sine.
    """
    frequency = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10_000) / d_model))
    angle = torch.arange(length).unsqueeze(1) * frequency
    table = torch.zeros(length, d_model)
    table[:, 0::2] = torch.sin(angle)
    table[:, 1::2] = torch.cos(angle[:, : d_model // 2])
    return table


class Embedding(nn.Module):
    """A learned vector per word plus a learned vector per position."""

    def __init__(self, words: int, config: Config):
        super().__init__()
        self.words = nn.Embedding(words, config.d_model)
        self.positions = nn.Embedding(config.longest, config.d_model)
        nn.init.normal_(self.words.weight, std=0.5)
        nn.init.normal_(self.positions.weight, std=0.5)

    def forward(self, ids: Tensor) -> Tensor:
        """Embed ids, (B, n), or vectors in place of the words, (B, n, d_model), and add the positions."""
        words = ids if ids.is_floating_point() else self.words(ids)
        return words + self.positions.weight[: ids.shape[1]]


class LanguageModel(nn.Module):
    """A decoder-only model: each position predicts the next word from all words up to it."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embedding = Embedding(config.vocabulary, config)
        self.stack = Layers("decoder", config.d_model, config.num_heads, config.num_layers, d_ff=config.d_ff)
        self.norm = nn.LayerNorm(config.d_model)
        self.unembedding = nn.Linear(config.d_model, config.vocabulary)

    def forward(
        self, ids: Tensor, lengths: tuple[int, ...] | None = None, *, tap: Tap | None = None
    ) -> tuple[Tensor, Tensor]:
        """Predict the next word at each position of ids, (B, n), of which the first `lengths` are not padding.

        Returns:
            The last hidden states, (B, n, d_model), and the logits of the next word, (B, n, vocabulary).
        """
        hidden = self.norm(self.stack(self.embedding(ids), causal_mask(lengths, ids), tap=tap))
        return hidden, self.unembedding(hidden)


class EncoderDecoder(nn.Module):
    """An encoder for the input sentence, and a decoder that generates an output sentence with cross-attention to it."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        sizes = (config.d_model, config.num_heads, config.num_layers)
        self.embedding = Embedding(config.vocabulary, config)
        self.encoder = Layers("encoder", *sizes, d_ff=config.d_ff)
        self.memory_norm = nn.LayerNorm(config.d_model)
        self.written = Embedding(config.written, config)
        self.decoder = Layers("decoder", *sizes, d_ff=config.d_ff, cross=True)
        self.norm = nn.LayerNorm(config.d_model)
        self.unembedding = nn.Linear(config.d_model, config.written)

    def encode(self, ids: Tensor, lengths: tuple[int, ...] | None = None, *, tap: Tap | None = None) -> Tensor:
        """Encode ids, (B, K), of which the first `lengths` are not padding, into a memory, (B, K, d_model)."""
        return self.memory_norm(self.encoder(self.embedding(ids), _padding(lengths, ids), tap=tap))

    def decode(
        self,
        ids: Tensor,
        memory: Tensor,
        lengths: tuple[int, ...] | None = None,
        memory_lengths: tuple[int, ...] | None = None,
        *,
        tap: Tap | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Predict the next word at each position of ids, (B, Q), that begin with <sos>, given a memory.

        Returns:
            The last hidden states, (B, Q, d_model), and the logits of the next word, (B, Q, output words).
        """
        padding = _padding(memory_lengths, memory)
        x = self.decoder(self.written(ids), causal_mask(lengths, ids), memory, padding, tap=tap)
        hidden = self.norm(x)
        return hidden, self.unembedding(hidden)


def _padding(lengths: tuple[int, ...] | None, padded: Tensor) -> Padding | None:
    """Mask that hides the padding of a tensor (B, n, ...); None if there is no padding."""
    return None if lengths is None or min(lengths) == padded.shape[1] else Padding(lengths)


def causal_mask(lengths: tuple[int, ...] | None, padded: Tensor) -> Mask:
    """Mask that hides the future, and the padding of a tensor (B, n, ...)."""
    padding = _padding(lengths, padded)
    return Subsequent() if padding is None else Subsequent() & padding
