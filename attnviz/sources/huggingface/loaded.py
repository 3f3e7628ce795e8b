"""A model that was loaded: what is known of it, what its first runs showed, and the model itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import nn

from attnviz.core.edits import Site
from attnviz.sources.huggingface.opening import Task
from attnviz.sources.huggingface.turns import Turns


@dataclass(frozen=True)
class Trial:
    """What the first runs of a model showed.

    Attributes:
        heads: of each site that is shown, how many.
        d_model: of the hidden states.
        read_only: why nothing can be changed in it; None if it can.
        unseen: what of its attention is not shown; None if all of it is.
        layers: the numbers of its layers, at sites where they are not counted from 0 without a gap.
        alone: the kind of its attention, where it has only one and its parts do not say it right.
    """

    heads: Mapping[Site, int] = field(default_factory=dict)
    d_model: int = 0
    read_only: str | None = None
    unseen: str | None = None
    layers: Mapping[Site, int] = field(default_factory=dict)
    alone: str | None = None


@dataclass(frozen=True, eq=False)
class Known:
    """What stays known of a model that was loaded, also after its weights were let go of.

    Attributes:
        tokenizer: a fast one, which knows the place of each token in the text.
        commit: of the hub's files, if they came from one.
        dtype, device: of the weights.
        longest: how many tokens the model reads at most, if it says so.
        keeps_own_attention: it computes attention in its own code (eager), so the tap does not reach it.
        made_of: the name of its class.
        parameters: how many numbers were learned.
        size: bytes of its weights and buffers.
        vocabulary: for how many tokens it has vectors.
        limit: why it reads no more than `longest` tokens, if attnviz says so.
        trial: what its first runs showed of its attention.
    """

    tokenizer: Any
    config: Any
    name: str
    commit: str | None
    task: Task
    dtype: torch.dtype
    device: torch.device
    longest: int | None
    keeps_own_attention: bool
    made_of: str
    parameters: int
    size: int
    vocabulary: int
    limit: str
    trial: Trial


@dataclass(frozen=True, eq=False)
class Loaded(Known):
    """A model that is ready to run. Nothing of it is ever changed.

    Attributes:
        model: in evaluation, without gradients.
        turns: when it may run.
    """

    model: nn.Module
    turns: Turns

    @property
    def known(self) -> Known:
        return Known(**{field.name: getattr(self, field.name) for field in fields(Known)})
