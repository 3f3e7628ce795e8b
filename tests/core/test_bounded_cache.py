"""A value that many threads request is computed once and kept while there is room; no thread waits forever."""

import gc
import weakref
from concurrent.futures import Future
from threading import Barrier, Semaphore, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.core import cache as room
from attnviz.core.cache import BoundedCache

PATIENCE = 60
"""Seconds that a test waits for what must come."""


def sized(most: int) -> BoundedCache[int]:
    """Cache of values that are their own sizes."""
    return BoundedCache(most_bytes=most, size_of=lambda value: value)


class Asker(Thread):
    """Thread that requests one value and keeps the value or the error."""

    def __init__(self, kept: BoundedCache, key, make):
        super().__init__(daemon=True)
        self.kept, self.key, self.make, self.got, self.error = kept, key, make, None, None
        self.start()

    def run(self):
        try:
            self.got = self.kept.get(self.key, self.make)
        except BaseException as error:
            self.error = error

    def ended(self) -> "Asker":
        self.join(PATIENCE)
        assert not self.is_alive()
        return self


class Watched(Future):
    """Outcome that counts its waiting threads."""

    def __init__(self):
        super().__init__()
        self.came = Semaphore(0)

    def result(self, timeout=None):
        self.came.release()
        return super().result(timeout)


@pytest.fixture(autouse=True)
def watched(monkeypatch):
    monkeypatch.setattr(room, "Future", Watched)


def waiting(kept: BoundedCache, key, inside: Barrier, others: int, make) -> list[Asker]:
    """Start a thread that stays within `make` until the barrier is passed again, and threads that wait for it."""
    first = Asker(kept, key, lambda: (inside.wait(PATIENCE), inside.wait(PATIENCE), make())[-1])
    inside.wait(PATIENCE)
    outcome = kept._pending[key].future
    askers = [first, *(Asker(kept, key, make) for _ in range(others))]
    for _ in range(others):
        assert outcome.came.acquire(timeout=PATIENCE)
    return askers


@given(most=st.integers(0, 12), asked=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 13)), max_size=30))
def test_it_keeps_what_a_list_in_order_of_use_would_keep(most, asked):
    """Never more bytes than the bound; the least recently used give way first; what is too large displaces nothing."""
    kept, oracle = sized(most), []
    for key, size in asked:
        at = next((i for i, (other, _) in enumerate(oracle) if other == key), None)
        expected = oracle.pop(at)[1] if at is not None else size

        assert kept.get(key, lambda size=size: size) == expected
        if at is not None or size <= most:
            oracle.append((key, expected))
        while sum(size for _, size in oracle) > most:
            oracle.pop(0)
        assert kept.keys() == tuple(key for key, _ in oracle)
        assert kept.bytes == sum(size for _, size in oracle) <= most


def test_many_who_ask_at_once_get_what_one_of_them_made():
    """The same object, made once."""
    made, kept, inside = [], BoundedCache(10, lambda value: 1), Barrier(2)
    askers = waiting(kept, "a", inside, 4, lambda: made.append(object()) or made[-1])
    inside.wait(PATIENCE)

    assert {id(asker.ended().got) for asker in askers} == {id(made[0])}
    assert len(made) == 1


def test_a_value_that_is_too_large_reaches_all_who_wait_and_is_not_kept():
    made, kept, inside = [], BoundedCache(10, lambda value: 11), Barrier(2)
    askers = waiting(kept, "a", inside, 3, lambda: made.append(object()) or made[-1])
    inside.wait(PATIENCE)

    assert {id(asker.ended().got) for asker in askers} == {id(made[0])}
    assert len(made) == 1
    assert kept.keys() == ()


def test_an_error_reaches_all_who_wait_and_is_not_kept():
    """A later request tries again."""
    kept, inside = sized(10), Barrier(2)
    askers = waiting(kept, "a", inside, 3, lambda: 1 // 0)
    inside.wait(PATIENCE)

    assert {type(asker.ended().error) for asker in askers} == {ZeroDivisionError}
    assert kept.get("a", lambda: 7) == 7


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_who_waits_for_a_thread_that_ends_makes_the_value(end):
    """An interrupt is its thread's own affair: nobody else gets it, and nobody waits for ever."""
    kept, inside, ends = sized(10), Barrier(2), [end()]

    def make() -> int:
        if ends:
            raise ends.pop()
        return 7

    first, *others = waiting(kept, "a", inside, 3, make)
    inside.wait(PATIENCE)

    assert type(first.ended().error) is end
    assert [other.ended().got for other in others] == [7, 7, 7]


def test_a_value_that_needs_itself_is_refused():
    """It would wait for itself."""
    kept = sized(10)

    with pytest.raises(RuntimeError, match="Making 'a' needs 'a' itself"):
        kept.get("a", lambda: kept.get("a", lambda: 1))
    assert kept.get("a", lambda: kept.get("b", lambda: 1) + 1) == 2


def test_room_is_made_before_a_value_is_there():
    """The least recently used go when room is reserved; the room is free again if the value fails."""
    kept, inside = sized(10), []
    for key in "abc":
        kept.get(key, lambda: 3)

    def make() -> int:
        inside.append(kept.reserve("large", 6))
        inside.append(kept.keys())
        kept.get("d", lambda: 4)
        inside.append(kept.keys())
        raise MemoryError

    with pytest.raises(MemoryError):
        kept.get("large", make)

    assert inside == [("a", "b"), ("c",), ("d",)]
    assert kept.get("e", lambda: 6) == 6
    assert kept.keys() == ("d", "e")


@given(sizes=st.lists(st.integers(1, 9), max_size=6), size=st.integers(0, 40))
def test_the_least_recently_used_are_let_go_of_when_asked(sizes, size):
    """No more of them than that takes, and none if all together would not do."""
    kept = sized(100)
    for key, bytes in enumerate(sizes):
        kept.get(key, lambda bytes=bytes: bytes)
    let_go = kept.free(size)

    assert (*let_go, *kept.keys()) == tuple(range(len(sizes)))
    freed = sum(sizes[key] for key in let_go)
    if size > sum(sizes):
        assert not let_go
    else:
        assert freed >= size
        assert not let_go or freed - sizes[let_go[-1]] < size


def test_what_is_let_go_and_what_failed_leave_memory_at_once():
    """Without the garbage collector, which comes late: a model that failed halfway makes room for the next try."""

    class Large:
        pass

    kept, alive = BoundedCache(1, lambda value: 1), weakref.WeakSet()

    def make(fails: bool) -> Large:
        large = Large()
        alive.add(large)
        if fails:
            raise MemoryError
        return large

    gc.collect()
    gc.disable()
    try:
        kept.get("a", lambda: make(False))
        kept.get("b", lambda: make(False))
        with pytest.raises(MemoryError):
            kept.get("c", lambda: make(True))

        assert len(alive) == 1
    finally:
        gc.enable()
