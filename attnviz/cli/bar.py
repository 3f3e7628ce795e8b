"""A bar for who waits at a terminal; a file or a pipe gets none."""

from typing import TextIO

WIDTH = 30
"""Signs of a whole bar."""


class ProgressBar:
    """One line that is written over until it ends."""

    def __init__(self, file: TextIO):
        self._file = file
        self._open = False

    def draw(self, what: str, share: float, after: str) -> None:
        if self._file.isatty():
            self._open = True
            bar = ("#" * int(share * WIDTH)).ljust(WIDTH, ".")
            self._file.write(f"\r{what} [{bar}] {share:4.0%}  {after}\x1b[K")
        self._file.flush()

    def end(self) -> None:
        if self._open:
            self._file.write("\n")
            self._open = False
