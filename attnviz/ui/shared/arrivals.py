"""Models of Hugging Face on their way: looked for, downloaded if somebody asked for that, and loaded, each as a job.

A model is on its way once, however many sessions wait for it. A download is waited for by those who said yes to it, and
ends soon after the last of them is gone.
"""

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from attnviz.core.errors import AttnvizError
from attnviz.core.jobs import Job, Jobs
from attnviz.ui.hosts import serves_others
from attnviz.ui.streamlit_internals import is_connected

if TYPE_CHECKING:
    from attnviz.sources.huggingface.hub import DownloadProgress, ModelLocation
    from attnviz.sources.huggingface.source import HuggingFace

Stage = Literal["finding", "asking", "fetching", "loading", "here", "failed"]

MOST_HERE = 8
"""Models remembered: each a tokenizer of up to 100 MB, and no weights. Those are kept as far as there is memory."""
MOST_FAILED = 32
RETRY = 60.0
"""Seconds after which a model that could not be loaded is looked for again."""

PATH = re.compile(r"[./~\\]|[A-Za-z]:|.*\\")
"""Names that mean a folder of the server."""

JOBS = Jobs(at_once=4, is_connected=lambda session: is_connected(session), gives_up=True)
_arrivals: "OrderedDict[str, Arrival]" = OrderedDict()
_lock = threading.RLock()


def listed() -> tuple[str, ...] | None:
    """The only models that this server offers; None if it loads any. A server that others reach opens none unlisted."""
    from attnviz.sources.huggingface import hub

    names = hub.allowed()
    return () if names is None and serves_others() else names


@dataclass(eq=False)
class Arrival:
    """One model on its way.

    Attributes:
        stage: "asking": it is to be downloaded if somebody says so; nothing is fetched before.
        job: the work of the stage.
        place: where it was found; for a download with its files and their sizes.
        progress: how far a download is.
        error: why it failed.
        source: the model, once it is here.
        since: `time.monotonic()` when the stage began.
        undecided: sessions that are to say whether it should be downloaded.
        asked_by: sessions that named it.
    """

    name: str
    stage: Stage = "finding"
    job: Job | None = None
    place: "ModelLocation | None" = None
    progress: "DownloadProgress | None" = None
    error: AttnvizError | None = None
    source: "HuggingFace | None" = None
    since: float = field(default_factory=time.monotonic)
    undecided: set[str] = field(default_factory=set)
    asked_by: set[str] = field(default_factory=set)

    @property
    def settled(self) -> threading.Event:
        """Set once there is nothing to wait for."""
        return self.job.settled

    @property
    def sessions(self) -> set[str]:
        """Sessions that wait for it; while it is fetched, those that said yes to that."""
        return self.undecided if self.stage == "asking" else self.job.waiting

    @property
    def done(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.stage in ("asking", "here", "failed")

    def asks(self, session: str) -> bool:
        """Whether a session is to say if it should be downloaded."""
        return self.stage == "asking" or (self.stage == "fetching" and session not in self.sessions)

    def enter(self, stage: Stage) -> None:
        self.stage, self.since = stage, time.monotonic()

    def begin(self, stage: Stage, work: Callable[[Job], None], session: str) -> None:
        self.enter(stage)
        self.job = JOBS.start((self.name, stage), lambda job: self._try(work, job), session)

    def _try(self, work: Callable[[Job], None], job: Job) -> None:
        try:
            work(job)
        except AttnvizError as error:
            self._fail(error)
        except Exception as error:
            from attnviz.sources.huggingface import faults

            self._fail(faults.fault(self.name, "loaded", error))

    def _fail(self, error: AttnvizError) -> None:
        self.error = error
        self.enter("failed")

    def find(self, job: Job) -> None:
        from attnviz.sources.huggingface import faults, hub

        faults.need_transformers()
        hub.check_allowed(self.name, listed())
        self.place = hub.find(self.name)
        if self.place.kind == "download":
            self.undecided = set(job.waiting)
            self.enter("asking")
        else:
            self.enter("loading")
            self.load(job)

    def load(self, job: Job) -> None:
        from attnviz.sources.huggingface.hub import Canceled
        from attnviz.sources.huggingface.named import fetch

        def report(progress: "DownloadProgress") -> bool:
            self.progress = progress
            if progress.what == "checking" and progress.done >= progress.total:
                self.enter("loading")
            return job.is_wanted()

        try:
            self.source = fetch(self.name, report)
        except Canceled:  # nothing is wrong with the model: who asks for it is asked again
            forget(self)
            raise
        self.enter("here")


def wait_for(name: str, session: str) -> Arrival:
    """The model of that name on its way, or here; the session waits for no other one any more.

    It waits for no download to which it has not said yes, but for one that its page has left by being loaded again.
    """
    with _lock:
        leave(session, but=name)
        _forget_unasked()
        arrival = _arrivals.get(name)
        if arrival is None or (arrival.stage == "failed" and time.monotonic() - arrival.since > RETRY):
            arrival = _arrivals[name] = Arrival(name)
            arrival.begin("finding", arrival.find, session)
        if arrival.stage != "fetching" or not any(map(is_connected, tuple(arrival.sessions))):
            arrival.sessions.add(session)
        arrival.asked_by.add(session)
        _arrivals.move_to_end(name)
        _forget_old("here", MOST_HERE)
        _forget_old("failed", MOST_FAILED)
    return arrival


def fetch(name: str, session: str) -> None:
    """Say yes to a download, or wait for the one that is going on already."""
    with _lock:
        arrival = _arrivals.get(name)
        if arrival and arrival.stage == "asking":
            arrival.begin("fetching", arrival.load, session)
        if arrival:
            arrival.sessions.add(session)


def leave(session: str, but: str | None = None) -> None:
    """Wait for no model any more, but perhaps for one. What nobody waits for ends, and others come in its place."""
    with _lock:
        for name, arrival in tuple(_arrivals.items()):
            if name != but and session in arrival.sessions:
                arrival.undecided.discard(session)
                JOBS.leave_one(arrival.job, session)
                if not arrival.sessions and arrival.stage not in ("here", "failed"):
                    del _arrivals[name]


def forget(arrival: Arrival) -> None:
    """Look for a model again when it is asked for the next time."""
    with _lock:
        if _arrivals.get(arrival.name) is arrival:
            del _arrivals[arrival.name]


def here(session: str) -> tuple[str, ...]:
    """Names of the models that came; folders and files only of the session that named them."""
    came = [(name, arrival) for name, arrival in tuple(_arrivals.items()) if arrival.stage == "here"]
    return tuple(name for name, arrival in came if session in arrival.asked_by or not PATH.match(name))


def failed(name: str) -> Arrival | None:
    """The model of that name, if it could not be loaded."""
    arrival = _arrivals.get(name)
    return arrival if arrival and arrival.stage == "failed" else None


def _forget_unasked() -> None:
    """Drop models that nobody is there to say yes to: their sizes would grow old."""
    for name, arrival in tuple(_arrivals.items()):
        if arrival.stage == "asking" and not any(map(is_connected, tuple(arrival.undecided))):
            del _arrivals[name]


def _forget_old(stage: Stage, most: int) -> None:
    of_stage = [name for name, arrival in _arrivals.items() if arrival.stage == stage]
    for name in of_stage[: max(0, len(of_stage) - most)]:
        del _arrivals[name]
