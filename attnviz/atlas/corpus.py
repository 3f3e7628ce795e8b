"""Read a corpus (text files, JSON lines or Parquet files, or folders of them) in shards with checksums."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

from attnviz.core.errors import InputError, quoted
from attnviz.studies.texts import of_json

PARQUET = ".parquet"
ENDINGS = (".txt", ".jsonl", PARQUET)
MOST_LINE = 2**20
"""Maximum number of bytes per line."""
COLUMN = "text"
"""Column with the texts in a Parquet file."""
EMPTY = "empty"
"""Error of a line without text; such lines are counted but not listed."""


@dataclass(frozen=True)
class Shard:
    """Consecutive texts of one file.

    Attributes:
        number: index of the shard, from 0.
        file: path within the folder of the corpus.
        first, lines: number of the first line, from 1, and number of lines; rows for a Parquet file.
        start, size: first byte and number of bytes in the file; 0 for a Parquet file.
        checksum: BLAKE2b of these bytes, 16 bytes in hex; for a Parquet file, of the texts.
    """

    number: int
    file: str
    first: int
    lines: int
    start: int
    size: int
    checksum: str


@dataclass(frozen=True)
class CorpusLine:
    """A line of a corpus: its text, or the reason why it cannot be read."""

    text: str
    line: int
    error: str = ""


def files(corpus: str | Path) -> tuple[Path, list[str]]:
    """Find the files of a corpus, which is a file or a folder with subfolders; return the folder and the sorted paths.

    Raises:
        InputError: if there are no files.
    """
    path = Path(corpus)
    if not path.exists():
        raise InputError(f"There is no file or folder {quoted(str(corpus), 200)}.")
    if not path.is_dir():
        return path.parent, [path.name]
    paths = [file for file in path.rglob("*") if file.suffix.lower() in ENDINGS and file.is_file()]
    if not paths:
        raise InputError(f"The folder {quoted(str(corpus), 200)} holds no {', '.join(ENDINGS)} file.")
    return path, sorted(file.relative_to(path).as_posix() for file in paths)


def shards(root: Path, names: list[str], most: int) -> Iterator[Shard]:
    """Split files of a folder into shards of at most `most` texts; raise InputError if a file cannot be read."""
    number = 0
    for name in names:
        path = root / name
        split = _parquet_shards if path.suffix.lower() == PARQUET else _line_shards
        try:
            for lines_and_bytes in split(path, most):
                yield Shard(number, name, *lines_and_bytes)
                number += 1
        except OSError as error:
            raise InputError(f"{quoted(str(path), 200)} cannot be read: {error.strerror or error}.") from None


def texts(root: Path, shard: Shard) -> list[CorpusLine]:
    """Read the lines of a shard; raise InputError if they cannot be read, or changed since the atlas was started."""
    path = root / shard.file
    is_json = shard.file.lower().endswith(".jsonl")
    try:
        if path.suffix.lower() == PARQUET:
            rows = _rows(_parquet(path), shard.first - 1, shard.lines)
            content = _encode(rows)
            lines = [_text(row, number) for number, row in enumerate(rows, shard.first)]
        else:
            with path.open("rb") as file:
                file.seek(shard.start)
                content = file.read(shard.size)
            rows = content.removesuffix(b"\n").split(b"\n")
            lines = [_line(row, number, is_json) for number, row in enumerate(rows, shard.first)]
    except OSError as error:
        raise InputError(f"{quoted(str(path), 200)} cannot be read: {error.strerror or error}.") from None
    if _checksum(content) != shard.checksum:
        changed = f"lines {shard.first:,} to {shard.first + shard.lines - 1:,} of {quoted(shard.file, 200)}"
        raise InputError(f"The corpus changed: {changed} differ now. Use a new folder for another corpus.")
    return lines


def _line_shards(path: Path, most: int) -> Iterator[tuple[int, int, int, int, str]]:
    """Yield for each shard of a text file: first line, number of lines, first byte, number of bytes, checksum."""
    first, start = 1, 0
    with path.open("rb") as file:
        all_lines = iter(lambda: file.readline(MOST_LINE), b"")  # b"" means the end of the file
        while lines := list(islice(all_lines, most)):
            for number, line in enumerate(lines, first):
                if len(line) == MOST_LINE and not line.endswith(b"\n"):
                    problem = f"Line {number:,} of {quoted(path.name, 200)} has more than {MOST_LINE:,} bytes"
                    raise InputError(f"{problem}. Write one text on each line.")
            content = b"".join(lines)
            yield first, len(lines), start, len(content), _checksum(content)
            first, start = first + len(lines), start + len(content)


def _checksum(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _line(line: bytes, number: int, is_json: bool) -> CorpusLine:
    """Decode a line of a text file or of JSON lines; the first line may begin with a byte order mark."""
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        value = of_json(text) if is_json and text else text
        return _text(value, number)
    except UnicodeDecodeError:
        return CorpusLine("", number, "This line is not UTF-8.")
    except InputError as error:
        return CorpusLine("", number, str(error))


def _text(value: Any, number: int) -> CorpusLine:
    """Make a corpus line from a value; the line has an error if the value is not a string, or is empty."""
    if not isinstance(value, str):
        return CorpusLine("", number, "This row has no text.")
    text = value.strip()
    return CorpusLine(text, number, "" if text else EMPTY)


# Parquet


def _parquet_shards(path: Path, most: int) -> Iterator[tuple[int, int, int, int, str]]:
    """Yield for each shard of a Parquet file: first row (from 1), number of rows, 0, 0 (no bytes), and checksum."""
    file = _parquet(path)
    for first in range(0, file.metadata.num_rows, most):
        rows = _rows(file, first, most)
        yield first + 1, len(rows), 0, 0, _checksum(_encode(rows))


def _rows(file: Any, first: int, count: int) -> list[Any]:
    """Read the texts of rows of a Parquet file, from row `first` on, loading only the row groups that hold them."""
    groups, first_loaded, start = [], 0, 0
    for group in range(file.metadata.num_row_groups):
        end = start + file.metadata.row_group(group).num_rows
        if start < first + count and end > first:
            groups.append(group)
        elif not groups:
            first_loaded = end
        start = end
    texts = file.read_row_groups(groups, columns=[COLUMN]).column(0)
    return texts.slice(first - first_loaded, count).to_pylist()


def _parquet(path: Path) -> Any:
    """Open a Parquet file; raise InputError unless it has a column of texts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid:
        raise InputError(f"{quoted(str(path), 200)} is not a Parquet file.") from None
    names = file.schema_arrow.names
    if COLUMN not in names:
        available = f"Available columns: {', '.join(names[:9])}."
        raise InputError(f"{quoted(str(path), 200)} has no column {COLUMN!r}. {available}")
    return file


def _encode(rows: list[Any]) -> bytes:
    """Convert the texts of Parquet rows to bytes, for a checksum."""
    return "".join(json.dumps(text, default=str) + "\n" for text in rows).encode()
