"""A stage of the chain: what it is called, its equation, its shape, its numbers, and what changed."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from attnviz.core.amounts import plural
from attnviz.core.origin import Origin
from attnviz.core.record import Record, Step
from attnviz.core.taking import overlaid
from attnviz.core.tap import silence
from attnviz.walk import equations, knobs
from attnviz.walk.equations import EquationPart, Piece
from attnviz.walk.knobs import Knobs
from attnviz.walk.windows import MOST_WIDTH, slice_of

KEYS = tuple(
    "embedding position input project split adjust products scale softcap bias temperature mask softmax dropout values "
    "concat output".split()
)
"""Names of the steps of a call, the same in every run; in a link, too."""

READ_ONLY = "The model computes attention in its own code: only its weights are known."
NOT_TAKEN_APART = "This model is not taken apart here: its numbers are known from the queries, keys and values on."

LETTERS = {"query": "Q", "key": "K"}
"""The letters of the axes that stand for tokens; others are called by their size: d_model, d_k, d_v."""

OF_HEADS = frozenset({"d_k", "d_v", "H·d_k", "H·d_v"})
"""The letters of what queries, keys and values say of a head."""


NOUNS = {"H": "head", "Q": "query", "K": "key"} | {axis: axis for axis in LETTERS}
"""Items along each axis; along other axes stand numbers."""

INDICES = str.maketrans("0123456789kv", "₀₁₂₃₄₅₆₇₈₉ₖᵥ")


def typeset(text: str) -> str:
    """An equation or a shape with small letters and digits as indices, where there are signs for them: "√dₖ"."""
    return re.sub(r"_(\d+|[kv]\b)", lambda match: match[1].translate(INDICES), text)


def plural_of(axis: str, size: int) -> str:
    """Count of the items along an axis: "11 queries"; along d_model, d_k and d_v numbers of a vector."""
    return plural(NOUNS.get(axis, "number"), size)


def in_letters(axes: Sequence[str]) -> str:
    """A shape as it is read: "(B, H, Q, dₖ)"."""
    return typeset(f"({', '.join(axes)})")


@dataclass(frozen=True, eq=False)
class Matrix:
    """A table of numbers of one sentence and head, all of it or a window.

    Attributes:
        key: what it is, the same in every run: "x", "w_q", "q_all", "q", "scores", ...
        name: as it is written over the table: X, W_Q, Q, ...
        axes: what its rows and columns stand for: "query" and "key" are positions of tokens, "d_k" dimensions, ...
        shape: of the whole.
        rows, columns: the positions that `values` holds.
        values: (rows, columns), as the model has them.
        blocked: of weights, which cells the mask left without any; None where that is not known or there is none.
    """

    key: str
    name: str
    axes: tuple[str, str]
    shape: tuple[int, int]
    rows: range
    columns: range
    values: Tensor
    blocked: Tensor | None = None

    @property
    def letters(self) -> str:
        """The shape in letters: "(Q, dₖ)"."""
        return in_letters([LETTERS.get(axis, axis) for axis in self.axes])


@dataclass(frozen=True, eq=False)
class Stage:
    """One step of the chain.

    Attributes:
        key: the same in every run: one of `KEYS`.
        title: what it is called.
        equation: the equation that it stands in, its own part marked.
        letters: the axes of the whole tensor: ("B", "H", "Q", "K").
        shape: their sizes; empty where one of them is not known.
        matrices: its numbers, of one sentence and head; empty if they are not known.
        changed: one sentence, with numbers, on what is different from the stage before.
        missing: one sentence if the model has no such step, or does not show it; else None.
    """

    key: str
    title: str
    equation: tuple[EquationPart, ...]
    letters: tuple[str, ...]
    shape: tuple[int, ...]
    matrices: tuple[Matrix, ...] = ()
    changed: str = ""
    missing: str | None = None

    @property
    def is_used(self) -> bool:
        """Whether the call has this step, even where its numbers are not shown."""
        return self.missing in (None, READ_ONLY, NOT_TAKEN_APART)

    @property
    def text(self) -> str:
        """The equation as plain text."""
        return typeset("".join(part.text for part in self.equation))

    @property
    def sizes(self) -> str:
        """The shape in letters and, where it is known, in numbers: "(B, H, Q, K) = (1, 4, 6, 6)"."""
        letters = in_letters(self.letters)
        return f"{letters} = ({', '.join(f'{size:,}' for size in self.shape)})" if self.shape else letters

    def matrix(self, key: str) -> Matrix:
        """One of its matrices.

        Raises:
            KeyError: if it has no such.
        """
        return {matrix.key: matrix for matrix in self.matrices}[key]


@dataclass(frozen=True, eq=False)
class StageCall:
    """The attention call that is walked through: what all stages ask for."""

    record: Record
    step: Step
    origin: Origin | None
    head: int
    sentence: int
    queries: range
    keys: range
    knobs: Knobs
    rows: slice = field(init=False)
    columns: slice = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "rows", slice_of(self.queries))
        object.__setattr__(self, "columns", slice_of(self.keys))

    @property
    def where(self) -> dict[str, int]:
        return {"sentence": self.sentence}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The size of every axis by its letter."""
        batch, heads, queries, keys = self.step.shape
        d_k, d_v = self.step.query.shape[-1], self.step.value.shape[-1]
        sizes = {"B": batch, "H": heads, "Q": queries, "K": keys, "d_k": d_k, "d_v": d_v}
        return sizes | {"H·d_k": heads * d_k, "H·d_v": heads * d_v, "d_model": self.record.output.shape[-1], "1": 1}

    def table(self, key: str, name: str, axes: tuple[str, str], whole: Tensor) -> Matrix:
        """Visible part of a table that is linear in the tokens."""
        window = [self._window_of(axis, size) for axis, size in zip(axes, whole.shape, strict=True)]
        return Matrix(key, name, axes, tuple(whole.shape), *window, whole[slice_of(window[0]), slice_of(window[1])])

    def rows_table(self, key: str, name: str, axis: str, values: Tensor) -> Matrix:
        """Visible part of a table of queries of which only the window was computed."""
        shape = self.step.shape[2], values.shape[1]
        width = self._window_of(axis, shape[1])
        return Matrix(key, name, ("query", axis), shape, self.queries, width, values[:, slice_of(width)])

    def square(self, key: str, name: str, values: Tensor, blocked: Tensor | None = None) -> Matrix:
        """A window of a table of queries and keys."""
        return Matrix(key, name, ("query", "key"), self.step.shape[2:], self.queries, self.keys, values, blocked)

    def _window_of(self, axis: str, size: int) -> range:
        chosen = {"query": self.queries, "key": self.keys}
        return chosen.get(axis, range(min(size, MOST_WIDTH)))

    def weights(self, head: int) -> Tensor:
        """Weights of a head after dropout, (rows, K)."""
        undropped = knobs.weights(self.step, head, self.rows, self.knobs, **self.where)
        options = {"head": head, "first": self.queries.start}
        return knobs.dropped(undropped, self.knobs.dropout_p, self.knobs.dropout_seed, **options)

    def mixed(self, head: int) -> Tensor:
        """Weights times values of a head, whether it is off or not, (rows, d_v)."""
        value = self.step.value[self.sentence, head]
        return self.weights(head).to(value.dtype) @ value

    @cached_property
    def heads_off(self) -> frozenset[int]:
        """The heads that are off in this sentence."""
        return frozenset(h for h in range(self.step.num_heads) if self.step.is_off(h, **self.where))

    @cached_property
    def joined(self) -> Tensor:
        """The outputs of all heads side by side, as they went on: zeros of those that are off, (rows, H·d_v)."""
        outputs = torch.stack([self.mixed(head) for head in range(self.step.num_heads)])
        outputs = overlaid(outputs, None if self.step.taken is None else self.step.taken[self.sentence, :, self.rows])
        return silence(outputs.unsqueeze(0), self.heads_off)[0].transpose(0, 1).flatten(1)

    @property
    def is_taken(self) -> bool:
        """Whether what the head gives was taken from another text at one of its positions."""
        taken = self.step.taken
        return taken is not None and not bool(taken[self.sentence, self.head].isnan().all())

    @property
    def of_window(self) -> str:
        """Beginning of a sentence that holds for the window alone; empty if all is shown."""
        whole = (len(self.queries), len(self.keys)) == self.step.shape[2:]
        return "" if whole else f" In the window of {len(self.queries)} queries and {len(self.keys)} keys:"

    def shape(self, *letters: str) -> dict[str, tuple]:
        """The letters and sizes of a stage, as its arguments; how wide a head is, a read-only model does not say."""
        is_known = not (self.record.read_only and set(letters) & OF_HEADS)
        return {"letters": letters, "shape": tuple(self.sizes[letter] for letter in letters) if is_known else ()}


Worked = tuple[list[Matrix], str] | str
"""Result of a stage: its numbers and what changed, or why the model has no such stage."""


def works_out(
    key: str, title: str, letters: str, pieces: Callable[[StageCall], list[Piece]], needs: str = ""
) -> Callable[[Callable[[StageCall], Worked]], Callable[[StageCall], Stage]]:
    """Makes a stage of a function that works it out.

    Args:
        letters: the axes of the whole tensor, blanks between.
        pieces: of the equation that it stands in.
        needs: "vectors" (queries, keys and values) or "origin" (what they were projected from); "" for weights.
    """

    def decorate(work: Callable[[StageCall], Worked]) -> Callable[[StageCall], Stage]:
        def stage(call: StageCall) -> Stage:
            equation = equations.equation(pieces(call), key)
            fields = {"key": key, "title": title, "equation": equation} | call.shape(*letters.split())
            worked = READ_ONLY if needs and call.record.read_only else None
            worked = worked or (NOT_TAKEN_APART if needs == "origin" and call.origin is None else work(call))
            if isinstance(worked, str):
                return Stage(**fields, missing=worked)
            matrices, changed = worked
            return Stage(**fields, matrices=tuple(matrices), changed=changed)

        return stage

    return decorate


def attended(call: StageCall) -> list[Piece]:
    """The equation of what a head computes."""
    return equations.attend(call.step, call.knobs)


def span(values: Tensor) -> str:
    """Between which numbers a tensor lies, infinite ones and NaN left out."""
    finite = values[values.isfinite()]
    if not finite.numel():
        return "no finite number"
    return f"{number(finite.min())} to {number(finite.max())}"


def number(value: Tensor | float) -> str:
    """A number in four digits."""
    return f"{float(value):.4g}".replace("-", "−")


def spread(values: Tensor) -> str:
    """The standard deviation of what is finite."""
    finite = values[torch.isfinite(values)].double()
    return number(finite.std(correction=0)) if finite.numel() else "NaN"
