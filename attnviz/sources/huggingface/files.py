"""Files of a model: which files to fetch, which exist, their checksums, and the headers of the weights."""

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
"""Vocabulary files, as the tokenizer classes of transformers name them."""
TOKENIZER = VOCABULARIES | {TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json"}
PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"
CHAT_TEMPLATES = frozenset({"chat_template.jinja", "chat_template.json"})
BESIDE = CHAT_TEMPLATES | {CONFIG, PREPROCESSOR, PROCESSOR, "generation_config.json", "modules.json"}
BESIDE |= {"1_Pooling/config.json", "config_sentence_transformers.json"}
LARGEST_TEXT = 100_000_000
"""Largest size in bytes of a file that holds no weights."""
DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
ADAPTER, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
CHECKPOINT = re.compile(r"checkpoint-(\d+)")
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
OTHERS = {".h5": "TensorFlow", ".msgpack": "Flax", ".onnx": "ONNX", ".gguf": "GGUF"}
"""Libraries with other formats of weights, by the endings of their files."""
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
BLOCKS, SCALES = "_blocks", "_scales"
"""Endings of the names of packed tensors: blocks with two numbers per byte, and a power of two for each block."""


@dataclass(frozen=True)
class File:
    """A file of a model: its name, its size in bytes, and its SHA-256, or the SHA-1 that git computes."""

    name: str
    size: int
    digest: str

    @property
    def is_weights(self) -> bool:
        return self.name.endswith(".safetensors")


@dataclass(frozen=True)
class WeightHeaders:
    """Headers of weight files: names of the tensors, number of parameters, and dtype of most parameters."""

    names: tuple[str, ...]
    numbers: int
    dtype: torch.dtype


def wanted(names: Iterable[str]) -> tuple[str, ...]:
    """Select the files to fetch: configuration and tokenizer, then one set of safetensors; no code and no pickle."""
    names = set(names)
    weights = {SINGLE} & names or {name for name in names if name == INDEX or SHARD.fullmatch(name)}
    small = sorted(names & (TOKENIZER | BESIDE))
    return (*small, *sorted(weights, key=lambda name: (name != INDEX, name)))


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
    """Read the headers of the weight files of a folder.

    Args:
        cached: whether the folder is in the cache, from which a damaged file is deleted so that it is fetched again.

    Raises:
        AttnvizError: if a file is damaged, with its name, or if attnviz does not read the types of the weights.
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
    """Whether a folder is complete: it has a configuration, weights, and a tokenizer or a preprocessor."""
    try:
        names = {path.name for path in folder.iterdir()}
        return CONFIG in names and bool(weights(folder)) and not names.isdisjoint({*TOKENIZER, PREPROCESSOR})
    except (AttnvizError, OSError):
        return False


def check(
    folder: Path, digests: dict[str, str], model: str, report: Callable[[int], None] = lambda count: None
) -> None:
    """Compare fetched files with the digests of the hub, and delete a file that differs.

    Args:
        digests: digests by the names of the files; a file is skipped if its digest is not valid.
        report: function that gets the number of bytes after each block that is read.

    Raises:
        AttnvizError: if a file differs, with its name.
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
    """Delete a file of the cache, and the file that it links to."""
    for file in {path.parent / path.readlink() if path.is_symlink() else path, path}:
        with suppress(OSError):
            file.unlink()


@lru_cache(maxsize=4)
def sha256(path: Path) -> str:
    """SHA-256 of a file; the result is cached, so the file must not change."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_meant(path: Path) -> bool:
    """Whether a name without a slash means this folder or file, because it holds weights, and not a model of a hub."""
    if path.is_file():
        return path.suffix in (*PICKLED, *OTHERS, ".safetensors")
    names = [file.name for file in path.iterdir()] if path.is_dir() else []
    return are_weights(names) or any(map(CHECKPOINT.fullmatch, names))


def are_weights(names: Iterable[str]) -> bool:
    """Whether any of the files holds weights or is the configuration of an adapter."""
    return any(name == ADAPTER or name.endswith((*PICKLED, *OTHERS, ".safetensors")) for name in names)
