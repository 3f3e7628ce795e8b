"""From a name or a folder to a model and its tokenizer, ready to run: checked before it is built, and kept."""

import itertools
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.core.amounts import size
from attnviz.core.cache import BoundedCache
from attnviz.core.display import visible_text
from attnviz.core.errors import AttnvizError, Canceled, InputError
from attnviz.sources.huggingface import (
    building,
    embedding,
    faults,
    files,
    hub,
    memory,
    opening,
    refusals,
    running,
    senses,
    tapped,
    trial,
)
from attnviz.sources.huggingface.hub import DownloadProgress, ModelLocation
from attnviz.sources.huggingface.loaded import Loaded, Turns

UNREAD = ("pooler.",)
"""Weights that may be missing where only vectors of tokens are read."""
SHARED_LAYERS = 64
"""Layers that may share one set of weights, as in ALBERT; more layers than tensors are not believed."""
SHARE = 0.5
"""Part of a device's memory that models may keep; runs, records and other programs need the rest."""
SAME = 1e-3
"""Difference of logits, in parts of the largest: rounding is below."""

Report = Callable[[DownloadProgress], bool | None]


def _size(loaded: Loaded) -> int:
    """As much as all may have, if it is larger: then it is kept alone, not loaded anew for each run."""
    return min(loaded.size, _models.most_bytes)


_models: BoundedCache[Loaded] = BoundedCache(int(SHARE * memory.whole(memory.devices()[0])), _size)
"""Models of this process; the one that was not run for the longest makes room."""


def loaded_model(name: str, report: Report = lambda progress: None) -> Loaded:
    """The model of that name, loaded if it is not kept; who asks for one that is being loaded waits for it.

    Raises:
        Canceled: if this call's own `report` ended the download; if another's did, it begins again for this one.
    """
    begun = False

    def make() -> Loaded:
        nonlocal begun
        begun = True
        with faults.unforeseen(name, "loaded"):
            return load(name, report)

    while True:
        try:
            return _models.get(name, make)
        except Canceled:
            if begun:
                raise


def make_room(needs: int, devices: list[torch.device], name: str, own: int = 0) -> int | None:
    """Let go of other models until one of the devices has so much memory free.

    Args:
        own: bytes of the model itself, if it is among those that are kept.

    Returns:
        None; or how much is free, if that is less and the others are too small.
    """
    while needs > (free := max(map(memory.free, devices))):
        if _models.bytes - own < needs - free or not _warn(_models.let_go(needs - free), name):
            return free
    return None


def _warn(names: tuple, name: str) -> bool:
    for other in names:
        logging.getLogger(__name__).warning("%s makes room for %s; its next run loads it again.", other, name)
    return bool(names)


def load(name: str | ModelLocation, report: Report = lambda progress: None) -> Loaded:
    """Load a model; one that is not here yet is fetched. The folder of an adapter of PEFT opens on its base model.

    Short runs of the model are part of it, once for each class, configuration and implementation, see `trial`.

    Args:
        report: called with the progress; False ends it.

    Raises:
        InputError: if it is no language model, or does not fit, with both numbers.
        AttnvizError: if its files are missing, damaged, or do not belong together.
    """
    if isinstance(name, str) and (folder := _adapter_folder(name)):
        return _with_adapter(folder, report)
    faults.need_transformers()
    place = hub.find(name) if isinstance(name, str) else name

    def tell(what: str) -> None:
        if report(DownloadProgress(what, place.size, place.size)) is False:
            raise Canceled(f"The load of {faults.name(place.name)} was canceled.")

    def read(folder: Path) -> opening.Unweighted:
        with building.quiet():  # others load meanwhile: a tokenizer may take forever
            return opening.read(folder, place.name)

    _fit(sum(file.size for file in place.files if file.is_weights), memory.devices(), place.name)
    place = hub.fetch(place, report, check=read)
    if not files.weights(place.folder):
        names = (path.name for path in place.folder.iterdir())
        raise InputError(refusals.of_files(place.name, names, place.folder))
    tell("reading")
    unweighted = read(place.folder)
    tell("reading")
    with building.alone():
        loaded = _build(place, unweighted)
    tell("trying")
    return tried(loaded)


def tried(loaded: Loaded) -> Loaded:
    """The same with what its first runs showed; see `trial` and `senses`."""
    if loaded.hears or loaded.tokenizer is None:
        return senses.tried(loaded)
    try:
        return trial.tried(loaded)
    except AttnvizError as error:
        if opening.has_senses(loaded.config) and not isinstance(error, InputError):
            raise opening.not_of_text(f"{faults.name(loaded.name)} ({loaded.made_of})") from error
        raise


def _build(place: ModelLocation, unweighted: opening.Unweighted) -> Loaded:
    """The part of loading that one thread does at a time."""
    folder, name, config, task = place.folder, place.name, unweighted.config, unweighted.task
    tokenizer, pooling = unweighted.tokenizer, embedding.of_folder(folder)
    of_text = tokenizer is not None and not hasattr(unweighted.processor, "sampling_rate")
    dense, held = _made_full(config), files.headers(folder, name, place.kind == "cached")
    plan, is_packed = _plan(unweighted.kind, config, name, held), opening.is_packed(vars(config))
    longest = longest_of(plan, tokenizer) if of_text else None
    limit = ""
    if dense is not None and (longest is None or longest > dense):
        longest, limit = dense, "longer texts are read in sparse blocks, which attnviz does not show"
    most = _numbers(plan) * max(_on(device, held.dtype).itemsize for device in memory.devices())
    _warn(_models.reserve(name, min(most, _models.most_bytes)), name)
    device, dtype = _device(plan, held.dtype, name)
    prefix = _prefix(held.names, plan)
    model, unread = _model(unweighted.kind, folder, config, dtype, name, prefix, task)
    model = model.to(device)
    implementation = model.get_correct_attn_implementation(None) if model._can_set_attn_implementation() else "eager"
    notes = [*unweighted.notes, *(["4-bit weights, unpacked"] if is_packed else [])]
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
        keeps_own_attention=not (of_text and tapped.use_on(model)),
        implementation=implementation,
        unread=(*unread, *(opening.without(model) if of_text else ())),
        vocabulary=0 if tokenizer is None else _vocabulary(plan, name),
        pooling=pooling,
        notes=tuple(notes),
        provenance="from a folder" if place.kind == "folder" else "pretrained",
        **facts_of(model, config, task, pooling) | {"dtype": dtype},
    )


def facts_of(model: Any, config: Any, task: opening.Task, pooling: embedding.Pooling) -> dict[str, Any]:
    """Facts of any model, whoever loaded it."""
    weights = [*model.parameters(), *model.buffers()]
    return {
        "model": model,
        "made_of": type(model).__name__,
        "dtype": next((weight.dtype for weight in weights if weight.is_floating_point()), torch.float32),
        "parameters": _numbers(model),
        "size": sum(tensor.nbytes for tensor in weights),
        "labels": opening.labels(config, config.num_labels) if task in ("labels", "tokens") else (),
        "detail": opening.detail(config, task, pooling),
    }


def _made_full(config: Any) -> int | None:
    """Undo settings that save memory or time and change no number, so that all of attention is seen.

    Feed-forward parts in chunks fail on lengths that chunks do not divide. BigBird's sparse attention has the weights
    of its full one, and up to some length it switches to that itself.

    Returns:
        Number of tokens up to which the model reads so, or None.
    """
    if getattr(config, "chunk_size_feed_forward", 0):
        config.chunk_size_feed_forward = 0
    if getattr(config, "attention_type", None) != "block_sparse":
        return None
    config.attention_type = "original_full"
    return (5 + 2 * config.num_random_blocks) * config.block_size


def _plan(kind: Any, config: Any, name: str, held: files.WeightHeaders) -> nn.Module:
    """The model without its numbers, which takes no memory."""
    what, again = f"config.json of {faults.name(name)}", "They do not belong together; fetch both again"
    if (layers := opening.layers(config)) > max(SHARED_LAYERS, len(held.names)):
        raise InputError(f"{what} has {layers} layers, and its files hold {len(held.names)} tensors. {again}.")
    try:
        plan = building.plan(kind, config)
    except Canceled:
        raise
    except Exception as error:
        raise AttnvizError(f"{what} cannot be built: {faults.first(error)}") from None
    computed = tuple(getattr(plan, "_keys_to_ignore_on_load_missing", None) or ())  # as Marian's positions are
    needed = _numbers(plan, without=UNREAD + computed)
    if needed > held.numbers:
        what = f"{what} describes a model of {needed:,} numbers, and its files hold {held.numbers:,}"
        raise InputError(f"{what}. {again}, or choose another.")
    return plan


def _vocabulary(plan: nn.Module, name: str) -> int:
    """Raises: InputError: if there is no table of tokens."""
    try:
        return plan.get_input_embeddings().weight.shape[0]
    except (NotImplementedError, AttributeError):
        what = f"{faults.name(name)} ({type(plan).__name__}) has no table of vectors for tokens"
        raise InputError(f"{what}; attnviz shows models that read tokens of text.") from None


def _numbers(model: nn.Module, without: tuple[str, ...] = ()) -> int:
    return sum(
        parameter.numel() for name, parameter in model.named_parameters() if not any(part in name for part in without)
    )


def longest_of(model: nn.Module, tokenizer: Any) -> int | None:
    """The least of what the configuration, a table of positions and the tokenizer allow."""
    config = model.config.get_text_config()
    limits = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions")]
    limits.append(getattr(tokenizer, "model_max_length", None))
    for name, module in model.named_modules():  # RoBERTa's positions begin after the one for padding
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx is not None:
            limits.append(module.num_embeddings - module.padding_idx - 1)
    return min((int(limit) for limit in limits if isinstance(limit, int) and 0 < limit < 10**9), default=None)


def _device(plan: nn.Module, dtype: torch.dtype, name: str) -> tuple[torch.device, torch.dtype]:
    """The fastest device with enough memory, and the type of numbers to use there."""
    *fast, last = memory.devices()
    numbers = _numbers(plan)
    for device in fast:
        if memory.needed(plan, numbers, _on(device, dtype)) <= memory.free(device):
            return device, _on(device, dtype)
    _fit(memory.needed(plan, numbers, _on(last, dtype)), [last], name)
    return last, _on(last, dtype)


def _fit(needs: int, devices: list[torch.device], name: str) -> None:
    """Raises: InputError: with both numbers, if none of the devices can have so much memory, other models let go of."""
    free = make_room(needs, devices, name)
    if free is not None:
        what = f"{faults.name(name)} needs about {size(needs)} of memory, and {size(free)} are free here"
        raise InputError(f"{what}. Choose a smaller model.")


def _on(device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """The checkpoint's own type, unless the device is slow or wrong with it."""
    poor = {"cpu": torch.float16, "mps": torch.float64}
    return torch.float32 if poor.get(device.type) == dtype else dtype


def _prefix(names: tuple[str, ...], plan: nn.Module) -> str:
    """Common prefix of all names of weights that the model's own names lack, such as "module." of DataParallel."""
    own, base = {*plan.state_dict()}, f"{plan.base_model_prefix}."
    own |= {f"{base}{name}" for name in own} | {name.removeprefix(base) for name in own}
    columns = zip(*(name.split(".") for name in names), strict=False)
    shared = [column[0] for column in itertools.takewhile(lambda column: len({*column}) == 1, columns)]
    prefixes = ["".join(f"{part}." for part in shared[:count]) for count in range(len(shared) + 1)]
    if not any(name.removeprefix(prefix) in own for name in names for prefix in prefixes):
        # a head beside the body has no prefix, or another one
        prefixes = ["", *sorted({f"{name.partition('.')[0]}." for name in names})]
    return max(prefixes, key=lambda prefix: sum(name.removeprefix(prefix) in own for name in names))


def _model(
    kind: Any, folder: Path, config: Any, dtype: torch.dtype, name: str, prefix: str, task: opening.Task
) -> tuple[nn.Module, tuple[str, ...]]:
    """The model with all its weights, in evaluation, with its eager attention; and a finding of unread weights."""
    try:
        model, info = building.build(kind, folder, config, dtype, prefix)
    except Exception as error:  # a file that vanished, no memory left
        raise AttnvizError(f"The weights of {faults.name(name)} cannot be loaded: {faults.first(error)}") from None
    unread = UNREAD if task in ("vectors", "states") else ()
    wrong = {key for key in info["missing_keys"] if not key.startswith(unread)}
    wrong |= {mismatch[0] for mismatch in info["mismatched_keys"]}
    if wrong or info["error_msgs"]:
        some = ", ".join(sorted(wrong)[:3]) + (", ..." if len(wrong) > 3 else "")
        what = f"The files of {faults.name(name)} lack {len(wrong)} weights of the model, or have them in another shape"
        raise AttnvizError(f"{what}: {some or info['error_msgs'][0]}. Choose another model.")
    return model.eval().requires_grad_(False), _unread(model, info["unexpected_keys"])


def _unread(model: nn.Module, names: Iterable[str]) -> tuple[str, ...]:
    """A finding of weights in the files of modules that the model has, such as biases of a model without biases."""
    base = f"{model.base_model_prefix}."
    modules = {name.removeprefix(base) for name, _ in model.named_modules() if name}
    of_modules = sorted(name for name in names if name.removeprefix(base).rpartition(".")[0] in modules)
    if not of_modules:
        return ()
    more = f" and {len(of_modules) - 3} more" if len(of_modules) > 3 else ""
    listed = ", ".join(visible_text(name, 120) for name in of_modules[:3]) + more
    return (f"The model leaves {len(of_modules)} weights of its files unread: {listed}",)


def _adapter_folder(name: str) -> Path | None:
    """The folder of an adapter of PEFT (LoRA), where a name means one."""
    folder = Path(name)
    try:
        is_adapter = (folder / files.ADAPTER).is_file() and not (folder / files.CONFIG).is_file()
    except (OSError, ValueError):
        return None
    return folder if is_adapter and hub.allowed() is None else None


def _with_adapter(folder: Path, report: Report) -> Loaded:
    """Load the base model of an adapter, which is here already, and put the adapter into it."""
    base, place = refusals.base_of(folder)[0], None
    with suppress(AttnvizError):  # it is not here
        place = hub.find(base)
    if place is None or place.kind == "download" or not (folder / files.ADAPTER_WEIGHTS).is_file():
        raise InputError(refusals.of_folder(str(folder), folder))
    try:
        from peft import PeftModel
    except ImportError:
        to_merge = refusals.of_folder(str(folder), folder)
        raise InputError(f"{to_merge} Or install peft, and open it again.") from None
    loaded = load(place, report)
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
        notes=(*loaded.notes, f"an adapter on {base}"),
        **facts_of(model, loaded.config, loaded.task, loaded.pooling),
    )


def check_whole(loaded: Loaded, whole: nn.Module) -> None:
    """Compare a model with the object around it, whose own forward may add inputs or keys.

    Raises:
        InputError: if the first logits of the two differ.
    """
    model = loaded.model
    with loaded.turns.turn(), torch.inference_mode(), faults.unforeseen(loaded.name):
        if loaded.hears or loaded.tokenizer is None:
            read = senses.example_inputs(loaded)
        else:
            read = trial.inputs(loaded, trial.TEXTS[:1])[0]
        if is_tapped := model.config._attn_implementation == tapped.NAME:
            model.set_attn_implementation("eager")
        try:
            own, inner = (_logits(module(**read, **running.settings(model))) for module in (whole, model))
        finally:
            if is_tapped:
                tapped.use_on(model)
    if own.shape != inner.shape or not torch.allclose(own, inner, 0, SAME * float(inner.abs().max()), equal_nan=True):
        what = f"{type(whole).__name__} gives other logits than the {type(model).__name__} in it"
        why = "it adds inputs or keys of its own, as prompt and prefix tuning do"
        raise InputError(f"{what}: {why}. attnviz.capture(model) shows a run of it.")


def _logits(output: Any) -> Tensor:
    """Logits of a run, or the hidden states of a model that gives none."""
    logits = getattr(output, "logits", None)
    return running.hidden(output) if logits is None else logits
