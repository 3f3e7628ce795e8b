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
from attnviz.sources.huggingface import embedding, faults, opening, senses, tapped, trial
from attnviz.sources.huggingface.adapters import check_whole
from attnviz.sources.huggingface.loaded import Loaded, Trial
from attnviz.sources.huggingface.loading import longest_of
from attnviz.sources.huggingface.sense_models import PictureModel
from attnviz.sources.huggingface.source import HuggingFace
from attnviz.sources.huggingface.turns import Turns

EAGER, PIXELS = "eager", "pixel_values"


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


class Lent:
    """The part of a source whose model a person loaded: it is held, and loaded by nobody."""

    borrowed: Loaded

    def __post_init__(self):
        object.__setattr__(self, "facts", self.borrowed.facts)

    @property
    def loaded(self) -> Loaded:
        return self.borrowed

    @property
    def is_loaded(self) -> bool:
        return True


@dataclass(frozen=True)
class LoadedPictureModel(Lent, PictureModel):
    """A source of a vision model that a person loaded, made by `attnviz.load(model, image_processor)`."""

    borrowed: Loaded = field(default=None, repr=False)


@dataclass(frozen=True)
class LoadedModel(Lent, HuggingFace):
    """A source of a model that a person loaded, made by `attnviz.load(model, tokenizer)`."""

    borrowed: Loaded = field(default=None, repr=False)


def source_of(
    model: nn.Module, tokenizer: Any, *, title: str = "", adapters: bool = True
) -> LoadedModel | LoadedPictureModel:
    """Source of a model of transformers as it is, with its tokenizer.

    Args:
        tokenizer: or the processor of a model of texts and pictures, or the image processor of a vision model.
        title: as it is called; by default its own name, or its class.
        adapters: False runs a model of PEFT without its adapters.

    Raises:
        InputError: if it is no such model, there is no tokenizer, it does not read text, or the object around the model
            gives other logits, as with prompt tuning.
        AttnvizError: if it cannot be run, or gives no attention.
    """
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin

    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    if not isinstance(inner, PreTrainedModel):
        what = f"{quoted(type(model).__name__)} is no model of transformers"
        raise InputError(f"{what}; for other models there is attnviz.wrap(model, tokenize).")
    processor = tokenizer if isinstance(tokenizer, ProcessorMixin) else None
    tokenizer = getattr(processor, "tokenizer", tokenizer)
    of_pictures = PIXELS in getattr(tokenizer, "model_input_names", ()) and inner.main_input_name == PIXELS
    if not of_pictures and not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise InputError(f"{quoted(tokenizer)} is no tokenizer of transformers; give attnviz.load(model, tokenizer).")
    if not adapters and inner is model:
        raise InputError(f"{type(model).__name__} has no adapters of PEFT to leave out.")
    off = "" if adapters else " without adapters"
    name = (title or getattr(model.config, "name_or_path", "") or type(inner).__name__).rstrip("/").split("/")[-1] + off
    if of_pictures:
        loaded = _of_pictures(inner, model, tokenizer, name, adapters)
    else:
        loaded = replace(_loaded(inner, model, tokenizer, name, adapters), processor=processor)
    if inner is not model:
        check_whole(loaded, model)
    if of_pictures:
        return LoadedPictureModel(name, borrowed=senses.tried(loaded))
    return LoadedModel(name, borrowed=_tried(loaded))


def _of_pictures(model: Any, whole: Any, processor: Any, name: str, adapters: bool) -> Loaded:
    config = _config_of(model)
    opened = opening.picture_class(config)
    if opened is None:
        raise opening.not_of_text(type(model).__name__)
    task = opened[1]
    labels = opening.labels(config, config.num_labels) if task == "labels" else ()
    return Loaded(
        turns=Borrowed(model, whole, adapters),
        tokenizer=None,
        processor=processor,
        config=config,
        task=task,
        device=next(model.parameters()).device,
        longest=None,
        keeps_own_attention=True,
        vocabulary=0,
        labels=labels,
        **_facts(model, name),
    )


def _config_of(model: Any) -> Any:
    config = copy(model.config)
    config.architectures = [type(model).__name__]
    return config


def _facts(model: Any, name: str) -> dict[str, Any]:
    """Facts of any model that a person loaded."""
    weights = [*model.parameters(), *model.buffers()]
    return {
        "model": model,
        "name": name,
        "commit": None,
        "dtype": next((weight.dtype for weight in weights if weight.is_floating_point()), torch.float32),
        "made_of": type(model).__name__,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "size": sum(tensor.nbytes for tensor in weights),
        "limit": "",
        "trial": Trial(),
        "notes": ("a model that you loaded",),
        "provenance": PROVENANCE,
    }


def _loaded(model: Any, whole: Any, tokenizer: Any, name: str, adapters: bool) -> Loaded:
    config, turns, implementation = _config_of(model), Borrowed(model, whole, adapters), _implementation(model)
    with turns.turn():
        taken = tapped.use_on(model)
    task, pooling = opening.task_of(model, config), embedding.Pooling()
    turns.attention = tapped.NAME if taken else EAGER
    table = model.get_input_embeddings().weight
    return Loaded(
        turns=turns,
        tokenizer=tokenizer,
        config=config,
        task=task,
        device=table.device if table.device.type != "meta" else torch.device("cpu"),
        longest=longest_of(model, tokenizer),
        keeps_own_attention=not taken,
        implementation=implementation,
        vocabulary=table.shape[0],
        labels=opening.labels(config, config.num_labels) if task in ("labels", "tokens") else (),
        detail=opening.detail(config, task, pooling),
        pooling=pooling,
        **_facts(model, name),
    )


def _implementation(model: Any) -> str:
    """The attention of a model as the person has it, if another one can be set."""
    return model.config._attn_implementation if model._can_set_attn_implementation() else EAGER


def _tried(loaded: Loaded) -> Loaded:
    """The same with its trial; its attention is set in each turn from now on."""
    with loaded.turns.turn(), faults.unforeseen(loaded.name):
        tried = trial.tried(loaded)
    loaded.turns.attention = EAGER if tried.keeps_own_attention else tapped.NAME
    return tried
