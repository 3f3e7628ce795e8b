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
        self._pending: dict[Hashable, SimpleNamespace] = {}  # values being computed: thread, reserved bytes, future
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a key; if it is not in the cache, call `make`, or wait for the thread that does."""
        while True:
            with self._lock:
                if key in self._values:
                    self._values.move_to_end(key)
                    return self._values[key][0]
                pending = self._pending.get(key)
                is_first = pending is None  # no other thread computes this value
                if is_first:
                    pending = SimpleNamespace(thread=get_ident(), reserved=0, future=Future())
                    self._pending[key] = pending
            try:
                if is_first:
                    return self._compute(key, make, pending)
                if pending.thread == get_ident():
                    raise RuntimeError(f"Making {key!r} needs {key!r} itself.")
                return pending.future.result()
            except CancelledError:  # the thread that computes the value was interrupted: try again
                if is_first:  # but `make` itself raised it
                    raise
            finally:
                pending = None  # an error refers to this frame, and `pending` to the error: a reference cycle

    def reserve(self, key: Hashable, size: int) -> tuple[Hashable, ...]:
        """Reserve bytes for a value that is being computed, and evict other values for it now.

        Returns:
            The evicted keys.
        """
        with self._lock:
            if key in self._pending:
                self._pending[key].reserved = size
            evicted = self._evict()
        return tuple(evicted)  # large values are freed after this, outside of the lock

    def free(self, size: int) -> tuple[Hashable, ...]:
        """Evict the least recently used values until `size` bytes are free, and return their keys.

        If all values together are smaller than `size`, none is evicted.
        """
        with self._lock:
            evicted = self._evict(self.bytes - size) if size <= self.bytes else {}
        return tuple(evicted)

    def drop(self, condition: Callable[[Hashable], bool]) -> tuple[Hashable, ...]:
        """Evict the values of all keys for which `condition(key)` is true, and return these keys."""
        with self._lock:
            evicted = {key: self._values.pop(key) for key in tuple(self._values) if condition(key)}
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

    def _compute(self, key: Hashable, make: Callable[[], Value], pending: SimpleNamespace) -> Value:
        """Compute a value, keep it if it fits, and pass the value or the error to all threads that wait for it."""
        entry = evicted = None
        try:
            value = make()
            entry = value, self._size_of(value)
        except BaseException as error:
            reason = error
            raise
        finally:
            with self._lock:
                del self._pending[key]
                if entry and entry[1] <= self.most_bytes:
                    self._values[key] = entry
                    evicted = self._evict()
            if entry:
                pending.future.set_result(value)
            elif isinstance(reason, Exception):
                pending.future.set_exception(reason)
            else:  # interrupted
                pending.future.cancel()
            pending = reason = None  # no reference cycle, as in `get`
        del evicted  # large values are freed here, outside of the lock
        return value

    def _evict(self, most_bytes: int | None = None) -> dict[Hashable, tuple[Value, int]]:
        """Evict the least recently used values down to a size, by default the unreserved bytes. Needs the lock."""
        if most_bytes is None:
            most_bytes = self.most_bytes - sum(pending.reserved for pending in self._pending.values())
        evicted, size = {}, self.bytes
        while self._values and size > most_bytes:
            key, entry = self._values.popitem(last=False)
            evicted[key] = entry
            size -= entry[1]
        return evicted
