"""A loaded model: its facts, the results of its first runs, the model itself, and when it may run."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, fields
from threading import Lock
from typing import Any

from torch import nn

from attnviz.core.edits import Site
from attnviz.sources.base import Facts
from attnviz.sources.huggingface.embedding import Pooling
from attnviz.sources.huggingface.positions import Patching

CHANGING = frozenset({"dynamic", "longrope"})
"""Kinds of rotary positions whose frequencies depend on the longest text so far."""
DELTAS = "rope_deltas"
"""Attribute in which models keep, for the next token, how far a picture moved the positions after it."""


class Turns:
    """Runs of a model: at once or, if a run could change what another reads, one after the other.

    Each run starts with the model as it was loaded, so its numbers do not depend on the runs before it.
    """

    def __init__(self, model: nn.Module):
        self._parts, self._lock = [part for part in model.modules() if hasattr(part, DELTAS)], Lock()
        for part in model.modules():
            kind = getattr(part, "rope_type", None)  # one, or one for each kind of layer
            if CHANGING & set(kind.values() if isinstance(kind, dict) else [kind]):
                self._parts.append(part)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Context manager for one run; it restores the attributes and buffers that a run can change."""
        if not self._parts:
            yield
            return
        with self._lock:
            before = [(part, vars(part) | {"_buffers": deepcopy(part._buffers)}) for part in self._parts]
            try:
                yield
            finally:
                for part, attributes in before:
                    vars(part).clear()
                    vars(part).update(attributes)


@dataclass(frozen=True)
class Trial:
    """Results of the first runs of a model.

    Attributes:
        heads: number of heads of each site that is shown.
        d_model: width of the hidden states.
        unseen: description of attention that is not shown; None if all is shown.
        layers: layer numbers of the sites, if the layers that are shown are not counted from 0 without a gap.
        alone: kind of the attention of a model that has only one, if its modules do not say it.
        calls: modules that compute attention, if `attnviz.capturing` shows and edits it in the model's own code.
        takes_rules: whether the model passes on the sign for a causal mask of `tapped.rules`, with the same numbers.
        findings: differences between the model as it was loaded and as it is shown.
    """

    heads: Mapping[Site, int] = field(default_factory=dict)
    d_model: int = 0
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
    """Facts of a loaded model, which stay after its weights were dropped from memory.

    Attributes:
        name: title for people.
        tokenizer: tokenizer of transformers; None if the model reads no text.
        size: bytes of the weights and buffers.
        provenance: "pretrained", or "from a folder" if its origin is not known.
        pooling: pooling of token vectors to a vector of a sentence.
        processor: processor of pictures or sounds, alone or within a text; None if the model reads none.
        unread: sentences about weights of its files and inputs of the model that are not used.
        patching: positions of a picture or a sound; None if the model reads none alone.
    """

    name: str
    tokenizer: Any
    config: Any
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
        """Whether the model reads sounds."""
        return hasattr(self.processor, "sampling_rate")

    @property
    def squares(self) -> int:
        """Number of (n, n) maps in a run: masks, and weights in the model's own code or T5's biases of positions."""
        heads, masks = self.trial.heads.values(), 0 if self.trial.takes_rules else 2
        if self.trial.is_captured:
            return masks + 2 * sum(heads)
        has_biases = hasattr(self.config.get_text_config(), "relative_attention_num_buckets")
        return masks + (3 * max(heads, default=0) if has_biases else 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Loaded(ModelFacts):
    """A model that is ready to run; a run never changes it.

    Attributes:
        model: model in evaluation, without gradients.
        turns: times at which the model may run.
        implementation: attention that the model was loaded with, such as "sdpa".
    """

    model: nn.Module
    turns: Turns
    implementation: str = "eager"

    @property
    def facts(self) -> ModelFacts:
        return ModelFacts(**{field.name: getattr(self, field.name) for field in fields(ModelFacts)})
