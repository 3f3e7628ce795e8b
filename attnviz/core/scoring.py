"""How dot products become scores: scale, softcap, bias and temperature, and which weights a row without keys gets.

A model has its own scoring, edits change it, and a step records the scoring that was used. A new modifier needs a field
of `Scoring`, a term in `Scoring.scores` and a phrase in `Scoring.phrases`. A named bias is an immutable value, like a
mask; it computes its tensor for (H, Q, K) or for one block of it.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from attnviz.core.errors import InputError, MaskError, ShapeError, check_whole, quoted

ALL = slice(None)
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
        slices = self[-tensor.dim() :]  # only rows and columns for a tensor (Q, K)
        return tensor[tuple(cut if size > 1 else ALL for cut, size in zip(slices, tensor.shape, strict=True))]


class Bias(ABC):
    """Floats added to the scores, the same for every sentence. Equal biases compare equal and hash alike."""

    bias: ClassVar[str]

    @abstractmethod
    def tensor(
        self,
        heads: int,
        queries: int,
        keys: int,
        *,
        head_slice: slice = ALL,
        rows: slice = ALL,
        columns: slice = ALL,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """Compute the bias of scores (B, heads, queries, keys), for a slice of heads, rows and columns.

        Queries are aligned bottom-right: the last query has the position of the last key, as with a cache.

        Returns:
            The bias, (1, heads of the slice, rows, columns).
        """

    def to_json(self) -> dict[str, Any]:
        """A JSON object of the kind and all parameters that differ from their defaults."""
        changed = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return {"bias": self.bias} | changed


class _ByDistance(Bias):
    """A bias that depends only on the head and on the distance from query to key."""

    @abstractmethod
    def values(self, distance: Tensor, heads: int, head_slice: slice, dtype: torch.dtype) -> Tensor:
        """Compute the bias of a slice of heads for distances (n,), key - query: (heads of the slice, n)."""

    def tensor(self, heads, queries, keys, *, head_slice=ALL, rows=ALL, columns=ALL, dtype=torch.float32):
        row_range, column_range = range(queries)[rows], range(keys)[columns]
        if not (row_range and column_range):
            return torch.zeros(1, len(range(heads)[head_slice]), len(row_range), len(column_range), dtype=dtype)
        # Each distance is computed once: a row of the bias is a window of the distances, and the window of the next
        # row starts one distance earlier. The first window is that of the last row.
        num_rows, num_columns = row_range[-1] - row_range[0] + 1, column_range[-1] - column_range[0] + 1
        least = column_range[0] - (row_range[-1] + keys - queries)  # bottom-right: query i is at key i + keys - queries
        values = self.values(torch.arange(least, least + num_rows + num_columns - 1), heads, head_slice, dtype)
        windows = values.unfold(-1, num_columns, 1).flip(1)
        return windows[:, :: row_range.step, :: column_range.step].unsqueeze(0)


@dataclass(frozen=True)
class ALiBi(_ByDistance):
    """Attention with linear biases: -slope · |i - j|, with one slope per head (Press et al. 2022).

    The paper defines it for causal attention; for keys after the query it is extended symmetrically. If the number of
    heads is a power of two, the slopes are 2^(-8/heads), 2^(-16/heads), ..., 2^-8. Otherwise they are the slopes for
    the next smaller power of two, then every other slope for the next larger one, as in the authors' `get_slopes`.
    """

    bias = "alibi"

    def values(self, distance, heads, head_slice, dtype):
        """Compute -slope · |distance|, (heads of the slice, n), for distances (n,)."""
        power = 2 ** (heads.bit_length() - 1)  # the largest power of two that is not above the number of heads
        slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
        num_missing = heads - power
        slopes += [2 ** (-8 * (i + 1) / (2 * power)) for i in range(0, 2 * num_missing, 2)]
        return torch.tensor(slopes[head_slice], dtype=dtype).reshape(-1, 1) * -distance.abs()

    def __str__(self) -> str:
        return "ALiBi"


@dataclass(frozen=True)
class RelativeBias(_ByDistance):
    """Relative position bias of a T5 encoder: a number per head and bucket of distances (Raffel et al. 2020, 2.1).

    There are 32 buckets, 16 for keys after the query. On each side, eight buckets hold one distance each; the others
    widen logarithmically up to a distance of 128. All larger distances are in the last bucket.

    Attributes:
        seed: random seed; the numbers are drawn from a normal distribution.

    Raises:
        InputError: if the seed is not a whole number from 0 to 100,000.
    """

    bias = "relative"
    seed: int = 0

    def __post_init__(self):
        check_whole("The seed of a relative bias", self.seed, 0, 100_000)

    def values(self, distance, heads, head_slice, dtype):
        """Look up the bias of each distance in the random table, by head and bucket: (heads of the slice, n)."""
        generator = torch.Generator().manual_seed(self.seed)
        table = torch.randn(heads, 32, generator=generator, dtype=torch.float64)
        return table[head_slice].to(dtype)[:, t5_bucket(distance)]

    def __str__(self) -> str:
        return f"relative bias (32 buckets, seed {self.seed})"


def t5_bucket(distance: Tensor) -> Tensor:
    """Compute the bucket, from 0 to 31, of each distance (key - query), int64, by the formula of a T5 encoder."""
    length = distance.abs()
    share = (length.clamp(min=1).float() / 8).log() / math.log(128 / 8)  # 0 at a length of 8, 1 at 128
    wide_bucket = (8 + (share * 8).long()).clamp(max=15)
    bucket = torch.where(length < 8, length, wide_bucket)
    return bucket + torch.where(distance > 0, 16, 0)  # keys after the query have the upper 16 buckets


def bias_from_json(data: dict[str, Any]) -> Bias:
    """Create a bias from the output of `Bias.to_json`; raise InputError if no bias has this output."""
    if data == {"bias": "alibi"}:
        return ALiBi()
    if data.get("bias") == "relative" and set(data) <= {"bias", "seed"}:
        return RelativeBias(data.get("seed", 0))
    raise InputError(f"There is no bias {quoted(data)}.")


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
        InputError: if a number is out of bounds, or there is no such policy.
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

    def changed(self) -> dict[str, Any]:
        """Settings that differ from their defaults, by name."""
        return {f.name: getattr(self, f.name) for f in fields(Scoring) if getattr(self, f.name) != f.default}

    def over(self, original: "Scoring") -> "Scoring":
        """Return an `original` scoring with the changed settings of this one, and with the biases of both."""
        return replace(original, **self.changed() | {"bias": original.bias + self.bias})

    def until(self, stage: str) -> "Scoring":
        """Return the scoring up to and including a stage of `ORDER`; later stages have no effect in it."""
        neutral = {"scale": 1.0, "softcap": None, "bias": (), "temperature": 1.0}
        later_stages = ORDER[ORDER.index(stage) + 1 :]
        return replace(self, **{name: neutral[name] for name in later_stages})

    def phrases(self) -> tuple[tuple[str, str], ...]:
        """Names and values of all non-default settings as text, with one entry per bias."""
        changed = self.changed()
        phrases = [(name, f"{changed[name]:g}") for name in ("temperature", "scale") if name in changed]
        phrases += [("bias", str(bias)) for bias in self.bias]
        if "softcap" in changed:
            phrases.append(("softcap", f"{self.softcap:g}"))
        if "empty_rows" in changed:
            phrases.append(("empty rows", self.empty_rows))
        return tuple(phrases)

    def check(self, shape: tuple[int, int, int, int]) -> None:
        """Raise ShapeError or MaskError if a bias does not fit scores of the given shape, (B, H, Q, K)."""
        for bias in self.bias:
            if isinstance(bias, Bias):
                bias.tensor(*shape[1:], rows=slice(0), columns=slice(0))  # raises if the heads differ
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
        """Scale queries so that products with keys are the scores without bias, or the input of tanh with softcap."""
        scale = 1 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        return query * (scale / (self.temperature if self.softcap is None else self.softcap))

    @property
    def is_linear(self) -> bool:
        """Whether the scores are scaled dot products, without softcap and bias."""
        return self.softcap is None and not self.bias

    def added(self, query: Tensor, key: Tensor, part: Area = Area()) -> Tensor | None:
        """The sum of all biases for one block; axes of size 1 stay. None if there is no bias."""
        (_, num_heads, queries, _), keys = query.shape, key.shape[2]
        block = {"head_slice": part.heads, "rows": part.rows, "columns": part.columns}
        block["dtype"] = torch.promote_types(query.dtype, torch.float32)
        total = None
        for bias in self.bias:
            term = bias.tensor(num_heads, queries, keys, **block) if isinstance(bias, Bias) else part.of(bias)
            total = term if total is None else total + term
        return total


def check_shapes(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise ShapeError unless query, key and value, (B, n, d) or (B, H, n, d), fit without broadcasting."""
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if not (query.dim() in (3, 4) and query.dim() == key.dim() == value.dim()):
        raise ShapeError(f"Query, key and value need the same 3 (B, n, d) or 4 (B, H, n, d) axes; given {shapes}.")
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(f"Query and key differ in d_k ({query.shape[-1]} and {key.shape[-1]}): {shapes}.")
    if query.shape[-1] == 0:
        raise ShapeError(f"d_k is 0, so there is no dot product: {shapes}.")
    if key.shape[-2] != value.shape[-2]:
        raise ShapeError(f"Key and value differ in length ({key.shape[-2]} and {value.shape[-2]}): {shapes}.")
    for axis, name in enumerate(("batch", "heads")[: query.dim() - 2]):
        sizes = query.shape[axis], key.shape[axis], value.shape[axis]
        if len(set(sizes)) > 1:
            hint = "Broadcasting would have repeated the one of size 1" if 1 in sizes else "They cannot be broadcast"
            listed = ", ".join(map(str, sizes))
            raise ShapeError(f"Query, key and value differ in {name} ({listed}): {shapes}. {hint}.")
    if not query.dtype == key.dtype == value.dtype:
        raise ShapeError(
            f"Query, key and value must share a dtype; they have {query.dtype}, {key.dtype}, {value.dtype}."
        )
    if not query.is_floating_point():
        raise ShapeError(f"Query, key and value must be floating point; they are {query.dtype}.")


def check_broadcast(name: str, tensor: Tensor, shape: tuple[int, int, int, int]) -> None:
    """Accept shapes (Q, K) and (B, H, Q, K) with axes of full size or 1; raise ShapeError for all other shapes."""
    actual, axes = tuple(tensor.shape), "(B, H, Q, K)"
    if len(actual) not in (2, 4):
        expected, hint = f"It must be (Q, K) = {shape[2:]} or {axes} = {shape}, where an axis may have size 1.", ""
        if len(actual) == 3:
            aligned = "an error" if actual[0] not in (1, shape[1]) else f"its first axis ({actual[0]}) read as heads"
            hint = f" Broadcasting would have given {aligned}; say which you mean with {name}.unsqueeze(1), for {axes}."
        raise ShapeError(f"The {name} has shape {actual}, {len(actual)} axes. {expected}{hint}")
    for axis, size, full_size in zip("KQHB", actual[::-1], shape[::-1], strict=False):  # (Q, K) has no H and B
        if size not in (1, full_size):
            raise ShapeError(
                f"The {name} has shape {actual}, and {size} on axis {axis} where the scores have {full_size}: "
                f"they are {axes} = {shape}. An axis must have full size or 1."
            )
