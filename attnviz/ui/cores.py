"""How many cores torch uses in the app: one, and all of them while a large model runs.

Small sums gain nothing from more threads, and lose much where other work runs beside them: the threads wait for each
other. Measured on two cores that were busy with other programs: the numbers of 144 heads took 970 ms on two threads and
170 ms on one; on two cores of their own they took the same.

torch counts for each thread: it keeps the number that was set in it, or else, from its first sum on, the one that was
set last in any other. So a run sets its own thread's, and leaves 1 as the number that was set last.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Thread

import torch

from attnviz.sources.base import Source

LARGE = 50_000_000
"""Weights from which a model is large: BERT is, MiniLM is not."""

_every: int | None = None
_theirs = False
"""Whether the process is a person's own, and so how many cores it uses."""
_lock = Lock()


@contextmanager
def left_alone() -> Iterator[None]:
    """Meanwhile it is left to the process how many cores it uses."""
    global _theirs
    _theirs = True
    try:
        yield
    finally:
        _theirs = False


def settle() -> int:
    """Use one core from now on; gives how many there were to use, the first time and ever after."""
    global _every
    with _lock:
        own = torch.get_num_threads()  # asking makes it this thread's own
        _every = _every or own
        torch.set_num_threads(1)
    return _every


@contextmanager
def used_by(source: Source) -> Iterator[None]:
    """While this source runs: all cores if it is large."""
    every = 1 if _theirs else settle()
    if _theirs or source.facts is None or source.facts.parameters < LARGE:
        yield
        return
    torch.set_num_threads(every)
    last = Thread(target=torch.set_num_threads, args=(1,))
    last.start()
    last.join()
    try:
        yield
    finally:
        torch.set_num_threads(1)
