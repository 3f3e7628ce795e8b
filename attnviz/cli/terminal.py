"""Terminal output: lines, columns, progress bars and downloads."""

import signal
import sys
from collections.abc import Sequence
from typing import Any, TextIO

WIDTH = 30
"""Characters of a full progress bar."""


def say(line: str, file: TextIO | None = None) -> None:
    """Write a line to stdout; what the terminal cannot write is escaped."""
    file = file or sys.stdout
    encoding = file.encoding or "utf-8"
    file.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def note(line: str) -> None:
    """Write a line to stderr."""
    say(f"attnviz: {line}", sys.stderr)


def columns(rows: Sequence[Sequence[Any]]) -> list[str]:
    """Lines of a table whose columns are aligned."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


class ProgressBar:
    """Progress bar on one line, written only to a terminal."""

    def __init__(self, file: TextIO):
        self._file = file
        self._open = False

    def draw(self, what: str, share: float, after: str) -> None:
        """Write the bar over the last one."""
        if self._file.isatty():
            self._open = True
            bar = ("#" * int(share * WIDTH)).ljust(WIDTH, ".")
            self._file.write(f"\r{what} [{bar}] {share:4.0%}  {after}\x1b[K")
        self._file.flush()

    def end(self) -> None:
        """End the line of the bar."""
        if self._open:
            self._file.write("\n")
            self._open = False


class Download:
    """Progress of a download: its size first, then a bar on a terminal.

    Ctrl+C ends it, also where a library that is imported meanwhile takes the interrupt for a mistake of its own.
    """

    def __init__(self, name: str, file: TextIO):
        self._name, self._file = name, file
        self._bar = ProgressBar(file)
        self._begun = False
        self._canceled = False

    def __enter__(self) -> "Download":
        self._before = signal.signal(signal.SIGINT, self._cancel)
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        self._bar.end()
        if self._begun and kind is KeyboardInterrupt:
            self._file.write("attnviz: Canceled. Files that are whole are kept.\n")

    def _cancel(self, *_: object) -> None:
        self._canceled = True
        raise KeyboardInterrupt

    def __call__(self, progress: Any) -> None:
        from attnviz.core.amounts import size
        from attnviz.sources.huggingface import faults

        if self._canceled:
            raise KeyboardInterrupt
        if progress.what not in ("fetching", "checking"):
            return
        if not self._begun:
            self._begun = True
            self._file.write(f"attnviz: {faults.name(self._name)} is fetched: {size(progress.total)}.\n")
        share = progress.done / progress.total if progress.total else 1.0
        self._bar.draw(progress.what, share, size(progress.done))
