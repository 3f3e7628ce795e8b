"""Base classes of figures: frozen values with fields, facts and a drawing, from which words and files follow."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import altair as alt
import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis import views
from attnviz.analysis.sentences import quoted, quoted_token
from attnviz.analysis.views import AttentionView, View
from attnviz.charts import readout
from attnviz.charts.bars import Bars
from attnviz.charts.grid import Grid
from attnviz.charts.marks import LOADED, Form, Table, records, written_out
from attnviz.charts.theme import CAUTIONS, Style
from attnviz.core.amounts import digits
from attnviz.core.display import file_stem, in_title, visible_text, without_surrogates
from attnviz.core.edits import Edits, Site
from attnviz.core.record import ALL, Record

READ_AS = "Row: the word {}; column: the word looked at."
READS, PREDICTS = "that looks", "just read, where the model predicts the next one"
"""Sentence of a caption on how to read a map, and its words for the token of a row, without and with a prediction."""

MOST_NAMED, LONGEST_TEXT = 3, 160
"""Most rows of a table described in words, and most code points of a text under a title."""


class Chart(alt.TopLevelMixin, alt.TopLevelSpec):
    """An Altair chart with a complete Vega-Lite specification, which notebooks show."""


class Views(NamedTuple):
    """Drawing of several views: the chart, its tables, and the large grid with a readout under the pointer, if any."""

    form: Form
    data: dict[str, Table]
    read: Grid | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class FigureFacts:
    """Title, numbers and words of a picture. A fact that takes time is a function, which is called when needed.

    Attributes:
        table: exact numbers behind the picture.
        words: description of the picture with its main numbers; None describes the rows with the largest numbers.
        arrays: numbers as arrays; None for the columns of the table.
        what: title without the model's name, which is appended; "" where `heading` is given.
        heading: title of the picture.
        notes: lines that follow in the title of one line, before the origin of the weights and the edits.
        subject: parts of the file name between the model's name and the text.
        name: stem of the file name; "" to derive it from the record of the figure and `subject`.
    """

    table: pd.DataFrame | Callable[[], pd.DataFrame]
    words: str | Callable[[], str] | None = None
    arrays: dict[str, np.ndarray] | Callable[[], dict[str, np.ndarray]] | None = None
    what: str = ""
    heading: str = ""
    notes: Sequence[str] = ()
    subject: Sequence[object] = ()
    name: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Figure(Style, ABC):
    """Base class of figures: a picture with title, description and numbers; the fields set its content and style.

    Attributes:
        cost: cost of one forward pass for this figure, from `sources.estimate`; None if unknown.
    """

    cost: Any = None

    __eq__, __hash__ = object.__eq__, object.__hash__
    is_map = False
    """Whether rows are queries and columns are keys."""

    sentence, view = 0, View()
    """Defaults for figures that have no sentence and no view among their fields."""

    @abstractmethod
    def facts(self) -> FigureFacts:
        """Return title, numbers and words of the picture."""

    @abstractmethod
    def draw(self) -> Grid | Bars | Views:
        """Return the chart with its tables."""

    @property
    def _facts(self) -> FigureFacts:
        """Facts of the figure, recomputed: a cached copy would keep the figure alive until a garbage collection."""
        return self.facts()

    @cached_property
    def drawing(self) -> Grid | Bars | Views:
        """Chart with its tables, cached."""
        return self.draw()

    @property
    def form(self) -> Form:
        """Chart without its tables, identical for all figures of the same layout."""
        return self.drawing.form

    @property
    def data(self) -> dict[str, Table]:
        return self.drawing.data

    @cached_property
    def name(self) -> str:
        """Stem of the file name: ASCII, safe in every file system, at most 80 characters."""
        facts = self._facts
        return facts.name or stem(self._record, *facts.subject, sentence=self.sentence, view=self.view)

    @cached_property
    def title(self) -> str:
        """Title in one line, with the origin of the weights and the edits."""
        return " · ".join(filter(None, [self._heading, *self._facts.notes, *subtitles(self._record)]))

    @property
    def _record(self) -> Record | None:
        """Run that is drawn, if the figure is of a run."""
        return getattr(self, "record", None)

    @property
    def _heading(self) -> str:
        """Title of the picture with the name of the model; on a page without the model's owner."""
        facts = self._facts
        if facts.heading:
            return facts.heading
        source = self._record.source
        return f"{facts.what} · {in_title((self.on_screen and source.rpartition('/')[2]) or source)}"

    def _header(self, *lines: str, beside_map: bool = False) -> dict[str, Any]:
        """Return title, lines below the title, and style of a chart; the last lines give the origin of the weights.

        Args:
            beside_map: whether a page shows the chart beside a map, which already has the last lines.
        """
        notes = [] if beside_map and self.on_screen else subtitles(self._record, self)
        return {"title": self._heading, "lines": [*lines, *notes], "style": self.style}

    @cached_property
    def description(self) -> str:
        """Description of the picture with its main numbers, for people who cannot see it."""
        return _value(self._facts.words) or f"{self.title}. {largest(self.table)}"

    @cached_property
    def table(self) -> pd.DataFrame:
        """Exact numbers of the picture."""
        return _value(self._facts.table)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays to export: those of the facts, or else the numeric columns of the table and its tokens."""
        if arrays := _value(self._facts.arrays):
            return arrays
        tokens = {"tokens": text_array(self.table["token"])} if "token" in self.table else {}
        return number_arrays(self.table) | tokens

    @cached_property
    def chart(self) -> alt.TopLevelMixin:
        """Altair chart with its data, for files and notebooks."""
        spec = written_out(self.form.spec, self.data)  # Altair refuses an expression as a subtitle
        return Chart(**spec, datasets={name: records(table) for name, table in self.data.items()})

    @cached_property
    def screen(self) -> tuple[dict[str, Any], Table | None]:
        """Specification for Streamlit and, for a large map, the table to pass with it under the name "source".

        Full Vega if a large map needs a readout under the pointer; otherwise Vega-Lite, which contains its tables.
        """
        drawing = self.on_page.drawing
        if (grid := drawing.read) is not None:
            return readout.screen(grid, drawing.form, drawing.data)
        spec = drawing.form.spec | {"datasets": drawing.data}
        if drawing.form.draws_images:
            spec["config"] = spec["config"] | {"image": {"image": {"signal": LOADED}}}
            spec["usermeta"] = {"embedOptions": {"renderer": "svg"}}  # Streamlit draws 2,000 marks on a canvas
        return spec, None

    @cached_property
    def on_page(self) -> Self:
        """This figure in the layout for a page."""
        return replace(self, on_screen=True)

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments that recreate the figure: positional values, and keyword values that differ from their defaults."""
        first, named = [], {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.default is MISSING and field.default_factory is MISSING and not field.kw_only:
                first.append(value)
            elif field.default is MISSING or np.any(value != field.default):  # arrays compare element by element
                named[field.name] = value
        return tuple(first), named

    @property
    def style(self) -> Style:
        """Copy of the style fields: a grid that held its figure would keep both until the next garbage collection."""
        return Style(**{field.name: getattr(self, field.name) for field in fields(Style)})

    @property
    def caption(self) -> str:
        """Caption of the picture: title, model, edits and input text."""
        values = [getattr(self, field.name) for field in fields(self)]
        runs, sentence = [value for value in values if isinstance(value, Record)], self.sentence
        original = ["original model"] if runs and "changed: " not in self.title else []
        text = f"{', '.join([*self.title.split(' · '), *original])}."
        if self.is_map:
            site = next((value for value in values if isinstance(value, Site)), None)
            predicts = site and not analysis.fills_in(runs[0]) and runs[0].predicted(site, sentence=sentence)
            text += f" {READ_AS.format(PREDICTS if predicts else READS)}"
        texts = dict.fromkeys(run.sentences[sentence].text for run in runs if sentence < len(run.sentences))
        read = ", ".join(f"“{without_surrogates(quote)}”" for quote in texts)
        return f"{text} Text: {read}." if read else text


@dataclass(frozen=True, eq=False)
class SiteFigure(Figure):
    """Figure of one attention call, seen through a view.

    Attributes:
        sentence: number of the sentence in the batch.
        view: tokens that are hidden, and tokens that are merged.
        rows, columns: queries and keys to show; None for all.

    Raises:
        InputError: if the view leaves no query or no key.
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
        window = {"rows": self.rows or ALL, "columns": self.columns or ALL}
        return views.see(self.record, self.site, sentence=self.sentence, view=self.view, **window)


def _value(fact: Any) -> Any:
    """Return a fact; a function is called first."""
    return fact() if callable(fact) else fact


def text_array(texts: Sequence[str]) -> np.ndarray:
    """Convert texts to a NumPy array without nulls, which NumPy would strip from the end as padding."""
    return np.array([without_surrogates(text).replace("\0", "␀") for text in texts], dtype=np.str_)


def number_arrays(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """Convert the numeric columns of a table to arrays."""
    numbers = table.select_dtypes("number")
    return {name: column.to_numpy(dtype=float, na_value=float("nan")) for name, column in numbers.items()}


def largest(table: pd.DataFrame) -> str:
    """Describe the rows with the largest numbers in the last numeric column, as a sentence."""
    column = [*table.select_dtypes("number")][-1]
    rows = table.dropna(subset=column).sort_values(column, key=abs, ascending=False, kind="stable")[:MOST_NAMED]
    named = []
    for row in rows.to_dict("records"):
        number = digits(row.pop(column))
        tokens = {"query": "query_token", "key": "key_token", "position": "token"}
        texts = {name: row.pop(token) for name, token in tokens.items() if {name, token} <= {*row}}
        is_head = {"kind", "layer", "head"} <= {*row}
        places = [Site(row.pop("kind"), row.pop("layer")).head(row.pop("head"))] if is_head else []
        for name, value in row.items():
            text = quoted(value) if isinstance(value, str) else value
            text = quoted_token(texts[name], value) if name in texts else text
            places.append(f"{name.replace('_', ' ')} {text}")
        named.append(f"{number} ({', '.join(places)})")
    return f"Largest {column.replace('_', ' ')}: {', '.join(named)}." if named else "It has no numbers."


def stem(record: Record, *what: object, sentence: int = 0, view: View = View()) -> str:
    """Build the stem of a file name from the model, the content of the figure, the input text and the edits."""
    return file_stem(record.source, *what, record.sentences[sentence].text, end=edited(record.edits, view))


def edited(edits: Edits, view: View = View()) -> str:
    """Summarize edits and view for a file name: "causal off 0.2 temperature 0.5"."""
    places = ((site.layer if site.kind == "encoder" else site, head) for site, head in sorted(edits.heads_off))
    parts = [] if edits.own_mask else ["no own mask"]
    parts += [] if edits.mask is None else [str(edits.mask)]
    parts += ["off " + " ".join(f"{place}.{head}" for place, head in places)] if edits.heads_off else []
    parts += [f"take {str(take).removesuffix(f'-{take.text}')}" for take in edits.taken]
    parts += [f"{what.removesuffix(' rows')} {value}" for what, value in edits.phrases()]
    return " ".join([*parts, *filter(None, [view.in_short()])])


def subtitles(record: Record | None, style: Style = Style(), sentence: int | None = None) -> list[str]:
    """Return lines with the origin of the weights and, in files, the edits; no lines without a record.

    Args:
        sentence: number of the sentence whose text gets a line, too; None for no such line.
    """
    if record is None:
        return []
    changed = () if style.on_screen else record.edits.in_words()
    precision = f"kept as {record.precision}" if record.precision else ""
    text = "" if sentence is None or style.on_screen else record.sentences[sentence].text
    read = f"text: {text_in_line(text)}" if text else ""
    return [CAUTIONS.get(record.provenance, ""), precision, f"changed: {', '.join(changed)}" if changed else "", read]


def text_in_line(text: str) -> str:
    """Quote the beginning of a text, for a line under a title."""
    return f"“{visible_text(text, LONGEST_TEXT).replace('␣', ' ')}”"
