"""Inputs that queries, keys and values of a step were projected from, of a source that knows its layers."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

PROJECTIONS = ("w_q", "w_k", "w_v", "w_o")
VECTORS = ("query", "key", "value")


@dataclass(frozen=True, eq=False)
class Linear:
    """x W + b, kept as `nn.Linear` keeps it: `weight` is Wᵀ, (out, in), and `bias` (out,) or None."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out), in the type of the weight."""
        return F.linear(x.to(self.weight.dtype), self.weight, self.bias)


@dataclass(frozen=True, eq=False)
class Embedded:
    """Tokens as vectors: `words`, (B, n, d_model), to which `positions`, (n, d_model), are added; None if none are.

    A `note` says then where positions come in.
    """

    words: Tensor
    positions: Tensor | None
    note: str = "No position is added: this model does not know the order of the words."


@dataclass(frozen=True, eq=False)
class Origin:
    """Inputs of an attention call, and their projections. Both inputs are one tensor in self-attention.

    Attributes:
        query_input: what the queries are projected from, (B, Q, d_model).
        key_input: what the keys and values are projected from, (B, K, d_model).
        w_q, w_k, w_v, w_o: the projections; head h has outputs h·d_k to (h + 1)·d_k of the first three, and the inputs
            h·d_v to (h + 1)·d_v of the last.
        query_tokens, key_tokens: the embeddings at the bottom of the model.
        is_normalized: whether both inputs are normalized vectors of what stands there.
        is_rotary: whether queries and keys are turned by their positions before they are multiplied.
        normalizes_heads: whether they are normalized before that.
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
        """Whether queries and keys are more than their projections."""
        return self.is_rotary or self.normalizes_heads

    def head_weight(self, name: str, head: int, num_heads: int) -> Tensor:
        """W of one head as the paper writes it: (d_model, d_k) of "w_q", "w_k", "w_v"; (d_v, d_model) of "w_o"."""
        weight = getattr(self, name).weight.mT
        return weight.chunk(num_heads, 0 if name == "w_o" else 1)[head]
