"""Atomic file writes: write a temporary file in the same folder, then rename it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

UNFINISHED = ".*.part"
"""Pattern of temporary files, which stay only if the process was killed."""


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """Yield a temporary path, which replaces the file at the end; if writing fails, the old file stays.

    A device or a pipe is written directly.

    Raises:
        OSError: names the file.
    """
    place = Path(os.path.realpath(path))
    is_device = place.exists() and not place.is_file()
    part = place if is_device else place.with_name(f".{uuid4().hex}.part")
    try:
        yield part
        if not is_device:
            os.replace(part, place)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        if not is_device:
            part.unlink(missing_ok=True)


def write(path: Path, content: bytes) -> None:
    """Write a file atomically: if writing fails, the old file stays. Raise OSError with the file name."""
    with unfinished(path) as part:
        part.write_bytes(content)
