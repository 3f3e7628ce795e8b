"""How far a run is, and the way to end it: told by attention, and by all that goes through a map: what grows with n².

Like a tap it belongs to one run. It is not handed down the model: who waits for a run knows nothing of its code.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from attnviz.core.errors import Canceled


@dataclass(eq=False)
class Progress:
    """Progress of a run, to be read and ended from any thread.

    Attributes:
        calls: attention calls of the run, or maps to go through, or what is `counted`.
        done: those that are over.
        part: how much of the next one is, from 0 to 1.
        text: what was made so far, of a text.
        canceled: set it, and the run ends within one block of a call.
        is_enough: set it, and a text ends with what is made of it so far.
    """

    calls: int
    done: int = 0
    part: float = 0.0
    canceled: bool = False
    text: str = ""
    is_enough: bool = False

    @property
    def share(self) -> float:
        """Finished share of the run, from 0 to 1, as if all calls took as long."""
        return min(1.0, (self.done + self.part) / max(1, self.calls))

    def is_wanted(self) -> bool:
        """Whether anybody waits for it."""
        return not self.canceled


_watched: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def watched(progress: Progress) -> Iterator[None]:
    """Meanwhile, what runs in this thread says how far it is."""
    token = _watched.set(progress)
    try:
        yield
    finally:
        _watched.reset(token)


@contextmanager
def counted(of: int) -> Iterator[Callable[..., bool]]:
    """Meanwhile a run is as far as it is reported to be, in heads or texts, and not as its attention calls are.

    Gives what takes how many are done, of how many, and perhaps the text so far, and tells whether to go on; that
    raises `Canceled`, as `tell` does.
    """
    run = _watched.get() or Progress(of)
    run.calls, run.done, run.part = of, 0, 0.0

    def report(done: int, of: int, text: str = "") -> bool:
        run.calls, run.done, run.text = of, done, text
        tell(0.0)
        return not run.is_enough

    with watched(_Within(1, run=run)):
        yield report


@dataclass(eq=False)
class _Within(Progress):
    """Attention calls of a run that is counted otherwise: they end with it."""

    run: Progress | None = None

    def is_wanted(self) -> bool:
        return self.run.is_wanted()


def tell(part: float) -> None:
    """So much of an attention call, or of a map, is done; 1 ends it.

    Raises:
        Canceled: if nobody waits for the run any more.
    """
    progress = _watched.get()
    if progress is None:
        return
    if not progress.is_wanted():
        raise Canceled("The run was canceled.")
    progress.part = part if part < 1 else 0.0
    progress.done += part >= 1
