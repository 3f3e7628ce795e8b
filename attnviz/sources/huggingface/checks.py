"""Claims of a folder about its model, read and bounded before anything is built from it."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from attnviz.core.amounts import size
from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.sources.huggingface import faults, files

BY_HAND = (
    "load it with transformers, AutoModelForCausalLM.from_pretrained, and show it by attnviz.load(model, tokenizer)"
)
PACKED, BLOCKS, SCALES = "mxfp4", "_blocks", "_scales"
"""Method of quantization that transformers undoes on any device, and the endings of its tensors' names: two numbers in
each byte of the blocks, and a power of two for each block."""
LONGEST_CONFIG = 2_000_000
"""Bytes."""
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
MOST = {"layers": 1_000, "heads": 4_096, "experts": 4_096, "labels": 100_000}
"""How many of each a model may have, at most; every other whole number is below `LARGEST`,
or, if it is the base of rotary positions, below `ROTATION`."""
LARGEST, ROTATION = 2**31, 10**15
SHARED_LAYERS = 64
"""Layers that may share one set of weights, as in ALBERT; more layers than tensors are not believed."""


@dataclass(frozen=True)
class WeightHeaders:
    """Contents of the headers of weight files: names of tensors, how many numbers, and their usual type."""

    names: tuple[str, ...]
    numbers: int
    dtype: torch.dtype

    @property
    def tensors(self) -> int:
        return len(self.names)


def config(folder: Path, model: str) -> dict[str, Any]:
    """The configuration, with no number in it that could not be meant.

    Raises:
        InputError: names the number, or says that the folder holds no model.
        AttnvizError: if the file is damaged.
    """
    what = f"config.json of {faults.name(model)}"
    path = folder / files.CONFIG
    try:
        if path.stat().st_size > LONGEST_CONFIG:
            raise InputError(f"{what} has {size(path.stat().st_size)}; {size(LONGEST_CONFIG)} is the most.")
        settings = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(settings, dict) or not isinstance(settings.get("model_type"), str):
            raise InputError(f"{what} does not name its model_type: it is not a model of transformers.")
        listed = settings.get("architectures")
        if not (listed is None or (isinstance(listed, list) and all(isinstance(name, str) for name in listed))):
            raise InputError(f"{what} says 'architectures': {quoted(listed)}; it must be a list of names of classes.")
        for key, number in _numbers(settings):
            most = _most(key)
            if abs(number) > most:
                raise InputError(f"{what} says {quoted(key)}: {quoted(number)}; the most is {most}. It is not built.")
    except InputError:
        raise
    except (OSError, ValueError, RecursionError):
        raise AttnvizError(f"{what} is missing or damaged; fetch it again.") from None
    if "quantization_config" in settings and not is_packed(settings):
        raise InputError(f"{faults.name(model)} is quantized; {BY_HAND}, or choose the original.")
    return settings


def is_packed(settings: dict[str, Any]) -> bool:
    """Whether weights are of 4 bits in a configuration, and are unpacked when they are read, as those of GPT-OSS."""
    quantization = settings.get("quantization_config")
    return isinstance(quantization, dict) and quantization.get("quant_method") == PACKED


def weights(folder: Path, model: str, cached: bool = False) -> WeightHeaders:
    """Contents of the weight files, from their headers alone.

    Args:
        cached: the folder is of a hub's cache: a file that is damaged is deleted there, so that it is fetched again.

    Raises:
        InputError: if there are no safetensors, with what there is.
        AttnvizError: names a file that is damaged.
    """
    paths = files.weights(folder)
    if not paths:
        names = (path.name for path in folder.iterdir())
        raise InputError(files.of_files(model, names, folder, class_name=_class_name(folder)))
    names, numbers = [], Counter()
    for path in paths:
        try:
            with safe_open(path, "pt") as file:
                for name in file.keys():  # noqa: SIM118 (not a dict)
                    part = file.get_slice(name)
                    names.append(name)
                    is_bytes = part.get_dtype() == "U8"
                    each = 2 if is_bytes and name.endswith(BLOCKS) else int(not (is_bytes and name.endswith(SCALES)))
                    numbers[part.get_dtype()] += each * prod(part.get_shape())
        except (SafetensorError, OSError):
            if cached:
                files.forget(path)
            after = "it has been deleted from the cache; try again" if cached else "fetch it again"
            raise AttnvizError(f"The weights {path.name} of {faults.name(model)} are damaged: {after}.") from None
    counts = [(count, DTYPES[name]) for name, count in numbers.items() if name in DTYPES]
    if not counts:
        raise InputError(
            f"{faults.name(model)} has weights of a type that attnviz does not read: {', '.join(numbers)}."
        )
    return WeightHeaders(tuple(names), numbers.total(), max(counts, key=lambda pair: pair[0])[1])


def _class_name(folder: Path) -> str:
    """The class that a checked configuration names, or ""."""
    try:
        return str((json.loads((folder / files.CONFIG).read_text(encoding="utf-8")).get("architectures") or [""])[0])
    except (OSError, ValueError):
        return ""


def layers(settings: dict[str, Any], held: WeightHeaders, model: str) -> None:
    """Raises: InputError: with both numbers, if there are more layers than tensors that could be theirs."""
    claimed = max((number for key, number in _numbers(settings) if _counts(key) == "layers"), default=0)
    if claimed > max(SHARED_LAYERS, held.tensors):
        what = f"{faults.name(model)} says that it has {claimed} layers, and its files hold {held.tensors} tensors"
        raise InputError(f"{what}. They do not belong together; fetch both again, or choose another model.")


def _counts(key: str) -> str | None:
    """Kind of parts that a setting counts, if known: "layers" for n_layer, encoder_layers, num_hidden_layers ..."""
    words = key.lower().split("_")
    if "window" in words:  # Qwen's max_window_layers may be more than there are
        return None
    for what in MOST:
        if (what in words or what[:-1] in words) and ({"num", "n", what} & set(words)):
            return what
    return None


def _most(key: str) -> int:
    what = _counts(key)
    if what:
        return MOST[what]
    return ROTATION if "theta" in key else LARGEST


def _numbers(value: Any, key: str = "") -> Iterator[tuple[str, int]]:
    """All whole numbers in a configuration, each with the key it stands under."""
    if isinstance(value, dict):
        for inner, item in value.items():
            yield from _numbers(item, inner)
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item, key)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield key, value
