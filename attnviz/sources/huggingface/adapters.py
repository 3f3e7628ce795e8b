"""A folder with an adapter of PEFT (LoRA), opened on its base model; and what an adapter may not add."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.huggingface import (
    faults,
    files,
    hub,
    loading,
    running,
    senses,
    tapped,
    trial,
)
from attnviz.sources.huggingface.hub import DownloadProgress, ModelLocation
from attnviz.sources.huggingface.loaded import Loaded

WEIGHTS = "adapter_model.safetensors"
SAME = 1e-3
"""Difference of logits, in parts of the largest: rounding is below."""


def folder_of(name: str) -> Path | None:
    """The folder of an adapter, where a name means one."""
    folder = Path(name)
    try:
        is_adapter = (folder / files.ADAPTER).is_file() and not (folder / files.CONFIG).is_file()
    except (OSError, ValueError):
        return None
    return folder if is_adapter and hub.allowed() is None else None


def load(
    folder: Path, report: Callable[[DownloadProgress], bool | None], room: loading.Room = loading.Room()
) -> Loaded:
    """Load the base model, which is here already, and put the adapter into it.

    Raises:
        InputError: if the base is not here, the adapter is pickled, or PEFT is not installed; with the way out.
        AttnvizError: if one of both cannot be loaded.
    """
    base, _ = files.base_of(folder)
    place = _found(base)
    if place is None or not (folder / WEIGHTS).is_file():
        raise InputError(files.sentence(str(folder), folder))
    try:
        from peft import PeftModel
    except ImportError:
        raise InputError(f"{files.sentence(str(folder), folder)} Or install peft, and open it again.") from None
    loaded = loading.load(place, report, room)
    try:
        whole = PeftModel.from_pretrained(loaded.model, folder)
    except Exception as error:  # whatever PEFT makes of files that do not fit
        raise AttnvizError(f"{faults.name(str(folder))} does not fit {base}: {faults.first(error)}") from None
    model = loaded.model.eval().requires_grad_(False)
    check_whole(loaded, whole.eval())
    return replace(
        loaded,
        name=folder.resolve().name,
        provenance="from a folder",
        parameters=sum(weight.numel() for weight in model.parameters()),
        size=sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers())),
        notes=(*loaded.notes, f"an adapter on {base}"),
    )


def check_whole(loaded: Loaded, whole: nn.Module) -> None:
    """Hold a model to the object around it, whose own forward may add inputs or keys.

    Raises:
        InputError: if the first logits of the two differ.
    """
    model = loaded.model
    with loaded.turns.turn(), torch.inference_mode(), faults.unforeseen(loaded.name):
        if is_tapped := model.config._attn_implementation == tapped.NAME:
            model.set_attn_implementation("eager")
        read = _example(loaded) | running.settings(model)
        try:
            own, inner = (_logits(one(**read)) for one in (whole, model))
        finally:
            if is_tapped:
                tapped.use_on(model)
    if own.shape != inner.shape or not torch.allclose(own, inner, 0, SAME * float(inner.abs().max()), equal_nan=True):
        what = f"{type(whole).__name__} gives other logits than the {type(model).__name__} in it"
        why = "it adds inputs or keys of its own, as prompt and prefix tuning do"
        raise InputError(f"{what}: {why}. attnviz.capture(model) shows a run of it.")


def _example(loaded: Loaded) -> dict[str, Any]:
    """Inputs of a model for the text, the picture or the sound that it is tried on."""
    if loaded.hears or loaded.tokenizer is None:
        return senses.example_inputs(loaded)
    return trial.inputs(loaded, trial.TEXTS[:1])[0]


def _logits(output: Any) -> Tensor:
    """Logits of a run, or the hidden states of a model that gives none."""
    logits = getattr(output, "logits", None)
    return running.hidden(output) if logits is None else logits


def _found(base: str) -> ModelLocation | None:
    """Place of a base model that is on this machine; None if it is not."""
    try:
        place = hub.find(base)
    except AttnvizError:
        return None
    return None if place.kind == "download" else place
