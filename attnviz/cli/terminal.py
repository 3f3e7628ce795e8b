"""Print lines, align columns, and show the progress of a download."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from tqdm import tqdm

from attnviz.core.amounts import size


def say(line: str, file: TextIO | None = None) -> None:
    """Write a line to stdout or `file`, with escapes for characters that its encoding lacks."""
    file = file or sys.stdout
    encoding = file.encoding or "utf-8"
    file.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def note(line: str) -> None:
    """Write a line to stderr, with "attnviz: " before it."""
    say(f"attnviz: {line}", sys.stderr)


def columns(rows: Sequence[Sequence[Any]]) -> list[str]:
    """Write rows as lines with aligned columns."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


@contextmanager
def download(name: str) -> Iterator[Callable[[Any], None]]:
    """Context manager for a download: its callback prints the size, then draws a bar if stderr is a terminal."""
    bar = None

    def draw(progress: Any) -> None:
        nonlocal bar
        if progress.what not in ("fetching", "checking"):
            return
        if bar is None:
            from attnviz.sources.huggingface import faults  # imports torch

            note(f"Downloading {faults.name(name)}: {size(progress.total)}.")
            bar = tqdm(total=progress.total, unit="B", unit_scale=True, disable=None)
        bar.set_description(progress.what, refresh=False)
        bar.update(progress.done - bar.n)

    def end(*_: object) -> None:  # exits at once after Ctrl+C: the library would wait for threads that may hang
        if bar is None:
            raise KeyboardInterrupt
        bar.close()
        note("Canceled. Complete files are kept.")
        os._exit(130)

    before = signal.signal(signal.SIGINT, end)
    try:
        yield draw
    finally:
        signal.signal(signal.SIGINT, before)
        if bar is not None:
            bar.close()
