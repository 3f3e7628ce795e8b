"""Composition of heads: how much each later head reads of what each earlier one writes, by the weights alone."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz.charts.matrices import Matrices, NumberCells, limit_of
from attnviz.charts.picture import Form, Table
from attnviz.core.amounts import counted, digits
from attnviz.core.display import file_stem, in_title
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.figures.base import Figure
from attnviz.figures.figure import text_array
from attnviz.metrics.circuits import Circuits

READS = {"q": "queries", "k": "keys", "v": "values"}
"""Inputs of a later head, by the kind of composition."""

WIDE, LARGEST, SMALLEST = 520, 36, 3
"""Pixels of the map at most, and of the side of a cell."""

ROOM = 13, 30
"""Pixels that a label needs, down and across."""

NAMED = 3
"""Pairs named in words."""


@dataclass(frozen=True, eq=False)
class CompositionMap(Figure):
    """Composition scores: a row for each earlier head, a column for each later one.

    Attributes:
        kind: "q", "k" or "v".
        model: its name.

    Raises:
        InputError: if there is no such kind, or no two heads of which one is in an earlier layer.
    """

    circuits: Circuits
    kind: str = "k"
    _: KW_ONLY
    model: str = ""

    def __post_init__(self):
        self.circuits.matrix(self.kind)
        if not len(self.circuits.composition):
            raise InputError("All heads are of one layer, so none reads what another writes.")

    @cached_property
    def name(self) -> str:
        return file_stem(self.model, f"{self.kind}-composition")

    @cached_property
    def title(self) -> str:
        named = f" · {in_title(self.model)}" if self.model else ""
        return f"{self.kind.upper()}-composition{named}"

    @cached_property
    def table(self) -> pd.DataFrame:
        return self.circuits.composition

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        heads = text_array([site.brief(head) for site, head in self._heads])
        return {"composition": self.circuits.matrix(self.kind), "heads": heads}

    @cached_property
    def description(self) -> str:
        largest = self.table.dropna(subset=self.kind).nlargest(NAMED, self.kind)
        pairs = [
            f"{row.layer}.{row.head} to {row.later_layer}.{row.later_head}, {digits(getattr(row, self.kind))}"
            for row in largest.itertuples()
        ]
        return f"Largest {self.kind.upper()}-composition of {counted(len(self.table), 'pair')}: {'; '.join(pairs)}."

    @property
    def form(self) -> Form:
        return self._matrices.form

    @property
    def data(self) -> dict[str, Table]:
        return self._matrices.data

    @property
    def _heads(self) -> list[tuple[Site, int]]:
        rows = self.circuits.heads[["kind", "layer", "head"]].itertuples(index=False, name=None)
        return [(Site(kind, layer), head) for kind, layer, head in rows]

    @cached_property
    def _matrices(self) -> Matrices:
        heads, pairs = self._heads, self.circuits.composition
        rows = [i for i, (site, _) in enumerate(heads) if site.layer < pairs["later_layer"].max()]
        columns = [i for i, (site, _) in enumerate(heads) if site.layer > pairs["layer"].min()]
        values = np.nan_to_num(self.circuits.matrix(self.kind)[np.ix_(rows, columns)])
        side = float(np.clip(WIDE // max(values.shape), SMALLEST, LARGEST))
        a_layer = sum(site == heads[0][0] for site, _ in heads)
        strides = [1, *(a_layer * 2**power for power in range(12))]
        labels, names = (
            [[call(*heads[i]) for i in part] for part in (rows, columns)] for call in (Site.short, Site.brief)
        )
        cells = NumberCells(
            title="",
            axes=("earlier head", "later head"),
            rows=range(rows[0], rows[-1] + 1),
            columns=range(columns[0], columns[-1] + 1),
            values=values,
            labels=tuple(labels),
            names=tuple(names),
            cell=(side, side),
            every=tuple(next((n for n in strides if n * side >= room), strides[-1]) for room in ROOM),
            limit=limit_of(values),
            signed=False,
        )
        lines = [f"Rows: earlier heads that write. Columns: later heads whose {READS[self.kind]} read it."]
        return Matrices(title=self.title, lines=lines, matrices=[cells], style=self.style, caption="composition score")
