"""The rules that most models are made of: the future, padding, windows, prefixes, documents, single cells."""

import operator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.core.errors import MaskError, quoted
from attnviz.core.masks.base import Mask


@dataclass(frozen=True)
class Full(Mask):
    """Every query may attend to every key."""

    rule = "full"

    def allows(self, query, key, sentence):
        return torch.ones(1, 1, 1, dtype=torch.bool)

    def shifted(self, offset):
        return self

    def __str__(self) -> str:
        return "full"


@dataclass(frozen=True)
class Subsequent(Mask):
    """Blocks the future: query i sees the keys 0 to i + offset. Also called causal or look-ahead mask.

    With an offset of 0 the two sequences are aligned top-left, as `is_causal` of PyTorch's SDPA does; keys - queries
    aligns them bottom-right, as when a cache holds the past.
    """

    rule = "subsequent"
    offset: int = 0

    def allows(self, query, key, sentence):
        return key <= query + self.offset

    def shifted(self, offset):
        return Subsequent(self.offset + offset)

    def __str__(self) -> str:
        return f"subsequent (offset {self.offset})" if self.offset else "subsequent"


@dataclass(frozen=True)
class Padding(Mask):
    """Blocks keys that are padding: sentence b keeps its first lengths[b] keys, or its last if padded on the left."""

    rule = "padding"
    lengths: tuple[int, ...]
    left: int | None = None
    """The padded length, if the padding stands on the left."""

    def __post_init__(self):
        object.__setattr__(self, "lengths", _lengths(self))
        if not self.lengths:
            raise MaskError("Padding needs the length of at least one sentence.")

    @property
    def batch_size(self):
        return len(self.lengths)

    def allows(self, query, key, sentence):
        lengths = torch.tensor(self.lengths)[sentence]
        return key < lengths if self.left is None else key >= self.left - lengths

    def shifted(self, offset):
        return self

    def __str__(self) -> str:
        return "padding"


@dataclass(frozen=True)
class Window(Mask):
    """A sliding window: query i sees the keys i - before to i + after."""

    rule = "window"
    before: int
    after: int = 0

    def allows(self, query, key, sentence):
        return (key >= query - self.before) & (key <= query + self.after)

    def __str__(self) -> str:
        return f"window ({self.before} before, {self.after} after)"


@dataclass(frozen=True)
class Prefix(Mask):
    """Every query may attend to the first `length` keys, and to no other. Prefix-LM is ``Subsequent() | Prefix(n)``."""

    rule = "prefix"
    length: int

    def allows(self, query, key, sentence):
        return key < self.length

    def shifted(self, offset):
        return self

    def __str__(self) -> str:
        return f"prefix of {self.length}"


@dataclass(frozen=True)
class Documents(Mask):
    """Packed documents: a query sees the keys of its own document only.

    Positions beyond the last document, and before 0, belong to none.
    """

    rule = "documents"
    lengths: tuple[int, ...]

    def __post_init__(self):
        object.__setattr__(self, "lengths", _lengths(self))

    def allows(self, query, key, sentence):
        ends = torch.tensor(self.lengths, dtype=torch.int64).cumsum(0)
        documents = [torch.searchsorted(ends, t.contiguous(), right=True) for t in (query, key)]
        return (documents[0] == documents[1]) & (documents[1] < len(self.lengths)) & (query >= 0)

    def __str__(self) -> str:
        return f"documents of {', '.join(map(str, self.lengths))}"


@dataclass(frozen=True)
class _Cells(Mask):
    cells: tuple[tuple[int, int], ...]

    def __post_init__(self):
        cells = {(operator.index(query), operator.index(key)) for query, key in self.cells}
        object.__setattr__(self, "cells", tuple(sorted(cells)))

    def among(self, query: Tensor, key: Tensor) -> Tensor:
        wide = 2**32
        cells = torch.tensor([q * wide + k for q, k in self.cells], dtype=torch.int64)
        return torch.isin(query * wide + key, cells)


@dataclass(frozen=True)
class Painted(_Cells):
    """Blocks single cells, (query, key), chosen by hand."""

    rule = "painted"

    def allows(self, query, key, sentence):
        return ~self.among(query, key)

    def __str__(self) -> str:
        return "painted"


@dataclass(frozen=True)
class Opened(_Cells):
    """Opens single cells, (query, key), chosen by hand, and no other: ``mask | Opened(cells)`` opens them in a mask."""

    rule = "opened"

    def allows(self, query, key, sentence):
        return self.among(query, key)

    def __str__(self) -> str:
        return "opened"


def subsequent_mask(size: int) -> Tensor:
    """The mask of the decoder's self-attention, (1, size, size), True = may attend: row i sees the keys 0 to i."""
    if size < 0:
        raise MaskError(f"The size of a subsequent mask is {size}; it must be 0 or more.")
    return Subsequent().tensor(size, size)[:, 0]


def _lengths(mask: "Padding | Documents") -> tuple[int, ...]:
    try:
        lengths = tuple(operator.index(length) for length in mask.lengths)
    except TypeError:
        given = quoted(mask.lengths)
        raise MaskError(f"The lengths of '{mask.rule}' are a list of whole numbers; given {given}.") from None
    if lengths and min(lengths) < 0:
        raise MaskError(f"A length of '{mask.rule}' is {min(lengths)}; it must be 0 or more.")
    return lengths
