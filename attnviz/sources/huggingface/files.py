"""The files of a model: wanted ones, those that are there, their checksums, and the headers of its weights."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.huggingface import faults

CONFIG, SINGLE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
FAST, MERGES, TOKENIZER_CONFIG = "tokenizer.json", "merges.txt", "tokenizer_config.json"
SENTENCEPIECE = frozenset(
    "spiece.model sentencepiece.bpe.model tokenizer.model spm.model sentencepiece.model spm_char.model "
    "source.spm target.spm prophetnet.tokenizer".split()
)
VOCABULARIES = SENTENCEPIECE | frozenset(
    f"{FAST} {MERGES} vocab.txt vocab.json bpe.codes dict.txt target_vocab.json vocab-src.json vocab-tgt.json "
    "emoji.json byte_maps.json entity_vocab.json word_shape.json word_pronunciation.json".split()
)
"""Files from which transformers makes tokenizers: its classes name them."""
TOKENIZER = VOCABULARIES | {TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json"}
PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"
CHAT_TEMPLATES = frozenset({"chat_template.jinja", "chat_template.json"})
BESIDE = CHAT_TEMPLATES | {CONFIG, PREPROCESSOR, PROCESSOR, "generation_config.json", "modules.json"}
BESIDE |= {"1_Pooling/config.json", "config_sentence_transformers.json"}
LARGEST_TEXT = 100_000_000
"""Bytes of a file that is not weights."""
DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
ADAPTER, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
CHECKPOINT = re.compile(r"checkpoint-(\d+)")
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
OTHERS = {".h5": "TensorFlow", ".msgpack": "Flax", ".onnx": "ONNX", ".gguf": "GGUF"}
"""Weights of other libraries, by the endings of their files."""
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
BLOCKS, SCALES = "_blocks", "_scales"
"""Endings of the names of packed tensors: two numbers in each byte of the blocks, and a power of two for each block."""


@dataclass(frozen=True)
class File:
    """A file of a model: its size in bytes, and its SHA-256, or the SHA-1 that git gives it."""

    name: str
    size: int
    digest: str

    @property
    def is_weights(self) -> bool:
        return self.name.endswith(".safetensors")


@dataclass(frozen=True)
class WeightHeaders:
    """Headers of weight files: names of tensors, their count of numbers, and their usual type."""

    names: tuple[str, ...]
    numbers: int
    dtype: torch.dtype


def wanted(names: Iterable[str]) -> tuple[str, ...]:
    """Configuration, tokenizer and one set of safetensors, in this order: no code, no pickle, no second format."""
    names = set(names)
    weights = {SINGLE} & names or {name for name in names if name == INDEX or SHARD.fullmatch(name)}
    small = sorted(names & (TOKENIZER | BESIDE))
    return (*small, *sorted(weights, key=lambda name: (name != INDEX, name)))


def weights(folder: Path) -> tuple[Path, ...]:
    """Weight files of a folder, as transformers would choose them; empty if there are none.

    Raises:
        AttnvizError: if an index names a file that is not there, or is damaged.
    """
    if (folder / SINGLE).is_file():
        return (folder / SINGLE,)
    if not (folder / INDEX).is_file():
        return ()
    try:
        listed = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values()
        names = sorted(set(listed))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise AttnvizError(f"The list of weights {INDEX} is damaged; fetch it again.") from None
    for name in names:
        if not (isinstance(name, str) and Path(name).name == name and (folder / name).is_file()):
            raise AttnvizError(
                f"The weights {faults.name(name)}, which {INDEX} lists, are not there; fetch them again."
            )
    return tuple(folder / name for name in names)


def headers(folder: Path, model: str, cached: bool = False) -> WeightHeaders:
    """Headers of the weight files of a folder that has some.

    Args:
        cached: whether the folder is of a hub's cache: a damaged file is deleted there, so that it is fetched again.

    Raises:
        AttnvizError: names a file that is damaged, or types that attnviz does not read.
    """
    names, numbers = [], Counter()
    for path in weights(folder):
        try:
            with safe_open(path, "pt") as file:
                for name in file.keys():  # noqa: SIM118 (not a dict)
                    part = file.get_slice(name)
                    is_bytes = part.get_dtype() == "U8"
                    each = 2 if is_bytes and name.endswith(BLOCKS) else int(not (is_bytes and name.endswith(SCALES)))
                    numbers[part.get_dtype()] += each * prod(part.get_shape())
                    names.append(name)
        except (SafetensorError, OSError):
            if cached:
                forget(path)
            after = "it has been deleted from the cache; try again" if cached else "fetch it again"
            raise AttnvizError(f"The weights {path.name} of {faults.name(model)} are damaged: {after}.") from None
    usual = max((name for name in numbers if name in DTYPES), key=numbers.get, default=None)
    if usual is None:
        types = ", ".join(numbers)
        raise InputError(f"{faults.name(model)} has weights of a type that attnviz does not read: {types}.")
    return WeightHeaders(tuple(names), numbers.total(), DTYPES[usual])


def whole(folder: Path) -> bool:
    """Whether all that a model needs is in a folder."""
    try:
        there = {path.name for path in folder.iterdir()}
        return CONFIG in there and bool(weights(folder)) and not there.isdisjoint({*TOKENIZER, PREPROCESSOR})
    except (AttnvizError, OSError):
        return False


def check(
    folder: Path, digests: dict[str, str], model: str, report: Callable[[int], None] = lambda count: None
) -> None:
    """Compare files that were fetched with the digests of the hub; one that differs is deleted.

    Args:
        digests: digests by the names of the files; one that is no digest is not compared.
        report: called with the bytes that were read, now and then.

    Raises:
        AttnvizError: names the file that differs.
    """
    for name, digest in digests.items():
        path = folder / name
        if not DIGEST.fullmatch(digest):
            continue
        algorithm = hashlib.sha256() if len(digest) == 64 else hashlib.sha1(b"blob %d\0" % path.stat().st_size)
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                algorithm.update(block)
                report(len(block))
        if algorithm.hexdigest() != digest:
            forget(path)
            what = f"The file {name} of {faults.name(model)} was damaged on its way: its checksum is not the hub's"
            raise AttnvizError(f"{what}. It has been deleted; try again.")


def forget(path: Path) -> None:
    """Delete a file of the cache, and what it points to."""
    for file in {path.parent / path.readlink() if path.is_symlink() else path, path}:
        with suppress(OSError):
            file.unlink()


@lru_cache(maxsize=4)
def sha256(path: Path) -> str:
    """SHA-256 of a file that stays as it is."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_meant(path: Path) -> bool:
    """Whether a name without a slash that is here means this folder or file, and no model of a hub."""
    if path.is_file():
        return path.suffix in (*PICKLED, *OTHERS, ".safetensors")
    names = [file.name for file in path.iterdir()] if path.is_dir() else []
    return are_weights(names) or any(map(CHECKPOINT.fullmatch, names))


def are_weights(names: Iterable[str]) -> bool:
    """Whether weights are among files, or an adapter."""
    return any(name == ADAPTER or name.endswith((*PICKLED, *OTHERS, ".safetensors")) for name in names)
