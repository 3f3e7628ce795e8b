"""Jobs that take longer than a page may wait, and what stands on the page until they are over."""

import math
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import streamlit as st

from attnviz.core.errors import TooLong
from attnviz.core.jobs import Job, Jobs
from attnviz.sources.estimate import Estimate, in_time
from attnviz.ui import streamlit_internals
from attnviz.ui.budget import Busy
from attnviz.ui.hosts import public
from attnviz.ui.request import session
from attnviz.ui.text import large, literal, note, quiet

AT_ONCE = 0.3
"""Seconds within which a run comes without a word about it."""
ANEW = 1.0
"""Seconds within which a picture does: after a click what it goes through is known."""
EVERY = 0.5
"""Seconds between two looks at how far a job is."""

JOBS = Jobs(at_once=2, is_connected=streamlit_internals.is_connected)
"""Runs and pictures of all sessions: two at once, as each may use all the memory that a run may take."""

CANCELED = "canceled run"
"""Name, in the memory of a session, of the key of the job that it canceled last; only *Run* starts that again."""
SPENT = "spent"
"""Name of the long runs that a session has begun within a minute: when, and the seconds that they were to take."""
WAITS_FOR = "waits for"
"""Name of the keys of the jobs whose places on the page are still to be filled."""


@dataclass(frozen=True)
class About:
    """A description of a job.

    Attributes:
        cost: what it was estimated to take.
        names: of its attention calls, in their order; empty for a picture.
        unit: what is counted of it where these are no calls and no maps: "heads".
        writes: whether it writes a text, of which is kept what there is when it is canceled.
    """

    cost: Estimate
    names: tuple[str, ...] = ()
    unit: str = ""
    writes: bool = False


class Waiting(Exception):
    """A value that a page needs is being computed, or was canceled: something else stands in its place until then.

    It is no `AttnvizError`: nothing is wrong, and no part of a page may go on without it.
    """

    def __init__(self, job: Job):
        self.job = job
        super().__init__("A run is going on.")


def get(key: Hashable, make: Callable[[], object], about: About, *, within: float = AT_ONCE) -> object:
    """The value of a job, if it comes at once.

    Args:
        within: seconds that count as at once.

    Raises:
        Waiting: if it does not, or if this session has canceled it.
    """
    calls = len(about.names) or max(1, about.cost.maps)
    if session().memory.get(CANCELED) == key:
        raise Waiting(Job(calls, key=key, about=about))
    _spend(key, about.cost.seconds)
    job = JOBS.start(key, lambda job: make(), streamlit_internals.session_id(), about=about, calls=calls)
    if not job.settled.wait(within):
        session().memory.setdefault(WAITS_FOR, set()).add(key)
        raise Waiting(job)
    return job.result()


def _spend(key: Hashable, seconds: float) -> None:
    """Count a long run of a visitor to a public app.

    Raises:
        Busy: if this session has used up its minute.
    """
    if (preset := public()) is None:
        return
    now = time.monotonic()
    begun_before = session().memory.get(SPENT, {})
    spent = {name: part for name, part in begun_before.items() if now < part[0] + 60}
    if key not in spent and spent and seconds + sum(part for _, part in spent.values()) > preset.seconds_per_minute:
        wait = min(begun for begun, _ in spent.values()) + 60 - now
        raise Busy(
            f"You began long runs for {preset.seconds_per_minute:g} s within a minute, all that a visitor may here; "
            f"try again in {math.ceil(wait)} s."
        )
    session().memory[SPENT] = {key: (now, seconds), **spent}


@contextmanager
def page() -> Iterator[None]:
    """Around the run of a page: jobs that it does not wait for any more are left."""
    session().memory[WAITS_FOR] = set()
    yield
    leave()


def leave() -> None:
    """Wait for no job but those whose places on the page are to be filled."""
    JOBS.leave(streamlit_internals.session_id(), but=frozenset(session().memory.get(WAITS_FOR, ())))


@contextmanager
def beside() -> Iterator[None]:
    """Around a part of a page: what it waits for, or why it is refused, stands in its place, and all else is there."""
    try:
        yield
    except Waiting as waiting:
        show(waiting.job, "stretch")
    except (TooLong, Busy) as error:
        note(str(error), "notice")


def show(job: Job, width: int | Literal["stretch"] = 600) -> None:
    """Show until a job is over how far it is, and a way to cancel it."""
    with st.container(width=width, gap="xsmall", key="run"):
        if not job.waiting:
            large(f"Canceled. {job.about.cost}.")
            st.button("Run", key="run again", icon=":material/play_arrow:", type="primary", on_click=_again)
            quiet("The text and what was changed are as they were.")
            return
        _watch(job)
        st.button(
            "Stop here" if job.about.writes else "Cancel",
            key="cancel run",
            icon=":material/close:",
            on_click=_cancel,
            args=(job,),
        )


def _cancel(job: Job) -> None:
    if job.about.writes and job.done:
        job.is_enough = True
        return
    session().memory[CANCELED] = job.key
    session().memory[WAITS_FOR] = set()
    leave()


def _again() -> None:
    session().memory[CANCELED] = None


@st.fragment(run_every=EVERY)
def _watch(job: Job) -> None:
    """Show how far a job is. Each look is a run of this fragment, as what is clicked meanwhile waits for its end."""
    if job.settled.is_set():
        st.rerun()
    about, passed = job.about, time.monotonic() - job.begun
    if not job.has_turn:
        share, text = 0.0, "Waiting for other runs to end"
    elif about.unit:
        share, text = job.share, f"{job.done:,} of {job.calls:,} {about.unit}"
    elif not about.names:
        share, text = job.share, f"{about.cost.what} · {job.share:.0%}"
    elif job.done >= job.calls:
        share, text = 1.0, "Attention is computed; what the page shows of it is next"
    else:
        share, layer = job.share, literal(about.names[job.done])
        text = f"{layer}, call {job.done + 1} of {job.calls} · {share:.0%} of all attention"
    if about.writes:
        text = text if not job.done else f"{text} · {job.done / max(passed, 1e-9):.3g} a second"
        with st.container(key="as it comes"):
            large(job.text or "The model reads the text …")
        st.progress(share, text=text)
        return
    st.progress(share, text=text)
    cost = about.cost
    quiet(f"{cost.tokens:,} tokens · {in_time(passed)} of about {in_time(cost.seconds)}")
