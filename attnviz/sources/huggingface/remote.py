"""Talk to a hub through a process that can be ended, so that no hub can keep anybody waiting."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attnviz.core.amounts import size
from attnviz.sources.huggingface import faults

CHILD = Path(__file__).with_name("fetch.py")
START, PROBE, QUIET = 9.0, 5.0, 10.0
"""Seconds: for the process to start, for a hub to say what it has, and between two signs of life after that."""
SLOWEST, SPARE = 20_000, 30.0
"""Bytes per second, and seconds: a download may take as long as at this pace, and half a minute."""
OURS = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}
"""The process tells nobody what it runs in, and fetches over HTTP alone: there its redirects can be watched."""
TICK = 0.2


def probe(name: str, revision: str | None) -> dict[str, Any]:
    """The commit and the files of a model, as the hub tells them within 5 seconds.

    Raises:
        AttnvizError: says why there is no answer.
    """
    with _child({"name": name, "revision": revision}) as (messages, _):
        until = time.monotonic() + START
        for message in messages:
            if message is None and time.monotonic() > until:
                raise faults.refusal("slow", name, revision, int(PROBE))
            if message and "ready" in message:
                until = time.monotonic() + PROBE
            elif message:
                return _answer(message, name, revision)
    raise faults.refusal("ended", name, revision)


def fetch(
    name: str, revision: str | None, commit: str, files: dict[str, int], cache: Path, check: Callable[[], object]
) -> Iterator[int]:
    """Fetch files, with the sizes they must have; gives how many bytes have come, at least five times a second.

    Closing the iterator ends the download, as does what `check` raises, which is called before the first weights come.

    Raises:
        AttnvizError: says why it ended before all was there.
    """
    job = {"name": name, "revision": revision, "commit": commit, "files": list(files), "cache": str(cache)}
    total, came = sum(files.values()), 0
    with _child(job) as (messages, go_on):
        last, patience = time.monotonic(), START
        ends = last + SPARE + total / SLOWEST
        for message in messages:
            now = time.monotonic()
            if now > ends:
                raise faults.refusal("late", name, revision, f"{size(came)} of {size(total)}")
            if message is None:
                if now > last + patience:
                    raise faults.refusal("stalled", name, revision, int(patience))
            elif message.get("wait"):
                check()
                ends += time.monotonic() - now
                go_on()
            elif not {"ready", "came", "file"} & message.keys():
                if _answer(message, name, revision)["commit"] != commit:
                    raise faults.refusal("moved", name, revision)
                return
            if message:
                last, patience, came = time.monotonic(), QUIET, came + message.get("came", 0)
            if came > total:
                raise faults.refusal("more", name, revision, size(total))
            yield came
    raise faults.refusal("ended", name, revision)


def _answer(message: dict[str, Any], name: str, revision: str | None) -> dict[str, Any]:
    if word := message.get("error"):
        detail = next((message[key] for key in ("status", "host", "type") if key in message), None)
        raise faults.refusal(word, name, revision, detail)
    return message


def _start() -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-P", str(CHILD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | OURS,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )


@contextmanager
def _child(job: dict[str, Any]) -> Iterator[tuple[Iterator[dict[str, Any] | None], Callable[[], None]]]:
    """Messages of a process that does a job, None while it is silent; and a function that tells it to go on.

    It ends with the context.
    """
    process = _start()
    lines: queue.Queue[bytes | None] = queue.Queue()

    def read() -> None:
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def tell(line: str) -> None:
        with suppress(OSError):  # it may have ended; its silence says so
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()  # and left open: the process ends when this one does

    reader = threading.Thread(target=read, name="attnviz-hub", daemon=True)
    reader.start()
    try:
        tell(json.dumps(job))
        yield _messages(lines), lambda: tell("")
    finally:
        process.kill()
        process.wait()
        reader.join()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                pipe.close()


def _messages(lines: "queue.Queue[bytes | None]") -> Iterator[dict[str, Any] | None]:
    while True:
        try:
            line = lines.get(timeout=TICK)
        except queue.Empty:
            yield None
            continue
        if line is None:
            return
        yield json.loads(line)
