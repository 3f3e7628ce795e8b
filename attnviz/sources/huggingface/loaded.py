"""A model that was loaded: its facts, what its trial showed, the model itself, and when it may run."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from threading import Lock
from typing import Any

from torch import nn

from attnviz.core.edits import Site
from attnviz.sources.base import Facts
from attnviz.sources.huggingface.embedding import Pooling
from attnviz.sources.huggingface.positions import Patching

CHANGING = frozenset({"dynamic", "longrope"})
"""Kinds of rotary positions whose frequencies follow the longest text so far."""
DELTAS = "rope_deltas"
"""Attribute of models that keep, for the next token, how far a picture moved the positions behind it."""


class Turns:
    """Runs of a model: at once or, if a run could change what another reads, one after the other.

    A run finds such a model as it was loaded, so its numbers do not depend on the runs before it.
    """

    def __init__(self, model: nn.Module):
        self._parts = tuple(part for part in model.modules() if _rotary(part) & CHANGING or hasattr(part, DELTAS))
        self._lock = Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        if not self._parts:
            yield
            return
        with self._lock:
            before = [(part, vars(part).copy(), _buffers(part)) for part in self._parts]
            try:
                yield
            finally:
                for part, attributes, buffers in before:
                    vars(part).clear()
                    vars(part).update(attributes, _buffers=buffers)


def _rotary(part: nn.Module) -> set[str]:
    """Kinds of rotary positions of a module, which has one, or one for each kind of layer."""
    kind = getattr(part, "rope_type", None)
    return set(kind.values()) if isinstance(kind, dict) else {kind}


def _buffers(part: nn.Module) -> dict:
    return {name: None if buffer is None else buffer.clone() for name, buffer in vars(part)["_buffers"].items()}


@dataclass(frozen=True)
class Trial:
    """Results of the first runs of a model.

    Attributes:
        heads: number of heads of each site that is shown.
        d_model: width of the hidden states.
        read_only: reason why nothing can be changed in it; None if it can.
        unseen: attention of the model that is not shown; None if all of it is.
        layers: numbers of its layers, at sites where they are not counted from 0 without a gap.
        alone: kind of its attention, where it has only one and its parts do not say it right.
        calls: modules that compute attention, of a model that is seen and edited in its own code by
            `attnviz.capturing`; else none.
        takes_rules: whether it hands on what stands for a causal mask, see `tapped.rules`, and gives the same.
        findings: differences between the model as it was loaded and as it is shown.
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
        name: title for people.
        tokenizer: tokenizer of transformers; None of a model that reads no text.
        keeps_own_attention: whether it computes attention in its own code, so that the tap does not reach it.
        size: bytes of its weights and buffers.
        provenance: "pretrained", or "from a folder", of which nobody says more.
        pooling: how a vector of a sentence is made.
        processor: what makes the inputs of a model that hears or reads pictures, alone or within a text; else None.
        unread: weights in its files that the model leaves unread, and inputs that it does without: a sentence each.
        patching: how it cuts a picture or a sound into positions; None where it reads none alone.
    """

    name: str
    tokenizer: Any
    config: Any
    keeps_own_attention: bool
    size: int
    trial: Trial = Trial()
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
    def squares(self) -> int:
        """Masks; weights of all heads where the model computes them itself; biases of relative positions, as T5's."""
        heads, config = self.trial.heads.values(), self.config.get_text_config()
        of_own = 2 * sum(heads) if self.keeps_own_attention else 0
        biases = 3 * max(heads, default=0) if hasattr(config, "relative_attention_num_buckets") else 0
        masks = 0 if self.trial.takes_rules else 2
        return masks + (of_own or biases)


@dataclass(frozen=True, kw_only=True, eq=False)
class Loaded(ModelFacts):
    """A model that is ready to run. Nothing of it is ever changed.

    Attributes:
        model: in evaluation, without gradients.
        turns: when it may run.
        implementation: attention that it was loaded with, such as "sdpa".
    """

    model: nn.Module
    turns: Turns
    implementation: str = "eager"

    @property
    def facts(self) -> ModelFacts:
        return ModelFacts(**{field.name: getattr(self, field.name) for field in fields(ModelFacts)})
