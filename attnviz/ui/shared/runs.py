"""Runs, and pictures, that take longer than a page may wait: each in a thread of its own, shared by all who ask for it.

A run ends early when the last of those who wait for it cancels it or is gone.
"""

import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import streamlit as st

from attnviz.core.errors import Canceled, TooLong
from attnviz.core.progress import Progress, watched
from attnviz.sources.estimate import Estimate, in_time
from attnviz.ui.shared import arrivals, state, words
from attnviz.ui.shared.setting import Setting, kept
from attnviz.ui.shared.text import large, note, quiet

AT_ONCE = 0.3
"""Seconds within which a run comes without a word about it."""
ANEW = 1.0
"""Seconds within which a picture does: after a click what it goes through is known."""
EVERY = 0.5
"""Seconds between two looks at how far a run is."""
GRACE = 5.0
"""Seconds for which a run goes on while nobody is there: a page that is loaded again comes back by then."""
MOST = 2
"""Runs that compute at once; others wait for their turn."""

CANCELED: Setting[Hashable] = kept("canceled run", None)
"""The run that this session ended last: it begins again only if somebody asks for it."""

_turns = threading.BoundedSemaphore(MOST)
_runs: dict[Hashable, "Run"] = {}
_lock = threading.RLock()


class Waiting(Exception):
    """What a page needs is being computed, or was canceled: something else stands in its place until then.

    It is no `AttnvizError`: nothing is wrong, and no part of a page may go on without it.
    """

    def __init__(self, run: "Run"):
        self.run = run
        super().__init__(words.RUNNING)


@dataclass(eq=False)
class Run(Progress):
    """One run.

    Attributes:
        key: what is run.
        cost: what it was estimated to take.
        names: of its attention calls, in their order.
        unit: what is counted of it where these are no calls and no maps: "heads".
        sessions: who waits for it.
        begun: when it was begun, or its turn came.
        has_turn: whether it computes.
        settled: set once it is over, however.
        then: what a page asks of its value first.
        value, error: what came of it.
    """

    key: Hashable = None
    cost: Estimate = Estimate(0, 0.0, 0, 0)
    names: tuple[str, ...] = ()
    unit: str = ""
    sessions: set[str] = field(default_factory=set)
    begun: float = field(default_factory=time.monotonic)
    has_turn: bool = False
    settled: threading.Event = field(default_factory=threading.Event)
    then: Callable[[object], object] | None = None
    value: object = None
    error: Exception | None = None
    seen: float = field(default_factory=time.monotonic)

    def is_wanted(self) -> bool:
        """Whether somebody waits for it, or was there a moment ago."""
        if any(map(arrivals.is_there, tuple(self.sessions))):
            self.seen = time.monotonic()
        return bool(self.sessions) and time.monotonic() - self.seen < GRACE

    def work(self, make: Callable[[], object]) -> None:
        try:
            while not _turns.acquire(timeout=EVERY):
                if not self.is_wanted():
                    raise Canceled(words.WAS_CANCELED)
            self.begun, self.has_turn = time.monotonic(), True
            try:
                with watched(self):
                    self.value = make()
                    if self.then is not None:
                        self.then(self.value)
            finally:
                _turns.release()
        except Exception as error:
            self.error = error
        finally:
            with _lock:
                if _runs.get(self.key) is self:
                    del _runs[self.key]
            self.settled.set()


def get(
    key: Hashable,
    make: Callable[[], object],
    cost: Estimate,
    names: tuple[str, ...] = (),
    *,
    unit: str = "",
    within: float | None = None,
    then: Callable[[object], object] | None = None,
) -> object:
    """What a run gives, if it comes at once.

    Args:
        names: of its attention calls; of a picture none.
        unit: what is counted of it where these are no calls and no maps.
        within: seconds that count as at once.
        then: what the page asks of it first, so that it is there when the page is: made in the run's own thread.

    Raises:
        Waiting: if it does not, or if this session has canceled it.
    """
    session = state.session()
    leave(but={key, *_beside.keys})
    if state.get(CANCELED) == key:
        raise Waiting(Run(1, key=key, cost=cost, names=names))
    with _lock:
        run = _runs.get(key)
        if run is None or not run.is_wanted():
            told = {"key": key, "cost": cost, "names": names, "unit": unit}
            run = _runs[key] = Run(len(names) or max(1, cost.maps), **told, sessions={session})
            threading.Thread(target=run.work, args=(make,), name="attnviz-run", daemon=True).start()
        run.sessions.add(session)
        run.then = then or run.then
    if not run.settled.wait(AT_ONCE if within is None else within):
        raise Waiting(run)
    if run.error is not None:
        raise run.error
    return run.value


def leave(but: Collection[Hashable] = ()) -> None:
    """This session waits for no run any more, but perhaps for some."""
    for key, run in tuple(_runs.items()):
        if key not in but:
            run.sessions.discard(state.session())


class _Beside(threading.local):
    keys: frozenset[Hashable] = frozenset()
    """The runs that a page waits for while it shows all else."""


_beside = _Beside()


@contextmanager
def page() -> Iterator[None]:
    """Around the run of a page: what it does not wait for any more is left."""
    _beside.keys = frozenset()
    yield
    leave(but=_beside.keys)


@contextmanager
def beside() -> Iterator[None]:
    """Around a part of a page: what it waits for, or why it is refused, stands in its place, and all else is there."""
    try:
        yield
    except Waiting as waiting:
        _beside.keys |= {waiting.run.key}
        show(waiting.run, "stretch")
    except TooLong as error:
        note(str(error), "notice")


def show(run: Run, width: int | Literal["stretch"] = 600) -> None:
    """What stands on the page until a run is over: how far it is, and a way to end it."""
    with st.container(width=width, gap="xsmall", key="run"):
        if not run.sessions:
            large(words.CANCELED.format(cost=run.cost))
            st.button(words.RUN, key="run again", icon=":material/play_arrow:", type="primary", on_click=_again)
            quiet(words.AS_IT_WAS)
            return
        _watch(run)
        st.button(words.CANCEL, key="cancel run", icon=":material/close:", on_click=_cancel, args=(run,))


def _cancel(run: Run) -> None:
    state.put(CANCELED, run.key)
    leave()


def _again() -> None:
    state.put(CANCELED, None)


@st.fragment(run_every=EVERY)
def _watch(run: Run) -> None:
    """Tell how far a run is. Each look is a run of this fragment, as what is clicked meanwhile waits for its end."""
    if run.settled.is_set():
        st.rerun()
    _tell(run)


def _tell(run: Run) -> None:
    passed = time.monotonic() - run.begun
    if not run.has_turn:
        st.progress(0.0, text=words.WAITING)
    elif run.unit:
        st.progress(run.share, text=words.UNITS_DONE.format(done=run.done, all=run.calls, unit=run.unit))
    elif not run.names:
        st.progress(run.share, text=words.PICTURE_SHARE.format(what=run.cost.what, share=run.share))
    elif run.done >= run.calls:
        st.progress(1.0, text=words.FINISHING)
    else:
        layer, call = run.names[run.done], run.done + 1
        st.progress(run.share, text=words.CALL_SHARE.format(layer=layer, call=call, calls=run.calls, share=run.share))
    quiet(words.TIME.format(tokens=run.cost.tokens, passed=in_time(passed), seconds=in_time(run.cost.seconds)))
