"""Jobs: shared by who waits, one for each key, so many at once, and over when nobody waits."""

import time
from threading import Event

import pytest

from attnviz.core import progress
from attnviz.core.errors import AttnvizError, Canceled
from attnviz.core.progress import Jobs

PATIENCE = 60
"""Seconds that a test waits for what must come."""


@pytest.fixture
def go():
    event = Event()
    yield event
    event.set()


def working(go, begun=None):
    """Return work that reports its progress until `go` is set."""

    def work(job):
        if begun is not None:
            begun.append(job.key)
        while not go.wait(0.01):
            progress.tell(0.5)
        return job.key

    return work


def until(claim) -> None:
    ends = time.monotonic() + PATIENCE
    while not claim():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_who_asks_for_the_same_key_waits_for_the_same_job(go):
    """It is done once, and its value reaches both."""
    every, begun = Jobs(at_once=2), []
    one, other = (every.start("a", working(go, begun), who) for who in ("first", "second"))
    assert one is other
    go.set()
    assert one.settled.wait(PATIENCE)

    assert one.result() == "a"
    assert begun == ["a"]
    assert every.running == ()


def test_a_job_ends_when_the_last_who_waits_for_it_leaves(go):
    every = Jobs(at_once=2)
    job = every.start("a", working(go), "first")
    every.start("a", working(go), "second")
    every.leave("first")
    assert job.is_wanted()

    every.leave("second")

    assert job.settled.wait(PATIENCE)
    with pytest.raises(Canceled):
        job.result()


def test_a_job_ends_when_nobody_who_waits_is_connected(go, monkeypatch):
    monkeypatch.setattr(progress, "GRACE", 0.05)
    job = Jobs(at_once=2, is_connected=lambda who: False).start("a", working(go), "first")

    assert job.settled.wait(PATIENCE)
    assert isinstance(job.error, Canceled)


def test_more_jobs_than_may_work_at_once_wait_for_their_turn(go):
    every, begun = Jobs(at_once=2), []
    started = [every.start(key, working(go, begun), "who") for key in range(4)]
    until(lambda: len(begun) == 2)
    time.sleep(0.1)

    assert sum(job.has_turn for job in started) == len(begun) == 2
    go.set()
    for job in started:
        assert job.settled.wait(PATIENCE)
    assert sorted(begun) == [0, 1, 2, 3]


def test_a_job_that_takes_longer_than_it_may_is_stopped_in_one_sentence(go):
    job = Jobs(at_once=1).start("a", working(go), "who", seconds=0.05)
    assert job.settled.wait(PATIENCE)

    with pytest.raises(AttnvizError, match="stopped after 0 s, the most"):
        job.result()


def test_a_job_that_nobody_waits_for_any_more_is_not_joined(go):
    """A later request starts a new job, which is not canceled."""
    every = Jobs(at_once=2)
    left = every.start("a", working(go), "first")
    every.leave("first")
    again = every.start("a", working(go), "second")
    go.set()
    assert again.settled.wait(PATIENCE)

    assert again is not left
    assert again.result() == "a"


@pytest.mark.parametrize("is_gone", [False, True], ids=["canceled", "closed tab"])
def test_a_job_that_nothing_can_end_gives_its_turn_away(go, monkeypatch, is_gone):
    """At once when the last who waits leaves, and soon after that one is gone; its end gives no second turn away."""
    monkeypatch.setattr(progress, "GRACE", 0.1)
    here = {"first", "second", "third"}
    every = Jobs(at_once=1, is_connected=here.__contains__, gives_up=True)
    stuck = every.start("stuck", lambda job: go.wait(PATIENCE), "first")
    until(lambda: stuck.has_turn)
    if is_gone:
        here.remove("first")
    else:
        every.leave("first")

    assert every.start("other", lambda job: "done", "second").settled.wait(PATIENCE)
    assert not stuck.settled.is_set()

    go.set()
    assert stuck.settled.wait(PATIENCE)
    stop = Event()
    last = every.start("last", lambda job: stop.wait(PATIENCE), "second")
    until(lambda: last.has_turn)
    behind = every.start("behind", lambda job: stop.wait(PATIENCE), "third")
    assert not behind.settled.wait(2 * progress.LOOK)
    assert not behind.has_turn
    stop.set()
