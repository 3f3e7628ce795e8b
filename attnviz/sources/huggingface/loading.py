"""From a folder to a model and its tokenizer, ready to run: checked before anything is built, and complete after."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.huggingface import checks, files, hub, memory, said, tapped
from attnviz.sources.huggingface.hub import Place, Progress

Task = Literal["next", "fill", "labels", "write", "vectors"]
"""What a model says: the next token, what a mask hides, a label, another text, or only vectors."""

UNREAD = ("pooler.",)
"""Weights that may be missing where only vectors of tokens are read."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model that is ready to run. Nothing of it is ever changed.

    Attributes:
        model: in evaluation, without gradients.
        tokenizer: a fast one, which knows the place of each token in the text.
        commit: of the hub's files, if they came from one.
        dtype, device: of the weights.
        longest: how many tokens the model reads at most, if it says so.
        keeps_own_attention: it computes attention in its own code (eager), so the tap does not reach it.
    """

    model: nn.Module
    tokenizer: Any
    name: str
    commit: str | None
    task: Task
    dtype: torch.dtype
    device: torch.device
    longest: int | None
    keeps_own_attention: bool

    @property
    def vocabulary(self) -> int:
        """For how many tokens the model has vectors."""
        return self.model.get_input_embeddings().weight.shape[0]


def load(place: Place | str, report: Callable[[Progress], bool | None] = lambda progress: None) -> Loaded:
    """Load a model from where it is; one that is not here yet is fetched, and `report` is told how far that is.

    Raises:
        InputError: if it is no language model, or does not fit, with both numbers.
        AttnvizError: if its files are missing, damaged, or do not belong together.
    """
    said.need_transformers()
    place = hub.find(place) if isinstance(place, str) else place
    name = place.name
    _fits(sum(file.size for file in place.files if file.is_weights), memory.devices(), name)
    place = hub.fetch(place, report, check=lambda folder: _before_weights(folder, name))
    folder = place.folder
    if place.kind == "cached":
        files.check(folder, {}, name)
    found = checks.config(folder, name)
    held = checks.weights(folder, name, place.kind == "cached")
    checks.layers(found, held, name)
    with _quiet():
        config, task, auto, tokenizer = _before_weights(folder, name)
        plan = _plan(auto, config, held, name)
        longest = _longest(plan, tokenizer)
        device, dtype = _room(plan, held.dtype, longest, name)
        model = _model(auto, folder, dtype, name, UNREAD if task == "vectors" else ()).to(device)
        taken = tapped.use_on(model)
    return Loaded(model, tokenizer, name, place.commit, task, dtype, device, longest, not taken)


def _before_weights(folder: Path, name: str) -> tuple[Any, Task, Any, Any]:
    """What can be known without the weights: configuration, task, class, tokenizer."""
    config = _config(folder, name)
    return config, *_class(config, name), _tokenizer(folder, name)


def _config(folder: Path, name: str) -> Any:
    from transformers import CONFIG_MAPPING, AutoConfig

    found = checks.config(folder, name)
    kind = found["model_type"]
    if kind not in CONFIG_MAPPING:
        own = " It would need code of its own, which attnviz does not run." if "auto_map" in found else ""
        raise InputError(f"{said.name(name)} is a {said.name(kind)}, which transformers does not know.{own}")
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # whatever a class of transformers makes of odd settings
        raise AttnvizError(f"config.json of {said.name(name)} does not fit a {kind}: {_first(error)}") from None


def _class(config: Any, name: str) -> tuple[Task, Any]:
    """What a model is for, and the class of transformers that loads it for that."""
    import transformers
    from transformers.models.auto import modeling_auto as names

    listed = config.architectures or [""]
    made, kind = str(listed[0]), config.model_type

    def among(table: str) -> bool:
        found = getattr(names, f"MODEL_{table}MAPPING_NAMES").get(kind)
        return made in ([found] if isinstance(found, str) else found or ())

    both = bool(getattr(config, "is_encoder_decoder", False))
    fills = kind in names.MODEL_FOR_MASKED_LM_MAPPING_NAMES and kind != "electra" and made.endswith("ForPreTraining")
    if any(hasattr(config, f"{sense}_config") for sense in ("vision", "audio", "image")):
        task, auto = None, None
    elif among("FOR_SEQUENCE_CLASSIFICATION_"):
        task, auto = "labels", transformers.AutoModelForSequenceClassification
    elif both and (among("FOR_SEQ_TO_SEQ_CAUSAL_LM_") or among("")):
        task, auto = "write", transformers.AutoModelForSeq2SeqLM
    elif among("FOR_CAUSAL_LM_"):
        task, auto = "next", transformers.AutoModelForCausalLM
    elif among("FOR_MASKED_LM_") or fills:
        task, auto = "fill", transformers.AutoModelForMaskedLM
    elif among("FOR_TEXT_ENCODING_"):
        task, auto = "vectors", transformers.AutoModelForTextEncoding
    else:
        task, auto = "vectors", transformers.AutoModel
    model = auto and auto._model_mapping.get(type(config), None)
    model = model[0] if isinstance(model, tuple | list) else model
    if model is None or model.main_input_name != "input_ids" or not issubclass(model, transformers.PreTrainedModel):
        raise InputError(
            f"{said.name(name)} ({made or kind}) is no language model: attnviz shows models that read text."
        )
    if both and auto is transformers.AutoModel:
        raise InputError(
            f"{said.name(name)} ({made or kind}) has a decoder but no head that writes; choose one that has."
        )
    return task, auto


def _plan(auto: Any, config: Any, held: checks.Weights, name: str) -> nn.Module:
    """The model without its numbers, which takes no memory.

    Raises:
        InputError: with both counts, if its configuration asks for more numbers than its files hold.
    """
    try:
        with torch.device("meta"):
            plan = auto.from_config(config, attn_implementation="eager", trust_remote_code=False)
    except Exception as error:
        raise AttnvizError(f"config.json of {said.name(name)} cannot be built: {_first(error)}") from None
    computed = tuple(getattr(plan, "_keys_to_ignore_on_load_missing", None) or ())  # as Marian's positions are
    asked = _numbers(plan, without=UNREAD + computed)
    if asked > held.numbers:
        what = f"config.json of {said.name(name)} describes a model of {asked:,} numbers, and its files hold"
        raise InputError(f"{what} {held.numbers:,}. They do not belong together; fetch both again, or choose another.")
    return plan


def _numbers(model: nn.Module, without: tuple[str, ...] = ()) -> int:
    return sum(one.numel() for name, one in model.named_parameters() if not any(part in name for part in without))


def _longest(model: nn.Module, tokenizer: Any) -> int | None:
    """The least of what the configuration, a table of positions and the tokenizer allow."""
    config = model.config.get_text_config()
    limits = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions")]
    limits.append(getattr(tokenizer, "model_max_length", None))
    for name, module in model.named_modules():  # RoBERTa's positions begin after the one for padding
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx is not None:
            limits.append(module.num_embeddings - module.padding_idx - 1)
    return min((int(one) for one in limits if isinstance(one, int) and 0 < one < 10**9), default=None)


def _room(plan: nn.Module, dtype: torch.dtype, longest: int | None, name: str) -> tuple[torch.device, torch.dtype]:
    """The fastest device with enough memory, and the type of numbers to use there.

    Raises:
        InputError: with both numbers, if there is none.
    """
    devices = memory.devices()
    for device in devices[:-1]:
        used, free = _on(device, dtype), memory.free(device)
        if free is None or memory.needed(plan, _numbers(plan), used, longest) <= free:
            return device, used
    used = _on(devices[-1], dtype)
    _fits(memory.needed(plan, _numbers(plan), used, longest), devices[-1:], name)
    return devices[-1], used


def _fits(needs: int, devices: list[torch.device], name: str) -> None:
    """Raises: InputError: with both numbers, if none of the devices has so much memory."""
    free = [memory.free(device) for device in devices]
    if None not in free and needs > max(free):
        what = f"{said.name(name)} needs about {said.size(needs)} of memory, and {said.size(max(free))} are free here"
        raise InputError(f"{what}. Choose a smaller model.")


def _on(device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """The checkpoint's own type, unless the device is slow or wrong with it."""
    poor = {"cpu": torch.float16, "mps": torch.float64}
    return torch.float32 if poor.get(device.type) == dtype else dtype


def _model(auto: Any, folder: Path, dtype: torch.dtype, name: str, unread: tuple[str, ...]) -> nn.Module:
    """The model with all its weights, in evaluation, with its eager attention.

    Raises:
        AttnvizError: names weights that are missing or have another shape.
    """
    settings = {"local_files_only": True, "use_safetensors": True, "trust_remote_code": False}
    settings |= {"ignore_mismatched_sizes": True}  # they are told below, by name
    try:
        model, info = auto.from_pretrained(
            folder, dtype=dtype, attn_implementation="eager", output_loading_info=True, **settings
        )
    except Exception as error:  # a file that vanished, no memory left
        raise AttnvizError(f"The weights of {said.name(name)} cannot be loaded: {_first(error)}") from None
    wrong = {one for one in info["missing_keys"] if not one.startswith(unread)}
    wrong |= {one[0] for one in info["mismatched_keys"]}
    if wrong or info["error_msgs"]:
        some = ", ".join(sorted(wrong)[:3]) + (", ..." if len(wrong) > 3 else "")
        what = f"The files of {said.name(name)} lack {len(wrong)} weights of the model, or have them in another shape"
        raise AttnvizError(f"{what}: {some or info['error_msgs'][0]}. Choose another model.")
    return model.eval().requires_grad_(False)


def _tokenizer(folder: Path, name: str) -> Any:
    """The tokenizer, tried once.

    Raises:
        InputError: if there is none, or none that knows places in the text.
        AttnvizError: if it cannot be read.
    """
    from transformers import AutoTokenizer

    if not any((folder / one).is_file() for one in files.VOCABULARIES):
        raise InputError(f"{said.name(name)} has no tokenizer (tokenizer.json); choose a model that has one.")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        pieces = tokenizer("A test.")["input_ids"]
    except BaseException as error:  # a tokenizer written in Rust panics past Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise AttnvizError(f"The tokenizer of {said.name(name)} cannot be used: {_first(error)}") from None
    if not tokenizer.is_fast:
        what = "is a slow one, which does not know the places of tokens in the text"
        raise InputError(f"The tokenizer of {said.name(name)} {what}; choose a model with a tokenizer.json.")
    if not pieces:
        raise AttnvizError(f"The tokenizer of {said.name(name)} finds no token in 'A test.'; it is damaged.")
    return tokenizer


def _first(error: BaseException) -> str:
    """The beginning of what a library says, in one line, as the end of a sentence."""
    text = f"it lacks {error}" if isinstance(error, KeyError) else " ".join(str(error).split()) or type(error).__name__
    return (text if len(text) <= 200 else f"{text[:200]}…").rstrip(".") + "."


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the bars and reports of transformers: what matters in them is said as an error."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
