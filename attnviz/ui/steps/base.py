"""What every part of the page Steps is given."""

from dataclasses import dataclass

from attnviz.core.edits import Edits, Site
from attnviz.core.record import Record
from attnviz.core.tokens import Token
from attnviz.sources.base import Source
from attnviz.ui.shared import cache
from attnviz.walk import MOST_TOKENS, Knobs


@dataclass(frozen=True, eq=False)
class Walk:
    """What is looked at.

    Attributes:
        source: the model.
        lines: the sentences.
        sentence: which of them, counted from 0.
        site, head: the attention call.
        edits: everything that is changed.
        query: the chosen query.
        key: the chosen key; None for none.
        knobs: what is done in the shown call alone.
        dark: the color scheme.
    """

    source: Source
    lines: tuple[str, ...]
    sentence: int
    site: Site
    head: int
    edits: Edits
    query: int
    key: int | None
    knobs: Knobs
    dark: bool

    @property
    def record(self) -> Record:
        """The run with the edits, from the cache: what a session holds of a page holds no record."""
        return cache.record(self.source, self.lines, self.edits)

    @property
    def tokens(self) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """The tokens of the queries and of the keys."""
        return self.record.tokens(self.site, sentence=self.sentence)

    @property
    def selected(self) -> tuple[int, int]:
        """The chosen query and key; -1 for no key."""
        return self.query, -1 if self.key is None else self.key

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
    first = max(0, min(around - MOST_TOKENS // 2, size - MOST_TOKENS))
    return slice(first, min(size, first + MOST_TOKENS))
