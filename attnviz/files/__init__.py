"""Records as files: one safetensors file with a JSON header, and back. Nothing is pickled.

    attnviz.save(record, "case.attn")
    record = attnviz.read("case.attn")

A record that is read gives the same pictures, numbers and words as the one that was saved. `format.md` beside this file
says what stands in it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from safetensors.torch import save as to_bytes

from attnviz.check.reading import ENDINGS, NO_PICKLE
from attnviz.core import checksum, whole
from attnviz.core.errors import AttnvizError, InputError, check_no_picture, quoted
from attnviz.core.record import Record
from attnviz.files.arrays import from_arrays, from_file
from attnviz.files.decode import record_of
from attnviz.files.encode import PRECISIONS, described, rounded
from attnviz.files.header import CHECKSUM, HEADER, MOST_BYTES, VERSION, read_header

ENDING = ".attn"
ARRAYS = ENDINGS
"""Endings of files of arrays."""
READ = (ENDING, *ARRAYS)
"""Endings of files that `read` reads."""

__all__ = [
    "ARRAYS",
    "ENDING",
    "MOST_BYTES",
    "NO_PICKLE",
    "READ",
    "content",
    "from_arrays",
    "from_file",
    "opened",
    "read",
    "rounded",
    "save",
    "saved",
]


def save(
    record: Record,
    path: str | Path,
    *,
    precision: str = "float32",
    whole_prediction: bool = False,
    settings: dict[str, Any] | None = None,
) -> Path:
    """Write a record into a file; gives its path.

    Args:
        path: where it is written; an older file there is replaced.
        precision: "float32" keeps every number as it is; "float16" rounds queries, keys and values and halves the file.
            Pictures of a record that was rounded say so.
        whole_prediction: keeps the logit of every word. Otherwise, of a large vocabulary, those of the 50 most probable
            words of each position, and how probable all others are together.
        settings: how its source is made again, for `verify`: `attnviz.cases.settings_of(source)`.

    Raises:
        InputError: if the file cannot be written, or there is no such precision.
    """
    path = Path(path)
    try:
        tensors, metadata = _packed(record, precision, whole_prediction, settings)
        with whole.unfinished(path) as part:
            save_file(tensors, part, metadata)
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or str(error).partition(" at path")[0]
        raise InputError(f"{quoted(str(path))} cannot be written: {why}.") from None
    return path


def saved(record: Record, **options: Any) -> bytes:
    """A record as the bytes that `save` writes."""
    tensors, metadata = _packed(
        record, **({"precision": "float32", "whole_prediction": False, "settings": None} | options)
    )
    return to_bytes(tensors, metadata)


def read(file: str | Path | bytes, name: str = "the file") -> Record:
    """The record of a file that `save` wrote, from its path or its bytes.

    A path that ends in .npz, .npy, .csv, .safetensors, .json or .txt is read as weights of anyone, or as a cache of
    TransformerLens: see `from_arrays`.

    Args:
        name: what an error calls bytes.

    Raises:
        InputError: one sentence that says what is wrong: no such file, no record, damaged, cut, too large or too new.
    """
    if not isinstance(file, bytes) and str(file).lower().endswith(ENDINGS):
        return from_file(Path(file).name, content(Path(file)))
    if not isinstance(file, bytes):
        check_no_picture(Path(file).name)
    return opened(file, name)[0]


def opened(file: str | Path | bytes, name: str = "the file") -> tuple[Record, dict[str, Any] | None]:
    """The record of a file, and how its source is made again if the file tells; raises as `read`."""
    if isinstance(file, bytes):
        return _opened(quoted(name), BytesIO(file), len(file))
    with _reading(Path(file)) as opened:
        return _opened(quoted(str(file)), opened, Path(file).stat().st_size)


def _opened(name: str, file: BinaryIO, size: int) -> tuple[Record, dict[str, Any] | None]:
    header, start = read_header(name, file, size)
    content = start + file.read()
    try:
        tensors = load(content)
    except Exception:  # of a damaged file the library raises nearly anything
        raise InputError(f"{name} is damaged: its tensors cannot be read.") from None
    if checksum.of(tensors) != header.get(CHECKSUM):
        raise InputError(f"{name} is damaged: its numbers are not those that were saved.")
    return record_of(name, header, tensors), header.get("settings")


def _packed(
    record: Record, precision: str, whole_prediction: bool, settings: dict[str, Any] | None
) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    if precision not in PRECISIONS:
        raise InputError(f"There is no precision {quoted(precision)}. There are: {', '.join(PRECISIONS)}.")
    if precision == "float16":
        record = rounded(record)
    header, tensors = described(record, whole_prediction=whole_prediction)
    versions = {"version": VERSION, "torch": torch.__version__, "settings": settings}
    header = versions | header | {CHECKSUM: checksum.of(tensors)}
    return tensors, {HEADER: json.dumps(header, separators=(",", ":"))}


def content(path: Path) -> bytes:
    """The bytes of a file that is not too large; raises as `read`."""
    with _reading(path) as file:
        if (size := path.stat().st_size) > MOST_BYTES:
            raise InputError(f"{quoted(str(path))} has {size:,} bytes; at most {MOST_BYTES:,} are read.")
        return file.read()


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except AttnvizError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{quoted(str(path))} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
