"""What every tab of the mask lab is given."""

from dataclasses import dataclass

from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Mask
from attnviz.core.record import Record
from attnviz.core.stack import Stack
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.base import Source
from attnviz.ui.shared import cache


@dataclass(frozen=True, eq=False)
class Lab:
    """What is looked at in the lab.

    Attributes:
        source: the model.
        lines: the sentences.
        sentence: which of them, counted from 0.
        site: the attention call.
        head: by number, or the name of an aggregation.
        stack: the rules as a person composed them, also those that are off.
        mask: who may attend to whom at the site: the model's own mask and the rules together; Full if there is none. Of
            a model that is read-only, what the rules would be.
        edits: everything that is changed.
        dark: the color scheme.
    """

    source: Source
    lines: tuple[str, ...]
    sentence: int
    site: Site
    head: int | str
    stack: Stack
    mask: Mask
    edits: Edits
    dark: bool

    @property
    def record(self) -> Record:
        """The run with the edits, from the cache: what a session holds of a page holds no record."""
        return cache.record(self.source, self.lines, self.edits)

    @property
    def before(self) -> Record:
        """The run without any."""
        return cache.record(self.source, self.lines)

    @property
    def tokens(self) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """The tokens of the queries and of the keys."""
        return self.record.tokens(self.site, sentence=self.sentence)

    @property
    def seen(self) -> tuple[Sentence, ...]:
        """The sentences whose tokens are the keys."""
        return self.record.read if self.site.kind == "decoder" else self.record.sentences
