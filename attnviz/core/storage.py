"""Write files atomically, and compute the checksum of tensors."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import torch
from torch import Tensor

UNFINISHED = ".*.part"
"""Pattern of temporary files, which stay only if the process was killed."""


@contextmanager
def temporary_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to. At the end, the new file replaces `path`; if writing fails, `path` stays.

    A device or a pipe has no temporary file: its own path is yielded. An OSError names the file `path`.
    """
    target = Path(os.path.realpath(path))
    is_device = target.exists() and not target.is_file()
    temporary = target if is_device else target.with_name(f".{uuid4().hex}.part")
    try:
        yield temporary
        if not is_device:
            os.replace(temporary, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        if not is_device:
            temporary.unlink(missing_ok=True)


def write(path: Path, content: bytes) -> None:
    """Write a file atomically: if writing fails, the old file stays. Raise OSError with the file name."""
    with temporary_file(path) as temporary:
        temporary.write_bytes(content)


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """Hash tensors with their names, dtypes and shapes, in the order of the names: 16 bytes of BLAKE2b, in hex."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
