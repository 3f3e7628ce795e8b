"""Inputs that queries, keys and values of a step were projected from, and numbers of a call that are set by hand.

A source that knows the layers of its model says the first (`Source.origin`); a source that lets its numbers be edited
takes the second.
"""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from attnviz.core.edits import Site
from attnviz.core.errors import InputError, quoted

PROJECTIONS = ("w_q", "w_k", "w_v", "w_o")
VECTORS = ("query", "key", "value")
MATRICES = PROJECTIONS + VECTORS
LARGEST = 1e6
"""The largest number that can be set by hand."""


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


@dataclass(frozen=True)
class Change:
    """One number of one attention call, set by hand.

    Attributes:
        matrix: "w_q", "w_k", "w_v", (d_model, d_k) of the head; "w_o", (d_v, d_model); or "query", "key", "value",
            (n, d_k).
        row, column: where in that matrix.
        sentence: of the batch, whose vectors are changed; plays no part in a projection.
    """

    site: Site
    head: int
    matrix: str
    row: int
    column: int
    value: float
    sentence: int = 0

    def __post_init__(self):
        if self.matrix not in MATRICES:
            raise InputError(f"There is no matrix {quoted(self.matrix)} to edit; there are {', '.join(MATRICES)}.")
        for name in ("head", "row", "column", "sentence"):
            number = getattr(self, name)
            if type(number) is not int or number < 0:
                raise InputError(f"The {name} of an edited number is {quoted(number)}; it is counted from 0.")
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or not abs(self.value) <= LARGEST:
            text = quoted(self.value)
            raise InputError(f"An edited number is {text}; it must be a number of at most {LARGEST:,.0f}.")

    @property
    def place(self) -> tuple[Site, int, str, int, int, int]:
        """Place of the number that it changes."""
        return self.site, self.head, self.matrix, self.row, self.column, self.sentence

    def apply(self, table: Tensor) -> None:
        """Set the number in a table of its matrix, in place.

        Raises:
            InputError: if the table has no such cell.
        """
        if self.row >= table.shape[0] or self.column >= table.shape[1]:
            cell = f"row {self.row}, column {self.column}"
            size = f"{table.shape[0]} x {table.shape[1]}"
            raise InputError(f"{self.matrix} of {self.site.head(self.head)} is {size}; it has no {cell}.")
        table[self.row, self.column] = self.value
