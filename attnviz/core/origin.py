"""Inputs and projections from which queries, keys and values of a step were computed, for sources that know them."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

PROJECTIONS = ("w_q", "w_k", "w_v", "w_o")
VECTORS = ("query", "key", "value")


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
    """Token embeddings `words`, (B, n, d_model), and `positions`, (n, d_model), which are added to them.

    If no positions are added, `positions` is None, and `note` says how the model knows the order of the words.
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
        w_q, w_k, w_v, w_o: the projections; head h owns outputs h·d_k to (h + 1)·d_k of w_q, w_k and w_v, and inputs
            h·d_v to (h + 1)·d_v of w_o.
        query_tokens, key_tokens: the embeddings at the bottom of the model.
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
