"""Files of a model: which files to fetch, which exist, their checksums, and the headers of the weights."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.huggingface import faults

CONFIG, SINGLE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
FAST, PREPROCESSOR, PROCESSOR = "tokenizer.json", "preprocessor_config.json", "processor_config.json"
SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
SMALL = re.compile(r"[^/]+\.(json|txt|model|spm|codes|tokenizer|jinja)|1_Pooling/config\.json")
"""Names of configurations, vocabularies and chat templates, which are fetched beside the weights."""
ADAPTER = "adapter_config.json"
CHECKPOINT = re.compile(r"checkpoint-(\d+)")
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
OTHERS = {".h5": "TensorFlow", ".msgpack": "Flax", ".onnx": "ONNX", ".gguf": "GGUF"}
"""Libraries with other formats of weights, by the endings of their files."""
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
BLOCKS, SCALES = "_blocks", "_scales"
"""Endings of the names of packed tensors: blocks with two numbers per byte, and a power of two for each block."""


@dataclass(frozen=True)
class File:
    """A file of a model on a hub: its name, its size in bytes, and its SHA-256, or the SHA-1 that git computes."""

    name: str
    size: int
    digest: str

    @property
    def is_weights(self) -> bool:
        return self.name.endswith(".safetensors")

    def check(self, folder: Path, model: str) -> None:
        """Compare the fetched file with the digest of the hub, and delete it if it differs.

        Raises:
            AttnvizError: if it differs, with its name.
        """
        path = folder / self.name
        algorithm = hashlib.sha256() if len(self.digest) == 64 else hashlib.sha1(b"blob %d\0" % path.stat().st_size)
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, lambda: algorithm).hexdigest()
        if digest != self.digest:
            forget(path)
            what = f"The file {self.name} of {faults.name(model)} was damaged on its way: its checksum is not the hub's"
            raise AttnvizError(f"{what}. It has been deleted; try again.")


@dataclass(frozen=True)
class WeightHeaders:
    """Headers of weight files: number of parameters, and dtype of most parameters."""

    numbers: int
    dtype: torch.dtype


def wanted(names: Iterable[str]) -> list[str]:
    """Select the files to fetch: configuration and tokenizer, then one set of safetensors; no code and no pickle."""
    small = sorted(filter(SMALL.fullmatch, names))
    return [*small, *([SINGLE] if SINGLE in names else sorted(filter(SHARD.fullmatch, names)))]


def weights(folder: Path) -> tuple[Path, ...]:
    """Weight files that transformers would load from a folder; empty if there are none.

    Raises:
        AttnvizError: if the index of the files is damaged, or names a file that does not exist.
    """
    if (folder / SINGLE).is_file():
        return (folder / SINGLE,)
    if not (folder / INDEX).is_file():
        return ()
    try:
        names = sorted({*json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values()})
        missing = [name for name in names if Path(name).name != name or not (folder / name).is_file()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise AttnvizError(f"The list of weights {INDEX} is damaged; fetch it again.") from None
    if missing:
        what = f"The weights {faults.name(missing[0])}, which {INDEX} lists, are not there"
        raise AttnvizError(f"{what}; fetch them again.")
    return tuple(folder / name for name in names)


def headers(folder: Path, model: str, cached: bool = False) -> WeightHeaders:
    """Read the headers of the weight files of a folder.

    Args:
        cached: whether the folder is in the cache, from which a damaged file is deleted so that it is fetched again.

    Raises:
        AttnvizError: if a file is damaged, with its name, or if attnviz does not read the types of the weights.
    """
    numbers = Counter()
    for path in weights(folder):
        try:
            with safe_open(path, "pt") as file:
                for name in file.keys():  # noqa: SIM118 (not a dict)
                    part = file.get_slice(name)
                    is_bytes = part.get_dtype() == "U8"
                    factor = 2 if is_bytes and name.endswith(BLOCKS) else int(not (is_bytes and name.endswith(SCALES)))
                    numbers[part.get_dtype()] += factor * prod(part.get_shape())
        except (SafetensorError, OSError):
            if cached:
                forget(path)
            after = "it has been deleted from the cache; try again" if cached else "fetch it again"
            raise AttnvizError(f"The weights {path.name} of {faults.name(model)} are damaged: {after}.") from None
    usual = max((name for name in numbers if name in DTYPES), key=numbers.get, default=None)
    if usual is None:
        types = ", ".join(numbers)
        raise InputError(f"{faults.name(model)} has weights of a type that attnviz does not read: {types}.")
    return WeightHeaders(numbers.total(), DTYPES[usual])


def whole(folder: Path) -> bool:
    """Whether a folder is complete: it has a configuration, weights, and a tokenizer or a preprocessor."""
    names = {path.name for path in folder.iterdir()}
    others = {name for name in names if SMALL.fullmatch(name)} - {CONFIG, INDEX, "generation_config.json"}
    try:
        return CONFIG in names and bool(weights(folder)) and bool(others)
    except AttnvizError:
        return False


def forget(path: Path) -> None:
    """Delete a file of the cache, and the file that it links to."""
    for file in {path.parent / path.readlink() if path.is_symlink() else path, path}:
        with suppress(OSError):
            file.unlink()
