"""Base class of masks, and the operators on masks: `And`, `Or`, `Not`, `Shifted`."""

import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import reduce
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from attnviz.core.errors import MaskError
from attnviz.core.masks.spans import Span
from attnviz.core.parameters import Parameter, check_numbers, parameters

BLOCK, HIGH = 2**20, 512
"""Number of cells, and of queries, per block when keys are counted."""
RULES: dict[str, type["Mask"]] = {}
"""All rules by name."""
KEYWORDS: dict[str, type["Mask"]] = {}
"""All rules except operators, by the names that a text may use: keyword and name."""
NUMBER = re.compile(r"(?P<optional>\[)?(?P<before>[^\[\]{}]*)\{(?P<name>\w+)\}(?P<after>[^\[\]{}]*)(?(optional)\])")
"""Pattern of a number in `Mask.words`, with the text around it; in brackets if it is optional."""


class Reason(str):
    """Text that says why cells are blocked: "causal and padding".

    Attributes:
        rules: index in `Mask.rules`, and text, of each rule that blocks the cells.
    """

    rules: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, rules: dict[int, str]) -> Self:
        """Make a reason from the texts of the rules that block the cells, by index in `Mask.rules`.

        The text of an `Or` is in parentheses, "(causal or prefix of 2)", which a single rule does not need.
        """
        plain = {index: re.sub(r"^\((.*)\)$", r"\1", text) for index, text in rules.items()}
        reason = cls(" and ".join(rules.values() if len(rules) > 1 else plain.values()))
        reason.rules = tuple(plain.items())
        return reason


class Mask(ABC):
    """A mask: which query may attend to which key. Masks with equal fields are equal and have the same hash.

    A rule is a frozen dataclass in `attnviz.core.masks.rules` with a predicate, parameters and words; it defines `code`
    only if its predicate cannot be printed.

    Attributes:
        rule: name of the rule.
        keyword: name of the rule in text, the same in links, the shell and Python; by default `rule`, "" for operators.
        meaning: description in one line.
        words: name with parameters in braces; a part in brackets is omitted if its parameter has the default value.
        join: default operator that joins it to other masks: "and" for rules that block, "or" for rules that open.
        of_keys: whether it depends on keys only, so that all queries have the same mask.
    """

    rule: ClassVar[str]
    keyword: ClassVar[str]
    meaning: ClassVar[str] = ""
    words: ClassVar[str] = ""
    join: ClassVar[str] = "and"
    of_keys: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Register a class with a `rule` by its names."""
        if "rule" in vars(cls):
            cls.keyword = vars(cls).get("keyword", cls.rule)
            RULES[cls.rule] = cls
            if cls.keyword:
                KEYWORDS[cls.rule] = KEYWORDS[cls.keyword] = cls

    def __post_init__(self):
        check_numbers(self)

    @abstractmethod
    def allows(self, query: Tensor, key: Tensor, sentence: Tensor) -> Tensor:
        """Compute where `query` may attend to `key`: True = may attend.

        The predicate uses only operators and the functions of `attnviz.core.masks.spans`, so that it also works for
        ranges of positions, and can be printed as code.

        Args:
            query, key, sentence: integers, (1, Q, 1), (1, 1, K) and (B, 1, 1); the result broadcasts to (B, Q, K).
        """

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """List the parameters of the rule; empty for operators."""
        return parameters(cls)

    def code(self, writer: Any) -> Any:
        """Write the predicate of the mask as code, a `writing.Symbol`; None for a mask without a keyword."""
        return writer.write_predicate(self.allows) if getattr(self, "keyword", "") else None

    @property
    def batch_size(self) -> int | None:
        """Number of sentences that the mask is for; None if it is the same for every sentence."""
        return None

    def tensor(self, queries: int, keys: int, *, rows: slice = slice(None), columns: slice = slice(None)) -> Tensor:
        """Compute the boolean mask for scores (B, H, queries, keys), or one block of it.

        Returns:
            (B, 1, rows, columns); B is 1 unless the mask differs between sentences.
        """
        return (
            self.allows(*self._indices(queries, keys, rows, columns))
            .expand(self.batch_size or 1, len(range(*rows.indices(queries))), len(range(*columns.indices(keys))))
            .unsqueeze(1)
        )

    def grid(
        self,
        queries: int,
        keys: int | None = None,
        *,
        sentence: int = 0,
        rows: slice = slice(None),
        columns: slice = slice(None),
    ) -> Tensor:
        """Compute the boolean mask for one sentence, (queries, keys), or one block of it."""
        self._check_sentence(sentence)
        mask = self.tensor(queries, queries if keys is None else keys, rows=rows, columns=columns)
        return mask[sentence if self.batch_size else 0, 0]

    def blockers(self, query: Tensor, key: Tensor, sentence: Tensor) -> dict[str, Tensor]:
        """Compute which cells each rule blocks: a boolean tensor, shaped as in `allows`, by the text of the rule."""
        return {str(self): ~self.allows(query, key, sentence)}

    def blocked_by(self, query: int, key: int, *, sentence: int = 0) -> tuple[str, ...]:
        """List the rules that block one cell, in the order of the mask; empty if the cell is open."""
        self._check_sentence(sentence)
        cell = (torch.tensor(index).reshape(1, 1, 1) for index in (query, key, sentence))
        return tuple(rule for rule, blocked in self.blockers(*cell).items() if blocked.any())

    def rules(self) -> tuple[str, ...]:
        """List the texts of all rules, as in `blocked_by`; `Reason.rules` has indices into this list."""
        zero = torch.zeros(1, 1, 1, dtype=torch.int64)
        return tuple(self.blockers(zero, zero, zero))

    def reasons(
        self,
        queries: int,
        keys: int,
        *,
        sentence: int = 0,
        rows: slice | Tensor = slice(None),
        columns: slice | Tensor = slice(None),
    ) -> tuple[tuple[Reason, ...], Tensor]:
        """Compute why each cell of one sentence is blocked, for a block or for the given rows and columns.

        Returns:
            The distinct reasons ("causal", "causal and padding", ...) and an integer tensor (rows, columns):
            0 = may attend, i = blocked by reason i - 1.
        """
        self._check_sentence(sentence)
        query, key, _ = self._indices(queries, keys, rows, columns)
        blockers = self.blockers(query, key, torch.tensor(sentence).reshape(1, 1, 1))
        # `codes` holds for each cell the index in `rule_sets` of the set of rules that block the cell. Each rule splits
        # every set in two, without (even codes) and with the rule (odd codes); sets that no cell has are dropped.
        codes = torch.zeros(query.shape[-2], key.shape[-1], dtype=torch.int64)
        rule_sets: list[dict[int, str]] = [{}]
        for index, (rule, blocked) in reversed([*enumerate(blockers.items())]):
            codes = 2 * codes + blocked.expand(1, *codes.shape)[0]
            used_codes = torch.bincount(codes.flatten(), minlength=2 * len(rule_sets)).nonzero().flatten()
            codes = torch.searchsorted(used_codes, codes)
            rule_sets = [({index: rule} if code % 2 else {}) | rule_sets[code // 2] for code in used_codes.tolist()]
        if all(rule_sets):  # every cell is blocked
            return tuple(map(Reason.of, rule_sets)), codes + 1
        return tuple(map(Reason.of, rule_sets[1:])), codes  # the first set, without rules, is that of open cells

    def is_open(self, queries: range, keys: range) -> bool | None:
        """Whether a block of cells is all open (True) or all blocked (False), without computing its cells.

        The predicate is evaluated on ranges of positions. None means that the caller must compute the cells: some are
        open and some blocked, or the predicate needs tensors. Both ranges must be ascending and not empty.
        """
        sentences = Span(0, (self.batch_size or 1) - 1)
        try:
            cells = self.allows(Span(queries[0], queries[-1]), Span(keys[0], keys[-1]), sentences)
            return bool(cells.low) if cells.low == cells.high else None
        except (TypeError, AttributeError):  # the predicate needs tensors
            return None

    def span(self, queries: range, keys: range, size: int) -> range:
        """Find the range of `keys` from the first to the last block of `size` keys that `queries` may attend to."""
        blocks = [keys[start : start + size] for start in range(0, len(keys), size)] if queries else []
        reached = [block for block in blocks if self.is_open(queries, block) is not False]
        return range(reached[0].start, reached[-1].stop, keys.step) if reached else keys[:0]

    def keys_left(self, queries: int, keys: int, *, sentence: int = 0) -> Tensor:
        """Count the keys that each query may attend to, int64, (Q,); skip blocks that `is_open` can decide."""
        mask, counts = self.of_sentence(sentence), torch.zeros(queries, dtype=torch.int64)
        width = BLOCK // HIGH
        for first_row in range(0, queries, HIGH):
            rows = slice(first_row, min(first_row + HIGH, queries))
            for first_column in range(0, keys, width):
                columns = slice(first_column, min(first_column + width, keys))
                is_open = mask.is_open(range(queries)[rows], range(keys)[columns])
                if is_open is None:
                    counts[rows] += self.grid(queries, keys, sentence=sentence, rows=rows, columns=columns).sum(1)
                elif is_open:
                    counts[rows] += columns.stop - columns.start
        return counts

    def shifted(self, offset: int) -> "Mask":
        """Shift the queries by `offset` positions: query i gets the keys that query i + offset has in this mask.

        A decoder with `keys` positions in its cache that computes the last `queries` of them needs the last rows of the
        full mask: ``mask.shifted(keys - queries)``. This works for every rule and for operators.
        """
        return Shifted(self, offset) if offset and not self.of_keys else self

    def of_sentence(self, sentence: int) -> "Mask":
        """Make the mask of one sentence of the batch."""
        self._check_sentence(sentence)
        return self

    def _check_sentence(self, sentence: int) -> None:
        """Raise MaskError if the mask is for a batch that has no sentence with this index."""
        if sentence < 0 or (self.batch_size and sentence >= self.batch_size):
            batch = f"it is for {self.batch_size}, counted from 0"
            raise MaskError(f"The mask '{self}' has no sentence {sentence}; {batch}.")

    def _indices(
        self, queries: int, keys: int, rows: slice | Tensor, columns: slice | Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """List the positions of queries and keys of a block, and all sentences, as the arguments of `allows`."""
        query = torch.arange(queries)[rows].reshape(1, -1, 1)
        key = torch.arange(keys)[columns].reshape(1, 1, -1)
        return query, key, torch.arange(self.batch_size or 1).reshape(-1, 1, 1)

    def __and__(self, other: "Mask") -> "Mask":
        return _join(And, self, other)

    def __or__(self, other: "Mask") -> "Mask":
        return _join(Or, self, other)

    def __invert__(self) -> "Mask":
        return self.mask if isinstance(self, Not) else Not(self)

    @property
    def text(self) -> str:
        """Text from which `attnviz.mask` makes an equal mask: "padding(5, 3, left=5)"; raise MaskError if none."""
        names = [parameter.name for parameter in self.parameters()]
        if not getattr(self, "keyword", "") or (is_dataclass(self) and [f.name for f in fields(self)] != names):
            raise MaskError(f"The mask '{self}' has no text: it is not a rule with a name.")
        arguments: list[str] = []
        needs_name = False  # True after a list, and after a default value that is left out
        for parameter in self.parameters():
            value = getattr(self, parameter.name)
            if value == parameter.default and not parameter.required:
                needs_name = True
                continue
            numbers = value if parameter.kind == "numbers" else (value,)
            if min(numbers, default=0) < parameter.least:
                raise MaskError(f"The mask '{self}' has no text: its {parameter.name} is below {parameter.least}.")
            prefix = f"{parameter.name}=" if needs_name else ""
            arguments += [f"{prefix}{number}" for number in numbers or ["[]"]]
            needs_name |= parameter.kind == "numbers"
        return f"{self.keyword}({', '.join(arguments)})" if arguments else self.keyword

    def __str__(self) -> str:
        by_name = {parameter.name: parameter for parameter in self.parameters()}

        def fill(match: re.Match) -> str:
            """Fill in one placeholder of `words`, such as "{before}"; "" for an optional one with its default value."""
            value = getattr(self, match["name"])
            if match["optional"] and value == by_name[match["name"]].default:
                return ""
            if isinstance(value, tuple):
                value = ", ".join(map(str, value)) or "none"
            return f"{match['before']}{value}{match['after']}"

        return NUMBER.sub(fill, self.words)


@dataclass(frozen=True)
class _Group(Mask):
    """Several masks joined by an operator: `sign` in the text of the mask, `combine` on boolean tensors."""

    masks: tuple[Mask, ...]
    sign: ClassVar[str]
    combine: ClassVar[Callable[[Tensor, Tensor], Tensor]]

    def __post_init__(self):
        object.__setattr__(self, "masks", tuple(self.masks))
        if not self.masks:
            raise MaskError(f"'{self.rule}' needs at least one mask.")
        _common_batch(self.masks)

    @property
    def batch_size(self):
        return _common_batch(self.masks)

    def allows(self, query, key, sentence):
        return reduce(type(self).combine, (mask.allows(query, key, sentence) for mask in self.masks))

    def blockers(self, query, key, sentence):
        return {f"({self})": ~self.allows(query, key, sentence)}

    @property
    def text(self):
        is_or = isinstance(self, Or)  # "and" needs no parentheses inside "or"
        texts = [mask.text if is_or and isinstance(mask, And) else operand(mask) for mask in self.masks]
        return f" {self.sign} ".join(texts)

    def __str__(self) -> str:
        return f" {self.rule} ".join(operand(mask, str(mask)) for mask in self.masks)

    def shifted(self, offset):
        return type(self)(tuple(mask.shifted(offset) for mask in self.masks))

    def of_sentence(self, sentence):
        return type(self)(tuple(mask.of_sentence(sentence) for mask in self.masks))


@dataclass(frozen=True)
class And(_Group):
    """A mask that is open where all of its masks are open."""

    rule = "and"
    keyword = ""
    sign = "&"
    combine = operator.and_

    def blockers(self, query, key, sentence):
        """Collect the blockers of all masks; a rule that occurs in several masks blocks where one of these does."""
        blockers: dict[str, Tensor] = {}
        for mask in self.masks:
            for rule, blocked in mask.blockers(query, key, sentence).items():
                blockers[rule] = blocked | blockers[rule] if rule in blockers else blocked
        return blockers


@dataclass(frozen=True)
class Or(_Group):
    """A mask that is open where at least one of its masks is open."""

    rule = "or"
    keyword = ""
    sign = "|"
    combine = operator.or_


@dataclass(frozen=True)
class Wrapper(Mask):
    """Base class of masks that change one other mask."""

    mask: Mask

    @property
    def batch_size(self):
        return self.mask.batch_size

    def of_sentence(self, sentence):
        return replace(self, mask=self.mask.of_sentence(sentence))


@dataclass(frozen=True)
class Not(Wrapper):
    """A mask that is open where its mask is blocked."""

    rule = "not"
    keyword = ""

    def allows(self, query, key, sentence):
        return ~self.mask.allows(query, key, sentence)

    @property
    def text(self):
        return f"~{operand(self.mask)}"

    def __str__(self) -> str:
        return f"not {operand(self.mask, str(self.mask))}"

    def shifted(self, offset):
        return Not(self.mask.shifted(offset))


@dataclass(frozen=True)
class Shifted(Wrapper):
    """A mask in which query i may attend to the keys that query i + offset may attend to in `mask`; see `Mask.shifted`.

    With a negative offset, i + offset may be a position before 0, which belongs to no document and no block.
    """

    rule = "shifted"
    keyword = ""
    offset: int

    def allows(self, query, key, sentence):
        return self.mask.allows(query + self.offset, key, sentence)

    def blockers(self, query, key, sentence):
        blockers = self.mask.blockers(query + self.offset, key, sentence)
        return {f"{rule} at offset {self.offset}": blocked for rule, blocked in blockers.items()}

    @property
    def text(self):
        return f"shifted({self.mask.text}, {self.offset})"

    def shifted(self, offset):
        return self.mask.shifted(self.offset + offset)

    def __str__(self) -> str:
        return f"{operand(self.mask, str(self.mask))} at offset {self.offset}"


def operand(mask: Mask, text: str | None = None) -> str:
    """Return the text of a mask, by default `mask.text`, in parentheses if the mask is an `And` or `Or`."""
    text = mask.text if text is None else text
    return f"({text})" if isinstance(mask, _Group) else text


def _join(group: type[_Group], *masks: Mask) -> Mask:
    """Join masks by "and" or "or", without nested groups of the same kind and without duplicates."""
    operands: list[Mask] = []
    for mask in masks:
        operands += mask.masks if isinstance(mask, group) else [mask]
    operands = [*dict.fromkeys(operands)]
    return group(tuple(operands)) if len(operands) > 1 else operands[0]


def _common_batch(masks: tuple[Mask, ...]) -> int | None:
    """Find the batch size that joined masks are for; None if no mask depends on the sentence."""
    sizes = {m.batch_size for m in masks} - {None}
    if len(sizes) > 1:
        raise MaskError(f"Masks for {' and '.join(map(str, sorted(sizes)))} sentences cannot be combined.")
    return sizes.pop() if sizes else None


@dataclass(frozen=True)
class PerText(Mask):
    """A mask for a batch with a separate mask per text."""

    masks: tuple[Mask, ...]

    @property
    def batch_size(self) -> int:
        return len(self.masks)

    def allows(self, query: Tensor, key: Tensor, sentence: Tensor) -> Tensor:
        cells = [self.masks[text].allows(query, key, sentence[:1]) for text in sentence.flatten().tolist()]
        return torch.cat(torch.broadcast_tensors(*cells))

    def of_sentence(self, sentence: int) -> Mask:
        self._check_sentence(sentence)
        return self.masks[sentence]
