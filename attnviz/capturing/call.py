"""One attention call as it was seen, kept until somebody asks for its step."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Mask
from attnviz.core.record import Step
from attnviz.core.scoring import Scoring
from attnviz.core.tap import Tap

BLOCKED = -9e3
"""Number added to a score below which its cell is masked; codes add -10,000, -1e9, the lowest number or -inf."""
SWALLOWS = -1e8
"""Number below which a finite mask leaves nothing of the scores: a fully masked row has equal weights."""


@dataclass(eq=False)
class Call:
    """What one attention call was computed from; tensors as in `Tap.attend`, detached and copied.

    Attributes:
        name: of the module that made it, as `model.named_modules()` says.
        route: how it was seen: "sdpa", "scores" or "weights".
        passed: in which forward pass of the model it was made, counted from 0.
        weights: (B, H, Q, K), where only the weights are known; query and key then are None.
        refused: why it is no map that can be shown; "" if it is.
    """

    site: Site
    name: str
    route: str
    passed: int
    query: Tensor | None
    key: Tensor | None
    value: Tensor | None
    mask: Tensor | Mask | None = None
    scoring: Scoring = Scoring()
    sinks: Tensor | None = None
    weights: Tensor | None = None
    refused: str = ""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, Q, K), without a sink."""
        if self.weights is not None:
            return tuple(self.weights.shape)
        return (*self.query.shape[:3], self.key.shape[2])

    def step(self, edits: Edits) -> Step:
        """The step that a record keeps: on the CPU, with the edits."""
        kept = {name: to_cpu(getattr(self, name)) for name in ("query", "key", "value", "mask", "sinks")}
        scoring = replace(self.scoring, bias=tuple(map(to_cpu, self.scoring.bias)))
        tap = Tap(edits)
        with torch.no_grad():
            tap.attend(**kept, site=self.site, scoring=scoring)
        return replace(tap.steps[0], name=self.name)


def to_cpu(value: object) -> object:
    return value.cpu() if isinstance(value, Tensor) else value


def kept(tensor: Tensor) -> Tensor:
    """A copy that nothing the model does later can change."""
    return tensor.detach().clone()


def apart(mask: Tensor | None) -> tuple[Tensor | None, Tensor | None, str]:
    """What a mask of numbers, added to the scores, blocks; what it adds besides; and what its fully masked rows get.

    A row masked by finite numbers throughout is not empty to the model: it has equal weights where the numbers
    swallow the scores, and else the weights of its scores.
    """
    if mask is None or mask.dtype is torch.bool:
        return mask, None, "zero"
    blocked, policy = mask < BLOCKED, "zero"
    rows = blocked.all(-1, keepdim=True) & (mask > -torch.inf).all(-1, keepdim=True)
    if bool(rows.any()):
        if bool((mask < SWALLOWS).where(rows, True).all()):
            policy = "uniform"
        else:
            blocked = blocked & ~rows
    bias = mask.masked_fill(blocked, 0)
    return (~blocked if bool(blocked.any()) else None), (bias if bool(bias.any()) else None), policy
