"""Progress of a run, and cancellation; reported by attention and by every computation that grows with n².

Like a tap, progress belongs to one run, but it is stored in a context variable and not passed through the model.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from attnviz.core.errors import Canceled


@dataclass(eq=False)
class Progress:
    """Progress of a run. Any thread may read it or cancel the run.

    Attributes:
        calls: number of steps: attention calls of the run, or maps, or items of `counted`.
        done: number of finished steps.
        part: finished share of the current step, from 0 to 1.
        text: generated text so far.
        canceled: flag that ends the run within one block of an attention call.
        is_enough: flag that ends the generation and keeps the text generated so far.
    """

    calls: int
    done: int = 0
    part: float = 0.0
    canceled: bool = False
    text: str = ""
    is_enough: bool = False

    @property
    def share(self) -> float:
        """Finished share of the run, from 0 to 1, if all steps take equally long."""
        return min(1.0, (self.done + self.part) / max(1, self.calls))

    def is_wanted(self) -> bool:
        """Whether somebody still waits for the run."""
        return not self.canceled


_current: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def watched(progress: Progress) -> Iterator[None]:
    """Within this context, code in this thread reports its progress to `progress`."""
    token = _current.set(progress)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def counted(of: int) -> Iterator[Callable[..., bool]]:
    """Within this context, progress counts items, such as heads or texts, instead of attention calls.

    Yields a function `report(done, of, text)`, which returns whether to continue, and raises `Canceled` as `tell`
    does.
    """
    run = _current.get() or Progress(of)
    run.calls, run.done, run.part = of, 0, 0.0

    def report(done: int, of: int, text: str = "") -> bool:
        run.calls, run.done, run.text = of, done, text
        tell(0.0)
        return not run.is_enough

    with watched(_CallsWithinItems(1, run=run)):
        yield report


@dataclass(eq=False)
class _CallsWithinItems(Progress):
    """Progress of attention calls within `counted`; canceled together with the run."""

    run: Progress | None = None

    def is_wanted(self) -> bool:
        return self.run.is_wanted()


def tell(part: float) -> None:
    """Report the finished share of the current attention call or map; 1 completes the step.

    Raises:
        Canceled: if the run was canceled or nobody waits for it any more.
    """
    progress = _current.get()
    if progress is None:
        return
    if not progress.is_wanted():
        raise Canceled("The run was canceled.")
    progress.part = part if part < 1 else 0.0
    progress.done += part >= 1
