"""The files of a model: which are wanted, which are there, and whether they are what the hub says they are."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from attnviz.core.errors import AttnvizError
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


@dataclass(frozen=True)
class File:
    """A file of a model: its size in bytes, and its SHA-256, or the SHA-1 that git gives it."""

    name: str
    size: int
    digest: str

    @property
    def is_weights(self) -> bool:
        return self.name.endswith(".safetensors")


def wanted(names: Iterable[str]) -> tuple[str, ...]:
    """Configuration, tokenizer and one set of safetensors, in this order: no code, no pickle, no second format."""
    names = set(names)
    weights = {SINGLE} & names or {name for name in names if name == INDEX or SHARD.fullmatch(name)}
    small = sorted(names & (TOKENIZER | BESIDE))
    return (*small, *sorted(weights, key=lambda name: (name != INDEX, name)))


def weights(folder: Path) -> tuple[Path, ...]:
    """The files of weights in a folder, as transformers would choose them; empty if there are none.

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


def whole(folder: Path) -> bool:
    """Whether all that a model needs is in a folder."""
    try:
        return bool(
            (folder / CONFIG).is_file()
            and weights(folder)
            and any((folder / name).is_file() for name in (*TOKENIZER, PREPROCESSOR))
        )
    except AttnvizError:
        return False


def check(
    folder: Path, digests: dict[str, str], model: str, report: Callable[[int], None] = lambda count: None
) -> None:
    """Compare files in the cache with their digests; one that differs is deleted, and said.

    Args:
        digests: of the files by their names; those of other files are taken from where the cache keeps them.
        report: is given how many bytes have been read, now and then.

    Raises:
        AttnvizError: names the files that differ, and says how large they are.
    """
    for path in sorted(folder.iterdir()):
        if not path.is_file():
            continue
        digest = digests.get(path.name) or _kept_as(path).name
        if DIGEST.fullmatch(digest) and not _is(digest, path.resolve(), report):
            forget(path)
            raise AttnvizError(
                f"The file {path.name} of {faults.name(model)} was damaged on its way: its checksum is not the hub's. "
                "It has been deleted; try again."
            )


def forget(path: Path) -> None:
    """Delete a file of the cache, and what it points to."""
    for file in {_kept_as(path), path}:
        with suppress(OSError):
            file.unlink()


def _kept_as(path: Path) -> Path:
    """The file that a file of the cache points to, called by its digest; itself where links cannot be made."""
    return path.parent / path.readlink() if path.is_symlink() else path


def _is(digest: str, path: Path, report: Callable[[int], None]) -> bool:
    stat = path.stat()
    entry = (path, stat.st_size, stat.st_mtime_ns, digest)
    if entry not in _verified:
        algorithm = hashlib.sha256() if len(digest) == 64 else hashlib.sha1(b"blob %d\0" % stat.st_size)
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                algorithm.update(block)
                report(len(block))
        if algorithm.hexdigest() != digest:
            return False
        _verified.add(entry)
    return True


_verified: set[tuple[Path, int, int, str]] = set()
"""Files that this process has read and found right, so that each is read once."""


@lru_cache(maxsize=4)
def sha256(path: Path) -> str:
    """SHA-256 of a file that stays as it is."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
