"""Sources of transformers: by a name or a folder, or from a model that a user loaded.

A user's model may be quantized, have adapters, be on several devices or come from remote code. It is the user's own
object: a run sets evaluation mode and attnviz's attention, and restores the state of the model afterwards.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from threading import RLock
from typing import Any

from torch import nn

from attnviz.capturing.captured import PROVENANCE
from attnviz.core.errors import InputError, quoted
from attnviz.sources.huggingface import faults, loading, opening, tapped
from attnviz.sources.huggingface.hub import Report
from attnviz.sources.huggingface.loaded import ModelParts, Turns
from attnviz.sources.huggingface.sense_models import SenseModel
from attnviz.sources.huggingface.source import HuggingFace, Pretrained
from attnviz.sources.own_code import in_evaluation


def by_name(name: str, report: Report = lambda progress: None, **settings: object) -> Pretrained:
    """Load a model by its name or folder, and make its source; the model reads text, pictures or sounds."""
    loaded = loading.loaded_model(name, report)
    if loaded.reads_text:
        return HuggingFace(name, **settings)
    if settings:
        raise InputError(f"{name} reads no text, and has no setting {quoted(next(iter(settings)))}; leave it out.")
    return SenseModel(name)


class Borrowed(Turns):
    """Schedule of the runs of a user's own model, one at a time; after each run, its state is restored.

    Attributes:
        peft_model: model of PEFT whose adapters are off in a run; None for no such model.
        is_tapped: whether a run sets attnviz's attention.
    """

    def __init__(self, model: nn.Module, peft_model: nn.Module | None):
        super().__init__(model)
        self._model, self.peft_model, self.is_tapped = model, peft_model, False
        self._lock = RLock()  # the first runs, in `of_model`, are turns within a turn

    @contextmanager
    def turn(self) -> Iterator[None]:
        adapters_off = self.peft_model.disable_adapter() if self.peft_model else nullcontext()
        with self._lock, super().turn(), adapters_off, in_evaluation(self._model):
            before = self._model.config._attn_implementation
            try:
                if self.is_tapped:
                    tapped.use_attnviz(self._model)
                yield
            finally:
                if self._model.config._attn_implementation != before:
                    self._model.set_attn_implementation(before)


def of_model(model: nn.Module, tokenizer: Any, *, title: str = "", adapters: bool = True) -> HuggingFace | SenseModel:
    """Make the source of a model of transformers that a user loaded, with its tokenizer.

    Args:
        tokenizer: tokenizer, processor of texts and pictures, or image processor of a vision model.
        title: display name; by default the name of the model, or its class.
        adapters: whether a model of PEFT runs with its adapters.

    Raises:
        InputError: if it is no model of transformers, has no tokenizer, or is changed by prompt or prefix tuning.
    """
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin

    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    if not isinstance(inner, PreTrainedModel):
        what = f"{quoted(type(model).__name__)} is no model of transformers"
        raise InputError(f"{what}; for other models there is attnviz.wrap(model, tokenize).")
    if not adapters and inner is model:
        raise InputError(f"{type(model).__name__} has no adapters of PEFT to leave out.")
    if adapters and getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
        what = f"{type(model).__name__} gives other logits than the {type(inner).__name__} in it"
        why = "it adds inputs or keys of its own, as prompt and prefix tuning do"
        raise InputError(f"{what}: {why}. attnviz.capture(model) shows a run of it.")
    processor = tokenizer if isinstance(tokenizer, ProcessorMixin) else None
    tokenizer = getattr(processor, "tokenizer", tokenizer)
    input_names = getattr(tokenizer, "model_input_names", ())
    is_vision = inner.main_input_name == "pixel_values" and "pixel_values" in input_names
    if not is_vision and not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise InputError(f"{quoted(tokenizer)} is no tokenizer of transformers; give attnviz.load(model, tokenizer).")
    config, turns = copy(inner.config), Borrowed(inner, None if adapters else model)
    config.architectures = [type(inner).__name__]
    if not is_vision:
        task, reads = opening.task_of(inner, config), {"tokenizer": tokenizer, "processor": processor}
    elif sense_parts := opening.sense_class(config):
        task, reads = sense_parts[1], {"processor": tokenizer}
    else:
        raise opening.not_of_text(type(inner).__name__)
    stated_name = title or getattr(model.config, "name_or_path", "") or type(inner).__name__
    name = stated_name.rstrip("/").split("/")[-1] + ("" if adapters else " without adapters")
    loaded = loading.describe(
        inner,
        ModelParts(config=config, task=task, kind=type(inner), **reads),
        turns,
        name=name,
        implementation=config._attn_implementation if inner._can_set_attn_implementation() else "eager",
        notes=("a model that you loaded",),
        provenance=PROVENANCE,
    )
    with turns.turn(), faults.unforeseen(name):
        loaded = loading.tried(loaded)
    if is_vision:
        return SenseModel(name, borrowed=loaded)
    turns.is_tapped = not loaded.trial.is_captured
    return HuggingFace(name, borrowed=loaded)
