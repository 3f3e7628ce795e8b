"""The residual stream of a model: its states and how words are read from them, and what each part writes into it.

A source makes both from its model (`Source.model_weights`, `Source.with_stream`). The parts are proven on a run: the
vectors before the last norm are the sum of all that was written.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.origin import Linear

CLOSE = 1e-4
"""Largest difference between a sum of parts and the whole, for its largest number."""


@dataclass(frozen=True, eq=False)
class Norm:
    """A layer norm, or a root-mean-square norm where it is not centered.

    Attributes:
        weight, bias: (d_model,), or None.
        eps: added to the mean square.
        is_centered: whether the mean is taken off.
    """

    weight: Tensor | None
    bias: Tensor | None
    eps: float
    is_centered: bool

    def __call__(self, x: Tensor) -> Tensor:
        """(..., d_model) -> (..., d_model)."""
        scaled = self.through(x, x)
        return scaled if self.bias is None else scaled + self.bias

    def through(self, part: Tensor, whole: Tensor) -> Tensor:
        """A part of a vector, scaled as the norm scales the whole, without the bias: linear in the part."""
        centered = self._centered(whole)
        scale = (centered.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        scaled = self._centered(part) * scale
        return scaled if self.weight is None else scaled * self.weight

    def _centered(self, x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True) if self.is_centered else x


@dataclass(frozen=True, eq=False)
class Readout:
    """From the end of the residual stream to logits: norm, unembedding, factor, bound.

    Attributes:
        norm: the last norm; None where there is none.
        unembedding: its weight is (vocabulary, d_model).
        factor: by which the logits are multiplied.
        softcap: the bound that logits approach; None for none.
    """

    norm: Norm | None
    unembedding: Linear
    factor: float = 1.0
    softcap: float | None = None

    def logits(self, stream: Tensor) -> Tensor:
        """(..., d_model) -> (..., vocabulary)."""
        logits = self.unbounded(stream)
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)

    def unbounded(self, stream: Tensor) -> Tensor:
        """The logits before the bound."""
        normed = stream if self.norm is None else self.norm(stream)
        return self.unembedding(normed) * self.factor


@dataclass(frozen=True, eq=False)
class Projections:
    """The weights around one attention call; head h has the h-th part of each, shared keys and values repeated.

    Attributes:
        w_q, w_k, w_v: from the normalized stream, (H · d, d_model) as `Linear` keeps them; None where they are not
            known, or where queries and keys are more than a projection (a norm of their own).
        w_o: (d_model, H · d_v).
        before: the norm before them; None where there is none.
        after: a norm of what W_O gives, before it is added; None where there is none, as in most models.
        factor: by which it is multiplied before it is added.
        scale: of the scores; None for 1/√d_k.
        rotary: whether queries and keys are turned by their positions, so that one far from position 0 is more than
            its projection.
        value_bias: part of every value that no token changes, b_V + b_norm W_V, (H · d_v,); None where there is none,
            or W_V is not known.
    """

    w_q: Linear | None
    w_k: Linear | None
    w_v: Linear | None
    w_o: Linear
    before: Norm | None = None
    after: Norm | None = None
    factor: float = 1.0
    scale: float | None = None
    rotary: bool = False
    value_bias: Tensor | None = None

    def writes(self, outputs: Tensor) -> Tensor:
        """Addition to the stream for the outputs of all heads, (..., H · d_v) -> (..., d_model)."""
        written = self.w_o(outputs)
        return (written if self.after is None else self.after(written)) * self.factor


def value_bias_of(w_v: Linear, before: Norm | None) -> Tensor | None:
    """b_V + b_norm W_V, (H · d_v,); None where neither is there."""
    parts = [] if w_v.bias is None else [w_v.bias]
    if before is not None and before.bias is not None:
        parts.append(w_v.weight @ before.bias)
    return sum(parts) if parts else None


@dataclass(frozen=True, eq=False)
class ModelWeights:
    """The weights of a model that a residual stream is read with.

    Attributes:
        sites: of each attention call that writes into the stream at whose end words are read.
        num_heads: of these calls.
        embedding: (vocabulary, d_model), as it is added to the stream; None where that is no table.
        positions: (longest, d_model), learned vectors that are added to it; None where there are none.
        readout: None of a model that predicts no words.
    """

    sites: Mapping[Site, Projections]
    num_heads: Mapping[Site, int]
    embedding: Tensor | None
    positions: Tensor | None
    readout: Readout | None


@dataclass(frozen=True, eq=False)
class Stream:
    """The residual stream of one run.

    Attributes:
        readout: how words are read from a state.
        states: before each layer, (B, n, d_model) each, as the readout takes them.
        parts: what was written into it; None where these are not known to sum to it.
        why_no_parts: one sentence, where there are none.
    """

    readout: Readout
    states: tuple[Tensor, ...]
    parts: "StreamParts | None"
    why_no_parts: str = ""


@dataclass(frozen=True, eq=False)
class StreamParts:
    """Parts of the residual stream of one run besides its attention heads, whose outputs its record has.

    Attributes:
        weights: of the model.
        embedding: (B, n, d_model).
        position: (B, n, d_model); None where no vector of positions is added.
        feed_forward: of each layer that adds more than its attention, (B, n, d_model); of one without attention, all.
        final: the sum of all, before the last norm, (B, n, d_model).
    """

    weights: ModelWeights
    embedding: Tensor
    position: Tensor | None
    feed_forward: Mapping[int, Tensor]
    final: Tensor

    def check(
        self, attention: Tensor, logits: Tensor, name: str, *, real: Tensor | None = None, within: float = CLOSE
    ) -> None:
        """Hold the parts to the whole, and the words to those that the model gave.

        Args:
            attention: the sum of what all heads wrote, (B, n, d_model).
            logits: (B, n, vocabulary); infinite where a word cannot be written.
            name: of the model.
            real: which positions are no padding, boolean, (B, n); None for all.
            within: the largest difference that is rounding, for the largest number.

        Raises:
            InputError: if they differ, with the largest difference, or if none is a number.
        """
        if not logits.isfinite().any():
            raise InputError(f"No logit of '{name}' is a number (NaN) in this run, so none has parts.")
        parts = [self.embedding, attention, *self.feed_forward.values()]
        parts += [] if self.position is None else [self.position]
        reads = self.weights.readout.logits(self.final)
        sums = (("parts of the residual stream", sum(parts), self.final), ("logits", reads, logits))
        for what, computed, expected in sums:
            is_number = expected.isfinite() if real is None else expected.isfinite() & real.unsqueeze(-1)
            apart, size = ((t.masked_fill(~is_number, 0)).abs().amax(-1) for t in (computed - expected, expected))
            if not float((apart / size.clamp(min=1)).max()) <= within:  # position by position
                raise InputError(
                    f"The {what} of '{name}' do not sum to the whole: they are {float(apart.max()):.2g} apart."
                )
