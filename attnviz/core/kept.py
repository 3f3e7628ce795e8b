"""Values under keys: each is made once however many threads ask, and the least recently used give way to bytes."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
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

    Values may share parts, as two pictures of one record do. A shared part counts once, for as long as one of them is
    kept:

    >>> pictures = BoundedCache(most_bytes=1000, size_of=lambda value: {"record": 700, value: 50})
    >>> pictures.get("a", lambda: "a"), pictures.get("b", lambda: "b"), pictures.bytes
    ('a', 'b', 800)

    Args:
        most_bytes: of all values that are kept, and of room that is reserved.
        size_of: the bytes of a value, or of each of its parts by name; asked once. Fewer than 0 count as 0.
    """

    def __init__(self, most_bytes: int, size_of: Callable[[Value], int | Mapping[Hashable, int]]):
        self.most_bytes, self._size_of = most_bytes, size_of
        self._values: OrderedDict[Hashable, tuple[Value, Mapping[Hashable, int]]] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self._holders: Counter[Hashable] = Counter()
        self._bytes = 0
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

    def put(self, key: Hashable, value: Value) -> None:
        """Keep a value in place of the one under its key."""
        parts = self._parts(value)
        with self._lock:
            before = self._drop(key) if key in self._values else None
            let_go = self._keep(key, value, parts)
        del before, let_go

    def reserve(self, key: Hashable, size: int) -> tuple[Hashable, ...]:
        """Hold room for a value while it is made: others are let go of now, not when it is there.

        Called by its maker; the room is held until the value is there or failed.

        Returns:
            The keys of what was let go of.
        """
        with self._lock:
            if key in self._making:
                self._making[key].reserved = max(0, size)
            let_go = self._let_go()
        return tuple(let_go)  # large values end after this, outside of the lock

    def let_go(self, size: int) -> tuple[Hashable, ...]:
        """Let go of the least recently used, of so many bytes in all; of none if all together are smaller.

        Returns:
            The keys of what was let go of.
        """
        with self._lock:
            let_go = self._let_go(self._bytes - size) if size <= self._bytes else {}
        return tuple(let_go)

    def drop(self, which: Callable[[Hashable], bool]) -> tuple[Hashable, ...]:
        """Let go of the values under some keys; gives these keys."""
        with self._lock:
            let_go = {key: self._drop(key) for key in [*filter(which, self._values)]}
        return tuple(let_go)

    def clear(self) -> None:
        """Let go of every value. One that is being made still reaches those who wait for it, and is not kept."""
        with self._lock:
            let_go, self._values = self._values, OrderedDict()
            self._sizes, self._holders, self._bytes = {}, Counter(), 0
            self._making.clear()
        del let_go

    def keys(self) -> tuple[Hashable, ...]:
        """The keys of all values, the least recently used first."""
        with self._lock:
            return tuple(self._values)

    @property
    def bytes(self) -> int:
        """Size of all values, in bytes."""
        return self._bytes

    def __contains__(self, key: Hashable) -> bool:
        """Whether a value is kept; that does not count as its use."""
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def _make(self, key: Hashable, make: Callable[[], Value], making: "_Making") -> Value:
        try:
            value = make()
            parts = self._parts(value)
        except BaseException as error:
            self._settle(key, making)
            if isinstance(error, Exception):
                making.outcome.set_exception(error)
            else:
                making.outcome.cancel()
            making = None
            raise
        self._settle(key, making, (value, parts))
        making.outcome.set_result(value)
        return value

    def _settle(
        self, key: Hashable, making: "_Making", entry: tuple[Value, Mapping[Hashable, int]] | None = None
    ) -> None:
        """Forget that a value is being made, and keep it if it fits; after `clear` neither is ours any more."""
        let_go = {}
        with self._lock:
            if self._making.get(key) is making:
                del self._making[key]
                if entry:
                    let_go = self._keep(key, *entry)
        del let_go

    def _parts(self, value: Value) -> Mapping[Hashable, int]:
        """The bytes of each part of a value; of a value that has none, under a name of its own."""
        size = self._size_of(value)
        parts = size if isinstance(size, Mapping) else {object(): size}
        return {part: max(0, size) for part, size in parts.items()}

    def _keep(self, key: Hashable, value: Value, parts: Mapping[Hashable, int]) -> dict[Hashable, Value]:
        """Under the lock: keep a value unless it is larger than the bound; gives what was let go of for it."""
        if sum(parts.values()) > self.most_bytes:
            return {}
        self._values[key] = value, parts
        for part, size in parts.items():
            if not self._holders[part]:
                self._sizes[part], self._bytes = size, self._bytes + size
            self._holders[part] += 1
        return self._let_go()

    def _let_go(self, most: int | None = None) -> dict[Hashable, Value]:
        """Under the lock: drop the least recently used until so many bytes are left; by default, until all fits."""
        if most is None:
            most = self.most_bytes - sum(making.reserved for making in self._making.values())
        let_go = {}
        while self._values and self._bytes > most:
            key = next(iter(self._values))
            let_go[key] = self._drop(key)
        return let_go

    def _drop(self, key: Hashable) -> Value:
        """Under the lock: forget a value, and the parts that no other holds."""
        value, parts = self._values.pop(key)
        for part in parts:
            self._holders[part] -= 1
            if not self._holders[part]:
                self._bytes -= self._sizes.pop(part)
                del self._holders[part]
        return value


class _Making:
    """A value on its way: who makes it, the room it needs, and its outcome for those who wait."""

    def __init__(self):
        self.thread, self.reserved = get_ident(), 0
        self.outcome: Future = Future()
