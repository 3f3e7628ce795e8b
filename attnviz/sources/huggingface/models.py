"""Sources of transformers: by a name or a folder, or of a model that a person loaded.

A person's model may be quantized, with adapters, on several devices or of remote code. It is their own object: during a
run it is in evaluation and its attention is attnviz's, and afterwards it is as it was.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

import torch
from torch import nn

from attnviz.capturing.seen import PROVENANCE
from attnviz.core.errors import InputError, quoted
from attnviz.sources.huggingface import embedding, faults, loading, opening, tapped
from attnviz.sources.huggingface.hub import DownloadProgress
from attnviz.sources.huggingface.loaded import Loaded, Turns
from attnviz.sources.huggingface.sense_models import PictureModel, SoundModel
from attnviz.sources.huggingface.source import HuggingFace, Pretrained

EAGER, PIXELS = "eager", "pixel_values"


def by_name(
    name: str, report: Callable[[DownloadProgress], bool | None] = lambda progress: None, **settings: object
) -> Pretrained:
    """A model by its name or folder, of text, pictures or sounds.

    Args:
        report: called with the progress of a download and of the load; False ends it.

    Raises:
        AttnvizError: one sentence that says why it cannot be loaded; `Canceled` if `report` gave False.
    """
    loaded = loading.loaded_model(name, report)
    if loaded.hears or loaded.tokenizer is None:
        if settings:
            raise InputError(f"{name} reads no text, and has no setting {quoted(next(iter(settings)))}; leave it out.")
        return (SoundModel if loaded.hears else PictureModel)(name)
    return HuggingFace(name, **settings)


class Borrowed(Turns):
    """Runs of a person's own model, one after the other; between them it is as the person has it.

    Attributes:
        attention: name of its attention during a run; "" to leave it as it is.
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


@dataclass(frozen=True)
class LoadedPictureModel(Lent, PictureModel):
    """A source of a vision model that a person loaded, made by `attnviz.load(model, image_processor)`."""

    borrowed: Loaded = field(default=None, repr=False)


@dataclass(frozen=True)
class LoadedModel(Lent, HuggingFace):
    """A source of a model that a person loaded, made by `attnviz.load(model, tokenizer)`."""

    borrowed: Loaded = field(default=None, repr=False)


def of_model(
    model: nn.Module, tokenizer: Any, *, title: str = "", adapters: bool = True
) -> LoadedModel | LoadedPictureModel:
    """Source of a model of transformers as it is, with its tokenizer.

    Args:
        tokenizer: or the processor of a model of texts and pictures, or the image processor of a vision model.
        title: title for people; by default its own name, or its class.
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
    config, turns = copy(inner.config), Borrowed(inner, model, adapters)
    config.architectures = [type(inner).__name__]
    facts = _of_pictures(inner, tokenizer, config) if of_pictures else _of_text(inner, tokenizer, config, turns)
    loaded = Loaded(
        turns=turns,
        config=config,
        name=name,
        commit=None,
        limit="",
        notes=("a model that you loaded",),
        provenance=PROVENANCE,
        **{"processor": processor} | facts,
        **loading.facts_of(inner, config, facts["task"], embedding.Pooling()),
    )
    if adapters:
        loading.check_adapters(model)
    with turns.turn(), faults.unforeseen(name):
        loaded = loading.tried(loaded)
    if of_pictures:
        return LoadedPictureModel(name, borrowed=loaded)
    turns.attention = EAGER if loaded.keeps_own_attention else tapped.NAME
    return LoadedModel(name, borrowed=loaded)


def _of_pictures(model: Any, processor: Any, config: Any) -> dict[str, Any]:
    """Facts of a vision model."""
    opened = opening.sense_class(config)
    if opened is None:
        raise opening.not_of_text(type(model).__name__)
    return {
        "task": opened[1],
        "device": next(model.parameters()).device,
        "tokenizer": None,
        "processor": processor,
        "longest": None,
        "keeps_own_attention": True,
        "vocabulary": 0,
    }


def _of_text(model: Any, tokenizer: Any, config: Any, turns: Borrowed) -> dict[str, Any]:
    """Facts of a model that reads text, whose attention is set in each turn from now on."""
    task = opening.task_of(model, config)
    with turns.turn():
        taken = tapped.use_on(model)
    turns.attention = tapped.NAME if taken else EAGER
    table = model.get_input_embeddings().weight
    return {
        "task": task,
        "device": table.device if table.device.type != "meta" else torch.device("cpu"),
        "tokenizer": tokenizer,
        "longest": loading.longest_of(model, tokenizer),
        "keeps_own_attention": not taken,
        "implementation": config._attn_implementation if model._can_set_attn_implementation() else EAGER,
        "unread": opening.without(model),
        "vocabulary": len(table),
    }
