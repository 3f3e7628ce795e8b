"""How far a download is, for who waits at a terminal."""

import signal
from typing import TextIO

from attnviz.core.amounts import size
from attnviz.sources.huggingface import faults
from attnviz.sources.huggingface.hub import Progress

WIDTH = 30
"""Signs of a whole bar."""


class Download:
    """Is told how far a download is, and writes it: first how much there is in all, then a bar, if a person looks.

    Ctrl+C ends it, also where a library that is imported meanwhile takes the interrupt for a mistake of its own.
    """

    def __init__(self, name: str, file: TextIO):
        self._name, self._file = name, file
        self._begun = False
        self._open = False
        self._canceled = False

    def __enter__(self) -> "Download":
        self._before = signal.signal(signal.SIGINT, self._cancel)
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        self._end()
        if self._begun and kind is KeyboardInterrupt:
            self._file.write("attnviz: Canceled. Files that are whole are kept.\n")

    def _cancel(self, *_: object) -> None:
        self._canceled = True
        raise KeyboardInterrupt

    def __call__(self, progress: Progress) -> None:
        if self._canceled:
            raise KeyboardInterrupt
        if not self._begun:
            self._begun = True
            self._file.write(f"attnviz: {faults.name(self._name)} is fetched: {size(progress.total)}.\n")
        if self._file.isatty():
            self._open = True
            share = progress.done / progress.total if progress.total else 1.0
            bar = ("#" * int(share * WIDTH)).ljust(WIDTH, ".")
            self._file.write(f"\r{progress.what} [{bar}] {share:4.0%}  {size(progress.done)}\x1b[K")
        self._file.flush()

    def _end(self) -> None:
        if self._open:
            self._file.write("\n")
            self._open = False
