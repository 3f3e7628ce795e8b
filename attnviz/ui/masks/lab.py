"""View context of the mask lab, and which tab is open."""

from dataclasses import dataclass

from attnviz.core.masks import Mask
from attnviz.core.stack import Stack
from attnviz.core.tokens import Sentence
from attnviz.ui.masks import words
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.shared.setting import choice

COMPOSE, WRONG, CONVENTIONS = words.TABS
TAB = choice("tab", words.TABS, COMPOSE, "tab", dict.fromkeys(words.FORMER_TABS, WRONG))

MODEL, MASK, WEIGHTS, FILE, PASTED = JUDGED = (
    words.OF_MODEL,
    words.OF_PAGE,
    words.OF_HEAD,
    words.OF_FILE,
    words.PASTED,
)
CHECKED = choice("checked", JUDGED)
"""The model, a part of it, or an array of one's own that the tab `WRONG` judges."""

WITH_WORDS = {"paired": True, "side": 360}
"""How a map is drawn that has words at its right: with its legend it is seen whole on a large screen."""

MOST_LAYERS = 8
"""Layers that are gone through at most."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Lab(ViewContext):
    """View context of the lab.

    Attributes:
        stack: the rules as a person composed them, also those that are off.
        mask: who may attend to whom at the site: the built-in mask and the rules together; Full if there is none. Of
            a model that is read-only, what the rules would be.
    """

    stack: Stack
    mask: Mask

    @property
    def lengths(self) -> tuple[int, int]:
        """How many queries and keys there are."""
        queries, keys = self.tokens
        return len(queries), len(keys)

    @property
    def depth(self) -> int:
        """How many layers of this kind the model has."""
        return sum(site.kind == self.site.kind for site in self.source.sites)

    @property
    def key_sentences(self) -> tuple[Sentence, ...]:
        """The sentences whose tokens are the keys."""
        return self.record.read if self.site.kind == "decoder" else self.record.sentences

    @property
    def masked(self) -> int:
        """The sentence of the mask: its only one, where it holds for every sentence."""
        return self.sentence if self.mask.batch_size else 0
