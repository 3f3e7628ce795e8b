"""A loaded model: its facts, the results of its first runs, the model itself, and when it may run."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, fields
from threading import Lock
from typing import Any, Literal

from torch import nn

from attnviz.core.edits import Site
from attnviz.sources.base import Facts
from attnviz.sources.huggingface.embedding import Pooling
from attnviz.sources.huggingface.positions import Patching

CHANGING = frozenset({"dynamic", "longrope"})
"""Kinds of rotary positions whose frequencies depend on the longest text so far."""
DELTAS = "rope_deltas"
"""Attribute in which a model stores, for the next token, by how much a picture shifted the positions after it."""
Task = Literal["next", "fill", "labels", "tokens", "write", "vectors", "states", "objects"]
"""Tasks of a model; `sources.base.TASKS` describes them."""


class Turns:
    """Schedule of the runs of a model: in parallel, or one at a time if a run changes attributes that others read.

    Each run starts with the model as it was loaded, so its numbers do not depend on the runs before it.
    """

    def __init__(self, model: nn.Module):
        self._parts, self._lock = [], Lock()  # modules that a run changes
        for module in model.modules():
            rope = getattr(module, "rope_type", None)  # a string, or a dict with one for each kind of layer
            rope_types = set(rope.values()) if isinstance(rope, dict) else {rope}
            if hasattr(module, DELTAS) or CHANGING & rope_types:
                self._parts.append(module)

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
        one_kind: kind of attention of all layers, if their modules do not state whether it is causal.
        calls: name of the module of each site, if attention is captured and edited in the model's own code.
        takes_rules: whether the model passes the marker of `tapped.rules` to its attention, with the same outputs.
        findings: differences between the model as it was loaded and as attnviz runs it, a sentence each.
    """

    heads: Mapping[Site, int] = field(default_factory=dict)
    d_model: int = 0
    unseen: str | None = None
    layers: Mapping[Site, int] = field(default_factory=dict)
    one_kind: str | None = None
    calls: Mapping[Site, str] = field(default_factory=dict)
    takes_rules: bool = False
    findings: tuple[str, ...] = ()

    @property
    def is_captured(self) -> bool:
        """Whether the attention is captured in the model's own code, and not computed by attnviz."""
        return bool(self.calls)


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelParts:
    """Parts of a model that are read before its weights.

    Attributes:
        kind: class of the model.
        tokenizer: tokenizer of transformers; None if the model reads no text.
        processor: processor for pictures, texts with pictures, or sounds; None if the model reads only text.
        notes: reason why the model cannot read pictures, if its class can.
        pooling: pooling of token vectors to a vector of a sentence.
    """

    config: Any
    task: Task
    kind: Any
    tokenizer: Any = None
    processor: Any = None
    notes: tuple[str, ...] = ()
    pooling: Pooling = Pooling()

    @property
    def hears(self) -> bool:
        """Whether the model reads sounds."""
        return hasattr(self.processor, "sampling_rate")

    @property
    def reads_text(self) -> bool:
        """Whether the model reads text; Whisper writes text and reads none."""
        return self.tokenizer is not None and not self.hears


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelFacts(Facts, ModelParts):
    """Facts of a loaded model, which remain when its weights are dropped from memory.

    Attributes:
        name: display name.
        size: bytes of the weights and buffers.
        provenance: "pretrained", or "from a folder" if its origin is not known.
        unread: sentences about weights in the files, and inputs of the model, that are not used.
        patching: division of a picture or a sound into positions; None if the model reads text.
    """

    name: str
    size: int
    trial: Trial = Trial()
    provenance: str = "pretrained"
    unread: tuple[str, ...] = ()
    patching: Patching | None = None

    @property
    def squares(self) -> int:
        """Number of (n, n) arrays that a run holds at once: masks, and captured weights or position biases of T5."""
        heads, masks = self.trial.heads.values(), 0 if self.trial.takes_rules else 2
        if self.trial.is_captured:
            return masks + 2 * sum(heads)
        has_biases = hasattr(self.config.get_text_config(), "relative_attention_num_buckets")
        return masks + (3 * max(heads, default=0) if has_biases else 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Loaded(ModelFacts):
    """A model that is ready to run; a run never changes it.

    Attributes:
        model: model in evaluation mode, without gradients.
        turns: schedule of the runs of the model.
        implementation: attention that the model was loaded with, such as "sdpa".
    """

    model: nn.Module
    turns: Turns
    implementation: str = "eager"

    @property
    def facts(self) -> ModelFacts:
        """Copy of the facts alone, without the model and its weights."""
        return ModelFacts(**{field.name: getattr(self, field.name) for field in fields(ModelFacts)})
