"""How dot products become scores, and which weights a row without keys gets.

A model has its own scoring, edits change it, and a step records the scoring that was used. A new modifier needs a field
of `Scoring`, a term in `Scoring.scores` and a phrase in `Scoring.phrases`.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor

from attnviz.core.errors import InputError, MaskError, quoted
from attnviz.core.modifiers import ALL, Bias
from attnviz.core.shapes import check_broadcast

EMPTY_ROWS = ("zero", "nan", "uniform", "error")
"""Policies for a query with no key left: zeros, NaN, the same weight for every key, or an `EmptyRowError`."""

ORDER = ("products", "scale", "softcap", "bias", "temperature")
"""Stages in which scores are computed, from dot products to scores before the mask."""

HALVES = (torch.float16, torch.bfloat16)
LIMIT = 1_000_000
"""Bound on scale, softcap and temperature, so that these alone make no score overflow float32."""


class Area(NamedTuple):
    """A block of scores (B, H, Q, K), given by one slice per axis."""

    sentences: slice = ALL
    heads: slice = ALL
    rows: slice = ALL
    columns: slice = ALL

    def of(self, tensor: Tensor) -> Tensor:
        """Cut this block out of a mask or bias, (Q, K) or (B, H, Q, K); axes of size 1 stay."""
        where = self[-tensor.dim() :]
        return tensor[tuple(part if size > 1 else ALL for part, size in zip(where, tensor.shape, strict=True))]


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """scores = (softcap(q kᵀ · scale) + bias) / temperature; the defaults are equation (1) of Vaswani et al. 2017.

    Attributes:
        scale: factor of the dot products; None for 1/√d_k.
        softcap: bound c; scaled dot products s become c · tanh(s / c) before the bias, as in Gemma 2.
        bias: terms added to the scores: floats that broadcast to (B, H, Q, K), or a named `Bias`, such as ALiBi.
        temperature: divisor of the biased scores; 1 changes nothing.
        empty_rows: policy for a query with no key left: "zero" weights, "nan", "uniform" over all keys, or "error".

    Raises:
        InputError: if a number is out of bounds, or `empty_rows` is not a policy of `EMPTY_ROWS`.
    """

    scale: float | None = None
    softcap: float | None = None
    bias: tuple[Tensor | Bias, ...] = ()
    temperature: float = 1.0
    empty_rows: str = "zero"

    def __post_init__(self):
        bias = () if self.bias is None else self.bias
        object.__setattr__(self, "bias", tuple(bias) if isinstance(bias, tuple | list) else (bias,))
        if self.scale is not None and not abs(self.scale) < LIMIT:
            raise InputError(f"The scale is {self.scale}; it multiplies the scores and must be within ±{LIMIT:,}.")
        if self.softcap is not None and not 0 < self.softcap < LIMIT:
            within = f"the scores stay below it, so it must be above 0 and below {LIMIT:,}"
            raise InputError(f"The softcap is {self.softcap}; {within}.")
        if not 0 < self.temperature < LIMIT:
            within = f"it divides the scores and must be above 0 and below {LIMIT:,}"
            raise InputError(f"The temperature is {self.temperature}; {within}.")
        if self.empty_rows not in EMPTY_ROWS:
            raise InputError(f"empty_rows is {quoted(self.empty_rows)}; it must be one of {', '.join(EMPTY_ROWS)}.")

    def over(self, own: "Scoring") -> "Scoring":
        """Apply all non-default settings of this scoring to the scoring `own`; biases add to those of `own`."""
        changed = {f.name: getattr(self, f.name) for f in fields(Scoring) if getattr(self, f.name) != f.default}
        return replace(own, **changed | {"bias": own.bias + self.bias})

    def until(self, stage: str) -> "Scoring":
        """The scoring up to and including a stage of `ORDER`; later stages are set to have no effect."""
        undone = {"scale": 1.0, "softcap": None, "bias": (), "temperature": 1.0}
        return replace(self, **{name: undone[name] for name in ORDER[ORDER.index(stage) + 1 :]})

    def phrases(self) -> tuple[tuple[str, str], ...]:
        """Names and values of all non-default settings as text, with one entry per bias."""
        phrases = [] if self.temperature == 1 else [("temperature", f"{self.temperature:g}")]
        phrases += [] if self.scale is None else [("scale", f"{self.scale:g}")]
        phrases += [("bias", str(bias)) for bias in self.bias]
        phrases += [] if self.softcap is None else [("softcap", f"{self.softcap:g}")]
        return (*phrases, *([] if self.empty_rows == EMPTY_ROWS[0] else [("empty rows", self.empty_rows)]))

    def check(self, shape: tuple[int, int, int, int]) -> None:
        """Refuse a bias that does not fit scores of the given shape, (B, H, Q, K).

        Raises:
            ShapeError: if the shapes differ, with both shapes.
            MaskError: if the bias is not floating point, with its dtype.
        """
        for bias in self.bias:
            if isinstance(bias, Bias):
                bias.tensor(*shape[1:], rows=slice(0), columns=slice(0))  # raises if heads differ
                continue
            if not bias.is_floating_point():
                raise MaskError(f"The bias holds {bias.dtype}; it is added to the scores and must be floating point.")
            check_broadcast("bias", bias, shape)

    def scores(self, query: Tensor, key: Tensor, part: Area = Area()) -> Tensor:
        """Compute one block of the scores before mask and softmax, (sentences, heads, rows, columns).

        Half precision is raised to float32 here, because float16 overflows at 65,504.

        Args:
            query, key: all queries, (B, H, Q, d_k), and all keys, (B, H, K, d_k), not only those of the block.
        """
        bias = self.added(query, key, part)
        query = query[part.sentences, part.heads][:, :, part.rows]
        key = key[part.sentences, part.heads][:, :, part.columns]
        if query.dtype in HALVES:
            query, key = query.float(), key.float()
        products = self.scaled(query) @ key.mT
        if self.softcap is not None:
            products = torch.tanh(products) * (self.softcap / self.temperature)
        return products if bias is None else products + bias.to(products.dtype) / self.temperature

    def scaled(self, query: Tensor) -> Tensor:
        """Scale queries so that products with keys are the scores without bias; with softcap, the argument of tanh."""
        scale = 1 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        return query * (scale / (self.temperature if self.softcap is None else self.softcap))

    @property
    def is_linear(self) -> bool:
        """Whether the scores are scaled dot products, without softcap and bias."""
        return self.softcap is None and not self.bias

    def added(self, query: Tensor, key: Tensor, part: Area = Area()) -> Tensor | None:
        """The sum of all biases for one block; axes of size 1 stay. None if there is no bias."""
        (_, every, queries, _), keys = query.shape, key.shape[2]
        where = {"only": part.heads, "rows": part.rows, "columns": part.columns}
        where["dtype"] = torch.promote_types(query.dtype, torch.float32)
        biases = [
            bias.tensor(every, queries, keys, **where) if isinstance(bias, Bias) else part.of(bias)
            for bias in self.bias
        ]
        return sum(biases[1:], biases[0]) if biases else None
