"""The near side of the process that draws: one worker, kept warm, started anew when it has ended or takes too long."""

import json
import math
import os
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from attnviz.core import assets
from attnviz.core.errors import AttnvizError

WORKER = Path(__file__).with_name("worker.py")


class ExportError(AttnvizError):
    """A picture could not be made into a file; the message says why."""


class Worker:
    """A process of `worker.py`, for any number of threads, one job at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen | None = None
        self._owner = 0
        self._stop: Callable[[], None] = lambda: None

    @property
    def pid(self) -> int | None:
        """Of the process, while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def ask(self, job: dict, deadline: float) -> bytes:
        """Have one job done. Waiting for the jobs of other threads counts.

        Raises:
            ExportError: if it cannot be done, or takes longer than `deadline` seconds.
        """
        late = f"The picture was not drawn within {deadline:.3g} s: take a smaller scale, fewer tokens, or SVG."
        until = time.monotonic() + deadline
        if not self._lock.acquire(timeout=max(0.0, deadline)):
            raise ExportError(late)
        try:
            sign, answer = self._exchange(job | {"seconds": math.ceil(deadline) + 1}, until)
        except TimeoutError:
            raise ExportError(late) from None
        except (OSError, EOFError):
            raise ExportError(
                "The picture could not be drawn: the program that draws stopped at it. "
                "A character it cannot draw is the usual reason; HTML, JSON, CSV and NPZ do without it."
            ) from None
        finally:
            self._lock.release()
        if sign == b"-":
            raise ExportError(answer.decode("utf-8", "replace"))
        return answer

    def _exchange(self, job: dict, until: float) -> tuple[bytes, bytes]:
        """Send a job and read its answer; whatever goes wrong on the way ends the process."""
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
        except BaseException as error:  # An interrupt, too, may leave half a job in the pipe.
            self._stop()
            if expired.is_set():
                raise TimeoutError from error
            raise
        finally:
            timer.cancel()
            timer.join()
            if expired.is_set():
                self._stop()

    def _running(self) -> subprocess.Popen:
        if self.pid is None or self._owner != os.getpid():  # A forked child must not talk into its parent's pipes.
            self._stop()
            self._process = subprocess.Popen(
                [sys.executable, str(WORKER), str(assets.path("fonts"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
            self._owner = os.getpid()
            self._stop = weakref.finalize(self, _end, self._process, self._owner)
        return self._process


def draw(what: str, picture: str = "", *, ppi: float = 72, deadline: float = 30.0) -> bytes:
    """Have the one worker of this process draw Vega-Lite as "png", "svg" or "pdf"."""
    return THE_WORKER.ask({"what": what, "picture": picture, "ppi": ppi}, deadline)


@cache
def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    return THE_WORKER.ask({"what": "javascript"}, deadline=60.0).decode()


def warm() -> None:
    """Start the worker in the background: the first picture after a start takes half a second, the others a tenth."""
    threading.Thread(target=_warm, name="attnviz-export-warm", daemon=True).start()


def _warm() -> None:
    with suppress(ExportError):  # Whoever exports will be told.
        draw("png", '{"data":{"values":[{}]},"mark":{"type":"text","text":"warm"}}')
        javascript()


def _read(process: subprocess.Popen, size: int) -> bytes:
    found = process.stdout.read(size)
    if len(found) < size:
        raise EOFError
    return found


def _end(process: subprocess.Popen, owner: int) -> None:
    if owner == os.getpid():
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # What was not yet sent has no reader.
            pipe.close()


THE_WORKER = Worker()
