"""Jobs for work that takes longer than a page may wait, and their progress on the page."""

import math
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from attnviz.core.errors import AttnvizError, Canceled
from attnviz.core.progress import Job, Jobs
from attnviz.sources.estimate import Estimate, in_time
from attnviz.ui import budget, streamlit_internals
from attnviz.ui.hosts import public
from attnviz.ui.request import session
from attnviz.ui.text import large, literal, note, quiet

RUN_WAIT = 0.3
"""Seconds that a page waits for a run before it shows progress."""
PICTURE_WAIT = 1.0
"""Seconds that a page waits for a picture before it shows progress."""
EVERY = 0.5
"""Seconds between two updates of the progress of a job."""

JOBS = Jobs(at_once=2, is_connected=streamlit_internals.is_connected)
"""Jobs of runs and pictures of all sessions; two at once, as each may use the whole memory limit of a run."""
LOADS = Jobs(at_once=4, is_connected=streamlit_internals.is_connected, gives_up=True)
"""Jobs that search, download and load models."""


@dataclass(frozen=True)
class About:
    """Description of a job, for its progress on the page.

    Attributes:
        cost: estimated cost.
        names: names of its attention calls in order; empty for a picture.
        unit: unit of its progress, such as "heads", if it counts neither calls nor maps.
        writes: whether it generates text; if the user stops it, the text so far is used.
        again: title of the button that starts the job again after it was canceled.
    """

    cost: Estimate
    names: tuple[str, ...] = ()
    unit: str = ""
    writes: bool = False
    again = "Run"

    @property
    def calls(self) -> int:
        """Number of steps that the progress bar counts, such as attention calls."""
        return len(self.names) or max(1, self.cost.maps)

    @property
    def seconds(self) -> float:
        """Estimated time in seconds."""
        return self.cost.seconds

    @property
    def canceled(self) -> str:
        """Sentence that is shown after the job was canceled."""
        return f"Canceled. {self.cost}."

    def progress(self, job: Job) -> tuple[float, str]:
        """The finished share of the job, and a text such as "3 of 8 heads" or "Decoder layer 1, call 2 of 4 · 25 %"."""
        if self.unit:
            text = f"{job.done:,} of {job.calls:,} {self.unit}"
            if self.writes and job.done:
                rate = job.done / max(time.monotonic() - job.begun, 1e-9)
                text += f" · {rate:.3g} a second"
            return job.share, text
        if not self.names:
            return job.share, f"{self.cost.what} · {job.share:.0%}"
        if job.done >= job.calls:
            return 1.0, "Attention is computed; the picture is next"
        call = f"{literal(self.names[job.done])}, call {job.done + 1} of {job.calls}"
        return job.share, f"{call} · {job.share:.0%} of all attention"

    def remark(self, job: Job) -> str:
        """Line under the progress bar; empty for text generation."""
        passed, seconds = in_time(time.monotonic() - job.begun), in_time(self.seconds)
        return "" if self.writes else f"{self.cost.tokens:,} tokens · {passed} of about {seconds}"


class Waiting(Exception):
    """Raised while a job is running or after it was canceled; the page then shows the job's progress.

    It is not an `AttnvizError`, because it is not an error.
    """

    def __init__(self, job: Job):
        self.job = job
        super().__init__("A run is going on.")


@contextmanager
def place(name: str) -> Iterator[None]:
    """Context manager for drawing the "row" or the "page"; at its end, jobs that only an earlier drawing needed end."""
    memory = session().memory
    jobs_by_place = memory.setdefault("jobs by place", {})
    memory["place"], memory["bars"] = name, 0
    memory["jobs of last drawing"] = jobs_by_place.get(name, {})
    jobs_by_place[name] = {}
    try:
        yield
    except Exception:  # Streamlit ends a run with a BaseException, which must pass
        leave()
        raise
    leave()


def leave() -> None:
    """End all jobs of this session for which neither its row nor its page waits, unless another session needs them."""
    memory = session().memory
    memory["jobs of last drawing"] = {}
    needed_keys = {key for jobs in memory.get("jobs by place", {}).values() for key in jobs}
    for jobs in (JOBS, LOADS):
        jobs.leave(streamlit_internals.session_id(), but=needed_keys)


def wait_for(
    key: Hashable, make: Callable[[], object], about: Any, *, seconds: float | None = None, jobs: Jobs = JOBS
) -> Any:
    """Return the value of `make`, computed in a job; an error of the job is raised here.

    Args:
        key: identifies the job; sessions that ask for the same key share one job.
        about: `About`, or an object with the same properties and methods.
        seconds: seconds to wait; by default `RUN_WAIT`.

    Raises:
        Waiting: if the job takes longer, or if this session has canceled it.
    """
    memory = session().memory
    if memory.get("canceled") == key:
        raise Waiting(Job(about.calls, key=key, about=about))
    job = memory.get("jobs of last drawing", {}).get(key)
    has_ended = job is not None and job.settled.is_set() and not isinstance(job.error, Canceled)
    if not has_ended:  # start the job, or join it if it runs
        _spend(key, about.seconds)
        job = jobs.start(key, lambda job: make(), streamlit_internals.session_id(), about=about, calls=about.calls)
    if not job.settled.wait(RUN_WAIT if seconds is None else seconds):
        memory.setdefault("jobs by place", {}).setdefault(memory.get("place", "page"), {})[key] = job
        raise Waiting(job)
    return job.result()


def _spend(key: Hashable, seconds: float) -> None:
    """Count the estimated seconds of a visitor's run in a public app; on other servers do nothing.

    Raises:
        Busy: if all runs within one minute would take longer than `seconds_per_minute`; a single run is allowed.
    """
    if (preset := public()) is None or not seconds:
        return
    memory, now = session().memory, time.monotonic()
    spent = {run: (begun, cost) for run, (begun, cost) in memory.get("spent", {}).items() if now < begun + 60}
    total = seconds + sum(cost for _, cost in spent.values())
    if spent and key not in spent and total > preset.seconds_per_minute:
        first_begun = min(begun for begun, _ in spent.values())
        raise budget.Busy(
            f"You started long runs of {preset.seconds_per_minute:g} s within a minute, the limit of this server; "
            f"try again in {math.ceil(first_begun + 60 - now)} s."
        )
    memory["spent"] = {key: (now, seconds), **spent}


@contextmanager
def part() -> Iterator[None]:
    """Context manager for a part of a page: progress or an error replaces this part, and other parts are drawn."""
    try:
        yield
    except Waiting as waiting:
        show(waiting.job, "stretch")
    except AttnvizError as error:
        note(str(error), "notice")


def show(job: Job, width: int | Literal["stretch"] = 600) -> None:
    """Draw the progress of a job with a button to cancel it or, once canceled, to start it again."""
    memory = session().memory
    memory["bars"] = memory.get("bars", 0) + 1
    name = f"run {memory.get('place', 'page')} {memory['bars']}"
    with st.container(width=width, gap="xsmall", key=name):
        if not job.waiting:
            large(job.about.canceled)
            options = {"key": f"{name} again", "icon": ":material/play_arrow:", "type": "primary"}
            st.button(job.about.again, on_click=memory.update, args=({"canceled": None},), **options)
            return
        _watch(job)
        title = "Stop here" if job.about.writes else "Cancel"
        st.button(title, key=f"{name} cancel", icon=":material/close:", on_click=_cancel, args=(job,))


def _cancel(job: Job) -> None:
    """Cancel a job for this session; if it generates text and has some words, end it and keep these."""
    if job.about.writes and job.done:
        job.is_enough = True
        return
    memory = session().memory
    memory["canceled"], memory["jobs by place"] = job.key, {}
    leave()


@st.fragment(run_every=EVERY)
def _watch(job: Job) -> None:
    """Draw the progress of a job, again every `EVERY` seconds; once the job has ended, draw the whole page again."""
    if job.settled.is_set():
        st.rerun()
    share, text = job.about.progress(job) if job.has_turn else (0.0, "Waiting for other runs to end")
    if job.about.writes:
        with st.container(key="as it comes"):
            large(job.text or "The model reads the text …")
    st.progress(share, text=text)
    if remark := job.about.remark(job):
        quiet(remark)


def is_requested(key: str, work: Hashable, cost: Estimate, label: str) -> bool:
    """Whether to start some work: True if it is short or its button was clicked; else draw the button with the cost.

    Args:
        key: key of the button.
        work: all that the result depends on, such as model and text; after a change the button is drawn again.

    Raises:
        OverBudget: if the work costs more than this server's limits.
    """
    memory = session().memory
    was_clicked = memory.get(key) == work
    if was_clicked or cost.seconds <= budget.SHORT_RUN:
        return True
    budget.check_work(cost)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        icon = ":material/play_arrow:"
        st.button(label, key=key, type="primary", icon=icon, on_click=memory.update, args=({key: work},))
        quiet(f"About {in_time(cost.seconds)} on this machine.")
    return False
