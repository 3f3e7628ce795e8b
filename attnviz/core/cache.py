"""A cache for many threads: a value is made once however many ask, and the least recently used give way to bytes."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future
from threading import Lock, get_ident
from typing import Generic, TypeVar

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """A cache for many threads, bounded by bytes.

    A value that is being made is waited for, not made twice. An error reaches everyone who waits and is not kept; if
    the maker's thread ends instead (an interrupt, a stopped script), one of those who wait makes the value. A value
    larger than the bound reaches everyone who waits and is not kept.

    >>> squares = BoundedCache(most_bytes=1000, size_of=lambda value: 300)
    >>> [squares.get(n, lambda: n * n) for n in (2, 3, 2, 4, 5)]
    [4, 9, 4, 16, 25]
    >>> squares.keys(), squares.bytes
    ((2, 4, 5), 900)

    Args:
        most_bytes: bound on all values that are kept, and on room that is reserved.
        size_of: function that gives the bytes of a value; called once for each.
    """

    def __init__(self, most_bytes: int, size_of: Callable[[Value], int]):
        self.most_bytes, self._size_of = most_bytes, size_of
        self._values: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._making: dict[Hashable, _Making] = {}
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value under a key, made now if it is not kept.

        Raises:
            RuntimeError: if making a value needs that same value.
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
            except CancelledError:  # its maker is gone: ask again, or make it
                if mine:
                    raise
            finally:
                making = None  # an error holds this frame, and its making the error: that ring would outlive both

    def reserve(self, key: Hashable, size: int) -> tuple[Hashable, ...]:
        """Hold room for a value while its maker makes it: others are let go of now, not when it is there.

        Returns:
            The keys of what was let go of.
        """
        with self._lock:
            if key in self._making:
                self._making[key].reserved = size
            let_go = self._let_go(self._room())
        return tuple(let_go)  # large values end after this, outside of the lock

    def let_go(self, size: int) -> tuple[Hashable, ...]:
        """Let go of the least recently used, of so many bytes in all; of none if all together are smaller.

        Returns:
            The keys of what was let go of.
        """
        with self._lock:
            let_go = self._let_go(self.bytes - size) if size <= self.bytes else {}
        return tuple(let_go)

    def drop(self, which: Callable[[Hashable], bool]) -> tuple[Hashable, ...]:
        """Let go of the values under some keys; gives these keys."""
        with self._lock:
            let_go = {key: self._values.pop(key) for key in [*filter(which, self._values)]}
        return tuple(let_go)

    def clear(self) -> None:
        """Let go of every value. One that is being made still reaches those who wait for it, and is not kept."""
        with self._lock:
            let_go, self._values = self._values, OrderedDict()
            self._making.clear()
        del let_go

    def keys(self) -> tuple[Hashable, ...]:
        """The keys of all values, the least recently used first."""
        with self._lock:
            return tuple(self._values)

    @property
    def bytes(self) -> int:
        """Size of all values, in bytes."""
        return sum(size for _, size in tuple(self._values.values()))

    def __contains__(self, key: Hashable) -> bool:
        """Whether a value is kept; that does not count as its use."""
        return key in self._values

    def _make(self, key: Hashable, make: Callable[[], Value], making: "_Making") -> Value:
        """Make a value, keep it if it fits, and hand it to all who wait; after `clear` it is not kept."""
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
        """Bytes for values that are there."""
        return self.most_bytes - sum(making.reserved for making in self._making.values())

    def _let_go(self, most: int) -> dict[Hashable, tuple[Value, int]]:
        """Under the lock: drop the least recently used until so many bytes are left."""
        let_go, left = {}, self.bytes
        while self._values and left > most:
            key, entry = self._values.popitem(last=False)
            let_go[key], left = entry, left - entry[1]
        return let_go


class _Making:
    """A value on its way: who makes it, the room it needs, and its outcome for those who wait."""

    def __init__(self):
        self.thread, self.reserved = get_ident(), 0
        self.outcome: Future = Future()
