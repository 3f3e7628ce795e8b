"""The header of a record's file: it is read, and its sizes are checked, before anything is unpacked."""

import json
from typing import Any

from attnviz.core.errors import InputError

VERSION = 1
"""Of the format. A file of a later version is refused; every earlier one is read."""

HEADER, CHECKSUM = "attnviz", "checksum"
"""The names of the JSON in the metadata, and of the checksum in the JSON."""

MOST_BYTES = 2**32
"""The largest file that is read."""

MOST_HEADER = 2**26
"""The longest header that is read (64 MB)."""


def read_header(name: str, content: bytes) -> dict[str, Any]:
    """The JSON that tells what a file holds.

    Raises:
        InputError: if the file is no record, is cut, or was written by a later version.
    """
    if len(content) > MOST_BYTES:
        raise InputError(f"{name} has {len(content):,} bytes; at most {MOST_BYTES:,} are read.")
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or not 2 <= length <= MOST_HEADER:
        raise InputError(f"{name} is no file of a record: attnviz.save writes them.")
    if 8 + length > len(content):
        raise InputError(f"{name} is cut short: its header has {length:,} bytes, the whole file {len(content):,}.")
    try:
        listed = json.loads(content[8 : 8 + length])
        header = json.loads(listed["__metadata__"][HEADER])
        ends = [one["data_offsets"][1] for key, one in listed.items() if key != "__metadata__"]
        end = max(ends, default=0)
        version = header["version"]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        raise InputError(f"{name} is no file of a record: attnviz.save writes them.") from None
    if not isinstance(version, int) or version > VERSION:
        later = f"{name} was written by a later attnviz (format {version!s:.20}; this one reads up to {VERSION})"
        raise InputError(f"{later}: update it.")
    if not isinstance(end, int) or 8 + length + end > len(content):
        raise InputError(f"{name} is cut short: {len(content):,} bytes are there of {8 + length + end:,}.")
    return header
