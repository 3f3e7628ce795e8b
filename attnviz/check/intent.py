"""Intended mask: a kind by its name, or a mask of this project."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from attnviz.check.grids import Grids
from attnviz.check.meant import check_fits
from attnviz.core.errors import InputError, did_you_mean, quoted
from attnviz.core.explain import MOST_DIFFERENT, Judgement, judge, under
from attnviz.core.masks import Full, Mask, Subsequent, mask_from_text
from attnviz.core.masks.base import KEYWORDS
from attnviz.core.masks.published import BY_NAME, PADDING, Kind
from attnviz.core.stack import Stack

MEANT = {name: kind.title for name, kind in BY_NAME.items()}
"""Titles of the kinds that can be meant, by name."""


ADDS = {
    "causal-window": "window",
    "window": "window",
    "prefix-lm": "prefix",
    "documents": "division into documents",
    "causal-documents": "division into documents",
    "sinks": "window",
    "longformer": "window",
    "causal-global": "window",
    "dilated": "window",
    "images": "stretch that is open both ways",
    "look-ahead": "look ahead",
    "block-causal": "division into blocks",
}
"""The rule that a kind has beside a plain mask, causal or none."""

MORE = 4
"""Times as many cells that differ as are left, for a mistake in the whole mask to be the better explanation."""


def kind_or_mask(text: str) -> str | Mask:
    """The kind of mask that a text names, or the mask that it writes.

    Raises:
        AttnvizError: names the kinds that there are, or what in the text cannot be read.
    """
    if text == TWO_WAY:
        return "full"
    if not isinstance(text, str) or (text.isidentifier() and text not in (*MEANT, *KEYWORDS)):
        near = did_you_mean(str(text), MEANT)
        raise InputError(
            f"No kind of mask is called {quoted(text)}.{near} There are: {', '.join(MEANT)}; or write a mask."
        )
    return text if text in MEANT else mask_from_text(text)


TWO_WAY = "two-way"
"""Another name of the kind "full": every token may look at every other."""


@dataclass(frozen=True)
class Intent:
    """Intended mask.

    Attributes:
        title: in words, with an article.
        kind: what the mask must be, with any numbers and any padding; None where it was said cell by cell.
        mask: what it must be, cell by cell.
    """

    title: str
    kind: Kind | None = None
    mask: Mask | None = None

    @classmethod
    def of(cls, meant: str | Mask | Stack) -> "Intent":
        """Intent of a kind's name, a mask, its text or a stack.

        Raises:
            AttnvizError: if there is no such kind, and it is not the text of a mask.
        """
        if isinstance(meant, Stack):
            meant = meant.mask() or Full()
        if not isinstance(meant, Mask):
            meant = kind_or_mask(meant)
        if isinstance(meant, Mask):
            return cls(f"the mask that is meant ({meant})", mask=meant)
        return cls(f"a {BY_NAME[meant].title}", BY_NAME[meant])

    @property
    def rules(self) -> Mask | None:
        """The mask that is meant, cell by cell but for padding; None for a kind with any numbers."""
        plain = {"full": Full(), "causal": Subsequent()}
        return self.mask if self.kind is None else plain.get(self.kind.name)

    def judge(self, grids: Grids, mistakes: Sequence[str]) -> Judgement:
        """Explanation of grids as this kind: with a mistake, if that leaves far fewer cells that differ.

        Nothing, if it is a kind with numbers of its own and none of them leave few cells.
        """
        few = MOST_DIFFERENT * sum(grid.numel() for grid in grids.each)
        as_it_is, *others = (under(grids.each, mistake, (self.kind,), differ=1.0) for mistake in ("", *mistakes))
        guilty = [judgement for judgement in others if judgement.differing <= few]
        better = [judgement for judgement in guilty if _is_mistake(judgement, as_it_is)]
        best = min(better, key=lambda judgement: (judgement.differing, judgement.bits), default=as_it_is)
        return Judgement() if self.kind.numbers and not best.mistake and best.differing > few else best

    def instead(self, grids: Grids, judgement: Judgement) -> Judgement:
        """The other known mask that grids are to the last cell, where that is the better explanation; else nothing."""
        if self.kind in PADDING or not self.kind.numbers:
            return Judgement()
        if judgement.is_certain and not judgement.mistake:
            return Judgement()
        other = judge(grids.each, mistakes=())
        opens = self.kind.is_causal and not all(explanation.kind.is_causal for explanation in other.explanations)
        is_better = not judgement.is_certain or (other.bits < judgement.bits and not opens)
        return other if other.is_certain and is_better else Judgement()

    def beyond(self, is_open: Tensor) -> Tensor:
        """Cells open in weights or scores, (B, H, Q, K), that the meant mask blocks; all if it cannot be that.

        Raises:
            InputError: if it is meant for fewer sentences.
        """
        batch, _, queries, keys = is_open.shape
        if self.mask is not None:
            check_fits(self.mask, batch)
            return is_open & ~self.mask.tensor(queries, keys)[:batch]
        grids = Grids.of(is_open.any(1, keepdim=True), apart=True)
        explanations = self.judge(grids, ()).explanations
        if not explanations:
            return is_open
        return is_open & ~grids.spread([explanation.grid() for explanation in explanations])


def _is_mistake(guilty: Judgement, as_it_is: Judgement) -> bool:
    """Whether a mistake explains more; a row that is shifted everything."""
    if guilty.mistake == "shifted":
        return guilty.is_exact and not as_it_is.is_exact
    return MORE * guilty.differing < as_it_is.differing
