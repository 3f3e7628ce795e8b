"""Base classes of figures: a frozen value with its tables and its form, from which its words and files follow."""

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, MISSING, dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import altair as alt
import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis import views
from attnviz.analysis.views import AttentionView, View
from attnviz.charts import readout
from attnviz.charts.bars import Bars
from attnviz.charts.grid import Grid
from attnviz.charts.marks import LOADED, Form, Table, records
from attnviz.charts.mosaic import Mosaic
from attnviz.charts.style import Style
from attnviz.charts.texts import written_out
from attnviz.core.display import in_title, without_surrogates
from attnviz.core.edits import Site
from attnviz.core.record import ALL, Record
from attnviz.figures.figure import largest, number_arrays, stem, subtitles, text_array, titled

READ_AS = "Row: the word {}; column: the word looked at."
"""How captions of maps say to read them."""

READS, PREDICTS = "that looks", "just read, where the model predicts the next one"
"""Words for the token of a row, and for it where a model predicts the next word."""


class Chart(alt.TopLevelMixin, alt.TopLevelSpec):
    """A whole Vega-Lite specification as a chart of Altair's, such as notebooks show."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Figure(Style, ABC):
    """One picture and everything that goes with it; its fields say what it shows, and how.

    A figure of a `record` says `_what` it shows, what names its file, `_subject`, its table, its data and its form; the
    rest follows.

    Attributes:
        cost: of going once through what it shows, as `sources.estimate` gives it, where somebody knows it.
    """

    cost: Any = None

    __eq__, __hash__ = object.__eq__, object.__hash__
    is_map = False
    """Whether rows are words that look, and columns those that are looked at."""

    sentence, view = 0, View()
    """Sentence of the batch and view of a figure without such fields."""

    @cached_property
    def name(self) -> str:
        """A file's stem that says what is shown; ASCII, safe in every file system, at most 80 characters."""
        return stem(self.record, *self._subject, sentence=self.sentence, view=self.view)

    @cached_property
    def title(self) -> str:
        """One line, with where the weights come from and what was changed."""
        return titled(self._heading, self.record)

    @property
    def _heading(self) -> str:
        """Title of the picture: what it shows, and of which model; a page names the model's owner elsewhere."""
        source = self.record.source
        return f"{self._what} · {in_title((self.on_screen and source.rpartition('/')[2]) or source)}"

    def _above(self, *lines: str) -> dict[str, Any]:
        """Title, lines and style of a chart; the last lines say where the weights come from."""
        notes = [*lines, *subtitles(self.record, self)]
        return {"title": self._heading, "lines": notes, "style": self.style}

    @property
    def _drawing(self) -> Any:
        """Grid, bars or thumbnails: what has the tables and the form of a figure that draws nothing else."""
        raise NotImplementedError

    @property
    def data(self) -> dict[str, Table]:
        """Tables of the chart, by name."""
        return self._drawing.data

    @property
    def form(self) -> Form:
        """The chart without its tables: the same for every figure of one form."""
        return self._drawing.form

    @cached_property
    def description(self) -> str:
        """The picture in words with its main numbers, for those who cannot see it."""
        return f"{self.title}. {largest(self.table)}"

    @cached_property
    @abstractmethod
    def table(self) -> pd.DataFrame:
        """The exact numbers behind the picture."""

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The same as arrays: the columns of numbers, and the tokens."""
        tokens = {"tokens": text_array(self.table["token"])} if "token" in self.table else {}
        return number_arrays(self.table) | tokens

    @cached_property
    def chart(self) -> alt.TopLevelMixin:
        """Vega-Lite with its data, for files and notebooks."""
        spec = written_out(self.form.spec, self.data)  # Altair refuses an expression as a subtitle
        return Chart(**spec, datasets={name: records(table) for name, table in self.data.items()})

    @cached_property
    def screen(self) -> tuple[dict[str, Any], Table | None]:
        """A specification for Streamlit, constant for one form, and the table named "source" beside it, if it has one.

        Full Vega where a large map needs a readout under the pointer, else Vega-Lite that holds its tables.
        """
        return self.on_page._screen()

    @cached_property
    def on_page(self) -> Self:
        """The same as it stands on a page."""
        return replace(self, on_screen=True)

    @property
    def style(self) -> Style:
        """How it is drawn, alone: a grid that held its figure would keep both until the next garbage collection."""
        return Style(**{field.name: getattr(self, field.name) for field in fields(Style)})

    @property
    def seconds(self) -> float:
        """Seconds that going once through what it shows takes here, about; 0 where nobody knows."""
        return self.cost.seconds if self.cost else 0.0

    def _screen(self) -> tuple[dict[str, Any], Table | None]:
        spec = self.form.spec | {"datasets": self.data}
        if self.form.draws_images:
            spec["config"] = spec["config"] | {"image": {"image": {"signal": LOADED}}}
            spec["usermeta"] = {"embedOptions": {"renderer": "svg"}}  # Streamlit draws 2,000 marks on a canvas
        return spec, None

    @property
    def caption(self) -> str:
        """A text under the picture: what is drawn, the model, what was changed, and the text that it read."""
        values = [getattr(self, field.name) for field in fields(self)]
        records, sentence = [value for value in values if isinstance(value, Record)], getattr(self, "sentence", 0)
        texts = dict.fromkeys(record.sentences[sentence].text for record in records if sentence < len(record.sentences))
        parts = self.title.split(" · ")
        if records and "changed: " not in self.title:
            parts.append("original model")
        text = f"{', '.join(parts)}."
        if self.is_map:
            site = next((value for value in values if isinstance(value, Site)), None)
            predicts = site and not analysis.fills_in(records[0]) and records[0].predicted(site, sentence=sentence)
            text += f" {READ_AS.format(PREDICTS if predicts else READS)}"
        read = ", ".join(f"“{without_surrogates(quote)}”" for quote in texts)
        return f"{text} Text: {read}." if read else text

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments that make it again: positional values, and keyword values that differ from their defaults."""
        first, named = [], {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.default is MISSING and field.default_factory is MISSING and not field.kw_only:
                first.append(value)
            elif field.default is MISSING or np.any(value != field.default):  # of arrays, each number is compared
                named[field.name] = value
        return tuple(first), named


@dataclass(frozen=True, eq=False)
class SiteFigure(Figure):
    """A figure of one attention call through a view.

    Attributes:
        sentence: which of the batch.
        view: what is hidden, and what is merged.
        rows, columns: the part that is seen; None for all.

    Raises:
        InputError: if the view leaves nothing to see.
    """

    record: Record
    site: Site
    _: KW_ONLY
    sentence: int = 0
    view: View = View()
    rows: slice | None = None
    columns: slice | None = None

    def __post_init__(self):
        self.attention_view  # noqa: B018 (a view that leaves nothing is refused at once)

    @cached_property
    def attention_view(self) -> AttentionView:
        """The weights through the view."""
        window = {"rows": self.rows or ALL, "columns": self.columns or ALL}
        return views.see(self.record, self.site, sentence=self.sentence, view=self.view, **window)


class GridFigure(Figure):
    """A figure that is one grid of cells."""

    @cached_property
    @abstractmethod
    def grid(self) -> Grid:
        """The cells with their labels."""

    @property
    def _drawing(self) -> Grid:
        return self.grid

    def _screen(self) -> tuple[dict[str, Any], Table | None]:
        return super()._screen() if self.grid.is_rectangles else readout.screen(self.grid)


class BarFigure(Figure):
    """A figure of names with bars and texts beside them."""

    @cached_property
    @abstractmethod
    def bars(self) -> Bars:
        """The names with what stands beside them."""

    @property
    def _drawing(self) -> Bars:
        return self.bars


class MosaicFigure(Figure):
    """A figure of many heads, each a thumbnail."""

    is_map = True

    @cached_property
    @abstractmethod
    def mosaic(self) -> Mosaic:
        """The thumbnails at their places."""

    @property
    def _drawing(self) -> Mosaic:
        return self.mosaic
