"""Progress of a run, its cancellation, and jobs: runs in background threads, shared by all who wait for their result.

Attention and every computation that grows with n² report progress. Like a tap, it belongs to one run, but it is stored
in a context variable and not passed through the model.
"""

import math
import time
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import BoundedSemaphore, Event, Lock, Thread
from typing import Any

from attnviz.core.errors import AttnvizError, Canceled

GRACE = 5.0
"""Seconds a job continues while nobody is connected; enough for a page to reload."""
LOOK = 0.5
"""Seconds between two checks whether a client still waits for a queued job."""


@dataclass(eq=False)
class Progress:
    """Progress of a run. Any thread may read it or cancel the run.

    Attributes:
        calls: number of units of work: attention calls of the run, or maps, or items of `count_items`.
        done: number of finished units.
        part: finished share of the current unit, from 0 to 1.
        text: generated text so far.
        canceled: request to cancel the run; it ends within one block of an attention call.
        is_enough: request to end the generation and keep the text generated so far.
    """

    calls: int
    done: int = 0
    part: float = 0.0
    canceled: bool = False
    text: str = ""
    is_enough: bool = False

    @property
    def share(self) -> float:
        """Finished share of the run, from 0 to 1, if all units take equally long."""
        return min(1.0, (self.done + self.part) / max(1, self.calls))

    def is_wanted(self) -> bool:
        """Whether somebody still waits for the run."""
        return not self.canceled


_current: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def report_to(progress: Progress) -> Iterator[None]:
    """Context manager in which `tell`, called in this thread, updates `progress`."""
    token = _current.set(progress)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def count_items(total: int) -> Iterator[Callable[..., bool]]:
    """Context manager in which progress counts `total` items, such as heads or texts, instead of attention calls.

    Yields the function `report` below, which raises `Canceled` as `tell` does.
    """
    progress = _current.get() or Progress(total)
    progress.calls, progress.done, progress.part = total, 0, 0.0

    def report(done: int, total: int, text: str = "") -> bool:
        """Report `done` of `total` items as finished, and `text` as the text so far; return whether to continue."""
        progress.calls, progress.done, progress.text = total, done, text
        tell(0.0)  # raises `Canceled`
        return not progress.is_enough

    within_item = Progress(1)  # receives the progress of attention calls, which is not shown
    within_item.is_wanted = progress.is_wanted
    with report_to(within_item):
        yield report


def tell(part: float) -> None:
    """Report the finished share, 0 to 1, of the current attention call or map; raise `Canceled` if it was canceled."""
    progress = _current.get()
    if progress is None:
        return
    if not progress.is_wanted():
        raise Canceled("The run was canceled.")
    progress.part = part
    if part >= 1:
        progress.part, progress.done = 0.0, progress.done + 1


@dataclass(eq=False)
class Job(Progress):
    """A task that runs or waits for its turn.

    Attributes:
        key: name of the task. All who request the same key while the job runs wait for this job.
        about: description for progress displays.
        is_connected: function that tells whether a client, by name, is still connected.
        seconds: time limit, counted from the start of its turn.
        waiting: names of the waiting clients. When the last leaves, or is gone for `GRACE` seconds, the job ends.
        begun: time, by `time.monotonic()`, at which the job was queued; from its turn on, the time its turn started.
        has_turn: whether the job works; if not, it is queued.
        settled: event that is set when the job is over, by success, error or cancel.
        value, error: result, or the exception that ended the job.
    """

    key: Hashable = None
    about: Any = None
    is_connected: Callable[[str], bool] = lambda who: True
    seconds: float = math.inf
    waiting: set[str] = field(default_factory=set)
    begun: float = field(default_factory=time.monotonic)
    has_turn: bool = False
    settled: Event = field(default_factory=Event)
    value: Any = None
    error: Exception | None = None
    _last_wanted: float = field(default_factory=time.monotonic)

    def is_wanted(self) -> bool:
        """Whether a client waits, or was connected in the last `GRACE` seconds; raise AttnvizError after `seconds`."""
        now = time.monotonic()
        if self.has_turn and now - self.begun > self.seconds:
            raise AttnvizError(f"This was stopped after {self.seconds:.0f} s, the most that is allowed here.")
        if any(map(self.is_connected, tuple(self.waiting))):
            self._last_wanted = now
        return not self.canceled and bool(self.waiting) and now - self._last_wanted < GRACE

    def result(self) -> Any:
        """Return the value of a finished job, or raise the error that ended it."""
        if self.error is not None:
            raise self.error
        return self.value


class Jobs:
    """Jobs of one kind, at most one per key; a limited number works at once, the rest is queued.

    Args:
        at_once: number of jobs that work at once.
        is_connected: function that tells whether a client, by name, is still connected.
        gives_up: whether the next job starts as soon as nobody waits for a job any more, although the thread of that
            job continues; for jobs in library code that cannot be interrupted.
    """

    def __init__(self, at_once: int, is_connected: Callable[[str], bool] = lambda who: True, *, gives_up: bool = False):
        self._turns, self._gives_up = BoundedSemaphore(at_once), gives_up
        self._is_connected = is_connected
        self._jobs: dict[Hashable, Job] = {}
        self._lock = Lock()

    def start(
        self,
        key: Hashable,
        work: Callable[[Job], Any],
        who: str,
        *,
        about: Any = None,
        calls: int = 1,
        seconds: float = math.inf,
    ) -> Job:
        """Start a job for a key, or join the running job of that key.

        Args:
            work: function that does the work and returns the value of the job.
            who: name of the client that waits.
            about, calls, seconds: attributes of `Job`.
        """
        with self._lock:
            job = self._jobs.get(key)
            is_new = job is None or job.canceled or not job.waiting
            if is_new:
                job = Job(calls, key=key, about=about, is_connected=self._is_connected, seconds=seconds)
                self._jobs[key] = job
            job.waiting.add(who)
        if is_new:
            Thread(target=self._run, args=(job, work), name="attnviz-job", daemon=True).start()
        return job

    @property
    def running(self) -> tuple[Job, ...]:
        """Jobs that run or are queued."""
        return tuple(self._jobs.values())

    def leave(self, who: str, but: Collection[Hashable] = ()) -> None:
        """Remove a client from the waiting clients of all jobs, but not of jobs with a key in `but`."""
        for key, job in tuple(self._jobs.items()):
            if key not in but:
                job.waiting.discard(who)
                if self._gives_up and not job.waiting:
                    self._end_turn(job)

    def _end_turn(self, job: Job) -> None:
        """Take the turn from a job, if it has one, and let the next job work."""
        with self._lock:
            had_turn, job.has_turn = job.has_turn, False
        if had_turn:
            self._turns.release()

    def _run(self, job: Job, work: Callable[[Job], Any]) -> None:
        """Wait for a turn, do the work of a job, and store its value or error; runs in the thread of the job."""
        try:
            with self._turn(job), report_to(job):
                job.value = work(job)
        except Exception as error:
            job.error = error
        finally:
            with self._lock:
                if self._jobs.get(job.key) is job:
                    del self._jobs[job.key]
            job.settled.set()

    @contextmanager
    def _turn(self, job: Job):
        """Wait for a turn and hold it within this context; raise Canceled if nobody waits for the job any more."""
        while not self._turns.acquire(timeout=LOOK):
            if not job.is_wanted():
                raise Canceled("The run was canceled.")
            for other in self.running:
                if self._gives_up and other.has_turn and not other.is_wanted():
                    self._end_turn(other)
        job.begun, job.has_turn = time.monotonic(), True
        try:
            yield
        finally:
            self._end_turn(job)
