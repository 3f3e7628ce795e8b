"""How far a download is, for who waits at a terminal."""

import signal
from typing import TextIO

from attnviz.cli.bar import ProgressBar
from attnviz.core.amounts import size
from attnviz.sources.huggingface import faults
from attnviz.sources.huggingface.hub import DownloadProgress


class Download:
    """Is told how far a download is, and writes it: first how much there is in all, then a bar, if a person looks.

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

    def __call__(self, progress: DownloadProgress) -> None:
        if self._canceled:
            raise KeyboardInterrupt
        if progress.what not in ("fetching", "checking"):
            return
        if not self._begun:
            self._begun = True
            self._file.write(f"attnviz: {faults.name(self._name)} is fetched: {size(progress.total)}.\n")
        share = progress.done / progress.total if progress.total else 1.0
        self._bar.draw(progress.what, share, size(progress.done))
