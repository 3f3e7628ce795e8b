"""One attention call as it was seen, kept until somebody asks for its step."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing.checking import Sample
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Mask
from attnviz.core.naming import named
from attnviz.core.record import Step
from attnviz.core.scoring import Scoring
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
        name: of the module that made it, as `model.named_modules()` says.
        route: how it was seen: "sdpa", "scores" or "weights".
        passed: in which forward pass of the model it was made, counted from 0.
        head: which head of the site it is, where a module computes one alone.
        is_edited: whether the edits change anything in it.
        offset: how many queries earlier passes had, whose keys this one has, too.
        weights: (B, H, Q, K), where only the weights are known; query and key then are None.
        refused: why it is no map that can be shown; "" if it is.
        unmet: what became of its weights instead of a product with values.
        samples: rows that the model computed itself, to which the map is compared.
        windows: where its queries and keys stand in a picture, if its sentences are windows of it.

    A call whose value is None was never completed: its weights met no values.
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
    head: int | None = None
    offset: int = 0
    is_edited: bool = False
    weights: Tensor | None = None
    refused: str = ""
    unmet: str = ""
    samples: tuple[Sample, ...] = ()
    windows: WindowGrid | None = None

    @property
    def why_not(self) -> str:
        """Why it cannot be shown; "" if it can."""
        if self.refused or self.value is not None:
            return self.refused
        return self.unmet or f"the weights of {self.name or 'the model'} meet no values"

    def refuse_heads_first(self, heads_first: bool) -> None:
        """Refuse what would be misread: the order in one axis matters where there are several sentences."""
        if heads_first and self.shape[0] > 1:
            name = self.name or "the model"
            self.refused = f"{name} joins heads before sentences in one axis: run it on one sentence at a time"

    def empty_becomes(self, policy: str) -> None:
        """Empty rows get something else than the softmax gives them."""
        self.scoring = replace(self.scoring, empty_rows=policy)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, Q, K), without a sink."""
        if self.weights is not None:
            return tuple(self.weights.shape)
        return (*self.query.shape[:3], self.key.shape[2])

    def in_windows(self, edits: Edits) -> Edits:
        """Edits as they act in the windows of a picture, if its sentences are these."""
        return edits if self.windows is None else self.windows.edits(edits, self.shape[0] // self.windows.count)

    def step(self, edits: Edits, lengths: tuple[int, ...] | None = None) -> Step:
        """The step that a record keeps: on the CPU, with the edits; of windows as the model computes it.

        Args:
            lengths: how many keys of each sentence are no padding, if that is known: so the mask finds its names.
        """
        tap, value = Tap(self.in_windows(edits)), self.value.cpu()
        arguments = {name: to_cpu(argument) for name, argument in self.computed_from().items()}
        if isinstance(arguments["mask"], Tensor):
            arguments["mask"] = named(arguments["mask"], *self.shape[2:], lengths)
        scoring = replace(arguments["scoring"], bias=tuple(map(to_cpu, arguments["scoring"].bias)))
        with torch.no_grad():
            tap.attend(**arguments | {"scoring": scoring, "value": value.to(arguments["query"].dtype)}, site=self.site)
        return replace(tap.steps[0], name=self.name, weights_only=self.weights is not None)

    def computed_from(self) -> dict[str, Any]:
        """The arguments of a tap, but for the value.

        Where only weights are known, their logarithms stand as the bias of scores that are zero.
        """
        names = ("query", "key", "mask", "scoring", "sinks")
        if self.weights is None:
            return {name: getattr(self, name) for name in names}
        batch, heads, queries, keys = self.weights.shape
        nothing = self.weights.new_zeros(batch, heads, queries + keys, 1)
        query, key = nothing.split((queries, keys), 2)
        mask = (self.weights != 0).any(1, keepdim=True)
        scoring = Scoring(scale=1.0, bias=self.weights.log().masked_fill(~mask, 0))
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
    if bool(rows.any()):
        if bool((mask < SWALLOWS).where(rows, True).all()):
            policy = "uniform"
        else:
            blocked = blocked & ~rows
    bias = mask.masked_fill(blocked, 0)
    return (~blocked if bool(blocked.any()) else None), (bias if bool(bias.any()) else None), policy
