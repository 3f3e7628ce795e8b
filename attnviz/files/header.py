"""The header of a record's file: it is read, and its sizes are checked, before anything is unpacked."""

import json
from typing import Any, BinaryIO

from attnviz.core.errors import InputError

VERSION = 1
"""Version of the format. A file of a later version is refused; every earlier one is read."""

HEADER, CHECKSUM = "attnviz", "checksum"
"""The names of the JSON in the metadata, and of the checksum in the JSON."""

MOST_BYTES = 2**32
"""The largest file that is read."""

MOST_HEADER = 2**26
"""The longest header that is read (64 MB)."""


def read_header(name: str, file: BinaryIO, size: int) -> tuple[dict[str, Any], bytes]:
    """The JSON that tells what a file of this many bytes holds, and the bytes that were read: no more than it takes.

    Raises:
        InputError: if the file is no record, is cut, or was written by a later version.
    """
    if size > MOST_BYTES:
        raise InputError(f"{name} has {size:,} bytes; at most {MOST_BYTES:,} are read.")
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if size < 8 or not 2 <= length <= MOST_HEADER:
        raise InputError(f"{name} is no file of a record: attnviz.save writes them.")
    if 8 + length > size:
        raise InputError(f"{name} is cut short: its header has {length:,} bytes, the whole file {size:,}.")
    content = file.read(length)
    try:
        listed = json.loads(content)
        header = json.loads(listed["__metadata__"][HEADER])
        ends = [entry["data_offsets"][1] for key, entry in listed.items() if key != "__metadata__"]
        end = max(ends, default=0)
        version = header["version"]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        raise InputError(f"{name} is no file of a record: attnviz.save writes them.") from None
    if not isinstance(version, int) or version > VERSION:
        later = f"{name} was written by a later attnviz (format {version!s:.20}; this one reads up to {VERSION})"
        raise InputError(f"{later}: update it.")
    if not isinstance(end, int) or 8 + length + end > size:
        raise InputError(f"{name} is cut short: {size:,} bytes are there of {8 + length + end:,}.")
    return header, start + content
