"""Save records to files and read them: one safetensors file with a JSON header, without pickles.

    attnviz.save(record, "case.attn")
    record = attnviz.read("case.attn")

A record that was read gives the same pictures, numbers and texts as the saved record. `format.md` describes the format.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors.torch import load
from safetensors.torch import save as to_bytes
from torch import Tensor

from attnviz.check.reading import ENDINGS, NO_PICKLE
from attnviz.core import attention, storage
from attnviz.core.errors import AttnvizError, InputError, check_no_picture, quoted
from attnviz.core.record import Prediction, Record
from attnviz.core.stream import VECTORS
from attnviz.files.arrays import from_arrays, from_file
from attnviz.files.packing import PRECISIONS, Store, check_fits, pack, unpack

ENDING = ".attn"
ARRAYS = ENDINGS
"""Endings of array files."""
READ = (ENDING, *ARRAYS)
"""Endings of all files that `read` accepts."""
VERSION = 1
"""Version of the format. Later versions are refused; all earlier versions are read."""
HEADER = "attnviz"
"""Name of the metadata entry with the JSON."""
MOST_BYTES, MOST_HEADER = 2**32, 2**26
"""Maximum size of a file, and of its header (64 MB)."""
SMALL, TOP_WORDS = 4096, 50
"""Size up to which a vocabulary is stored completely, and number of words per position for a larger vocabulary."""


def save(
    record: Record, path: str | Path, *, precision: str = "float32", settings: dict[str, Any] | None = None
) -> Path:
    """Write a record to a file and return its path.

    A vocabulary above 4,096 words is cut to the 50 most probable words per position and the probability of all others.

    Args:
        path: path of the file; an existing file is replaced.
        precision: "float32" keeps every number; "float16" rounds queries, keys and values and halves the file.
        settings: description of the source for `verify`: `attnviz.cases.settings_of(source, record.request)`.

    Raises:
        InputError: if the file cannot be written, or there is no such precision.
    """
    path = Path(path)
    try:
        storage.write(path, saved(record, precision=precision, settings=settings))
    except OSError as error:
        raise InputError(f"{quoted(str(path))} cannot be written: {error.strerror or error}.") from None
    return path


def saved(record: Record, *, precision: str = "float32", settings: dict[str, Any] | None = None) -> bytes:
    """Return a record as the bytes of a file; `save` writes them."""
    if precision not in PRECISIONS:
        raise InputError(f"There is no precision {quoted(precision)}. Available: {', '.join(PRECISIONS)}.")
    record = rounded(record) if precision == "float16" else record
    prediction = record.prediction
    if prediction and len(prediction.vocabulary) > SMALL and not prediction.others:
        record = replace(record, prediction=_keep_probable(prediction))
    store = Store({}, half=precision == "float16")
    header = {"version": VERSION, "torch": torch.__version__, "settings": settings} | pack(record, store)
    header["checksum"] = storage.checksum(store.tensors)
    return to_bytes(store.tensors, {HEADER: json.dumps(header, separators=(",", ":"))})


def read(file: str | Path | bytes, name: str = "the file") -> Record:
    """Read a record that `save` wrote, from the path or the bytes of its file.

    A path that ends in .npz, .npy, .csv, .safetensors, .json or .txt is read as weights from any tool, or as a cache
    of TransformerLens: see `from_arrays`.

    Args:
        name: name for the bytes in error messages.

    Raises:
        InputError: if the file does not exist, is not a record, is damaged or cut short, too large or too new.
    """
    if not isinstance(file, bytes) and str(file).lower().endswith(ENDINGS):
        return from_file(Path(file).name, content(Path(file)))
    if not isinstance(file, bytes):
        check_no_picture(Path(file).name)
    return opened(file, name)[0]


def opened(file: str | Path | bytes, name: str = "the file") -> tuple[Record, dict[str, Any] | None]:
    """Read a record and the `settings` that `save` was given, or None; raise the errors of `read`."""
    if isinstance(file, bytes):
        return _unpack_record(quoted(name), BytesIO(file))
    with _open_file(Path(file)) as stream:
        return _unpack_record(quoted(str(file)), stream)


def content(path: Path) -> bytes:
    """Read the bytes of a file; raise InputError if it cannot be read or is too large."""
    with _open_file(path) as file:
        return file.read()


@contextmanager
def _open_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading; raise InputError if it cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            if (size := path.stat().st_size) > MOST_BYTES:
                raise InputError(f"{quoted(str(path))} has {size:,} bytes; at most {MOST_BYTES:,} are read.")
            yield file
    except AttnvizError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{quoted(str(path))} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def _unpack_record(name: str, file: BinaryIO) -> tuple[Record, dict[str, Any] | None]:
    """Read a record and its `settings` from an open file, and check its version, checksum and contents."""
    start = file.read(8)
    length = int.from_bytes(start, "little")
    try:
        text = file.read(length) if length <= MOST_HEADER else b""  # a longer header is not read
        header = json.loads(json.loads(text)["__metadata__"][HEADER])
        version = header["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{name} is not a file that attnviz.save wrote, or it is cut short.") from None
    if not isinstance(version, int) or version > VERSION:
        problem = f"{name} was written by a later attnviz (format {version!s:.20}; this one reads up to {VERSION})"
        raise InputError(f"{problem}: update attnviz.")
    try:
        tensors = load(start + text + file.read())
    except Exception:  # the library raises nearly anything for a damaged file
        raise InputError(f"{name} is cut short or damaged: its tensors cannot be read.") from None
    if storage.checksum(tensors) != header.get("checksum"):
        raise InputError(f"{name} is damaged: its numbers are not those that were saved.")
    try:
        if "patches" in header:
            raise InputError("its picture has the format of attnviz 0.2. Make the record again with this version.")
        record = unpack(Record, header, Store(tensors))
        check_fits(record)
    except AttnvizError as error:
        raise InputError(f"{name} does not hold a complete record: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError, RecursionError):
        raise InputError(f"{name} is damaged: its entries contradict each other.") from None
    return record, header.get("settings")


def rounded(record: Record) -> Record:
    """Round queries, keys and values to float16, and recompute the attention from the rounded numbers."""
    steps = []
    for step in record.steps:
        exact = {name: getattr(step, name) for name in VECTORS}
        changes = {name: vector.to(torch.float16).to(vector.dtype) for name, vector in exact.items()}
        if not all(torch.equal(changes[name].isfinite(), exact[name].isfinite()) for name in VECTORS):
            raise InputError(f"Numbers of {step.site} are too large for float16; save them as float32.")
        if step.mixing == "softmax":
            query, key, value = changes.values()
            _, changes["logsumexp"] = attention.attend(query, key, value, step.mask, step.scoring)
        steps.append(replace(step, **changes))
    return replace(record, steps=tuple(steps), precision="float16")


def _keep_probable(prediction: Prediction) -> Prediction:
    """Keep the words that are among the `TOP_WORDS` most probable at any position, and merge all others into one."""
    logits = prediction.logits
    ids = logits.topk(min(TOP_WORDS, logits.shape[-1]), -1).indices.unique()
    is_other = torch.ones(logits.shape[-1], dtype=torch.bool, device=logits.device)
    is_other[ids] = False
    num_others = int(is_other.sum())
    logit_of_others = logits.double().masked_fill(~is_other, -math.inf).logsumexp(-1, keepdim=True).to(logits.dtype)
    words = [prediction.vocabulary[id] for id in ids.tolist()]
    return replace(
        prediction,
        logits=torch.cat([logits[..., ids], logit_of_others], -1),
        vocabulary=(*words, f"{num_others:,} other words"),
        others=num_others,
        special=frozenset(index for index, id in enumerate(ids.tolist()) if id in prediction.special),
    )
