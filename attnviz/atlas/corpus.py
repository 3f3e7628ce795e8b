"""A corpus in shards: text files, JSON lines and Parquet files, alone or in folders, each shard with a checksum."""

import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from attnviz.core import whole
from attnviz.core.errors import InputError, quoted
from attnviz.studies.texts import of_json

ENDINGS = (".txt", ".jsonl", ".parquet")

MOST_LINE = 2**20
"""Bytes of a line that is read; a longer one is named and left out."""

COLUMN = "text"
"""Column of a Parquet file that holds the texts."""


@dataclass(frozen=True)
class Shard:
    """Some texts of one file, one after another.

    Attributes:
        number: counted from 0.
        file: its path in the folder of the corpus.
        first, lines: the number of its first line, from 1, and how many there are; of a Parquet file, rows.
        start, size: the bytes of the file that hold them; of a Parquet file 0.
        checksum: BLAKE2b of those bytes, 16 bytes in hex; of a Parquet file, of the texts.
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
    """A line of a corpus: its text, or why it has none."""

    text: str
    line: int
    error: str = ""


def files(corpus: str | Path) -> tuple[Path, list[str]]:
    """The folder of a corpus, and the paths of its files in it, in order.

    Raises:
        InputError: if there are none.
    """
    path = Path(corpus)
    if path.is_dir():
        paths = [file for file in path.rglob("*") if file.suffix.lower() in ENDINGS and file.is_file()]
        if not paths:
            raise InputError(f"The folder {quoted(str(corpus), 200)} holds no {', '.join(ENDINGS)} file.")
        return path, sorted(file.relative_to(path).as_posix() for file in paths)
    return path.parent, [path.name]


def fetched(name: str, into: Path) -> Path:
    """A data set of the library `datasets`, written once as JSON lines: "NAME" or "NAME:SPLIT".

    Raises:
        InputError: if the library is not installed, or cannot reach the data set.
    """
    try:
        import datasets
    except ImportError:
        what = "nor is the library 'datasets' installed, which fetches one by its name"
        raise InputError(f"There is no file or folder {quoted(name, 200)}, {what}.") from None
    into.mkdir(parents=True, exist_ok=True)
    path, (data_set, _, split) = into / "corpus.jsonl", name.partition(":")
    if not path.exists():
        try:
            rows = datasets.load_dataset(data_set, split=split or "train", streaming=True)
            with whole.unfinished(path) as part, part.open("w", encoding="utf-8") as file:
                file.writelines(json.dumps({"text": row.get(COLUMN)}) + "\n" for row in rows)
        except Exception as error:  # whatever that library and its host raise
            reason = " ".join(str(error).split())[:300]
            raise InputError(f"The data set {quoted(name, 200)} cannot be read: {reason}") from None
    return path


def shards(root: Path, names: list[str], most: int) -> Iterator[Shard]:
    """The files of a folder in shards of at most so many texts; they are read once, and never held whole.

    Raises:
        InputError: if a file cannot be read.
    """
    number = 0
    for name in names:
        path = root / name
        try:
            for part in (_of_parquet if _is_parquet(path) else _of_lines)(path, most):
                yield Shard(number, name, *part)
                number += 1
        except OSError as error:
            raise InputError(f"{quoted(str(path), 200)} cannot be read: {error.strerror or error}.") from None


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def _of_lines(path: Path, most: int) -> Iterator[tuple[int, int, int, int, str]]:
    first, start = 1, 0
    with path.open("rb") as file:
        while lines := list(islice(_lines(file), most)):
            size = sum(size for _, size in lines)
            file.seek(start)
            yield first, len(lines), start, size, _checksum(file, size)
            first, start = first + len(lines), start + size


def _lines(file: BinaryIO) -> Iterator[tuple[bytes | None, int]]:
    """Each line and how many bytes it has; None for one that is too long to be read."""
    while line := file.readline(MOST_LINE):
        size = len(line)
        is_whole = line.endswith(b"\n") or size < MOST_LINE
        while not is_whole:
            rest = file.readline(MOST_LINE)
            size, is_whole = size + len(rest), len(rest) < MOST_LINE or rest.endswith(b"\n")
            line = None
        yield line, size


def _checksum(file: BinaryIO, size: int) -> str:
    digest = hashlib.blake2b(digest_size=16)
    while size > 0 and (part := file.read(min(size, MOST_LINE))):
        digest.update(part)
        size -= len(part)
    return digest.hexdigest()


def texts(root: Path, shard: Shard) -> list[CorpusLine]:
    """The lines of a shard.

    Raises:
        InputError: if they are not what they were when the atlas was begun.
    """
    path = root / shard.file
    try:
        if _is_parquet(path):
            rows = _rows(path, shard.first - 1, shard.lines)
            checksum, lines = _of_texts(rows), enumerate(rows, shard.first)
            parsed = [_text(line, number) for number, line in lines]
        else:
            with path.open("rb") as file:
                file.seek(shard.start)
                checksum = _checksum(file, shard.size)
                file.seek(shard.start)
                lines = list(islice(_lines(file), shard.lines))
            is_json = path.suffix.lower() == ".jsonl"
            parsed = [_line(line, n, is_json) for n, (line, _) in enumerate(lines, shard.first)]
    except OSError as error:
        raise InputError(f"{quoted(str(path), 200)} cannot be read: {error.strerror or error}.") from None
    if checksum != shard.checksum:
        where = f"lines {shard.first:,} to {shard.first + shard.lines - 1:,} of {quoted(shard.file, 200)}"
        raise InputError(f"The corpus changed: {where} are not what they were. Give another folder for another corpus.")
    return parsed


def _line(line: bytes | None, number: int, is_json: bool) -> CorpusLine:
    if line is None:
        return CorpusLine("", number, f"The line has more than {MOST_LINE:,} bytes.")
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
    except UnicodeDecodeError:
        return CorpusLine("", number, "This line is no UTF-8.")
    if is_json and text:
        try:
            text = of_json(text).strip()
        except InputError as error:
            return CorpusLine("", number, str(error))
    return _text(text, number)


def _text(text: Any, number: int) -> CorpusLine:
    """A line feed would be another text."""
    if not isinstance(text, str):
        return CorpusLine("", number, "This row holds no text.")
    text = text.strip()
    return CorpusLine(text, number, "" if text else EMPTY)


EMPTY = "empty"
"""Why a line without text has none: these are counted, not named."""


# Parquet


def _of_parquet(path: Path, most: int) -> Iterator[tuple[int, int, int, int, str]]:
    first = 1
    for batch in _parquet(path).iter_batches(batch_size=most, columns=[_column(path)]):
        rows = batch.column(0).to_pylist()
        yield first, len(rows), 0, 0, _of_texts(rows)
        first += len(rows)


def _rows(path: Path, first: int, count: int) -> list[Any]:
    """Rows of a file, from the groups of rows that hold them."""
    file, values, start = _parquet(path), [], 0
    for group in range(file.metadata.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        if start < first + count and start + size > first:
            rows = file.read_row_group(group, columns=[_column(path)]).column(0)
            low = max(0, first - start)
            values += rows.slice(low, first + count - start - low).to_pylist()
        start += size
    return values


def _parquet(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
    except pa.ArrowInvalid:
        raise InputError(f"{quoted(str(path), 200)} is no Parquet file.") from None


def _column(path: Path) -> str:
    names = _parquet(path).schema_arrow.names
    if COLUMN not in names:
        has = f"It has: {', '.join(names[:9])}."
        raise InputError(f"{quoted(str(path), 200)} has no column {COLUMN!r}. {has}")
    return COLUMN


def _of_texts(rows: list[Any]) -> str:
    lines = "".join(json.dumps(text, default=str) + "\n" for text in rows).encode()
    return _checksum(io.BytesIO(lines), len(lines))
