"""One attention call as it was seen, kept until somebody asks for its step."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing.verify import Sample
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Mask
from attnviz.core.naming import named
from attnviz.core.record import Step
from attnviz.core.scoring import HALVES, Scoring
from attnviz.core.tap import Tap
from attnviz.core.windows import WindowGrid

BLOCKED = -9e3
"""Number added to a score below which its cell is masked; codes add -10,000, -1e9, the lowest number or -inf."""
SWALLOWS = -1e8
"""Number below which a finite mask leaves nothing of the scores: a fully masked row has equal weights."""


@dataclass(eq=False)
class Call:
    """Inputs of one attention call; tensors as in `Tap.attend`, detached and copied.

    Attributes:
        name: module that made it, as `model.named_modules()` says.
        passed: number of the forward pass of the model in which it was made.
        value: what the weights were multiplied by; None if they met no values.
        head: which head of the site it is, where a module computes one alone.
        offset: number of queries of earlier passes, whose keys this one has, too.
        weights_only: whether its scores stand as the bias of queries and keys that are zero: these are not known.
        refused: why it is no map that can be shown; "" if it is.
        unmet: what became of its weights instead of a product with values.
        samples: rows that the model computed itself, to which the map is compared.
        windows: windows of a picture that its sentences are, if they are any.
        line: file and line of a person's code that makes it.
    """

    site: Site
    name: str
    passed: int
    query: Tensor
    key: Tensor
    value: Tensor | None
    mask: Tensor | Mask | None = None
    scoring: Scoring = Scoring()
    sinks: Tensor | None = None
    head: int | None = None
    offset: int = 0
    is_edited: bool = False
    weights_only: bool = False
    refused: str = ""
    unmet: str = ""
    samples: tuple[Sample, ...] = ()
    windows: WindowGrid | None = None
    line: str = ""

    @property
    def why_not(self) -> str:
        """Why it cannot be shown; "" if it can."""
        if self.refused or self.value is not None:
            return self.refused
        return self.unmet or f"weights of {self.name or 'the model'} meet no values, or are changed after the softmax"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, Q, K), without a sink."""
        return (*self.query.shape[:3], self.key.shape[2])

    def in_windows(self, edits: Edits) -> Edits:
        """Edits as they act in the windows of a picture, if its sentences are these."""
        return edits if self.windows is None else self.windows.edits(edits, self.shape[0] // self.windows.count)

    def step(self, edits: Edits, lengths: tuple[int, ...] | None = None) -> Step:
        """The step that a record keeps: on the CPU, with the edits; of windows as the model computes it.

        With the number of keys of each sentence that are no padding, `lengths`, the mask finds its names.
        """
        tap, value = Tap(self.in_windows(edits)), self.value.cpu()
        arguments = {name: to_cpu(argument) for name, argument in self.computed_from().items()}
        if isinstance(arguments["mask"], Tensor):
            arguments["mask"] = named(arguments["mask"], *self.shape[2:], lengths)
        scoring = replace(arguments["scoring"], bias=tuple(map(to_cpu, arguments["scoring"].bias)))
        with torch.no_grad():
            tap.attend(**arguments | {"scoring": scoring, "value": value.to(arguments["query"].dtype)}, site=self.site)
        return replace(tap.steps[0], name=self.name, line=self.line, weights_only=self.weights_only)

    def computed_from(self) -> dict[str, Any]:
        """The arguments of a tap, but for the value."""
        return {name: getattr(self, name) for name in ("query", "key", "mask", "scoring", "sinks")}


def scored(scores: Tensor, mask: Tensor | None, empty_rows: str) -> dict[str, Any]:
    """Parts of a call of which only scores, (B, H, Q, K), and mask are taken: queries and keys are zero."""
    batch, heads, queries, keys = scores.shape
    scores = scores.float() if scores.dtype in HALVES or not scores.is_floating_point() else scores
    query, key = scores.new_zeros(batch, heads, queries + keys, 1).split((queries, keys), 2)
    bias = scores if mask is None else scores.masked_fill(~mask, 0)
    scoring = Scoring(scale=1.0, bias=bias, empty_rows=empty_rows)
    return {"query": query, "key": key, "mask": mask, "scoring": scoring, "sinks": None}


def to_cpu(value: object) -> object:
    return value.cpu() if isinstance(value, Tensor) else value


def detached_copy(tensor: Tensor) -> Tensor:
    """A copy that nothing the model does later can change."""
    return tensor.detach().clone()


def apart(mask: Tensor | None) -> tuple[Tensor | None, Tensor | None, str]:
    """Split a float mask, added to the scores, into a boolean mask, a bias and the policy of its fully masked rows.

    A row masked by finite numbers throughout is not empty to the model: it has equal weights where the numbers
    swallow the scores, and else the weights of its scores.
    """
    if mask is None or mask.dtype is torch.bool:
        return mask, None, "zero"
    blocked, policy = mask < BLOCKED, "zero"
    rows = blocked.all(-1, keepdim=True) & (mask > -torch.inf).all(-1, keepdim=True)
    if bool(rows.any()) and bool((mask < SWALLOWS).where(rows, True).all()):
        policy = "uniform"
    else:
        blocked = blocked & ~rows
    bias = mask.masked_fill(blocked, 0)
    return (~blocked if bool(blocked.any()) else None), (bias if bool(bias.any()) else None), policy
