"""A captured attention call, which is converted to a step on demand."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing.verify import Sample
from attnviz.core.conventions import named
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Mask
from attnviz.core.record import Step
from attnviz.core.scoring import HALVES, Scoring
from attnviz.core.tap import Tap
from attnviz.core.windows import WindowGrid

BLOCKED = -9e3
"""Bias below which a cell counts as masked; models add -10,000, -1e9, the lowest number of the dtype or -inf."""
SWALLOWS = -1e8
"""Bias below which the scores are lost to rounding, so that a fully masked row has equal weights."""


@dataclass(eq=False)
class Call:
    """Inputs of one attention call; tensors as in `Tap.attend`, detached and copied.

    Attributes:
        name: name of the module that made the call, from `model.named_modules()`.
        passed: number of the forward pass.
        value: values by which the weights were multiplied; None if no such product was captured.
        head: number of the head, if the module computes a single head of the site; else None.
        offset: number of queries of earlier passes, whose keys this call has in its cache.
        weights_only: whether queries and keys are unknown; then they are zero, and the scores are stored as the bias.
        refused: reason why the call cannot be shown as a map; "" if it can.
        unmet: message on the use of the weights, if it is no product with values.
        samples: rows that the model itself computed, to verify the map.
        windows: division of a picture into windows, if the call has windows as its batch.
        line: file and line of the user's code that makes the call.
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
        """Reason why the call cannot be shown; "" if it can."""
        if self.refused or self.value is not None:
            return self.refused
        return self.unmet or f"weights of {self.name or 'the model'} meet no values, or are changed after the softmax"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the scores, (B, H, Q, K), without a sink."""
        return (*self.query.shape[:3], self.key.shape[2])

    def in_windows(self, edits: Edits) -> Edits:
        """Convert edits for the whole picture to edits for its windows, if the call has windows."""
        return edits if self.windows is None else self.windows.edits(edits, self.shape[0] // self.windows.count)

    def step(self, edits: Edits, lengths: tuple[int, ...] | None = None) -> Step:
        """Convert the call to a step on the CPU, with the edits; a call with windows gives a step with windows.

        `lengths`, the number of keys without padding per sentence, helps to recognize named rules in the mask.
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
        """The arguments for `Tap.attend`, without the value."""
        return {name: getattr(self, name) for name in ("query", "key", "mask", "scoring", "sinks")}


def scored(scores: Tensor, mask: Tensor | None, empty_rows: str) -> dict[str, Any]:
    """Fields of a call of which only scores, (B, H, Q, K), are known: they are the bias, queries and keys are 0."""
    batch, heads, queries, keys = scores.shape
    scores = scores.float() if scores.dtype in HALVES or not scores.is_floating_point() else scores
    query, key = scores.new_zeros(batch, heads, queries + keys, 1).split((queries, keys), 2)
    bias = scores if mask is None else scores.masked_fill(~mask, 0)
    scoring = Scoring(scale=1.0, bias=bias, empty_rows=empty_rows)
    return {"query": query, "key": key, "mask": mask, "scoring": scoring, "sinks": None}


def to_cpu(value: object) -> object:
    return value.cpu() if isinstance(value, Tensor) else value


def detached_copy(tensor: Tensor) -> Tensor:
    """A copy that later in-place operations of the model cannot change."""
    return tensor.detach().clone()


def apart(mask: Tensor | None) -> tuple[Tensor | None, Tensor | None, str]:
    """Split a float mask, added to the scores, into a boolean mask, a bias and the policy of its fully masked rows.

    A row masked by finite numbers only is not empty for the model: it has equal weights if the scores are lost to
    rounding, and else the weights of its scores.
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
