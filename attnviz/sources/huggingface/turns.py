"""Models of which a part changes as they run: rotary positions that follow the longest text so far, or a picture."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from torch import nn

CHANGING = frozenset({"dynamic", "longrope"})
"""Kinds of rotary positions that a run may set to other frequencies, and leave so."""

DELTAS = "rope_deltas"
"""Attribute of models that keep, for the next token, how far a picture moved the positions behind it."""


class Turns:
    """Lets runs of a model begin: at once or, if one could change what another reads, one after the other.

    Those find such a model as it was loaded, so what they give does not depend on what was run before.
    """

    def __init__(self, model: nn.Module):
        self._parts = tuple(part for part in model.modules() if _kinds(part) & CHANGING or hasattr(part, DELTAS))
        self._lock = Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        if not self._parts:
            yield
            return
        with self._lock:
            before = [(part, vars(part).copy(), _buffers(part)) for part in self._parts]
            try:
                yield
            finally:
                for part, attributes, buffers in before:
                    vars(part).clear()
                    vars(part).update(attributes, _buffers=buffers)


def _kinds(part: nn.Module) -> set[str]:
    """The kinds of rotary positions of a module, which has one, or one for each kind of layer."""
    kind = getattr(part, "rope_type", None)
    return set(kind.values()) if isinstance(kind, dict) else {kind}


def _buffers(part: nn.Module) -> dict:
    return {name: None if buffer is None else buffer.clone() for name, buffer in vars(part)["_buffers"].items()}
