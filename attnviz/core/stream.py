"""Inputs and projections of attention calls, and the residual stream: its states, and what each part writes into it.

A source makes these from its model (`Source.origin`, `Source.model_weights`, `Source.with_stream`). The parts of a
stream are checked on the run: the vectors before the last norm are the sum of all that was written.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from attnviz.core.edits import Site
from attnviz.core.errors import InputError

PROJECTIONS = ("w_q", "w_k", "w_v", "w_o")
VECTORS = ("query", "key", "value")
CLOSE = 1e-4
"""Largest difference between a sum of parts and the whole that counts as rounding, relative to its largest number."""


@dataclass(frozen=True, eq=False)
class Linear:
    """The linear map x W + b, stored as in `nn.Linear`: `weight` is Wᵀ, (out, in), and `bias` is (out,) or None."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the map to x, (..., in) -> (..., out), in the dtype of the weight."""
        return F.linear(x.to(self.weight.dtype), self.weight, self.bias)


@dataclass(frozen=True, eq=False)
class Embedded:
    """Embedded tokens: the first vectors of the residual stream, as two summands.

    Attributes:
        words: token embeddings, (B, n, d_model).
        positions: position embeddings, (n, d_model), or None if no positions are added.
        note: sentence on how the model knows the order of the words, if no positions are added.
    """

    words: Tensor
    positions: Tensor | None
    note: str = "No position is added: this model does not know the order of the words."


@dataclass(frozen=True, eq=False)
class Origin:
    """Inputs of an attention call and their projections. In self-attention both inputs are the same tensor.

    Attributes:
        query_input: vectors from which the queries are projected, (B, Q, d_model).
        key_input: vectors from which the keys and values are projected, (B, K, d_model).
        w_q, w_k, w_v, w_o: the projections of all heads, one after the other: head h has the outputs from h·d_k to
            (h + 1)·d_k of w_q, w_k and w_v, and the inputs from h·d_v to (h + 1)·d_v of w_o.
        query_tokens, key_tokens: embedded tokens, the input of the first layer.
        is_normalized: whether both inputs have passed a normalization (pre-norm).
        is_rotary: whether queries and keys are rotated by their positions before the dot product.
        normalizes_heads: whether queries and keys are normalized per head before the rotation.
    """

    query_input: Tensor
    key_input: Tensor
    w_q: Linear
    w_k: Linear
    w_v: Linear
    w_o: Linear
    query_tokens: Embedded
    key_tokens: Embedded
    is_normalized: bool = True
    is_rotary: bool = False
    normalizes_heads: bool = False

    @property
    def is_adjusted(self) -> bool:
        """Whether queries and keys are rotated or normalized after their projection."""
        return self.is_rotary or self.normalizes_heads

    def head_weight(self, name: str, head: int, num_heads: int) -> Tensor:
        """Matrix W of one head as in the paper: (d_model, d_k) for "w_q", "w_k", "w_v"; (d_v, d_model) for "w_o"."""
        weight = getattr(self, name).weight.mT
        return weight.chunk(num_heads, 0 if name == "w_o" else 1)[head]


@dataclass(frozen=True, eq=False)
class Norm:
    """A layer norm, or, if `is_centered` is False, a root-mean-square norm.

    Attributes:
        weight, bias: parameters, (d_model,), or None.
        eps: number that is added to the mean square.
        is_centered: whether the mean is subtracted.
    """

    weight: Tensor | None
    bias: Tensor | None
    eps: float
    is_centered: bool

    def __call__(self, x: Tensor) -> Tensor:
        """Normalize vectors, (..., d_model)."""
        scaled = self.normalize_part(x, x)
        return scaled if self.bias is None else scaled + self.bias

    def normalize_part(self, part: Tensor, whole: Tensor) -> Tensor:
        """Scale one summand of a vector, `part`, as the norm scales the `whole` vector; both are (..., d_model).

        The bias is not added, so that the results for all summands sum to the normalized vector without its bias.
        """
        centered = self._center(whole)
        scaled = self._center(part) * (centered.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        return scaled if self.weight is None else scaled * self.weight

    def _center(self, x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True) if self.is_centered else x


@dataclass(frozen=True, eq=False)
class Readout:
    """The last part of a model, from the residual stream to logits.

    Attributes:
        norm: last norm, or None.
        unembedding: linear map with a weight of (vocabulary, d_model).
        factor: factor of the logits.
        softcap: bound that the logits approach, or None.
    """

    norm: Norm | None
    unembedding: Linear
    factor: float = 1.0
    softcap: float | None = None

    def logits(self, stream: Tensor) -> Tensor:
        """Compute the logits, (..., vocabulary), of vectors of the stream, (..., d_model)."""
        logits = self.unbounded(stream)
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)

    def unbounded(self, stream: Tensor) -> Tensor:
        """Compute the logits, (..., vocabulary), before the softcap."""
        return self.unembedding(stream if self.norm is None else self.norm(stream)) * self.factor


@dataclass(frozen=True, eq=False)
class Projections:
    """The weights around one attention call. Each weight has one part per head; shared keys and values are repeated.

    Attributes:
        w_q, w_k, w_v: projections of the normalized stream, (H · d, d_model); None if unknown, or if more than a
            projection makes the vectors, such as a norm per head.
        w_o: output projection, (d_model, H · d_v).
        before: norm before the projections, or None.
        after: norm of the output of W_O, or None, as in most models.
        factor: factor by which the output is multiplied before it is added to the stream.
        scale: scale of the scores; None for 1/√d_k.
        rotary: whether queries and keys are rotated by their positions.
        value_bias: part of the value that is the same for every token, b_V + b_norm W_V, (H · d_v,); None if there is
            no such part, or W_V is unknown.
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
        """Compute what all heads add to the stream, (..., d_model), from their outputs, (..., H · d_v)."""
        added = self.w_o(outputs)
        return (added if self.after is None else self.after(added)) * self.factor


def value_bias_of(w_v: Linear, before: Norm | None) -> Tensor | None:
    """Compute the bias of the values, b_V + b_norm W_V, (H · d_v,); None if both biases are missing."""
    parts = [] if w_v.bias is None else [w_v.bias]
    if before is not None and before.bias is not None:
        parts.append(w_v.weight @ before.bias)
    return sum(parts) if parts else None


@dataclass(frozen=True, eq=False)
class ModelWeights:
    """The weights of a model around its residual stream.

    Attributes:
        sites: projections per attention call that writes into the stream.
        num_heads: number of heads per attention call.
        embedding: token embeddings, (vocabulary, d_model), as they are added to the stream; None without such a table.
        positions: learned position vectors, (longest, d_model), or None.
        readout: readout, or None for a model that predicts no words.
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
        readout: readout of the model.
        states: vectors before each layer, (B, n, d_model) each, to which the readout can be applied.
        parts: vectors that were added to the stream; None if they do not sum to it.
        why_no_parts: sentence on why `parts` is None.
    """

    readout: Readout
    states: tuple[Tensor, ...]
    parts: "StreamParts | None"
    why_no_parts: str = ""


@dataclass(frozen=True, eq=False)
class StreamParts:
    """Vectors that one run added to the residual stream. The outputs of heads are missing: they are in the record.

    Attributes:
        weights: weights of the model.
        embedding: token embeddings, (B, n, d_model).
        position: position vectors, (B, n, d_model), or None.
        feed_forward: sum of all that a layer adds besides its attention, (B, n, d_model), by the layer's index.
        final: sum of all parts, before the last norm, (B, n, d_model).
    """

    weights: ModelWeights
    embedding: Tensor
    position: Tensor | None
    feed_forward: Mapping[int, Tensor]
    final: Tensor

    def check(
        self, attention: Tensor, logits: Tensor, name: str, *, is_token: Tensor | None = None, within: float = CLOSE
    ) -> None:
        """Raise InputError unless the parts sum to `final`, and the readout of `final` gives the logits of the model.

        Args:
            attention: sum of the additions of all heads, (B, n, d_model).
            logits: logits of the run, (B, n, vocabulary); infinite for words that are excluded.
            name: name of the model.
            is_token: True at positions that are not padding, (B, n); None if no position is.
            within: largest difference that counts as rounding, relative to the largest number.
        """
        if not logits.isfinite().any():
            raise InputError(f"All logits of '{name}' are NaN or infinite in this run, so they have no parts.")
        parts = [self.embedding, attention, *self.feed_forward.values()]
        parts += [] if self.position is None else [self.position]
        computed_logits = self.weights.readout.logits(self.final)
        sums = (("parts of the residual stream", sum(parts), self.final), ("logits", computed_logits, logits))
        for noun, computed, expected in sums:
            is_ignored = ~expected.isfinite()
            if is_token is not None:
                is_ignored = is_ignored | ~is_token.unsqueeze(-1)
            difference = (computed - expected).masked_fill(is_ignored, 0).abs().amax(-1)  # per position, (B, n)
            size = expected.masked_fill(is_ignored, 0).abs().amax(-1)
            if not float((difference / size.clamp(min=1)).max()) <= within:  # `not <=`, because NaN is an error, too
                largest = f"{float(difference.max()):.2g}"
                raise InputError(f"The {noun} of '{name}' do not sum to the whole: they are {largest} apart.")
