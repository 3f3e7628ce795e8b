"""Load a model and its tokenizer from a name or a folder, and keep the models of this process while memory lasts."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnviz.core.amounts import size
from attnviz.core.cache import BoundedCache
from attnviz.core.display import visible_text
from attnviz.core.errors import AttnvizError, Canceled, InputError
from attnviz.sources.estimate import devices, free_bytes
from attnviz.sources.huggingface import (
    embedding,
    faults,
    files,
    hub,
    opening,
    refusals,
    senses,
    trial,
)
from attnviz.sources.huggingface.hub import DownloadProgress, ModelLocation
from attnviz.sources.huggingface.loaded import Loaded, Turns

UNREAD = ("pooler.",)
"""Weights that may be missing where only vectors of tokens are read."""
LARGER = 4
"""Largest model that is built, in parts of the numbers that its files hold: tied and computed weights are in none."""
RUN = 0.1
"""Memory for runs as a share of the model's memory; each run is also checked by itself, see `sources.estimate`."""
SHARE = 0.5
"""Part of the memory free at the start that models may keep; runs and records need the rest."""

Report = Callable[[DownloadProgress], bool | None]


def _size(loaded: Loaded) -> int:
    """Bytes that a model counts for in the cache; one larger than the cache fills it, so that it is kept alone."""
    return min(loaded.size, _models.most_bytes)


_models: BoundedCache[Loaded] = BoundedCache(int(SHARE * free_bytes(devices()[0])), _size)
"""Models of this process; the least recently used one makes room."""


def loaded_model(name: str, report: Report = lambda progress: None) -> Loaded:
    """Return the model with a name from the cache, or load it; a second caller waits for a load that goes on.

    Raises:
        Canceled: if this call's own `report` ended the load; if another call's did, it begins again for this one.
    """
    has_begun = False

    def make() -> Loaded:
        nonlocal has_begun
        has_begun = True
        with faults.unforeseen(name, "loaded"):
            return load(name, report)

    while True:
        try:
            return _models.get(name, make)
        except Canceled:
            if has_begun:
                raise


def make_room(needs: int, among: list[torch.device], own: int = 0) -> int | None:
    """Evict other models until one of the devices has enough memory.

    Args:
        needs: bytes that are needed.
        own: bytes of the model itself, if it is in the cache.

    Returns:
        None; or the free bytes if they are too few, even without all other models.
    """
    while needs > (free := max(map(free_bytes, among))):
        if _models.bytes - own < needs - free or not _models.let_go(needs - free):
            return free
    return None


def load(name: str | ModelLocation, report: Report = lambda progress: None) -> Loaded:
    """Load a model, after a download if it is not here yet, and try it in short runs, see `trial`.

    Args:
        report: function that gets the progress; it returns False to cancel the load.

    Raises:
        InputError: if attnviz does not read such a model, or it does not fit into memory, with both numbers.
        AttnvizError: if its files are missing, damaged, or do not belong together.
    """
    faults.need_transformers()
    place = hub.find(name) if isinstance(name, str) else name

    def tell(what: str) -> None:
        if report(DownloadProgress(what, place.size, place.size)) is False:
            raise Canceled(f"The load of {faults.name(place.name)} was canceled.")

    unweighted = None

    def read(folder: Path) -> None:
        nonlocal unweighted
        with files.quiet():  # without the lock of builds: a tokenizer may take forever
            unweighted = opening.read(folder, place.name)

    _check_fits(sum(file.size for file in place.files if file.is_weights), devices(), place.name)
    place = hub.fetch(place, report, check=read)
    if not files.weights(place.folder):
        names = (path.name for path in place.folder.iterdir())
        raise InputError(refusals.of_files(place.name, names, place.folder))
    tell("reading")
    if unweighted is None:
        read(place.folder)
        tell("reading")
    with files.alone():
        loaded = _build(place, unweighted)
    tell("trying")
    return tried(loaded)


def tried(loaded: Loaded) -> Loaded:
    """Add the results of a model's first runs, see `trial` and `senses`."""
    if loaded.hears or loaded.tokenizer is None:
        return senses.tried(loaded)
    try:
        return trial.tried(loaded)
    except AttnvizError as error:
        if opening.has_senses(loaded.config) and not isinstance(error, InputError):
            raise opening.not_of_text(f"{faults.name(loaded.name)} ({loaded.made_of})") from error
        raise


def _build(place: ModelLocation, unweighted: opening.Unweighted) -> Loaded:
    """Build a model on the fastest device with enough memory; one thread does this at a time."""
    folder, name, config, task = place.folder, place.name, unweighted.config, unweighted.task
    tokenizer, pooling, notes = unweighted.tokenizer, embedding.of_folder(folder), [*unweighted.notes]
    is_of_text = tokenizer is not None and not hasattr(unweighted.processor, "sampling_rate")
    dense = _make_dense(config)
    numbers, saved_dtype = files.headers(folder, name)
    dtypes = {device: _dtype_on(device, saved_dtype) for device in devices()}
    most = numbers * max(dtype.itemsize for dtype in dtypes.values())
    _models.reserve(name, min(most, _models.most_bytes))
    needs = {device: round(numbers * dtype.itemsize * (1 + RUN)) for device, dtype in dtypes.items()}
    *fast, last = devices()
    device = next((device for device in fast if needs[device] <= free_bytes(device)), last)
    if device is last:
        _check_fits(needs[last], [last], name)

    model, prefix, unread = _read_weights(unweighted, folder, dtypes[device], name, numbers)
    model = model.to(device)
    table = _token_table(model, name) if tokenizer is not None else ()
    longest = longest_of(model, tokenizer) if is_of_text else None
    limit = ""
    if dense is not None and (longest is None or longest > dense):
        longest, limit = dense, "longer texts are read in sparse blocks, which attnviz does not show"
    notes += ["4-bit weights, unpacked"] if opening.is_packed(vars(config)) else []
    notes += [f"weights named without their prefix “{prefix}”"] if prefix else []
    return Loaded(
        turns=Turns(model),
        tokenizer=tokenizer,
        processor=unweighted.processor,
        config=model.config,
        name=place.title,
        commit=place.commit,
        task=task,
        device=device,
        longest=longest,
        limit=limit,
        implementation=model.get_correct_attn_implementation(None) if model._can_set_attn_implementation() else "eager",
        unread=(*unread, *(opening.without(model) if is_of_text else ())),
        vocabulary=len(table),
        pooling=pooling,
        notes=tuple(notes),
        provenance="from a folder" if place.kind == "folder" else "pretrained",
        **facts_of(model, config, task, pooling) | {"dtype": dtypes[device]},
    )


def facts_of(model: Any, config: Any, task: opening.Task, pooling: embedding.Pooling) -> dict[str, Any]:
    """Facts of any model, loaded here or by a person."""
    weights = [*model.parameters(), *model.buffers()]
    return {
        "model": model,
        "made_of": type(model).__name__,
        "dtype": next((weight.dtype for weight in weights if weight.is_floating_point()), torch.float32),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "size": sum(tensor.nbytes for tensor in weights),
        "detail": opening.detail(config, task, pooling),
    }


def _make_dense(config: Any) -> int | None:
    """Undo settings that save memory or time and change no number, so that all of attention is seen.

    Feed-forward parts in chunks fail on lengths that chunks do not divide. BigBird's sparse attention has the weights
    of its full one, and up to some length it switches to that itself.

    Returns:
        Number of tokens up to which the model switches itself; None for a model without sparse attention.
    """
    if getattr(config, "chunk_size_feed_forward", 0):
        config.chunk_size_feed_forward = 0
    if getattr(config, "attention_type", None) != "block_sparse":
        return None
    config.attention_type = "original_full"
    return (5 + 2 * config.num_random_blocks) * config.block_size


def _token_table(model: nn.Module, name: str) -> Any:
    """Token embeddings of a model; raise InputError if it has none."""
    try:
        return model.get_input_embeddings().weight
    except (NotImplementedError, AttributeError):
        what = f"{faults.name(name)} ({type(model).__name__}) has no table of vectors for tokens"
        raise InputError(f"{what}; attnviz shows models that read tokens of text.") from None


def longest_of(model: nn.Module, tokenizer: Any) -> int | None:
    """Smallest limit that the configuration, a table of positions and the tokenizer set; None without a limit."""
    config = model.config.get_text_config()
    limits = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions")]
    limits.append(getattr(tokenizer, "model_max_length", None))
    for name, module in model.named_modules():  # RoBERTa's positions begin after the one for padding
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx is not None:
            limits.append(module.num_embeddings - module.padding_idx - 1)
    return min((int(limit) for limit in limits if isinstance(limit, int) and 0 < limit < 10**9), default=None)


def _check_fits(needs: int, among: list[torch.device], name: str) -> None:
    """Raise InputError, with both numbers, if none of the devices can have enough memory."""
    free = make_room(needs, among)
    if free is not None:
        what = f"{faults.name(name)} needs about {size(needs)} of memory, and {size(free)} are free here"
        raise InputError(f"{what}. Choose a smaller model.")


def _dtype_on(device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """Dtype of the files, or float32 if the device is slow or wrong with that."""
    poor = {"cpu": torch.float16, "mps": torch.float64}
    return torch.float32 if poor.get(device.type) == dtype else dtype


def _read_weights(
    unweighted: opening.Unweighted, folder: Path, dtype: torch.dtype, name: str, numbers: int
) -> tuple[nn.Module, str, tuple[str, ...]]:
    """Build a model with all its weights, in evaluation, with its eager attention.

    Args:
        numbers: number of parameters in the files; a much larger model is not built.

    Returns:
        The model, the prefix removed from the names of its weights, and a finding of unread weights.
    """

    def check(model: nn.Module) -> None:
        needed = sum(parameter.numel() for parameter in model.parameters())
        if needed > LARGER * numbers:
            what = f"config.json of {faults.name(name)} describes a model of {needed:,} numbers"
            raise InputError(f"{what}, and its files hold {numbers:,}. They do not belong together; fetch both again.")

    def build(prefix: str) -> tuple[nn.Module, dict[str, Any]]:
        options = {"prefix": prefix, "check": check, "packed": opening.is_packed(vars(unweighted.config))}
        return files.build(unweighted.kind, folder, unweighted.config, dtype, **options)

    try:
        model, info = build(prefix := "")
        if prefix := _prefix(info["unexpected_keys"], info["missing_keys"], model.base_model_prefix):
            model, info = build(prefix)
    except AttnvizError:
        raise
    except Exception as error:  # a file that vanished, no memory left, or settings that do not fit together
        raise AttnvizError(f"{faults.name(name)} cannot be built from its files: {faults.first(error)}") from None
    may_miss = UNREAD if unweighted.task in ("vectors", "states") else ()
    wrong = {key for key in info["missing_keys"] if not key.startswith(may_miss)}
    wrong |= {mismatch[0] for mismatch in info["mismatched_keys"]}
    if wrong or info["error_msgs"]:
        listed = ", ".join(sorted(wrong)[:3]) + (", ..." if len(wrong) > 3 else "")
        what = f"The files of {faults.name(name)} lack {len(wrong)} weights of the model, or have them in another shape"
        raise AttnvizError(f"{what}: {listed or info['error_msgs'][0]}. Choose another model.")
    return model.eval().requires_grad_(False), prefix, _unread(model, info["unexpected_keys"])


def _prefix(unexpected: set[str], missing: set[str], base: str) -> str:
    """Prefix in the files, such as "module." of DataParallel, without which most unexpected names are missing ones."""
    fits = Counter()
    for name in unexpected:
        parts = name.split(".")
        for count in range(1, len(parts)):
            rest = ".".join(parts[count:])
            if rest in missing or f"{base}.{rest}" in missing:
                fits[name.removesuffix(rest)] += 1
    return max(fits, key=fits.get, default="")


def _unread(model: nn.Module, names: set[str]) -> tuple[str, ...]:
    """Finding of weights in the files of modules that the model has, such as biases of a model without biases."""
    base = f"{model.base_model_prefix}."
    modules = {name.removeprefix(base) for name, _ in model.named_modules() if name}
    of_modules = sorted(name for name in names if name.removeprefix(base).rpartition(".")[0] in modules)
    if not of_modules:
        return ()
    more = f" and {len(of_modules) - 3} more" if len(of_modules) > 3 else ""
    listed = ", ".join(visible_text(name, 120) for name in of_modules[:3]) + more
    return (f"The model leaves {len(of_modules)} weights of its files unread: {listed}",)


def check_adapters(model: Any) -> None:
    """Raise InputError if the adapters of a model of PEFT add inputs or keys, so that the model within differs."""
    if getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
        what = f"{type(model).__name__} gives other logits than the {type(model.get_base_model()).__name__} in it"
        why = "it adds inputs or keys of its own, as prompt and prefix tuning do"
        raise InputError(f"{what}: {why}. attnviz.capture(model) shows a run of it.")
