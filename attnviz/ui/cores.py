"""Number of cores that torch uses in the app: one, or all while a large model runs.

Small computations are not faster with more threads, and much slower while other programs run, because the threads wait
for each other. Measured on two busy cores: the metrics of 144 heads took 970 ms with two threads and 170 ms with one;
on two idle cores both took the same time.

torch keeps this number for each thread of Python. A thread that has set none takes, at its first computation, the
number that any thread set last. So a run sets the number of its own thread, and another thread then sets 1.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Thread

import torch

from attnviz.sources.base import Source

LARGE = 50_000_000
"""Number of parameters from which a model counts as large: BERT does, MiniLM does not."""

_core_count: int | None = None  # torch's number of threads before the first call of `use_one_core`
_keeps_thread_count = False
"""Whether the app runs in the user's own process, whose number of threads it must not change."""
_lock = Lock()


@contextmanager
def thread_count_kept() -> Iterator[None]:
    """Leave torch's number of threads unchanged inside the `with` block."""
    global _keeps_thread_count
    _keeps_thread_count = True
    try:
        yield
    finally:
        _keeps_thread_count = False


def use_one_core() -> int:
    """Use one core from now on; return the number of cores that torch used before the first call."""
    global _core_count
    with _lock:
        num_threads = torch.get_num_threads()  # the call also fixes the number of this thread
        _core_count = _core_count or num_threads
        torch.set_num_threads(1)
    return _core_count


@contextmanager
def used_by(source: Source | None) -> Iterator[None]:
    """Use all cores inside the `with` block if the model is large; one core for a small model or work without one."""
    if _keeps_thread_count:
        yield
        return
    core_count = use_one_core()
    if source is None or source.facts is None or source.facts.parameters < LARGE:
        yield
        return
    torch.set_num_threads(core_count)
    other_thread = Thread(target=torch.set_num_threads, args=(1,))  # new threads take the number set last: 1, not all
    other_thread.start()
    other_thread.join()
    try:
        yield
    finally:
        torch.set_num_threads(1)
