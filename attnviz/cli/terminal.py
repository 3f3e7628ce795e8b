"""Print lines, align columns, and show the progress of a download."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from tqdm import tqdm

from attnviz.core.amounts import size


def say(*lines: str, file: TextIO | None = None) -> None:
    """Write lines to stdout or `file`; a character that the encoding of the file lacks is escaped, such as \\u2588."""
    file = file or sys.stdout
    encoding = file.encoding or "utf-8"
    for line in lines:
        file.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def note(*lines: str) -> None:
    """Write lines to stderr, each with "attnviz: " before it."""
    say(*[f"attnviz: {line}" for line in lines], file=sys.stderr)


def columns(rows: Sequence[Sequence[Any]]) -> list[str]:
    """Write rows as lines, with two blanks between columns; all rows must have equally many cells."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


@contextmanager
def download(name: str) -> Iterator[Callable[[Any], None]]:
    """Yield a callback for a download, which prints its size, then draws a bar if stderr is a terminal."""
    bar = None

    def draw(progress: Any) -> None:
        nonlocal bar
        if progress.what not in ("fetching", "checking"):  # the model is loaded or tested
            return
        if bar is None:
            from attnviz.sources.huggingface import faults  # imports torch

            note(f"Downloading {faults.name(name)}: {size(progress.total)}.")
            bar = tqdm(total=progress.total, unit="B", unit_scale=True, disable=None)
        bar.set_description(progress.what, refresh=False)
        bar.update(progress.done - bar.n)

    def end_process(*_: object) -> None:  # after Ctrl+C; the library would wait for threads that may hang
        if bar is None:
            raise KeyboardInterrupt
        bar.close()
        note("Canceled. Complete files are kept.")
        os._exit(130)

    previous_handler = signal.signal(signal.SIGINT, end_process)
    try:
        yield draw
    finally:
        signal.signal(signal.SIGINT, previous_handler)
        if bar is not None:
            bar.close()
