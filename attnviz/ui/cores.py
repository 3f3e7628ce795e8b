"""How many cores torch uses in the app: one, and all of them while a large model runs.

Small sums gain nothing from more threads, and lose much where other work runs beside them: the threads wait for each
other. Measured on two cores that were busy with other programs: the numbers of 144 heads took 970 ms on two threads and
170 ms on one; on two cores of their own they took the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

from attnviz.sources.base import Source

LARGE = 50_000_000
"""Weights from which a model is large: BERT is, MiniLM is not."""


@cache
def settle() -> int:
    """Use one core from now on; gives how many there were to use, the first time and ever after."""
    every = torch.get_num_threads()
    torch.set_num_threads(1)
    return every


@contextmanager
def used_by(source: Source) -> Iterator[None]:
    """While this source runs: all cores if it is large."""
    every = settle()
    if source.provenance != "pretrained" or source.loaded.model.num_parameters() < LARGE:
        yield
        return
    torch.set_num_threads(every)
    try:
        yield
    finally:
        torch.set_num_threads(1)
