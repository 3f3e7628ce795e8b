"""View context of the page Steps, and its tables."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, Self

from attnviz.analysis import steps
from attnviz.core.display import visible_text
from attnviz.core.edits import Site
from attnviz.core.origin import Origin
from attnviz.core.record import Record
from attnviz.sources.base import Source
from attnviz.ui import cache, text
from attnviz.ui.shared import look
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.steps import words

LONGEST = 60
"""Characters of a cell of a table."""


class CallInputs(NamedTuple):
    """Inputs of the attention calls in the runs of a source."""

    source: Source

    def origin(self, record: Record, site: Site) -> Origin | None:
        """Cached inputs of a call: of a long text they need the calls before it."""
        return cache.call_origin(*self, record, site)


@dataclass(frozen=True, eq=False, kw_only=True)
class StepsView(ViewContext):
    """View context of the page Steps.

    Attributes:
        query: the chosen query.
        key: the chosen key; None for none.
    """

    query: int
    key: int | None

    @classmethod
    def of(cls, context: ViewContext, **chosen: Any) -> Self:
        """The view context with further choices."""
        return cls(**{field.name: getattr(context, field.name) for field in fields(ViewContext)}, **chosen)

    @property
    def origins(self) -> CallInputs:
        return CallInputs(self.source)

    @cached_property
    def row(self) -> steps.Row:
        """The query in full."""
        place = self.record, self.site, self.head, self.query
        return steps.row(*place, sentence=self.sentence, keys=self.windows["keys"])

    @property
    def looked_at(self) -> int:
        """The chosen key, else the one with the largest weight."""
        row = self.row
        return self.key if self.key in row.keys else row.keys[int(row.weights.nan_to_num().argmax())]

    @property
    def selected(self) -> tuple[int, int]:
        """The query and the key whose numbers are shown; -1 for no key."""
        if not self.source.read_only:
            return self.query, self.looked_at
        return self.query, -1 if self.key is None else self.key

    @property
    def drawn(self) -> dict[str, Any]:
        return {"sentence": self.sentence, "selected": self.selected, "rev": look.rev("cell")} | self.styled

    @property
    def windows(self) -> dict[str, slice]:
        """Which queries and keys are shown: all up to 64, else those around the chosen ones."""
        queries, keys = map(len, self.tokens)
        around = self.query if self.key is None else self.key
        if self.key is None and self.site.kind == "cross":
            around = 0
        return {"queries": window(self.query, queries), "keys": window(around, keys)}


def window(around: int, size: int) -> slice:
    """At most 64 neighbors, with one of them in the middle where there is room on both sides."""
    first = max(0, min(around - steps.MOST_TOKENS // 2, size - steps.MOST_TOKENS))
    return slice(first, min(size, first + steps.MOST_TOKENS))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], **style) -> None:
    """A small table in a frame that scrolls; see `attnviz.ui.text.table_html`."""
    cut = [[visible_text(cell, LONGEST).replace("␣", " ") for cell in row] for row in (head, *rows)]
    text.table(cut[1:], cut[0], css="facts steps", named=words.TABLE_OF.format(columns=", ".join(cut[0])), **style)
