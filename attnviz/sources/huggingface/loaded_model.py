"""A model of transformers that a person loaded: quantized, with adapters, on several devices or of remote code.

It is the person's own object: during a run it is in evaluation and its attention is attnviz's, and afterwards it is as
it was.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any

import torch
from torch import nn

from attnviz.capturing.seen import PROVENANCE
from attnviz.core.errors import InputError, quoted
from attnviz.sources.huggingface import embedding, faults, opening, tapped, trial
from attnviz.sources.huggingface.loaded import Loaded, Trial
from attnviz.sources.huggingface.loading import longest_of
from attnviz.sources.huggingface.source import HuggingFace
from attnviz.sources.huggingface.turns import Turns

EAGER = "eager"


class Borrowed(Turns):
    """Runs of a person's own model, one after the other; between them it is as the person has it.

    Attributes:
        attention: the name of its attention during a run; "" to leave it as it is.
    """

    def __init__(self, model: nn.Module, whole: nn.Module, adapters: bool):
        super().__init__(model)
        self._model, self._whole, self._adapters, self._lock = model, whole, adapters, RLock()
        self.attention = ""

    @contextmanager
    def turn(self) -> Iterator[None]:
        without = nullcontext() if self._adapters else self._whole.disable_adapter()
        with self._lock, super().turn(), without:
            before = self._model.config._attn_implementation
            trained = [part for part in self._model.modules() if part.training]
            self._model.eval()
            try:
                if self.attention == tapped.NAME:
                    tapped.use_on(self._model)
                elif self.attention:
                    self._model.set_attn_implementation(self.attention)
                yield
            finally:
                if self._model.config._attn_implementation != before:
                    self._model.set_attn_implementation(before)
                for part in trained:
                    part.training = True


@dataclass(frozen=True)
class LoadedModel(HuggingFace):
    """A source of a model that a person loaded, made by `attnviz.load(model, tokenizer)`."""

    borrowed: Loaded = field(default=None, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "facts", self.borrowed.facts)

    @property
    def loaded(self) -> Loaded:
        return self.borrowed

    @property
    def is_loaded(self) -> bool:
        return True

    def reloaded(self) -> "LoadedModel":
        """The same, tried itself: its narrow copy was refuted by its first run."""
        return replace(self, borrowed=_tried(self.borrowed, trial.itself))


def source_of(model: nn.Module, tokenizer: Any, *, title: str = "", adapters: bool = True) -> LoadedModel:
    """Source of a model of transformers as it is, with its tokenizer.

    Args:
        tokenizer: or the processor of a model of texts and pictures.
        title: as it is called; by default its own name, or its class.
        adapters: False runs a model of PEFT without its adapters.

    Raises:
        InputError: if it is no such model, there is no tokenizer, or it does not read text.
        AttnvizError: if it cannot be run, or gives no attention.
    """
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin

    inner = model.get_base_model() if hasattr(model, "peft_config") else model
    if not isinstance(inner, PreTrainedModel):
        what = f"{quoted(type(model).__name__)} is no model of transformers"
        raise InputError(f"{what}; for other models there is attnviz.wrap(model, tokenize).")
    processor = tokenizer if isinstance(tokenizer, ProcessorMixin) else None
    tokenizer = getattr(processor, "tokenizer", tokenizer)
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise InputError(f"{quoted(tokenizer)} is no tokenizer of transformers; give attnviz.load(model, tokenizer).")
    if not adapters and inner is model:
        raise InputError(f"{type(model).__name__} has no adapters of PEFT to leave out.")
    off = "" if adapters else " without adapters"
    name = (title or getattr(model.config, "name_or_path", "") or type(inner).__name__).rstrip("/").split("/")[-1] + off
    loaded = _tried(replace(_loaded(inner, model, tokenizer, name, adapters), processor=processor), trial.tried)
    return LoadedModel(name, borrowed=loaded)


def _loaded(model: Any, whole: Any, tokenizer: Any, name: str, adapters: bool) -> Loaded:
    config = copy(model.config)
    config.architectures = [type(model).__name__]
    turns, weights = Borrowed(model, whole, adapters), [*model.parameters(), *model.buffers()]
    with turns.turn():
        taken = tapped.use_on(model)
    task, pooling = opening.task_of(model, config), embedding.Pooling()
    turns.attention = tapped.NAME if taken else EAGER
    table = model.get_input_embeddings().weight
    return Loaded(
        model=model,
        turns=turns,
        tokenizer=tokenizer,
        config=config,
        name=name,
        commit=None,
        task=task,
        dtype=next((weight.dtype for weight in weights if weight.is_floating_point()), torch.float32),
        device=table.device if table.device.type != "meta" else torch.device("cpu"),
        longest=longest_of(model, tokenizer),
        keeps_own_attention=not taken,
        made_of=type(model).__name__,
        parameters=sum(weight.numel() for weight in model.parameters()),
        size=sum(tensor.nbytes for tensor in weights),
        vocabulary=table.shape[0],
        limit="",
        trial=Trial(),
        labels=opening.labels(config, config.num_labels) if task in ("labels", "tokens") else (),
        detail=opening.detail(config, task, pooling),
        pooling=pooling,
        notes=("a model that you loaded",),
        provenance=PROVENANCE,
    )


def _tried(loaded: Loaded, how: Any) -> Loaded:
    """The same with its trial; its attention is set in each turn from now on."""
    with loaded.turns.turn(), faults.unforeseen(loaded.name):
        tried = how(loaded)
    loaded.turns.attention = EAGER if tried.keeps_own_attention else tapped.NAME
    return tried
