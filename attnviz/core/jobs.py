"""Work in threads of its own, shared by those who wait for it, with progress, cancel and a bound in seconds."""

import math
import time
from collections.abc import Callable, Collection, Hashable
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import BoundedSemaphore, Event, Lock, Thread
from typing import Any

from attnviz.core.errors import AttnvizError, Canceled
from attnviz.core.progress import Progress, watched

GRACE = 5.0
"""Seconds for which a job goes on while nobody is connected: a page that is loaded again comes back by then."""

LOOK = 0.5
"""Seconds between two looks whether a job that waits for its turn is still wanted."""


@dataclass(eq=False)
class Job(Progress):
    """A piece of work that is going on.

    Attributes:
        key: name of the work. Whoever asks for the same key meanwhile waits for the same job.
        about: a description for those who show how far it is.
        is_connected: whether somebody who waits is still there.
        seconds: bound on its time, from the moment when its turn comes.
        waiting: names of those who wait. When the last of them leaves, or is gone for `GRACE` seconds, the job ends.
        begun: `time.monotonic()` when it was asked for, then when its turn came.
        has_turn: whether it works; others do first.
        settled: set when it is over, however.
        value, error: the outcome.
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
        """Whether somebody waits for it, or did within `GRACE` seconds.

        Raises:
            AttnvizError: if it has taken longer than it may.
        """
        now = time.monotonic()
        if self.has_turn and now - self.begun > self.seconds:
            raise AttnvizError(f"This was stopped after {self.seconds:.0f} s, the most that it may take here.")
        if any(map(self.is_connected, tuple(self.waiting))):
            self._last_wanted = now
        return not self.canceled and bool(self.waiting) and now - self._last_wanted < GRACE

    def result(self) -> Any:
        """The value of a job that is over.

        Raises:
            Exception: the one that ended it.
        """
        if self.error is not None:
            raise self.error
        return self.value


class Jobs:
    """Jobs of one kind: for each key one at a time, and so many that work at once.

    Args:
        at_once: jobs that work at once; others wait for their turn.
        is_connected: whether somebody who waits, by name, is still there.
        gives_up: whether a job that nobody waits for gives its turn to another one at once, though its thread works on:
            it may be in a library that nothing can end.
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
        """Start the work of a key, or join the job that does it already.

        Args:
            who: name of who waits for it.
            calls: steps of its progress; see `Progress`.
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
        """Jobs that are not over yet."""
        return tuple(self._jobs.values())

    def leave(self, who: str, but: Collection[Hashable] = ()) -> None:
        """Wait for no job any more, but perhaps for some."""
        for key, job in tuple(self._jobs.items()):
            if key not in but:
                self.leave_one(job, who)

    def leave_one(self, job: Job, who: str) -> None:
        """Wait for a job no more."""
        job.waiting.discard(who)
        if self._gives_up and not job.waiting:
            self._end_turn(job)

    def _end_turn(self, job: Job) -> None:
        with self._lock:
            had_turn, job.has_turn = job.has_turn, False
        if had_turn:
            self._turns.release()

    def _run(self, job: Job, work: Callable[[Job], Any]) -> None:
        try:
            with self._turn(job), watched(job):
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
        while not self._turns.acquire(timeout=LOOK):
            if not job.is_wanted():
                raise Canceled("The run was canceled.")
            for other in self.running if self._gives_up else ():
                if other.has_turn and not other.is_wanted():
                    self._end_turn(other)
        job.begun, job.has_turn = time.monotonic(), True
        try:
            yield
        finally:
            self._end_turn(job)
