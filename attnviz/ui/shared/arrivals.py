"""Models of Hugging Face on their way: found, fetched if somebody asked for that, and loaded, in a thread of their own.

A model is on its way once, however many sessions wait for it. A download is waited for by those who said yes to it, and
ends soon after the last of them is gone.
"""

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from streamlit import runtime

from attnviz.core.errors import AttnvizError

if TYPE_CHECKING:
    from attnviz.sources.huggingface.hub import Place, Progress
    from attnviz.sources.huggingface.source import HuggingFace

Stage = Literal["finding", "asking", "fetching", "loading", "here", "failed"]

MOST_HERE = 8
"""Models remembered: each a tokenizer of up to 100 MB, and no weights. Those are kept as far as there is memory."""
MOST_FAILED = 32
RETRY = 60.0
"""Seconds after which a model that could not be loaded is looked for again."""
GRACE = 5.0
"""Seconds for which a download goes on while nobody is there: a page that is loaded again comes back by then."""

_arrivals: "OrderedDict[str, Arrival]" = OrderedDict()
_lock = threading.RLock()


@dataclass(eq=False)
class Arrival:
    """One model on its way.

    Attributes:
        stage: "asking": it is to be downloaded if somebody says so; nothing is fetched before.
        place: where it was found; for a download with its files and their sizes.
        progress: how far a download is.
        error: why it failed.
        source: the model, once it is here.
        sessions: who waits for it; while it is fetched, who said yes to that.
    """

    name: str
    stage: Stage = "finding"
    place: "Place | None" = None
    progress: "Progress | None" = None
    error: AttnvizError | None = None
    source: "HuggingFace | None" = None
    sessions: set[str] = field(default_factory=set)
    begun: float = field(default_factory=time.monotonic)
    seen: float = field(default_factory=time.monotonic)
    settled: threading.Event = field(default_factory=threading.Event)

    @property
    def done(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.stage in ("asking", "here", "failed")

    def asks(self, session: str) -> bool:
        """Whether a session is to say if it should be downloaded."""
        return self.stage == "asking" or (self.stage == "fetching" and session not in self.sessions)

    def _begin(self, stage: Stage, work) -> None:
        self.stage, self.begun, self.seen = stage, time.monotonic(), time.monotonic()
        self.settled.clear()
        threading.Thread(target=self._run, args=(work,), name="attnviz-arrival", daemon=True).start()

    def _run(self, work) -> None:
        try:
            work()
        except AttnvizError as error:
            self._fail(error)
        except Exception as error:
            from attnviz.sources.huggingface import faults

            self._fail(faults.fault(self.name, "loaded", error))
        finally:
            self.settled.set()

    def _fail(self, error: AttnvizError) -> None:
        self.error, self.stage, self.begun = error, "failed", time.monotonic()

    def _find(self) -> None:
        from attnviz.sources.huggingface import faults, hub

        faults.need_transformers()
        self.place = hub.find(self.name)
        if self.place.kind == "download":
            self.stage = "asking"
        else:
            self.stage = "loading"
            self._load()

    def _load(self) -> None:
        from attnviz.sources.huggingface.hub import Canceled
        from attnviz.sources.huggingface.source import fetch

        try:
            source = fetch(self.name, self._report)
        except Canceled:  # nothing is wrong with the model: who asks for it is asked again
            forget(self)
            raise
        self.source, self.stage = source, "here"

    def _report(self, progress: "Progress") -> bool:
        """Keep how far it is, and go on while somebody is there."""
        self.progress = progress
        if progress.what == "checking" and progress.done >= progress.total:
            self.stage, self.begun = "loading", time.monotonic()
        if any(map(is_there, tuple(self.sessions))):
            self.seen = time.monotonic()
        return bool(self.sessions) and time.monotonic() - self.seen < GRACE


def wait_for(name: str, session: str) -> Arrival:
    """The model of that name on its way, or here; the session waits for no other one any more.

    It waits for no download to which it has not said yes, but for one that its page has left by being loaded again.
    """
    with _lock:
        leave(session, but=name)
        _forget_unasked()
        found = _arrivals.get(name)
        if found is None or (found.stage == "failed" and time.monotonic() - found.begun > RETRY):
            found = _arrivals[name] = Arrival(name)
            found._begin("finding", found._find)
        if found.stage != "fetching" or not any(map(is_there, found.sessions)):
            found.sessions.add(session)
        _arrivals.move_to_end(name)
        _forget_old("here", MOST_HERE)
        _forget_old("failed", MOST_FAILED)
    return found


def fetch(name: str, session: str) -> None:
    """A session says yes to a download; it waits for one that is going on already."""
    with _lock:
        found = _arrivals.get(name)
        if found and found.stage == "asking":
            found.sessions.clear()
            found._begin("fetching", found._load)
        if found:
            found.sessions.add(session)


def leave(session: str, but: str | None = None) -> None:
    """The session waits no more, but perhaps for one. A download for which nobody waits ends."""
    with _lock:
        for name, arrival in tuple(_arrivals.items()):
            if name != but and session in arrival.sessions:
                arrival.sessions.discard(session)
                if not arrival.sessions and arrival.stage in ("asking", "fetching"):
                    del _arrivals[name]


def forget(arrival: Arrival) -> None:
    """Look for a model again when it is asked for the next time."""
    with _lock:
        if _arrivals.get(arrival.name) is arrival:
            del _arrivals[arrival.name]


def here() -> tuple[str, ...]:
    """The names of the models that came."""
    return tuple(name for name, arrival in tuple(_arrivals.items()) if arrival.stage == "here")


def failed(name: str) -> Arrival | None:
    """The model of that name, if it could not be loaded."""
    found = _arrivals.get(name)
    return found if found and found.stage == "failed" else None


def _forget_unasked() -> None:
    """What nobody is there to say yes to: its sizes would grow old."""
    for name, arrival in tuple(_arrivals.items()):
        if arrival.stage == "asking" and not any(map(is_there, arrival.sessions)):
            del _arrivals[name]


def _forget_old(stage: Stage, most: int) -> None:
    of_stage = [name for name, arrival in _arrivals.items() if arrival.stage == stage]
    for name in of_stage[: max(0, len(of_stage) - most)]:
        del _arrivals[name]


def is_there(session: str) -> bool:
    """Whether the page of a session is open; without a server, as in a test, it is."""
    return not runtime.exists() or bool(runtime.get_instance().is_active_session(session))
