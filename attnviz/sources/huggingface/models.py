"""Sources of transformers: by a name or a folder, or from a model that a user loaded.

A user's model may be quantized, with adapters, on several devices or of remote code. It is the user's own object:
during a run it is in evaluation and its attention is attnviz's, and afterwards it is as it was.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from threading import RLock
from typing import Any

import torch
from torch import nn

from attnviz.capturing.seen import PROVENANCE
from attnviz.core.errors import InputError, quoted
from attnviz.sources.huggingface import embedding, faults, loading, opening, tapped
from attnviz.sources.huggingface.hub import DownloadProgress
from attnviz.sources.huggingface.loaded import Loaded, Turns
from attnviz.sources.huggingface.sense_models import SenseModel
from attnviz.sources.huggingface.source import HuggingFace, Pretrained

PIXELS = "pixel_values"


def by_name(
    name: str, report: Callable[[DownloadProgress], bool | None] = lambda progress: None, **settings: object
) -> Pretrained:
    """Source of a model by its name or folder, which reads text, pictures or sounds.

    Args:
        report: called with the progress of a download and of the load; False ends it.

    Raises:
        AttnvizError: one sentence that says why it cannot be loaded; `Canceled` if `report` gave False.
    """
    loaded = loading.loaded_model(name, report)
    if loaded.hears or loaded.tokenizer is None:
        if settings:
            raise InputError(f"{name} reads no text, and has no setting {quoted(next(iter(settings)))}; leave it out.")
        return SenseModel(name)
    return HuggingFace(name, **settings)


class Borrowed(Turns):
    """Runs of a user's own model, one after the other; between runs it is as the user has it.

    Attributes:
        is_tapped: whether the model has attnviz's attention during a run.
    """

    def __init__(self, model: nn.Module, whole: nn.Module, adapters: bool):
        super().__init__(model)
        self._model, self._whole, self._adapters, self._lock = model, whole, adapters, RLock()
        self.is_tapped = False

    @contextmanager
    def turn(self) -> Iterator[None]:
        without = nullcontext() if self._adapters else self._whole.disable_adapter()
        with self._lock, super().turn(), without:
            before = self._model.config._attn_implementation
            trained = [part for part in self._model.modules() if part.training]
            self._model.eval()
            try:
                if self.is_tapped:
                    tapped.use_on(self._model)
                yield
            finally:
                if self._model.config._attn_implementation != before:
                    self._model.set_attn_implementation(before)
                for part in trained:
                    part.training = True


def of_model(model: nn.Module, tokenizer: Any, *, title: str = "", adapters: bool = True) -> HuggingFace | SenseModel:
    """Source of a loaded model of transformers, with its tokenizer; the model runs as it is.

    Args:
        tokenizer: or the processor of a model of texts and pictures, or the image processor of a vision model.
        title: title for people; by default its own name, or its class.
        adapters: whether a model of PEFT runs with its adapters.

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
    sees = PIXELS in getattr(tokenizer, "model_input_names", ()) and inner.main_input_name == PIXELS
    if not sees and not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise InputError(f"{quoted(tokenizer)} is no tokenizer of transformers; give attnviz.load(model, tokenizer).")
    if not adapters and inner is model:
        raise InputError(f"{type(model).__name__} has no adapters of PEFT to leave out.")
    config, turns = copy(inner.config), Borrowed(inner, model, adapters)
    config.architectures = [type(inner).__name__]
    name = (title or getattr(model.config, "name_or_path", "") or type(inner).__name__).rstrip("/").split("/")[-1]
    name += "" if adapters else " without adapters"
    if sees:
        if (opened := opening.sense_class(config)) is None:
            raise opening.not_of_text(type(inner).__name__)
        task, processor, tokenizer = opened[1], tokenizer, None
        vocabulary, device, more = 0, next(inner.parameters()).device, {"longest": None}
    else:
        task = opening.task_of(inner, config)
        table = inner.get_input_embeddings().weight
        vocabulary, device = len(table), table.device if table.device.type != "meta" else torch.device("cpu")
        more = {"longest": loading.longest_of(inner, tokenizer), "unread": opening.without(inner)}
        more["implementation"] = config._attn_implementation if inner._can_set_attn_implementation() else "eager"
    loaded = Loaded(
        turns=turns,
        config=config,
        name=name,
        commit=None,
        limit="",
        notes=("a model that you loaded",),
        provenance=PROVENANCE,
        task=task,
        tokenizer=tokenizer,
        processor=processor,
        device=device,
        vocabulary=vocabulary,
        **more,
        **loading.facts_of(inner, config, task, embedding.Pooling()),
    )
    if adapters:
        loading.check_adapters(model)
    with turns.turn(), faults.unforeseen(name):
        loaded = loading.tried(loaded)
    if sees:
        return SenseModel(name, borrowed=loaded)
    turns.is_tapped = not loaded.trial.is_captured
    return HuggingFace(name, borrowed=loaded)
