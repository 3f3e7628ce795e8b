"""Load a model and its tokenizer from a name or a folder, and keep the models of this process while memory lasts."""

import os
import re
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnviz.core.amounts import size
from attnviz.core.cache import BoundedCache
from attnviz.core.display import visible_text
from attnviz.core.errors import AttnvizError, Canceled, InputError
from attnviz.sources.estimate import devices, free_bytes
from attnviz.sources.huggingface import faults, files, hub, opening, senses, trial
from attnviz.sources.huggingface.hub import DownloadProgress, Report
from attnviz.sources.huggingface.loaded import Loaded, ModelParts, Turns

UNREAD = ("pooler.",)
"""Weights that may be missing where only vectors of tokens are read."""
RUN = 0.1
"""Memory for runs as a share of the model's memory; each run is also checked on its own, see `sources.estimate`."""
SMALLER = "Choose a smaller model"
SHARE = 0.5
"""Share of the memory that is free at the start that models may use; runs and records need the rest."""


def _size(loaded: Loaded) -> int:
    """Size of a model for the cache, in bytes, at most that of the cache: a larger model is kept, as the only one."""
    return min(loaded.size, _models.most_bytes)


_models: BoundedCache[Loaded] = BoundedCache(int(SHARE * free_bytes(devices()[0])), _size)
"""Models of this process; the least recently used model is evicted first."""


def loaded_model(name: str, report: Report = lambda progress: None) -> Loaded:
    """Return the model with a name from the cache, or load it; a second caller waits while it is being loaded."""

    def make() -> Loaded:
        with faults.unforeseen(name, "loaded"):
            return load(name, report)

    return _models.get(name, make)


def make_room(needs: int, device: torch.device, what: str, how: str, own_bytes: int = 0) -> None:
    """Evict other models until a device has enough memory; raise InputError with both numbers if it never has.

    Args:
        needs: bytes that are needed.
        what, how: beginning of the error, such as "5 tokens need", and advice to the user.
        own_bytes: size of the model that the memory is for, if it is in the cache.
    """
    while needs > (free := free_bytes(device)):
        if _models.bytes - own_bytes < needs - free or not _models.free(needs - free):
            raise InputError(f"{what} about {size(needs)} of memory, and {size(free)} are free here. {how}.")


def load(name: str, report: Report = lambda progress: None) -> Loaded:
    """Load a model, after a download if it is not here yet, and try it in short runs, see `trial`."""
    location = hub.find(name)

    def report_stage(what: str) -> None:
        """Report the beginning of a stage; raise Canceled if `report` returns False."""
        if report(DownloadProgress(what, location.size, location.size)) is False:
            raise Canceled(f"The load of {faults.name(location.name)} was canceled.")

    def read_parts(folder: Path) -> ModelParts:
        with files.quiet():  # without the lock of builds, as a tokenizer may take very long
            return opening.read(folder, location.name)

    if location.kind == "download":
        needs = sum(file.size for file in location.files if file.is_weights)
        make_room(needs, devices()[-1], f"{faults.name(location.name)} needs", SMALLER)
        location = hub.fetch(location, report, check=read_parts)
    if not files.weights(location.folder):
        raise hub.no_model(location.name, os.listdir(location.folder), location.folder)
    report_stage("reading")
    parts = read_parts(location.folder)
    with files.alone():
        loaded = _build(location, parts)
    report_stage("trying")
    return tried(loaded)


def tried(loaded: Loaded) -> Loaded:
    """Add the results of a model's first runs to its facts, see `trial` and `senses`."""
    if not loaded.reads_text:
        return senses.tried(loaded)
    try:
        return trial.tried(loaded)
    except AttnvizError as error:
        if opening.has_senses(loaded.config) and not isinstance(error, InputError):
            raise opening.not_of_text(f"{faults.name(loaded.name)} ({loaded.made_of})") from error
        raise


def _build(location: hub.ModelLocation, parts: ModelParts) -> Loaded:
    """Build a model on the fastest device with enough memory; one thread does this at a time."""
    numbers, saved = files.headers(location.folder, location.name)
    cpu_bytes = numbers * _dtype_on(devices()[-1], saved).itemsize
    _models.reserve(location.name, min(cpu_bytes, _models.most_bytes))
    for device in devices():  # without a break, the last one is taken: the processor
        dtype = _dtype_on(device, saved)
        needs = round(numbers * dtype.itemsize * (1 + RUN))
        if needs <= free_bytes(device):
            break
    make_room(needs, device, f"{faults.name(location.name)} needs", SMALLER)

    config, dense = parts.config, None
    if getattr(config, "attention_type", None) == "block_sparse":  # BigBird: full attention up to `dense` tokens
        config.attention_type, dense = "original_full", (5 + 2 * config.num_random_blocks) * config.block_size
    model, prefix, unread = _read_weights(parts, location, dtype, numbers)
    notes = [*parts.notes]
    notes += ["4-bit weights, unpacked"] if getattr(config, "quantization_config", None) else []
    notes += [f"weights named without their prefix “{prefix}”"] if prefix else []
    return describe(
        model.to(device),
        replace(parts, config=model.config),
        Turns(model),
        name=location.title,
        implementation=model.get_correct_attn_implementation(None) if model._can_set_attn_implementation() else "eager",
        most=dense,
        unread=unread,
        notes=tuple(notes),
        commit=location.commit,
        provenance="from a folder" if location.kind == "folder" else "pretrained",
    )


def describe(
    model: Any, parts: ModelParts, turns: Turns, *, most: int | None = None, unread: tuple[str, ...] = (), **more: Any
) -> Loaded:
    """State the facts of a model, loaded here or by a user, before its first run.

    Args:
        most: limit on the number of tokens, in addition to the limits of the model; None for no additional limit.
        unread: finding about weights that the model does not read.
        more: other attributes of `Loaded`.
    """
    embeddings = torch.empty(0)
    if parts.tokenizer is not None:
        try:
            embeddings = model.get_input_embeddings().weight
        except (NotImplementedError, AttributeError):
            what = f"{faults.name(more['name'])} ({type(model).__name__}) has no table of vectors for tokens"
            raise InputError(f"{what}; attnviz shows models that read tokens of text.") from None
    if words := opening.MORE_INPUTS.get(parts.config.model_type):
        left_out = f"{type(model).__name__} also reads {words}, which attnviz leaves out"
        unread = (*unread, f"{left_out}: its numbers are those without it")
    detail = ""
    if parts.task == "vectors":
        detail = str(parts.pooling) + ("" if parts.pooling.named else ", no pooling named")
    elif parts.task == "states":
        detail = f"the head of {opening.class_name(parts.config)} is not shown"
    elif parts.task == "labels":
        kinds = {"several": "several labels at once", "number": "regression", "one": ""}
        detail = kinds[opening.label_kind(parts.config)]
    weights = [*model.parameters(), *model.buffers()]
    first = embeddings if len(embeddings) else weights[0]
    limits = [most, longest_of(model, parts.tokenizer)] if parts.reads_text else []
    return Loaded(
        **vars(parts) | more,
        model=model,
        turns=turns,
        made_of=type(model).__name__,
        device=first.device if first.device.type != "meta" else torch.device("cpu"),
        dtype=next((weight.dtype for weight in weights if weight.is_floating_point()), torch.float32),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        size=sum(tensor.nbytes for tensor in weights),
        vocabulary=len(embeddings),
        longest=min(filter(None, limits), default=None),
        detail=detail,
        unread=unread,
    )


def longest_of(model: nn.Module, tokenizer: Any) -> int | None:
    """Smallest limit on the length of a text in configuration, position tables and tokenizer; None without a limit."""
    config = model.config.get_text_config()
    limits = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions")]
    limits.append(getattr(tokenizer, "model_max_length", None))
    for name, module in model.named_modules():  # RoBERTa's first position follows that of padding
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx is not None:
            limits.append(module.num_embeddings - module.padding_idx - 1)
    return min((int(limit) for limit in limits if isinstance(limit, int) and 0 < limit < 10**9), default=None)


def _dtype_on(device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """Dtype for weights on a device: that of the files, or float32 if the device is slow or wrong with it."""
    poor = {"cpu": torch.float16, "mps": torch.float64}
    return torch.float32 if poor.get(device.type) == dtype else dtype


def _read_weights(
    parts: ModelParts, location: hub.ModelLocation, dtype: torch.dtype, numbers: int
) -> tuple[nn.Module, str, tuple[str, ...]]:
    """Build a model with all its weights, in evaluation mode, with its eager attention; see `files.build`.

    Returns:
        The model, the prefix removed from the names of its weights, and a finding of unread weights.
    """
    from transformers import Mxfp4Config

    who, is_packed = faults.name(location.name), bool(getattr(parts.config, "quantization_config", None))
    options = {"quantization_config": Mxfp4Config(dequantize=True)} if is_packed else {}
    build = partial(files.build, parts.kind, location.folder, parts.config, dtype, numbers, **options)
    try:
        model, info = build()
        if prefix := _prefix(info["unexpected_keys"], info["missing_keys"], model.base_model_prefix):
            model, info = build(key_mapping={f"^{re.escape(prefix)}": ""})
    except AttnvizError:
        raise
    except Exception as error:  # a file that vanished, no memory left, or settings that do not fit together
        raise AttnvizError(f"{who} cannot be built from its files: {faults.first(error)}") from None
    may_miss = UNREAD if parts.task in ("vectors", "states") else ()
    wrong = {key for key in info["missing_keys"] if not key.startswith(may_miss)}
    wrong |= {mismatch[0] for mismatch in info["mismatched_keys"]}
    if wrong or info["error_msgs"]:
        listed = ", ".join(sorted(wrong)[:3]) + (", ..." if len(wrong) > 3 else "")
        what = f"The files of {who} lack {len(wrong)} weights of the model, or have them in another shape"
        raise AttnvizError(f"{what}: {listed or info['error_msgs'][0]}. Choose another model.")
    return model.eval().requires_grad_(False), prefix, _unread(model, info["unexpected_keys"])


def _prefix(unexpected: set[str], missing: set[str], base: str) -> str:
    """Prefix such as "module." of DataParallel whose removal turns unexpected names into missing names; "" if none."""
    fitting_names = Counter()  # of each prefix
    for name in unexpected:
        for dot in re.finditer(r"\.", name):
            prefix, shorter = name[: dot.end()], name[dot.end() :]
            fitting_names[prefix] += shorter in missing or f"{base}.{shorter}" in missing
    best = max(fitting_names, key=fitting_names.get, default="")
    return best if fitting_names[best] else ""


def _unread(model: nn.Module, names: set[str]) -> tuple[str, ...]:
    """Finding about unread weights for modules of the model, such as biases in files for a model without biases."""
    base = f"{model.base_model_prefix}."
    modules = {name.removeprefix(base) for name, _ in model.named_modules() if name}
    unread = sorted(name for name in names if name.removeprefix(base).rpartition(".")[0] in modules)
    more = f" and {len(unread) - 3} more" if len(unread) > 3 else ""
    listed = ", ".join(visible_text(name, 120) for name in unread[:3]) + more
    return (f"The model leaves {len(unread)} weights of its files unread: {listed}",) if unread else ()
