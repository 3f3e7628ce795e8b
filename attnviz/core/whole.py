"""Files that are whole or not there: each is written beside its place and then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

UNFINISHED = ".*.part"
"""Names of files that a process was killed over."""


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of a file at the end; if writing fails, what was there stays.

    A device or a pipe is written to itself.

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
    """Write a file, or leave what was there. Raises: OSError: names the file."""
    with unfinished(path) as part:
        part.write_bytes(content)
