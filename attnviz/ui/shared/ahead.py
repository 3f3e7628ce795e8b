"""What is likely to be asked for next, made in quiet moments and found where a click looks for it.

Nothing that is shown depends on it, only how soon. It ends when any browser says anything.
"""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from attnviz.core.errors import AttnvizError
from attnviz.core.progress import Progress, watched

QUIET = 0.3
"""Seconds without a word of any browser after which guesses are made: what was sent is painted by then."""

BUSY = 1.5
"""Times as long as it works a guess may take: more, and others need the machine."""

SERVES = threading.Event()
"""Set while a server of its own says when browsers speak: not in a person's own process, nor in a test of a page."""


class _Over(BaseException):
    """Somebody asks for something: no `Exception`, so that who waits for what is being made makes it; see `Kept`."""


@dataclass(eq=False)
class Guesses(Progress):
    """Guesses of one session.

    Attributes:
        make: functions that each make one, and say whether the next one is wanted.
        over: set when any browser says anything.
    """

    make: Iterable[Callable[[], bool]] = ()
    over: threading.Event = field(default_factory=threading.Event)

    def is_wanted(self) -> bool:
        if self.over.is_set():
            raise _Over
        return True

    def work(self) -> None:
        """Make them, one after another."""
        if self.over.wait(QUIET):
            return
        with suppress(_Over, AttnvizError), watched(self):  # a state that is refused is nobody's next one
            for make in self.make:
                begun, worked = time.perf_counter(), time.thread_time()
                if not (self.is_wanted() and make()):
                    return
                if time.perf_counter() - begun > BUSY * (time.thread_time() - worked):
                    return


_now = Guesses(1)


def begin(make: Iterable[Callable[[], bool]]) -> None:
    """Make guesses in the next quiet moment."""
    global _now
    end()
    _now = Guesses(1, make=make)
    if SERVES.is_set():
        threading.Thread(target=_now.work, name="attnviz-ahead", daemon=True).start()


def end() -> None:
    """Make no more of them: somebody asks for something."""
    _now.over.set()
