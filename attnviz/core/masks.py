"""Masks as named predicates: a name, its parameters, and who may attend to whom. True = may attend, always.

A mask is a small frozen value. From it come the boolean tensor for (Q, K) or one block of it, which rule blocked a
cell, and its JSON. Masks combine with ``&``, ``|`` and ``~``. Other conventions (True = masked, 0 = masked, additive
floats) are named adapters in `attnviz.core.conventions`.
"""

import json
import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnviz.core.errors import MaskError, quoted

DEEPEST = 32
LARGEST = 100_000
"""Bounds of what `from_json` accepts: levels of nesting; numbers in one list, and the size of each number."""

_RULES: dict[str, type["Mask"]] = {}


class Mask(ABC):
    """Who may attend to whom, as a value. Equal masks compare equal and hash alike."""

    rule: ClassVar[str]

    def __init_subclass__(cls) -> None:
        if "rule" in vars(cls):
            _RULES[cls.rule] = cls

    @abstractmethod
    def allows(self, query: Tensor, key: Tensor, sentence: Tensor) -> Tensor:
        """True where `query` may attend to `key`.

        Args:
            query, key, sentence: integers, (1, Q, 1), (1, 1, K) and (B, 1, 1); the answer broadcasts to (B, Q, K).
        """

    @property
    def batch_size(self) -> int | None:
        """How many sentences the mask is for; None if it is the same for any number."""
        return None

    def tensor(
        self, queries: int, keys: int, *, rows: slice = slice(None), columns: slice = slice(None)
    ) -> Tensor:
        """The boolean mask for scores of (B, H, queries, keys), or for one block of it.

        Returns:
            (B, 1, rows, columns), where B is 1 unless the mask differs between sentences.
        """
        return self.allows(*self._indices(queries, keys, rows, columns)).expand(
            self.batch_size or 1, len(range(*rows.indices(queries))), len(range(*columns.indices(keys)))
        ).unsqueeze(1)

    def grid(self, queries: int, keys: int | None = None, *, sentence: int = 0) -> Tensor:
        """The boolean mask of one sentence, (queries, keys)."""
        self._check_sentence(sentence)
        mask = self.tensor(queries, queries if keys is None else keys)
        return mask[sentence if self.batch_size else 0, 0]

    def blockers(self, query: Tensor, key: Tensor, sentence: Tensor) -> dict[str, Tensor]:
        """Which rule blocks which cells: rule -> boolean tensor, shaped as in `allows`."""
        return {str(self): ~self.allows(query, key, sentence)}

    def blocked_by(self, query: int, key: int, *, sentence: int = 0) -> tuple[str, ...]:
        """The rules that block one cell, in the order in which they stand; empty if the cell is open."""
        self._check_sentence(sentence)
        place = (torch.tensor(n).reshape(1, 1, 1) for n in (query, key, sentence))
        return tuple(rule for rule, blocked in self.blockers(*place).items() if blocked.any())

    def reasons(
        self,
        queries: int,
        keys: int,
        *,
        sentence: int = 0,
        rows: slice = slice(None),
        columns: slice = slice(None),
    ) -> tuple[tuple[str, ...], Tensor]:
        """Why each cell of one sentence is blocked.

        Returns:
            The distinct reasons ("subsequent", "subsequent and padding", ...) and an integer tensor (rows, columns):
            0 = may attend, i = blocked by reason i - 1.
        """
        self._check_sentence(sentence)
        query, key, _ = self._indices(queries, keys, rows, columns)
        blockers = self.blockers(query, key, torch.tensor(sentence).reshape(1, 1, 1))
        codes = torch.zeros(query.shape[-2], key.shape[-1], dtype=torch.int64)
        reasons: list[tuple[str, ...]] = [()]
        for rule, blocked in reversed(blockers.items()):  # splits each reason so far in two; those that occur are kept
            codes = 2 * codes + blocked.expand(1, *codes.shape)[0]
            occur = torch.bincount(codes.flatten(), minlength=2 * len(reasons)).nonzero().flatten()
            codes = torch.searchsorted(occur, codes)
            reasons = [((rule,) if code % 2 else ()) + reasons[code // 2] for code in occur.tolist()]
        names = tuple(" and ".join(reason) for reason in reasons)
        return (names[1:], codes) if names[:1] == ("",) else (names, codes + 1)

    def _check_sentence(self, sentence: int) -> None:
        if not 0 <= sentence < (self.batch_size or sentence + 1):
            many = f"it is for {self.batch_size}, counted from 0"
            raise MaskError(f"The mask '{self}' has no sentence {sentence}; {many}.")

    def _indices(self, queries: int, keys: int, rows: slice, columns: slice) -> tuple[Tensor, Tensor, Tensor]:
        query = torch.arange(queries)[rows].reshape(1, -1, 1)
        key = torch.arange(keys)[columns].reshape(1, 1, -1)
        return query, key, torch.arange(self.batch_size or 1).reshape(-1, 1, 1)

    def __and__(self, other: "Mask") -> "Mask":
        return _joined(And, self, other)

    def __or__(self, other: "Mask") -> "Mask":
        return _joined(Or, self, other)

    def __invert__(self) -> "Mask":
        return self.mask if isinstance(self, Not) else Not(self)

    def to_json(self) -> dict[str, Any]:
        """A JSON object from which `from_json` makes an equal mask."""
        return {"rule": self.rule} | {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


@dataclass(frozen=True)
class Full(Mask):
    """Every query may attend to every key."""

    rule = "full"

    def allows(self, query, key, sentence):
        return torch.ones(1, 1, 1, dtype=torch.bool)

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

    def __str__(self) -> str:
        return f"prefix of {self.length}"


@dataclass(frozen=True)
class Documents(Mask):
    """Packed documents: a query sees the keys of its own document only. Positions beyond the last belong to none."""

    rule = "documents"
    lengths: tuple[int, ...]

    def __post_init__(self):
        object.__setattr__(self, "lengths", _lengths(self))

    def allows(self, query, key, sentence):
        ends = torch.tensor(self.lengths, dtype=torch.int64).cumsum(0)
        documents = [torch.searchsorted(ends, t.contiguous(), right=True) for t in (query, key)]
        return (documents[0] == documents[1]) & (documents[1] < len(self.lengths))

    def __str__(self) -> str:
        return f"documents of {', '.join(map(str, self.lengths))}"


@dataclass(frozen=True)
class Painted(Mask):
    """Blocks single cells, (query, key), chosen by hand."""

    rule = "painted"
    cells: tuple[tuple[int, int], ...]

    def __post_init__(self):
        cells = {(operator.index(query), operator.index(key)) for query, key in self.cells}
        object.__setattr__(self, "cells", tuple(sorted(cells)))

    def allows(self, query, key, sentence):
        wide = 2**32
        cells = torch.tensor([q * wide + k for q, k in self.cells], dtype=torch.int64)
        return ~torch.isin(query * wide + key, cells)

    def __str__(self) -> str:
        return "painted"


@dataclass(frozen=True)
class _Group(Mask):
    masks: tuple[Mask, ...]

    def __post_init__(self):
        object.__setattr__(self, "masks", tuple(self.masks))
        if not self.masks:
            raise MaskError(f"'{self.rule}' needs at least one mask.")
        _common_batch(self.masks)

    @property
    def batch_size(self):
        return _common_batch(self.masks)

    def blockers(self, query, key, sentence):
        return {f"({self})": ~self.allows(query, key, sentence)}

    def __str__(self) -> str:
        return f" {self.rule} ".join(f"({m})" if isinstance(m, _Group) else str(m) for m in self.masks)

    def to_json(self):
        return {"rule": self.rule, "masks": [m.to_json() for m in self.masks]}


@dataclass(frozen=True)
class And(_Group):
    """Open where every one of its masks is open."""

    rule = "and"

    def allows(self, query, key, sentence):
        allowed = self.masks[0].allows(query, key, sentence)
        for mask in self.masks[1:]:
            allowed = allowed & mask.allows(query, key, sentence)
        return allowed

    def blockers(self, query, key, sentence):
        blockers: dict[str, Tensor] = {}
        for mask in self.masks:
            for rule, blocked in mask.blockers(query, key, sentence).items():
                blockers[rule] = blocked | blockers[rule] if rule in blockers else blocked
        return blockers


@dataclass(frozen=True)
class Or(_Group):
    """Open where at least one of its masks is open."""

    rule = "or"

    def allows(self, query, key, sentence):
        allowed = self.masks[0].allows(query, key, sentence)
        for mask in self.masks[1:]:
            allowed = allowed | mask.allows(query, key, sentence)
        return allowed


@dataclass(frozen=True)
class Not(Mask):
    """Open where its mask is blocked."""

    rule = "not"
    mask: Mask

    @property
    def batch_size(self):
        return self.mask.batch_size

    def allows(self, query, key, sentence):
        return ~self.mask.allows(query, key, sentence)

    def __str__(self) -> str:
        return f"not ({self.mask})" if isinstance(self.mask, _Group) else f"not {self.mask}"

    def to_json(self):
        return {"rule": "not", "mask": self.mask.to_json()}


def subsequent_mask(size: int) -> Tensor:
    """The mask of the decoder's self-attention, (1, size, size), True = may attend: row i sees the keys 0 to i."""
    if size < 0:
        raise MaskError(f"The size of a subsequent mask is {size}; it must be 0 or more.")
    return Subsequent().tensor(size, size)[:, 0]


def from_json(data: str | dict[str, Any]) -> Mask:
    """Make the mask that `Mask.to_json` described, from the object or its text.

    Raises:
        MaskError: says what is wrong, for data from a link or a file.
    """
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError):
            raise MaskError("The mask is not valid JSON.") from None
    return _read(data, 0)


def _read(data: Any, depth: int) -> Mask:
    if depth > DEEPEST:
        raise MaskError(f"The mask is nested more than {DEEPEST} deep.")
    if not isinstance(data, dict) or not isinstance(data.get("rule"), str):
        raise MaskError(f"A mask is an object with a rule; given {quoted(data)}.")
    rule, given = data["rule"], {name: value for name, value in data.items() if name != "rule"}
    kind = _RULES.get(rule)
    if kind is None:
        raise MaskError(f"There is no mask rule {quoted(rule)}. There are: {', '.join(sorted(_RULES))}.")
    names = {f.name for f in fields(kind)}
    if unknown := set(given) - names:
        known = ", ".join(sorted(names)) or "nothing"
        raise MaskError(f"The rule '{rule}' has no {quoted(unknown.pop())}; it has: {known}.")
    if "mask" in given:
        given["mask"] = _read(given["mask"], depth + 1)
    elif "masks" in given:
        _check_list(given["masks"], rule)
        given["masks"] = tuple(_read(mask, depth + 1) for mask in given["masks"])
    else:
        given = {name: _numbers(value, rule) for name, value in given.items()}
    try:
        mask = kind(**given)
        mask.tensor(1, 1)
    except MaskError:
        raise
    except (TypeError, ValueError):
        raise MaskError(f"The rule '{rule}' cannot be read from {quoted(data)}.") from None
    return mask


def _numbers(value: Any, rule: str, deep: int = 2) -> Any:
    """Integers, and lists of them two deep, within bounds; None stays."""
    if isinstance(value, list) and deep:
        _check_list(value, rule)
        return tuple(_numbers(item, rule, deep - 1) for item in value)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST:
        raise MaskError(f"The rule '{rule}' takes whole numbers up to {LARGEST:,}; given {quoted(value)}.")
    return value


def _check_list(value: Any, rule: str) -> None:
    if not isinstance(value, list) or len(value) > LARGEST:
        raise MaskError(f"The rule '{rule}' takes a list of at most {LARGEST:,} items.")


def _lengths(mask: "Padding | Documents") -> tuple[int, ...]:
    try:
        lengths = tuple(operator.index(length) for length in mask.lengths)
    except TypeError:
        given = quoted(mask.lengths)
        raise MaskError(f"The lengths of '{mask.rule}' are a list of whole numbers; given {given}.") from None
    if lengths and min(lengths) < 0:
        raise MaskError(f"A length of '{mask.rule}' is {min(lengths)}; it must be 0 or more.")
    return lengths


def _joined(group: type[_Group], *masks: Mask) -> Mask:
    """Both masks as one; a mask joined with itself is itself."""
    parts = tuple(dict.fromkeys(part for mask in masks for part in _parts(mask, group)))
    return group(parts) if len(parts) > 1 else parts[0]


def _parts(mask: Mask, group: type[_Group]) -> tuple[Mask, ...]:
    return mask.masks if isinstance(mask, group) else (mask,)


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _common_batch(masks: tuple[Mask, ...]) -> int | None:
    sizes = {m.batch_size for m in masks} - {None}
    if len(sizes) > 1:
        raise MaskError(f"Masks for {' and '.join(map(str, sorted(sizes)))} sentences cannot be combined.")
    return sizes.pop() if sizes else None
