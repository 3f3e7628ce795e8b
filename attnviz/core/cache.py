"""A thread-safe LRU cache, bounded by bytes, that computes each value once."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future
from threading import Lock, get_ident
from typing import Generic, TypeVar

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """A thread-safe LRU cache, bounded by bytes.

    Threads that request a value which is being computed wait for it. An error is raised in all waiting threads and
    is not kept; if the computing thread is interrupted instead, one of the waiting threads computes the value. A value
    larger than the bound is returned to all waiting threads and is not kept.

    >>> squares = BoundedCache(most_bytes=1000, size_of=lambda value: 300)
    >>> [squares.get(n, lambda: n * n) for n in (2, 3, 2, 4, 5)]
    [4, 9, 4, 16, 25]
    >>> squares.keys(), squares.bytes
    ((2, 4, 5), 900)

    Args:
        most_bytes: bound on the size of all values and reservations together.
        size_of: function that gives the size of a value in bytes; called once per value.
    """

    def __init__(self, most_bytes: int, size_of: Callable[[Value], int]):
        self.most_bytes, self._size_of = most_bytes, size_of
        self._values: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._making: dict[Hashable, _Making] = {}
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, computed by `make` if it is not in the cache.

        Raises:
            RuntimeError: if `make` requests its own key.
        """
        while True:
            with self._lock:
                if key in self._values:
                    self._values.move_to_end(key)
                    return self._values[key][0]
                making = self._making.get(key)
                if mine := making is None:
                    making = self._making[key] = _Making()
            try:
                if mine:
                    return self._make(key, make, making)
                if making.thread == get_ident():
                    raise RuntimeError(f"Making {key!r} needs {key!r} itself.")
                return making.outcome.result()
            except CancelledError:  # the computing thread was interrupted: try again
                if mine:
                    raise
            finally:
                making = None  # an error refers to this frame, and `making` to the error: a reference cycle

    def reserve(self, key: Hashable, size: int) -> tuple[Hashable, ...]:
        """Reserve bytes for a value that is being computed, and evict other values for it now.

        Returns:
            The evicted keys.
        """
        with self._lock:
            if key in self._making:
                self._making[key].reserved = size
            let_go = self._let_go(self._room())
        return tuple(let_go)  # large values are freed after this, outside of the lock

    def let_go(self, size: int) -> tuple[Hashable, ...]:
        """Evict the least recently used values until `size` bytes are freed; none if the cache holds less than that.

        Returns:
            The evicted keys.
        """
        with self._lock:
            let_go = self._let_go(self.bytes - size) if size <= self.bytes else {}
        return tuple(let_go)

    def drop(self, which: Callable[[Hashable], bool]) -> tuple[Hashable, ...]:
        """Evict the values of all keys that `which` selects; gives these keys."""
        with self._lock:
            let_go = {key: self._values.pop(key) for key in [*filter(which, self._values)]}
        return tuple(let_go)

    def clear(self) -> None:
        """Evict all values. A value that is being computed still reaches the waiting threads, but is not kept."""
        with self._lock:
            let_go, self._values = self._values, OrderedDict()
            self._making.clear()
        del let_go

    def keys(self) -> tuple[Hashable, ...]:
        """All keys, the least recently used first."""
        with self._lock:
            return tuple(self._values)

    @property
    def bytes(self) -> int:
        """Size of all values, in bytes."""
        return sum(size for _, size in tuple(self._values.values()))

    def __contains__(self, key: Hashable) -> bool:
        """Whether the cache has a value for a key; does not count as a use."""
        return key in self._values

    def _make(self, key: Hashable, make: Callable[[], Value], making: "_Making") -> Value:
        """Compute a value, keep it if it fits, and give it to all waiting threads; after `clear` it is not kept."""
        entry = let_go = None
        try:
            value = make()
            entry = value, self._size_of(value)
        except BaseException as error:
            failed = error
            raise
        finally:
            with self._lock:
                if self._making.get(key) is making:
                    del self._making[key]
                    if entry and entry[1] <= self.most_bytes:
                        self._values[key] = entry
                        let_go = self._let_go(self._room())
            if entry:
                making.outcome.set_result(value)
            elif isinstance(failed, Exception):
                making.outcome.set_exception(failed)
            else:
                making.outcome.cancel()
            making = failed = None
        del let_go
        return value

    def _room(self) -> int:
        """Bytes for values, without the reserved bytes."""
        return self.most_bytes - sum(making.reserved for making in self._making.values())

    def _let_go(self, most: int) -> dict[Hashable, tuple[Value, int]]:
        """Evict the least recently used values until at most `most` bytes are left; the caller holds the lock."""
        let_go, left = {}, self.bytes
        while self._values and left > most:
            key, entry = self._values.popitem(last=False)
            let_go[key], left = entry, left - entry[1]
        return let_go


class _Making:
    """A value that is being computed: its thread, its reserved bytes, and its future for the waiting threads."""

    def __init__(self):
        self.thread, self.reserved = get_ident(), 0
        self.outcome: Future = Future()
