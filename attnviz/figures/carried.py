"""The part of the way from one text to another that each head carries alone."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz.charts import heads
from attnviz.charts.picture import Form, Table
from attnviz.core.display import in_title
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures import head_cells
from attnviz.figures.base import Figure
from attnviz.figures.figure import LONGEST_TEXT, number_arrays, stem, subtitles, titled
from attnviz.metrics.carried import Carried
from attnviz.words import in_quotes

WAY = "part of the way from A to B"


@dataclass(frozen=True, eq=False)
class CarriedHeads(Figure):
    """A cell for the part of the way that each head carries, layers x heads: 0 is A, 1 is B.

    A click selects a head under "head" with the fields kind, layer, head and rev.

    Attributes:
        record: the run of A.
        carried: what `attnviz.patching.carried` measured.
        focused: the head that is framed, as (site, head).
    """

    record: Record
    carried: Carried

    @cached_property
    def name(self) -> str:
        return stem(self.record, f"{self.carried.part} from", self.carried.texts[1])

    @cached_property
    def title(self) -> str:
        return titled(self._heading, self.record)

    @property
    def _heading(self) -> str:
        model = "" if self.on_screen else f" · {in_title(self.record.source)}"
        return f"Carried by each head's {self.carried.part}{model}"

    @property
    def form(self) -> Form:
        table = self.carried.table
        columns = 1 + int(table["head"].max())
        return heads.cells(len(self._sites), columns, head_cells.cell_size(table), WAY, self.colors)

    @cached_property
    def data(self) -> dict[str, Table]:
        """Tables of the chart: meta, rows, columns and cells."""
        lines = [] if self.on_screen else [*self._texts, *subtitles(self.record, self)]
        return head_cells.cells(self.table, "carried", self._sites, self._heading, lines, self)

    @property
    def _texts(self) -> list[str]:
        """Both texts, and the number that is measured: a page says them beside the picture."""
        measured, texts = self.carried, zip("AB", self.carried.texts, strict=True)
        words = (in_quotes(word) for word in measured.words)
        return [
            *(f"{name}: {in_quotes(text[:LONGEST_TEXT])}" for name, text in texts),
            f"logit of {' − '.join(words)} after position {measured.position}",
        ]

    @property
    def _sites(self) -> list[Site]:
        return [*dict.fromkeys(Site(row.kind, row.layer) for row in self.carried.table.itertuples())]

    @cached_property
    def description(self) -> str:
        return self.carried.in_words()

    @cached_property
    def table(self) -> pd.DataFrame:
        return self.carried.table

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return number_arrays(self.table)
