"""From a folder to a model and its tokenizer, ready to run: checked before anything is built, and complete after."""

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnviz.core.amounts import size
from attnviz.core.display import visible_text
from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.huggingface import (
    building,
    checks,
    embedding,
    faults,
    files,
    hub,
    memory,
    opening,
    senses,
    tapped,
    trial,
)
from attnviz.sources.huggingface.hub import DownloadProgress, ModelLocation
from attnviz.sources.huggingface.loaded import Loaded, Trial
from attnviz.sources.huggingface.turns import Turns

UNREAD = ("pooler.",)
"""Weights that may be missing where only vectors of tokens are read."""


class Room:
    """Memory for a model to be loaded: others may be let go of for it. By default there are none."""

    def reserve(self, size: int) -> None:
        """Hold room for weights of so many bytes before they are read."""

    def let_go(self, size: int) -> bool:
        """Let go of models of so many bytes; of none, and False, if there are fewer."""
        return False


def load(
    place: ModelLocation | str,
    report: Callable[[DownloadProgress], bool | None] = lambda progress: None,
    room: Room = Room(),
) -> Loaded:
    """Load a model from where it is; one that is not here yet is fetched, and `report` is told how far that is.

    Short runs of the model are part of it, once for each class, configuration and implementation, see `trial`.

    Raises:
        InputError: if it is no language model, or does not fit, with both numbers.
        AttnvizError: if its files are missing, damaged, or do not belong together.
    """
    faults.need_transformers()
    place = hub.find(place) if isinstance(place, str) else place
    name = place.name
    _fit(sum(file.size for file in place.files if file.is_weights), memory.devices(), name, room)
    place = hub.fetch(place, report, check=lambda folder: _check(folder, name, room))
    if place.kind == "cached":
        files.check(place.folder, {}, name)
    config = checks.config(place.folder, name)
    held = checks.weights(place.folder, name, place.kind == "cached")
    checks.layers(config, held, name)
    _tell(report, "reading", place)
    with building.quiet():  # others load meanwhile: a tokenizer may take forever
        opened = opening.read(place.folder, name)
    _tell(report, "reading", place)
    with building.alone():
        loaded = _load(place, opened, held, room)
    _tell(report, "trying", place)
    if loaded.hears or loaded.tokenizer is None:
        return senses.tried(loaded)
    try:
        return trial.tried(loaded)
    except AttnvizError as error:
        if opening.has_senses(loaded.config) and not isinstance(error, InputError):
            raise opening.not_of_text(f"{faults.name(name)} ({loaded.made_of})") from error
        raise


def _tell(report: Callable[[DownloadProgress], bool | None], what: str, place: ModelLocation) -> None:
    """Raises: Canceled: if nobody waits for the model any more."""
    if report(DownloadProgress(what, place.size, place.size)) is False:
        raise hub.Canceled(f"The load of {faults.name(place.name)} was canceled.")


def _check(folder: Path, name: str, room: Room) -> None:
    """Raises: AttnvizError: if it can be known without the weights that they would be of no use, or do not fit."""
    opened = opening.check(folder, name)
    if checks.is_packed(vars(opened.config)):  # the files are a quarter of what they need in memory
        with building.alone():
            plan = _plan(opened.kind, opened.config, name)
        _fit(_numbers(plan) * torch.bfloat16.itemsize, memory.devices(), name, room, is_packed=True)


def _load(place: ModelLocation, opened: opening.Unweighted, held: checks.WeightHeaders, room: Room) -> Loaded:
    """The part of loading that one thread does at a time."""
    folder, name = place.folder, place.name
    config, task, kind, tokenizer = opened.config, opened.task, opened.kind, opened.tokenizer
    of_text = tokenizer is not None and not hasattr(opened.processor, "sampling_rate")
    dense, why = _made_full(config)
    plan, is_packed = _plan(kind, config, name, held), checks.is_packed(vars(config))
    longest, limit = _limited(longest_of(plan, tokenizer), dense, why) if of_text else (None, "")
    room.reserve(_numbers(plan) * max(_on(device, held.dtype).itemsize for device in memory.devices()))
    device, dtype = _device(plan, held.dtype, longest, name, room, is_packed=is_packed)
    prefix = _prefix(held.names, plan)
    model, unread = _model(kind, folder, config, dtype, name, prefix, task)
    model = model.to(device)
    implementation = model.get_correct_attn_implementation(None) if model._can_set_attn_implementation() else "eager"
    taken = of_text and tapped.use_on(model)
    return Loaded(
        model=model,
        processor=opened.processor,
        turns=Turns(model),
        tokenizer=tokenizer,
        config=model.config,
        name=place.title,
        commit=place.commit,
        task=task,
        dtype=dtype,
        device=device,
        longest=longest,
        keeps_own_attention=not taken,
        implementation=implementation,
        unread=unread,
        made_of=type(model).__name__,
        parameters=_numbers(model),
        size=sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers())),
        vocabulary=0 if tokenizer is None else _vocabulary(plan, name),
        limit=limit,
        trial=Trial(),
        **_facts(place, config, task, prefix, opened.notes + (("weights of 4 bits, unpacked",) if is_packed else ())),
    )


def _facts(
    place: ModelLocation, config: Any, task: opening.Task, prefix: str, notes: tuple[str, ...]
) -> dict[str, Any]:
    """Facts that the files of a model state of its task and of themselves."""
    pooling = embedding.of_folder(place.folder)
    return {
        "labels": opening.labels(config, config.num_labels) if task in ("labels", "tokens") else (),
        "detail": opening.detail(config, task, pooling),
        "pooling": pooling,
        "notes": (*notes, *([f"weights named without their prefix “{prefix}”"] if prefix else [])),
        "provenance": "from a folder" if place.kind == "folder" else "pretrained",
    }


def _made_full(config: Any) -> tuple[int | None, str]:
    """Undo settings that save memory or time and change no number, so that all of attention is seen.

    Feed-forward parts in chunks fail on lengths that chunks do not divide. BigBird's sparse attention has the weights
    of its full one, and up to some length it switches to that itself.

    Returns:
        How many tokens the model reads so at most, or None; and why no more.
    """
    if getattr(config, "chunk_size_feed_forward", 0):
        config.chunk_size_feed_forward = 0
    if getattr(config, "attention_type", None) != "block_sparse":
        return None, ""
    config.attention_type = "original_full"
    dense = (5 + 2 * config.num_random_blocks) * config.block_size
    return dense, "longer texts are read in sparse blocks, which attnviz does not show"


def _limited(longest: int | None, dense: int | None, why: str) -> tuple[int | None, str]:
    """The smaller of two lengths, and why it is no more, where that is the second."""
    if dense is None or (longest is not None and longest <= dense):
        return longest, ""
    return dense, why


def _plan(kind: Any, config: Any, name: str, held: checks.WeightHeaders | None = None) -> nn.Module:
    """The model without its numbers, which takes no memory; `held` is None before its weights are here.

    Raises:
        InputError: with both counts, if its configuration asks for more numbers than its files hold.
    """
    try:
        plan = building.plan(kind, config)
    except hub.Canceled:
        raise
    except Exception as error:
        raise AttnvizError(f"config.json of {faults.name(name)} cannot be built: {faults.first(error)}") from None
    computed = tuple(getattr(plan, "_keys_to_ignore_on_load_missing", None) or ())  # as Marian's positions are
    needed = _numbers(plan, without=UNREAD + computed)
    if held is not None and needed > held.numbers:
        what = f"config.json of {faults.name(name)} describes a model of {needed:,} numbers, and its files hold"
        raise InputError(f"{what} {held.numbers:,}. They do not belong together; fetch both again, or choose another.")
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


def _device(
    plan: nn.Module, dtype: torch.dtype, longest: int | None, name: str, room: Room, *, is_packed: bool
) -> tuple[torch.device, torch.dtype]:
    """The fastest device with enough memory, and the type of numbers to use there.

    Unpacking needs three times the largest tensor beside what is unpacked: its bytes as indices, values, and a copy.

    Raises:
        InputError: with both numbers, if there is none.
    """
    devices, numbers = memory.devices(), _numbers(plan)
    numbers += 3 * max(weight.numel() for weight in plan.parameters()) if is_packed else 0
    for device in devices[:-1]:
        used = _on(device, dtype)
        if memory.needed(plan, numbers, used, longest) <= memory.free(device):
            return device, used
    used = _on(devices[-1], dtype)
    _fit(memory.needed(plan, numbers, used, longest), devices[-1:], name, room, is_packed=is_packed)
    return devices[-1], used


def _fit(needs: int, devices: list[torch.device], name: str, room: Room, *, is_packed: bool = False) -> None:
    """Let go of other models, if that is needed, until one of the devices has so much memory.

    Raises:
        InputError: with both numbers, if none can have it.
    """
    while needs > (free := max(map(memory.free, devices))):
        if not room.let_go(needs - free):
            unpacked = " with its 4-bit weights unpacked" if is_packed else ""
            what = f"{faults.name(name)} needs about {size(needs)} of memory{unpacked}, and {size(free)} are free here"
            by_hand = f'Or {checks.BY_HAND}; device_map="auto" with offload_folder= leaves on disk what does not fit.'
            raise InputError(f"{what}. Choose a smaller model.{f' {by_hand}' if is_packed else ''}")


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
    fitting = [sum(name.removeprefix(prefix) in own for name in names) for prefix in prefixes]
    if not any(fitting):  # a head beside the body has no prefix, or another one
        prefixes = ["", *sorted({f"{column}." for column in (name.partition(".")[0] for name in names)})]
        fitting = [sum(name.removeprefix(prefix) in own for name in names) for prefix in prefixes]
    return prefixes[fitting.index(max(fitting))]


def _model(
    kind: Any, folder: Path, config: Any, dtype: torch.dtype, name: str, prefix: str, task: opening.Task
) -> tuple[nn.Module, tuple[str, ...]]:
    """The model with all its weights, in evaluation, with its eager attention; and a finding of unread weights.

    Raises:
        AttnvizError: names weights that are missing or have another shape.
    """
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
