"""A figure is a frozen value: its fields, the facts about it, and its drawing; words and files follow from these."""

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
from attnviz.charts.legends import written_out
from attnviz.charts.marks import LOADED, Form, Table, records
from attnviz.charts.theme import CAUTIONS, Style
from attnviz.core.amounts import digits
from attnviz.core.display import file_stem, in_title, visible_text, without_surrogates
from attnviz.core.edits import Edits, Site
from attnviz.core.record import ALL, Record

READ_AS = "Row: the word {}; column: the word looked at."
READS, PREDICTS = "that looks", "just read, where the model predicts the next one"
"""How captions of maps say to read them, and the token of a row, also where a model predicts the next word."""

MOST_NAMED, LONGEST_TEXT = 3, 160
"""Rows of a table named in words, and code points of a text under a title, at most."""


class Chart(alt.TopLevelMixin, alt.TopLevelSpec):
    """A whole Vega-Lite specification as a chart of Altair's, such as notebooks show."""


class Views(NamedTuple):
    """Drawing of several views: its form, its tables, and the grid that is read under the pointer, if one is large."""

    form: Form
    data: dict[str, Table]
    read: Grid | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class FigureFacts:
    """Title, numbers and words of a picture. A function stands for what takes time; it is called when it is needed.

    Attributes:
        table: exact numbers behind the picture.
        words: the picture in words with its main numbers; None for the rows whose numbers are largest.
        arrays: numbers as arrays; None for the columns of the table.
        what: title without the model's name, which follows it; "" where `heading` is given.
        heading: title of the picture.
        title: the same with where the weights come from and what was changed; "" if `record` says these.
        subject: parts of a file's name between the model's name and the text.
        name: stem of a file; "" if it follows from these.
        record: run that is drawn.
    """

    table: pd.DataFrame | Callable[[], pd.DataFrame]
    words: str | Callable[[], str] | None = None
    arrays: dict[str, np.ndarray] | Callable[[], dict[str, np.ndarray]] | None = None
    what: str = ""
    heading: str = ""
    title: str = ""
    subject: Sequence[object] = ()
    name: str = ""
    record: Record | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Figure(Style, ABC):
    """One picture and everything that goes with it; its fields say what it shows, and how.

    Attributes:
        cost: cost of going once through what it shows, from `sources.estimate`; None if nobody knows it.
    """

    cost: Any = None

    __eq__, __hash__ = object.__eq__, object.__hash__
    is_map = False
    """Whether rows are words that look, and columns those that are looked at."""

    sentence, view = 0, View()
    """Sentence of the batch and view of a figure without such fields."""

    @abstractmethod
    def facts(self) -> FigureFacts:
        """Title, numbers and words."""

    @abstractmethod
    def draw(self) -> Grid | Bars | Views:
        """The form with its tables."""

    @property
    def _facts(self) -> FigureFacts:
        """The facts, made anew: kept in the figure, they would keep it until the next garbage collection."""
        return self.facts()

    @cached_property
    def drawing(self) -> Grid | Bars | Views:
        """The form with its tables, drawn once."""
        return self.draw()

    @property
    def form(self) -> Form:
        """The chart without its tables: the same for every figure of one form."""
        return self.drawing.form

    @property
    def data(self) -> dict[str, Table]:
        return self.drawing.data

    @cached_property
    def name(self) -> str:
        """A file's stem that says what is shown; ASCII, safe in every file system, at most 80 characters."""
        facts = self._facts
        return facts.name or stem(facts.record, *facts.subject, sentence=self.sentence, view=self.view)

    @cached_property
    def title(self) -> str:
        """One line, with where the weights come from and what was changed."""
        facts = self._facts
        return facts.title or " · ".join(filter(None, [self._heading, *subtitles(facts.record)]))

    @property
    def _heading(self) -> str:
        """Title of the picture: what it shows, and of which model; a page names the model's owner elsewhere."""
        facts = self._facts
        if facts.heading:
            return facts.heading
        source = facts.record.source
        return f"{facts.what} · {in_title((self.on_screen and source.rpartition('/')[2]) or source)}"

    def _above(self, *lines: str, beside_map: bool = False) -> dict[str, Any]:
        """Title, lines and style of a chart; the last lines say where the weights come from.

        Args:
            beside_map: whether a page shows it beside a map, which has these last lines.
        """
        notes = [] if beside_map and self.on_screen else subtitles(self._facts.record, self)
        return {"title": self._heading, "lines": [*lines, *notes], "style": self.style}

    @cached_property
    def description(self) -> str:
        """The picture in words with its main numbers, for those who cannot see it."""
        return _value(self._facts.words) or f"{self.title}. {largest(self.table)}"

    @cached_property
    def table(self) -> pd.DataFrame:
        """The exact numbers behind the picture."""
        return _value(self._facts.table)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The same as arrays: the columns of numbers and the tokens, or what the figure gives."""
        if arrays := _value(self._facts.arrays):
            return arrays
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
        """The same as it stands on a page."""
        return replace(self, on_screen=True)

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

    @property
    def style(self) -> Style:
        """How it is drawn, alone: a grid that held its figure would keep both until the next garbage collection."""
        return Style(**{field.name: getattr(self, field.name) for field in fields(Style)})

    @property
    def caption(self) -> str:
        """A text under the picture: what is drawn, the model, what was changed, and the text that it read."""
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
    """A figure of one attention call through a view.

    Attributes:
        sentence: number of the sentence in the batch.
        view: what is hidden, and what is merged.
        rows, columns: part that is seen; None for all.

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
        window = {"rows": self.rows or ALL, "columns": self.columns or ALL}
        return views.see(self.record, self.site, sentence=self.sentence, view=self.view, **window)


def _value(fact: Any) -> Any:
    """A fact, or the result of the function that stands for it."""
    return fact() if callable(fact) else fact


def text_array(texts: Sequence[str]) -> np.ndarray:
    """Texts as NumPy can hold them: it takes a null at the end of one for padding."""
    return np.array([without_surrogates(text).replace("\0", "␀") for text in texts], dtype=np.str_)


def number_arrays(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """The columns of numbers of a table."""
    numbers = table.select_dtypes("number")
    return {name: column.to_numpy(dtype=float, na_value=float("nan")) for name, column in numbers.items()}


def largest(table: pd.DataFrame) -> str:
    """The rows whose last number is largest, as a sentence."""
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
    """The name of a figure of a record: its source, what is shown, its text, and what was changed."""
    return file_stem(record.source, *what, record.sentences[sentence].text, end=edited(record.edits, view))


def edited(edits: Edits, view: View = View()) -> str:
    """Edits and view in short, for a file's name: "causal off 0.2 temperature 0.5"."""
    places = ((site.layer if site.kind == "encoder" else site, head) for site, head in sorted(edits.heads_off))
    parts = [] if edits.own_mask else ["no own mask"]
    parts += [] if edits.mask is None else [str(edits.mask)]
    parts += ["off " + " ".join(f"{place}.{head}" for place, head in places)] if edits.heads_off else []
    parts += [f"take {str(take).removesuffix(f'-{take.text}')}" for take in edits.taken]
    parts += [f"{what.removesuffix(' rows')} {value}" for what, value in edits.phrases()]
    return " ".join([*parts, *filter(None, [view.in_short()])])


def subtitles(record: Record | None, style: Style = Style(), sentence: int | None = None) -> list[str]:
    """Origin of the weights, and edits; a screen says that elsewhere. Empty for a figure of no run.

    Args:
        sentence: number of the text that is named, too, where nothing else of the picture does.
    """
    if record is None:
        return []
    changed = () if style.on_screen else record.edits.in_words()
    precision = f"kept as {record.precision}" if record.precision else ""
    text = "" if sentence is None or style.on_screen else record.sentences[sentence].text
    read = f"text: {text_in_line(text)}" if text else ""
    return [CAUTIONS.get(record.provenance, ""), precision, f"changed: {', '.join(changed)}" if changed else "", read]


def text_in_line(text: str) -> str:
    """The beginning of a text in quotes, for a line under a title."""
    return f"“{visible_text(text, LONGEST_TEXT).replace('␣', ' ')}”"
