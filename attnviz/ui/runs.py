"""Jobs that take longer than a page may wait, and what stands on the page until they are over."""

import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
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
from attnviz.ui.shared import state, words
from attnviz.ui.shared.setting import Setting, session_setting
from attnviz.ui.text import large, literal, note, quiet

AT_ONCE = 0.3
"""Seconds within which a run comes without a word about it."""
ANEW = 1.0
"""Seconds within which a picture does: after a click what it goes through is known."""
EVERY = 0.5
"""Seconds between two looks at how far a job is."""

JOBS = Jobs(at_once=2, is_connected=streamlit_internals.is_connected)
"""Runs and pictures of all sessions: two at once, as each may use all the memory that a run may take."""

CANCELED: Setting[Hashable] = session_setting("canceled run", None)
"""Key of the job that this session canceled last: it starts again only if somebody asks for it."""
SPENT: Setting[Mapping[Hashable, tuple[float, float]]] = session_setting("spent", {})
"""Long runs that this session has begun within a minute: when, and the seconds that they were to take."""
WAITS_FOR: Setting[frozenset[Hashable]] = session_setting("waits for", frozenset())
"""Keys of the jobs whose places on the page are still to be filled."""


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
        super().__init__(words.RUNNING)


def get(key: Hashable, make: Callable[[], object], about: About, *, within: float = AT_ONCE) -> object:
    """The value of a job, if it comes at once.

    Args:
        within: seconds that count as at once.

    Raises:
        Waiting: if it does not, or if this session has canceled it.
    """
    calls = len(about.names) or max(1, about.cost.maps)
    if state.get(CANCELED) == key:
        raise Waiting(Job(calls, key=key, about=about))
    _spend(key, about.cost.seconds)
    job = JOBS.start(key, lambda job: make(), streamlit_internals.session_id(), about=about, calls=calls)
    if not job.settled.wait(within):
        state.put(WAITS_FOR, state.get(WAITS_FOR) | {key})
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
    spent = {name: part for name, part in state.get(SPENT).items() if now < part[0] + 60}
    if key not in spent and spent and seconds + sum(part for _, part in spent.values()) > preset.seconds_per_minute:
        wait = min(begun for begun, _ in spent.values()) + 60 - now
        raise Busy(words.SPENT.format(seconds=f"{preset.seconds_per_minute:g}", wait=math.ceil(wait)))
    state.put(SPENT, {key: (now, seconds), **spent})


@contextmanager
def page() -> Iterator[None]:
    """Around the run of a page: jobs that it does not wait for any more are left."""
    state.put(WAITS_FOR, frozenset())
    yield
    leave()


def leave() -> None:
    """Wait for no job but those whose places on the page are to be filled."""
    JOBS.leave(streamlit_internals.session_id(), but=state.get(WAITS_FOR))


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
            large(words.CANCELED.format(cost=job.about.cost))
            st.button(words.RUN, key="run again", icon=":material/play_arrow:", type="primary", on_click=_again)
            quiet(words.AS_IT_WAS)
            return
        _watch(job)
        st.button(
            words.STOP if job.about.writes else words.CANCEL,
            key="cancel run",
            icon=":material/close:",
            on_click=_cancel,
            args=(job,),
        )


def _cancel(job: Job) -> None:
    if job.about.writes and job.done:
        job.is_enough = True
        return
    state.put(CANCELED, job.key)
    state.put(WAITS_FOR, frozenset())
    leave()


def _again() -> None:
    state.put(CANCELED, None)


@st.fragment(run_every=EVERY)
def _watch(job: Job) -> None:
    """Show how far a job is. Each look is a run of this fragment, as what is clicked meanwhile waits for its end."""
    if job.settled.is_set():
        st.rerun()
    about, passed = job.about, time.monotonic() - job.begun
    if not job.has_turn:
        share, text = 0.0, words.WAITING
    elif about.unit:
        share, text = job.share, words.UNITS_DONE.format(done=job.done, all=job.calls, unit=about.unit)
    elif not about.names:
        share, text = job.share, words.PICTURE_SHARE.format(what=about.cost.what, share=job.share)
    elif job.done >= job.calls:
        share, text = 1.0, words.FINISHING
    else:
        layer, call = about.names[job.done], job.done + 1
        share = job.share
        text = words.CALL_SHARE.format(layer=literal(layer), call=call, calls=job.calls, share=share)
    if about.writes:
        text = text if not job.done else words.WRITTEN_AT.format(text=text, rate=job.done / max(passed, 1e-9))
        with st.container(key="as it comes"):
            large(job.text or words.READING)
        st.progress(share, text=text)
        return
    st.progress(share, text=text)
    cost = about.cost
    quiet(words.TIME.format(tokens=cost.tokens, passed=in_time(passed), seconds=in_time(cost.seconds)))
