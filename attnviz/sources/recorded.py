"""A model on one input of any kind as a source: a function that runs it with edits and gives the record."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Self

from attnviz.core.edits import Edits
from attnviz.core.errors import InputError, quoted
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence
from attnviz.sources.own_code import errors_said
from attnviz.sources.saved import Saved


@dataclass(frozen=True, eq=False)
class Recorded(Saved):
    """A source that reads one input alone, such as a picture, and can be run on it again with edits.

    Attributes:
        record: the run without edits.
        make: the run with edits.
    """

    make: Callable[[Edits], Record]
    alone = ""
    lock: AbstractContextManager = field(default_factory=threading.RLock, repr=False)

    @classmethod
    def of(cls, make: Callable[[Edits], Record]) -> Self:
        """The source of a function from edits to a record, which is called now.

        Raises:
            InputError: if the function raises, with the line, or gives something else.
        """
        record = _recorded(make, Edits())
        return cls(record.source, record, make)

    @property
    def does(self) -> str:
        return "Your own model, run in its own code on one input. Nothing of it was measured here."

    @property
    def read_only(self) -> str | None:
        return (
            f"Only weights are known of {self.name}, so that nothing can be changed." if self.record.read_only else None
        )

    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        """The run of its input with the edits.

        Raises:
            InputError: for other sentences, or if the function raises, with the line.
        """
        if edits == Edits() or targets or self.read_only:
            return super().run(sentences, edits, targets)
        self.check_own(sentences)
        with self.lock:
            return replace(_recorded(self.make, edits), edits=edits)


def _recorded(make: Callable[[Edits], Record], edits: Edits) -> Record:
    with errors_said():
        record = make(edits)
    if not isinstance(record, Record):
        what = f"The function gave {quoted(type(record).__name__)}"
        raise InputError(f"{what}; it takes Edits and gives a Record, as seen.record(...) does.")
    return record
