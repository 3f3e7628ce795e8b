"""Sources of transformers: by a name or a folder, or from a model that a user loaded.

A user's model may be quantized, with adapters, on several devices or of remote code. It is the user's own object:
during a run it is in evaluation and its attention is attnviz's, and afterwards it is as it was.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from threading import RLock
from typing import Any

from torch import nn

from attnviz.capturing.seen import PROVENANCE
from attnviz.core.errors import InputError, quoted
from attnviz.sources.huggingface import faults, loading, opening, tapped
from attnviz.sources.huggingface.hub import Report
from attnviz.sources.huggingface.loaded import Turns
from attnviz.sources.huggingface.opening import Unweighted
from attnviz.sources.huggingface.sense_models import SenseModel
from attnviz.sources.huggingface.source import HuggingFace, Pretrained
from attnviz.sources.own_code import in_evaluation

EAGER = "eager"


def by_name(name: str, report: Report = lambda progress: None, **settings: object) -> Pretrained:
    """Source of a model by its name or folder, which reads text, pictures or sounds.

    Raises:
        AttnvizError: one sentence that says why it cannot be loaded; `Canceled` if `report` gave False.
    """
    loaded = loading.loaded_model(name, report)
    if not (loaded.hears or loaded.tokenizer is None):
        return HuggingFace(name, **settings)
    if settings:
        raise InputError(f"{name} reads no text, and has no setting {quoted(next(iter(settings)))}; leave it out.")
    return SenseModel(name)


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
        with self._lock, super().turn(), without, in_evaluation(self._model):
            before = self._model.config._attn_implementation
            try:
                if self.is_tapped:
                    tapped.use_on(self._model)
                yield
            finally:
                if self._model.config._attn_implementation != before:
                    self._model.set_attn_implementation(before)


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
    if not adapters and inner is model:
        raise InputError(f"{type(model).__name__} has no adapters of PEFT to leave out.")
    if adapters and getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
        what = f"{type(model).__name__} gives other logits than the {type(inner).__name__} in it"
        why = "it adds inputs or keys of its own, as prompt and prefix tuning do"
        raise InputError(f"{what}: {why}. attnviz.capture(model) shows a run of it.")
    processor = tokenizer if isinstance(tokenizer, ProcessorMixin) else None
    tokenizer = getattr(processor, "tokenizer", tokenizer)
    sees = inner.main_input_name == "pixel_values" and "pixel_values" in getattr(tokenizer, "model_input_names", ())
    if not sees and not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise InputError(f"{quoted(tokenizer)} is no tokenizer of transformers; give attnviz.load(model, tokenizer).")
    config, turns = copy(inner.config), Borrowed(inner, model, adapters)
    config.architectures = [type(inner).__name__]
    if not sees:
        parts = Unweighted(config, opening.task_of(inner, config), type(inner), tokenizer, processor)
    elif of_sense := opening.sense_class(config):
        parts = Unweighted(config, of_sense[1], type(inner), processor=tokenizer)
    else:
        raise opening.not_of_text(type(inner).__name__)
    name = (title or getattr(model.config, "name_or_path", "") or type(inner).__name__).rstrip("/").split("/")[-1]
    name += "" if adapters else " without adapters"
    loaded = loading.describe(
        inner,
        parts,
        turns,
        name=name,
        implementation=config._attn_implementation if inner._can_set_attn_implementation() else EAGER,
        notes=("a model that you loaded",),
        provenance=PROVENANCE,
    )
    with turns.turn(), faults.unforeseen(name):
        loaded = loading.tried(loaded)
    if sees:
        return SenseModel(name, borrowed=loaded)
    turns.is_tapped = not loaded.trial.is_captured
    return HuggingFace(name, borrowed=loaded)
