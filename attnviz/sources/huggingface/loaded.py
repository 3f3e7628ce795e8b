"""A model that was loaded: what is known of it, what its first runs showed, and the model itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from torch import nn

from attnviz.core.edits import Site
from attnviz.sources.base import Facts
from attnviz.sources.huggingface.embedding import Pooling
from attnviz.sources.huggingface.positions import Patching
from attnviz.sources.huggingface.turns import Turns


@dataclass(frozen=True)
class Trial:
    """Results of the first runs of a model.

    Attributes:
        heads: of each site that is shown, how many.
        d_model: of the hidden states.
        read_only: why nothing can be changed in it; None if it can.
        unseen: what of its attention is not shown; None if all of it is.
        layers: the numbers of its layers, at sites where they are not counted from 0 without a gap.
        alone: the kind of its attention, where it has only one and its parts do not say it right.
        calls: the modules that compute attention, of a model that is seen and edited in its own code by
            `attnviz.capturing`; else none.
        takes_rules: whether it hands on what stands for a causal mask, see `tapped.rules`, and gives the same.
        findings: how far the model answers otherwise as it was loaded than as it is shown.
    """

    heads: Mapping[Site, int] = field(default_factory=dict)
    d_model: int = 0
    read_only: str | None = None
    unseen: str | None = None
    layers: Mapping[Site, int] = field(default_factory=dict)
    alone: str | None = None
    calls: Mapping[Site, str] = field(default_factory=dict)
    takes_rules: bool = False
    findings: tuple[str, ...] = ()

    @property
    def is_captured(self) -> bool:
        return bool(self.calls)


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelFacts(Facts):
    """Facts of a model that was loaded, which stay after its weights were let go of.

    Attributes:
        name: as it is called.
        tokenizer: a fast one, which knows the place of each token in the text; None of a model that reads no text.
        keeps_own_attention: it computes attention in its own code (eager), so the tap does not reach it.
        size: bytes of its weights and buffers.
        trial: what its first runs showed of its attention.
        provenance: "pretrained", or "from a folder", of which nobody says more.
        pooling: how a vector of a sentence is made.
        processor: of a model that hears or reads pictures, alone or within a text, what makes its inputs; else None.
        unread: a finding where its files hold weights that the model leaves unread.
        patching: how it cuts a picture or a sound into positions; None where it reads none alone.
    """

    name: str
    tokenizer: Any
    config: Any
    keeps_own_attention: bool
    size: int
    trial: Trial
    provenance: str = "pretrained"
    pooling: Pooling = Pooling()
    processor: Any = None
    unread: tuple[str, ...] = ()
    patching: Patching | None = None

    @property
    def findings(self) -> tuple[str, ...]:
        return (*self.unread, *self.trial.findings)

    @property
    def hears(self) -> bool:
        """Whether it reads sounds."""
        return hasattr(self.processor, "sampling_rate")

    @property
    def has_square_masks(self) -> bool:
        return not self.trial.takes_rules


@dataclass(frozen=True, kw_only=True, eq=False)
class Loaded(ModelFacts):
    """A model that is ready to run. Nothing of it is ever changed.

    Attributes:
        model: in evaluation, without gradients.
        turns: when it may run.
        implementation: the attention that it was loaded with, such as "sdpa".
    """

    model: nn.Module
    turns: Turns
    implementation: str = "eager"

    @property
    def facts(self) -> ModelFacts:
        return ModelFacts(**{field.name: getattr(self, field.name) for field in fields(ModelFacts)})
