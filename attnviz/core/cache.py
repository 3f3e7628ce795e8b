"""A thread-safe LRU cache, bounded by bytes, that computes each value once."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future
from threading import Lock, get_ident
from types import SimpleNamespace
from typing import Generic, TypeVar

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """A thread-safe LRU cache, bounded by bytes.

    Threads that request a value which is being computed wait for it. An error is raised in all waiting threads and
    is not kept; if the computing thread is interrupted instead, one of the waiting threads computes the value. A value
    larger than the bound is returned to all waiting threads and is not kept.

    Args:
        most_bytes: bound on the size of all values and reservations together.
        size_of: function that gives the size of a value in bytes; called once per value.
    """

    def __init__(self, most_bytes: int, size_of: Callable[[Value], int]):
        self.most_bytes, self._size_of = most_bytes, size_of
        self._values: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._making: dict[Hashable, SimpleNamespace] = {}  # per key: thread, reserved bytes and future result
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a key; if it is not in the cache, compute it by `make`.

        Raises:
            RuntimeError: if `make` requests its own key.
        """
        while True:
            with self._lock:
                if key in self._values:
                    self._values.move_to_end(key)
                    return self._values[key][0]
                making = self._making.get(key)
                if is_owner := making is None:
                    making = SimpleNamespace(thread=get_ident(), reserved=0, outcome=Future())
                    self._making[key] = making
            try:
                if is_owner:
                    return self._make(key, make, making)
                if making.thread == get_ident():
                    raise RuntimeError(f"Making {key!r} needs {key!r} itself.")
                return making.outcome.result()
            except CancelledError:  # the computing thread was interrupted: try again
                if is_owner:
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
            evicted = self._evict()
        return tuple(evicted)  # large values are freed after this, outside of the lock

    def let_go(self, size: int) -> tuple[Hashable, ...]:
        """Evict the least recently used values until `size` bytes are freed, and return their keys.

        If the cache holds less than that, nothing is evicted.
        """
        with self._lock:
            evicted = self._evict(self.bytes - size) if size <= self.bytes else {}
        return tuple(evicted)

    def drop(self, which: Callable[[Hashable], bool]) -> tuple[Hashable, ...]:
        """Evict the values of all keys that `which` selects, and return these keys."""
        with self._lock:
            evicted = {key: self._values.pop(key) for key in [*filter(which, self._values)]}
        return tuple(evicted)

    def clear(self) -> None:
        """Evict all values."""
        self.drop(lambda key: True)

    def keys(self) -> tuple[Hashable, ...]:
        """List all keys, the least recently used first."""
        with self._lock:
            return tuple(self._values)

    @property
    def bytes(self) -> int:
        """Size of all values, in bytes."""
        return sum(size for _, size in tuple(self._values.values()))

    def __contains__(self, key: Hashable) -> bool:
        """Whether the cache has a value for a key; does not count as a use."""
        return key in self._values

    def _make(self, key: Hashable, make: Callable[[], Value], making: SimpleNamespace) -> Value:
        """Compute a value, keep it if it fits, and pass the value or the error to all waiting threads."""
        entry = evicted = None
        try:
            value = make()
            entry = value, self._size_of(value)
        except BaseException as error:
            failed = error
            raise
        finally:
            with self._lock:
                del self._making[key]
                if entry and entry[1] <= self.most_bytes:
                    self._values[key] = entry
                    evicted = self._evict()
            if entry:
                making.outcome.set_result(value)
            elif isinstance(failed, Exception):
                making.outcome.set_exception(failed)
            else:
                making.outcome.cancel()
            making = failed = None
        del evicted
        return value

    def _evict(self, most: int | None = None) -> dict[Hashable, tuple[Value, int]]:
        """Evict the least recently used values down to `most` bytes, by default the unreserved ones. Needs the lock."""
        if most is None:
            most = self.most_bytes - sum(making.reserved for making in self._making.values())
        evicted, left = {}, self.bytes
        while self._values and left > most:
            key, entry = self._values.popitem(last=False)
            evicted[key], left = entry, left - entry[1]
        return evicted
