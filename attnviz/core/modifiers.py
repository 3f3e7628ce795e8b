"""Score modifiers: numbers added to the scores by the positions of query and key; shown as bias, never as mask.

A bias is an immutable value, like a mask; it computes its tensor for (H, Q, K) or for one block of it, and its JSON.
The other modifiers are numbers: see `attnviz.core.scoring`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnviz.core.errors import InputError, ShapeError, quoted

ALL = slice(None)
LARGEST = 100_000
"""Largest absolute value in a bias."""
MOST = 1024
"""Maximum number of heads, and of buckets."""


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
        only: slice = ALL,
        rows: slice = ALL,
        columns: slice = ALL,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """The bias for scores (B, heads, queries, keys): of the heads in `only`, and of one block of rows and columns.

        Queries are aligned bottom-right: the last query has the position of the last key, as with a cache.

        Returns:
            The bias, (1, only, rows, columns).

        Raises:
            ShapeError: if the bias is for another number of heads.
        """

    def to_json(self) -> dict[str, Any]:
        """A JSON object of the kind and all parameters that differ from their defaults."""
        changed = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return {"bias": self.bias} | {name: _to_lists(value) for name, value in changed.items()}


class _ByDistance(Bias):
    @abstractmethod
    def values(self, distance: Tensor, heads: int, only: slice, dtype: torch.dtype) -> Tensor:
        """The bias, (only, n), of keys that are `distance`, (n,), positions after the query."""

    def tensor(self, heads, queries, keys, *, only=ALL, rows=ALL, columns=ALL, dtype=torch.float32):
        r, c = range(*rows.indices(queries)), range(*columns.indices(keys))
        if not (r and c):
            return self.values(torch.arange(0), heads, only, dtype).new_zeros(
                1, len(range(heads)[only]), len(r), len(c)
            )
        # Each distance is computed once: a row is a run of distances, and the next row starts one distance earlier.
        first, high, wide = c[0] - (r[-1] + keys - queries), r[-1] - r[0] + 1, c[-1] - c[0] + 1
        values = self.values(torch.arange(first, first + high + wide - 1), heads, only, dtype)
        return values.unfold(-1, wide, 1).flip(1)[:, :: r.step, :: c.step].unsqueeze(0)


@dataclass(frozen=True)
class ALiBi(_ByDistance):
    """Attention with linear biases: -slope · |i - j|, with one slope per head (Press et al. 2022).

    The paper defines it for causal attention; for keys after the query it is extended symmetrically.

    Attributes:
        slopes: one slope per head; None for the slopes of the paper, `alibi_slopes`.
    """

    bias = "alibi"
    slopes: tuple[float, ...] | None = None

    def __post_init__(self):
        if self.slopes is not None:
            object.__setattr__(self, "slopes", _checked_numbers(self.slopes, "A slope of ALiBi"))

    def values(self, distance, heads, only, dtype):
        slopes = alibi_slopes(heads) if self.slopes is None else self.slopes
        if len(slopes) != heads:
            raise ShapeError(f"ALiBi has {len(slopes)} slopes; the model has {heads} heads, and each needs one.")
        return torch.tensor(slopes[only], dtype=dtype).reshape(-1, 1) * -distance.abs()

    def __str__(self) -> str:
        return "ALiBi" if self.slopes is None else f"ALiBi ({len(self.slopes)} slopes)"


def alibi_slopes(heads: int) -> tuple[float, ...]:
    """The slopes of ALiBi, one per head, as in Press et al. 2022.

    If `heads` is a power of two, the slopes are 2^(-8/heads), 2^(-16/heads), ..., 2^-8. Otherwise they are the slopes
    for the next smaller power of two, then every other slope for the next larger one, as in the authors' `get_slopes`.
    """
    power = 2 ** (heads.bit_length() - 1)
    slopes = [2 ** (-8 * (head + 1) / power) for head in range(power)]
    between = [2 ** (-4 * (head + 1) / power) for head in range(0, 2 * power, 2)]
    return tuple(slopes + between[: heads - power])


@dataclass(frozen=True)
class RelativeBias(_ByDistance):
    """Relative position bias of T5: one number per head and bucket of distances (Raffel et al. 2020, 2.1).

    Half of the buckets per side hold one distance each; the other half widen logarithmically up to `max_distance`,
    beyond which all distances share the last bucket.

    Attributes:
        buckets: number of buckets.
        max_distance: distance from which on all distances share a bucket.
        two_sided: whether half of the buckets are for keys after the query, as in an encoder; if not, all keys after
            the query share the bucket of distance 0, as in a decoder.
        seed: seed of a random normal table, which is used if `table` is None.
        table: one row per bucket with one number per head, as in T5's weights.
    """

    bias = "relative"
    buckets: int = 32
    max_distance: int = 128
    two_sided: bool = True
    seed: int = 0
    table: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self):
        for name in ("buckets", "max_distance", "seed"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
                text = quoted(value)
                raise InputError(f"The {name} of a relative bias is a whole number up to {LARGEST:,}; given {text}.")
        if not isinstance(self.two_sided, bool):
            raise InputError(f"Whether a relative bias is two_sided is true or false; given {quoted(self.two_sided)}.")
        least = 4 if self.two_sided else 2
        if not least <= self.buckets <= MOST or self.buckets % (least // 2):
            even = "an even number of " if self.two_sided else ""
            raise InputError(f"A relative bias needs {even}{least} to {MOST} buckets; given {self.buckets}.")
        if self.max_distance <= self.buckets // least:
            exact = self.buckets // least
            raise InputError(f"The max_distance is {self.max_distance}; it must be above {exact} for these buckets.")
        if self.table is not None:
            rows = tuple(_checked_numbers(row, "A number of the table") for row in self.table)
            object.__setattr__(self, "table", rows)
            if len(rows) != self.buckets or len(set(map(len, rows))) != 1:
                raise InputError(
                    f"The table needs {self.buckets} rows, one for each bucket, of one length (the heads)."
                )

    def bucket(self, distance: Tensor) -> Tensor:
        """Bucket index of each distance (key - query), int64, by the formula of T5."""
        side = self.buckets // 2 if self.two_sided else self.buckets
        far = distance.abs() if self.two_sided else -distance.clamp(max=0)
        exact = side // 2
        share = (far.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        grown = (exact + (share * (side - exact)).long()).clamp(max=side - 1)
        return (distance > 0) * (self.two_sided * side) + torch.where(far < exact, far, grown)

    def values(self, distance, heads, only, dtype):
        if self.table is None:
            generator = torch.Generator().manual_seed(self.seed)
            table = torch.randn(heads, self.buckets, generator=generator, dtype=torch.float64).mT
        else:
            table = torch.tensor(self.table, dtype=torch.float64)
        if table.shape[1] != heads:
            raise ShapeError(f"The table of a relative bias is for {table.shape[1]} heads; the model has {heads}.")
        return table.mT[only].to(dtype)[:, self.bucket(distance)]

    def __str__(self) -> str:
        table = f"seed {self.seed}" if self.table is None else "its own table"
        return f"relative bias ({self.buckets} buckets, {table})"


def from_json(data: dict[str, Any]) -> Bias:
    """Create a bias from the output of `Bias.to_json`.

    Raises:
        InputError: if the kind or a parameter does not exist, or a parameter is out of bounds.
    """
    kind = {bias.bias: bias for bias in (ALiBi, RelativeBias)}.get(data.get("bias"))
    values = {name: value for name, value in data.items() if name != "bias"}
    if kind is None or not set(values) <= {field.name for field in fields(kind)}:
        raise InputError(f"There is no bias {quoted(data)}.")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def _checked_numbers(values: Any, what: str) -> tuple[float, ...]:
    """Check that values are 1 to MOST numbers within ±LARGEST, and give them as floats."""
    if not isinstance(values, list | tuple) or not 0 < len(values) <= MOST:
        raise InputError(f"{what} is given for each of 1 to {MOST} heads; given {quoted(values)}.")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
            raise InputError(f"{what} is a number of at most {LARGEST:,}; given {quoted(value)}.")
    return tuple(map(float, values))


def _to_lists(value: Any) -> Any:
    return [_to_lists(item) for item in value] if isinstance(value, tuple) else value
