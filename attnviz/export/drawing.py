"""The near side of the processes that draw: a few workers, kept warm, started anew when they end or take too long."""

import json
import math
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from attnviz.core import assets
from attnviz.core.errors import AttnvizError

WORKER = Path(__file__).with_name("worker.py")

MOST_WORKERS = 4
"""Pictures drawn at once: while some take forever, others are drawn."""

MOST_IDLE = 2
"""Workers that stay while nothing is drawn, 160 MB each; another one starts in half a second."""

LAST_MOMENT = 5.0
"""Seconds for a process to end that has closed its pipe."""

CRASHES = {"SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP"}
"""Signals by which a process ends itself; all others are sent by somebody else."""


class ExportError(AttnvizError):
    """A picture could not be made into a file; the message says why."""


class Ended(Exception):
    """A worker has ended in the middle of a job.

    Attributes:
        by: the signal that ended it, "SIGKILL"; else its exit status, "status 1".
    """

    def __init__(self, code: int | None):
        self.by = f"status {code}"
        if code is not None and code < 0:
            self.by = next((number.name for number in signal.Signals if number == -code), f"signal {-code}")

    @property
    def from_outside(self) -> bool:
        """Whether it was killed, and did not end by what it was drawing."""
        return self.by.startswith(("SIG", "signal")) and self.by not in CRASHES

    def in_words(self) -> str:
        if self.from_outside:
            return (
                f"The picture was not drawn: the program that draws was killed twice ({self.by}), as a system does "
                "that runs out of memory. Take a smaller scale, SVG or PDF, or try again later."
            )
        return (
            f"The picture could not be drawn: vl-convert, which draws it, crashed ({self.by}). A character that it "
            "cannot draw is the usual reason; HTML, JSON, CSV and NPZ do without it."
        )


class Workers:
    """Processes of `worker.py`, for any number of threads; each does one job at a time."""

    def __init__(self, most: int = MOST_WORKERS):
        self._idle: list[Worker] = []
        self._places = threading.BoundedSemaphore(most)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process numbers of idle workers."""
        return tuple(worker.pid for worker in self._idle if worker.pid)

    def ask(self, job: dict, deadline: float) -> bytes:
        """Have one job done. Waiting for the jobs of other threads counts.

        Raises:
            ExportError: if it cannot be done, or takes longer than `deadline` seconds.
        """
        until = time.monotonic() + deadline
        if not self._places.acquire(timeout=max(0.0, deadline)):
            raise ExportError(
                f"The picture was not drawn within {deadline:.3g} s: other pictures took all that time. Try again."
            )
        try:
            with self._borrowed() as worker:
                sign, answer = self._twice(worker, job | {"seconds": math.ceil(deadline) + 1}, until)
        except TimeoutError:
            late = f"The picture was not drawn within {deadline:.3g} s: take a smaller scale, fewer tokens, or SVG."
            raise ExportError(late) from None
        except Ended as ended:
            raise ExportError(ended.in_words()) from None
        finally:
            self._places.release()
        if sign == b"-":
            raise ExportError(answer.decode("utf-8", "replace"))
        return answer

    def stop(self) -> None:
        """End those that do nothing."""
        while self._idle:
            self._idle.pop().stop()

    @contextmanager
    def _borrowed(self) -> Iterator["Worker"]:
        """A worker for this thread alone: the one that was used last, because it is warm."""
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = Worker()
        try:
            yield worker
        finally:
            if len(self._idle) < MOST_IDLE:
                self._idle.append(worker)
            else:
                worker.stop()

    def _twice(self, worker: "Worker", job: dict, until: float) -> tuple[bytes, bytes]:
        """A job; once again if its worker was killed: that need not have been the job's fault."""
        try:
            return worker.do(job, until)
        except Ended as ended:
            if not ended.from_outside:
                raise
            return worker.do(job, until)


class Worker:
    """A process of `worker.py`, for one thread at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None
        self._owner = 0
        self.stop: Callable[[], None] = lambda: None

    @property
    def pid(self) -> int | None:
        """Process number, while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def do(self, job: dict, until: float) -> tuple[bytes, bytes]:
        """Send a job and read its answer; whatever goes wrong on the way ends the process.

        Raises:
            TimeoutError: if it takes longer.
            Ended: if the process ended.
        """
        process, expired = self._running(), threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(until - time.monotonic(), expire)
        timer.daemon = True
        timer.start()
        try:
            text = json.dumps(job).encode()
            process.stdin.write(struct.pack(">Q", len(text)) + text)
            process.stdin.flush()
            head = _read(process, 9)
            return head[:1], _read(process, struct.unpack(">Q", head[1:])[0])
        except (OSError, EOFError) as error:
            code = _exit_code(process)
            self.stop()
            if expired.is_set() or -(code or 0) == getattr(signal, "SIGALRM", None):
                raise TimeoutError from error
            raise Ended(code) from error
        except BaseException:  # An interrupt may leave half a job in the pipe.
            self.stop()
            raise
        finally:
            timer.cancel()
            timer.join()
            if expired.is_set():
                self.stop()

    def _running(self) -> subprocess.Popen:
        if self.pid is None or self._owner != os.getpid():  # A forked child must not talk into its parent's pipes.
            self.stop()
            self._process = subprocess.Popen(
                [sys.executable, str(WORKER), str(assets.path("fonts"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
            self._owner = os.getpid()
            self.stop = weakref.finalize(self, _end, self._process, self._owner)
        return self._process


def draw(
    what: str,
    picture: str = "",
    *,
    ppi: float = 72,
    fits: tuple[float, ...] | None = None,
    deadline: float = 30.0,
) -> bytes:
    """Have a worker of this process draw Vega-Lite as "png", "svg" or "pdf".

    Args:
        fits: points per pixel of the screen, and two widths and a height in points; see `worker.resized`.
    """
    return WORKERS.ask({"what": what, "picture": picture, "ppi": ppi, "fits": fits}, deadline)


@cache
def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    return WORKERS.ask({"what": "javascript"}, deadline=60.0).decode()


def warm() -> None:
    """Start a worker in the background: the first picture after a start takes half a second, the others a tenth."""
    threading.Thread(target=_warm, name="attnviz-export-warm", daemon=True).start()


def _warm() -> None:
    with suppress(ExportError):  # Whoever exports will be told.
        draw("png", '{"data":{"values":[{}]},"mark":{"type":"text","text":"warm"}}')
        javascript()


def _read(process: subprocess.Popen, size: int) -> bytes:
    content = process.stdout.read(size)
    if len(content) < size:
        raise EOFError
    return content


def _exit_code(process: subprocess.Popen) -> int | None:
    """How a process ended that has closed its pipe, and so is about to."""
    with suppress(subprocess.TimeoutExpired):
        return process.wait(LAST_MOMENT)
    return None


def _end(process: subprocess.Popen, owner: int) -> None:
    if owner == os.getpid():
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # What was not yet sent has no reader.
            pipe.close()


WORKERS = Workers()
