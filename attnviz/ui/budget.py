"""Limits in seconds and bytes for a run or a picture on this server, and the errors above these limits."""

import ctypes
import gc
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache

import psutil

from attnviz.core.amounts import size
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError, TooLong, quoted
from attnviz.core.tokens import Sentence
from attnviz.sources import estimate
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate, in_time
from attnviz.ui.hosts import public

SECONDS, GIGABYTES = "ATTNVIZ_SECONDS", "ATTNVIZ_GB"
"""Environment variables of the limits; `attnviz app --seconds` and `--memory` set them."""

USUAL = {SECONDS: 120.0, GIGABYTES: 2.0}

SECONDS_BETWEEN = 10.0
"""Seconds between two attempts to free memory, as one attempt takes as long as ten runs."""
_last_freed = -math.inf  # time of the last attempt

RUNS_PER_SERVER = 8
"""A run may use this fraction, an eighth, of a public server's memory; the app itself takes half of 1 GB."""

SHORT_RUN = 2.0
"""Estimated seconds below which a run starts at once, without a button that shows its cost."""

SHORT_DRAWING = 8.0
"""Estimated seconds below which a picture is drawn together with the page, without progress."""


class OverBudget(TooLong):
    """A run or a picture costs more than this server's limits; the message has the numbers.

    Attributes:
        longest: number of tokens per sentence that would fit the budget.
    """

    def __init__(self, cost: Estimate, longest: int):
        self.longest = longest
        InputError.__init__(  # TooLong would compose another message
            self,
            f"{cost}; this server allows {in_time(seconds())} and {size(memory())} for a run. Shorten the text, or "
            "start the server with higher limits: attnviz app --seconds N --memory GB.",
        )


class Busy(InputError):
    """Raised if a public server cannot start another run at the moment."""


def seconds() -> float:
    """Time limit of a run in seconds."""
    return _number(SECONDS)


def memory() -> int:
    """Memory limit of a run in bytes; the same limit holds for the cache of all runs."""
    return int(1e9 * _number(GIGABYTES)) // (RUNS_PER_SERVER if public() else 1)


def check_memory(needed: int, free: Callable[[], object]) -> None:
    """Check that a public server has `needed` bytes of memory left; on other servers do nothing.

    Args:
        free: function that frees memory; called if there is too little, but not again within SECONDS_BETWEEN.

    Raises:
        Busy: if there is still too little memory.
    """
    global _last_freed
    if not public():
        return
    most_used = int(1e9 * _number(GIGABYTES)) - needed
    if used_bytes() > most_used and time.monotonic() > _last_freed + SECONDS_BETWEEN:
        free()
        give_back()
        _last_freed = time.monotonic()
    if used_bytes() > most_used:
        raise Busy("This server has no memory left for another run; try again in a minute.")


def used_bytes() -> int:
    """Bytes that this process and its child processes use."""
    this_process, total = psutil.Process(), 0
    for process in (this_process, *this_process.children(recursive=True)):
        with suppress(psutil.Error):  # it has ended
            total += process.memory_info().rss
    return total


def give_back() -> None:
    """Return free memory to the operating system; without this call the C library may keep it for later use."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def cost(source: Source, sentences: tuple[Sentence, ...], edits: Edits = Edits()) -> Estimate:
    """Estimated cost of a run of a source on this machine; a saved run takes no time."""
    estimated = estimate.estimate(source, len(sentences[0].tokens) if sentences else 0, edits, len(sentences))
    runs = 1 + len({patch.text for patch in edits.taken})  # each text that activations are patched from is also run
    return replace(estimated, seconds=0.0 if source.one_run else runs * estimated.seconds)


def of_runs(count: int, source: Source, sentences: tuple[Sentence, ...], edits: Edits = Edits()) -> Estimate:
    """Estimated cost of `count` runs one after the other: the time of all runs, the memory of one."""
    all_in_one_batch = cost(source, count * sentences, edits)  # `sentences` repeated `count` times
    return replace(cost(source, sentences, edits), seconds=all_in_one_batch.seconds)


def check(source: Source, sentences: tuple[Sentence, ...], edits: Edits = Edits()) -> Estimate:
    """Return the estimated cost of a run; raise OverBudget if it exceeds this server's limits."""
    estimated = cost(source, sentences, edits)
    if not source.one_run and (estimated.seconds > seconds() or estimated.bytes > memory()):
        fitting_share = min(1.0, seconds() / max(estimated.seconds, 1e-9), memory() / max(estimated.bytes, 1))
        raise OverBudget(estimated, int(len(sentences[0].tokens) * fitting_share))
    return estimated


def check_work(cost: Estimate) -> None:
    """Raise OverBudget if work whose cost grows with the square of the number of tokens exceeds the limits of a run."""
    if cost.seconds > seconds() or cost.bytes > memory():
        fitting_share = min(1.0, seconds() / max(cost.seconds, 1e-9), memory() / max(cost.bytes, 1))
        raise OverBudget(cost, int(cost.tokens * math.sqrt(fitting_share)))


@cache
def _number(name: str) -> float:
    """Read a limit from its environment variable; if that is not set, from the public preset or `USUAL`."""
    preset = public()
    defaults = {SECONDS: preset.seconds, GIGABYTES: preset.gigabytes} if preset else USUAL
    text = os.environ.get(name) or str(defaults[name])
    try:
        number = float(text)
    except ValueError:
        number = -1.0  # outside of the allowed range, so that the error below is raised
    if not 0 < number < 1e6:
        raise InputError(f"{name} is {quoted(text)}; it must be a number above 0 such as {defaults[name]:g}.")
    return number
