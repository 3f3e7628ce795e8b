"""Part of the way from one text's prediction to another's that each head carries alone."""

from dataclasses import dataclass

import pandas as pd

from attnviz.core.amounts import in_cell
from attnviz.core.display import visible_text
from attnviz.core.edits import Site


@dataclass(frozen=True, eq=False)
class Carried:
    """Logit difference of two words while each head alone takes a part from another text.

    Attributes:
        texts: A, and B, from which is taken.
        part: what is taken, of `core.edits.PARTS`.
        position: after which the words are predicted, or at which a blank is.
        words: the word of A and that of B; the difference is the logit of the first minus that of the second.
        moved: both texts predict the same word: the words are those whose logits fall and rise most from A to B.
        before, other: the difference in A and in B.
        table: a row per head: site, kind, layer, head, difference and carried, (difference - before) / (other -
            before): 0 is A, 1 is B; it may lie beyond both.
    """

    texts: tuple[str, str]
    part: str
    position: int
    words: tuple[str, str]
    moved: bool
    before: float
    other: float
    table: pd.DataFrame

    @property
    def strongest(self) -> tuple[Site, int]:
        """The head that carries most."""
        row = self.table.loc[self.table["carried"].idxmax()]
        return Site(row["kind"], int(row["layer"])), int(row["head"])

    def in_words(self) -> str:
        """The two words, their differences, and the head that carries most."""
        first, second = (f"“{visible_text(word)}”" for word in self.words)
        (site, head), most = self.strongest, self.table["carried"].max()
        why = " A and B predict the same word, so these are the two that move most." if self.moved else ""
        return (
            f"Logit of {first} minus logit of {second} after position {self.position}: {in_cell(self.before)} in "
            f"A and {in_cell(self.other)} in B.{why} {site.head(head).capitalize()} carries most of the way from A "
            f"to B by its {self.part} alone: {most:.0%}."
        )
