"""Base classes of figures: frozen values with fields, facts and a drawing, from which words and files follow."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cache, cached_property, wraps
from inspect import Parameter, signature
from typing import Any, Literal, NamedTuple, Self, TypeVar

import altair as alt
import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis import views
from attnviz.analysis.sentences import largest
from attnviz.analysis.views import AttentionView, View
from attnviz.charts.bars import Bars
from attnviz.charts.grid import Grid
from attnviz.charts.marks import Form, Table, fill_titles, records
from attnviz.charts.theme import CAUTIONS, Style
from attnviz.core.display import file_stem, in_title, visible_text, without_surrogates
from attnviz.core.edits import Edits, Site
from attnviz.core.record import ALL, Record

READ_AS = "Row: the word {}; column: the word looked at."
READS, PREDICTS = "that looks", "just read, where the model predicts the next one"
"""Sentence of a caption on how to read a map, and its phrase for the token of a row, without and with a prediction."""
F = TypeVar("F", bound="Figure")
LONGEST_TEXT = 160
"""Maximum number of code points of a text under a title."""
STYLES = {"cost", *(field.name for field in fields(Style))}
"""Arguments that every figure takes by name."""
signature_of = cache(signature)
"""Signature of a function or class, cached: every picture on a page needs that of its maker for its key."""


class Chart(alt.TopLevelMixin, alt.TopLevelSpec):
    """An Altair chart with a complete Vega-Lite specification, which notebooks show."""


class Views(NamedTuple):
    """Drawing of several views: the chart, its tables, and the grid whose readout follows the pointer, or None."""

    form: Form
    data: dict[str, Table]
    read: Grid | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class FigureFacts:
    """Title, numbers and words of a picture. A fact that takes time is a function, which is called when needed.

    Attributes:
        table: exact numbers behind the picture.
        words: description of the picture with its main numbers; None describes the rows with the largest numbers.
        remark: sentence at the end of the description if `words` is None.
        arrays: numbers as arrays; None for the columns of the table.
        what: title without the model's name, which is appended; "" where `heading` is given.
        heading: title of the picture.
        on_page: short title for a page that shows the context elsewhere; "" to use the same title as in files.
        notes: parts of the one-line title after the heading, before the origin of the weights and the edits.
        lines, more: lines under the title, on pages and in files, and further lines in files only.
        origin: whether the origin of the weights is named: "page" on pages and in files, "file" in files only, or
            "text" in files only, together with the input text.
        explains_rows: whether the caption explains that rows are queries and columns are keys.
        subject: parts of the file name between the model's name and the text.
        name: stem of the file name; "" to derive it from the record of the figure and `subject`.
    """

    table: pd.DataFrame | Callable[[], pd.DataFrame]
    words: str | Callable[[], str] | None = None
    remark: str = ""
    arrays: dict[str, np.ndarray] | Callable[[], dict[str, np.ndarray]] | None = None
    what: str = ""
    heading: str = ""
    on_page: str = ""
    notes: Sequence[str] = ()
    lines: Sequence[str] = ()
    more: Sequence[str] = ()
    origin: Literal["page", "file", "text"] = "page"
    explains_rows: bool = False
    subject: Sequence[object] = ()
    name: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Figure(Style):
    """Base class of figures: a picture with title, description and numbers; the fields set its content and style.

    Subclasses have `facts`, with title, numbers and words, and `draw()`, which returns the chart with its tables.

    Attributes:
        record: run that is drawn; None for a figure without a run.
        sentence: index of the sentence in the batch.
        view: tokens that are hidden, and tokens that are merged.
        cost: cost of one forward pass for this figure, from `sources.estimate`; None if unknown.
        call: function that made the figure and its arguments; None if the class itself was called.
    """

    record: Record | None = None
    sentence: int = 0
    view: View = View()
    cost: Any = None
    call: tuple[Callable, dict[str, Any]] | None = None

    __eq__, __hash__ = object.__eq__, object.__hash__

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
        facts = self.facts
        return facts.name or stem(self.record, *facts.subject, sentence=self.sentence, view=self.view)

    @cached_property
    def title(self) -> str:
        """Title in one line, with the origin of the weights and the edits."""
        return " · ".join(filter(None, [self.heading_text, *self.facts.notes, *subtitles(self.record)]))

    @property
    def heading_text(self) -> str:
        """Title of the picture with the name of the model; on a page, "owner/model" is shortened to "model"."""
        facts = self.facts
        if self.on_screen and facts.on_page:
            return facts.on_page
        if facts.heading or not facts.what:
            return facts.heading
        model = self.record.source
        if self.on_screen:
            model = model.rpartition("/")[2] or model
        return f"{facts.what} · {in_title(model)}"

    @property
    def above(self) -> dict[str, Any]:
        """Title, lines below the title, and style of a chart, as arguments of a `Grid` or `Bars`."""
        facts, origin = self.facts, []
        if facts.origin == "page" or not self.on_screen:
            origin = subtitles(self.record, self, self.sentence if facts.origin == "text" else None)
        lines = [*facts.lines, *([] if self.on_screen else facts.more), *origin]
        return {"title": self.heading_text, "lines": lines, "style": self.style}

    @cached_property
    def description(self) -> str:
        """Description of the picture with its main numbers, for people who cannot see it."""
        return value_of(self.facts.words) or f"{self.title}. {largest(self.table)} {self.facts.remark}".rstrip()

    @cached_property
    def table(self) -> pd.DataFrame:
        """Exact numbers of the picture."""
        return value_of(self.facts.table)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays to export: those of the facts, or else the numeric columns of the table and its tokens."""
        if arrays := value_of(self.facts.arrays):
            return arrays
        tokens = {"tokens": text_array(self.table["token"])} if "token" in self.table else {}
        return number_arrays(self.table) | tokens

    @cached_property
    def chart(self) -> alt.TopLevelMixin:
        """Altair chart with its data, for files and notebooks."""
        spec = fill_titles(self.form.spec, self.data)  # Altair refuses an expression as a subtitle
        return Chart(**spec, datasets={name: records(table) for name, table in self.data.items()})

    @cached_property
    def on_page(self) -> Self:
        """This figure in the layout for a page."""
        return replace(self, on_screen=True)

    @property
    def maker(self) -> Callable:
        """Function or class that made the figure."""
        return type(self) if self.call is None else self.call[0]

    @cached_property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments that recreate the figure: positional values, and keyword values that differ from their defaults."""
        values = {name: getattr(self, name) for name in STYLES}
        # `call` is (function, arguments) of a figure that a function made; the arguments of a class are its fields
        values |= vars(self) if self.call is None else self.call[1]
        defaults = {field.name: field.default for field in fields(Figure) if field.name in STYLES}
        for name, parameter in signature_of(self.maker).parameters.items():
            if name != "call" and parameter.kind is not Parameter.VAR_KEYWORD:
                defaults[name] = parameter.default
        positional, keywords = [], {}
        for name, default in defaults.items():
            value = values.get(name, default)
            if default is Parameter.empty:
                positional.append(value)
            elif value is not default and np.any(value != default):  # an array is compared element by element
                keywords[name] = value
        return tuple(positional), keywords

    @property
    def style(self) -> Style:
        """Copy of the style fields, for a grid: a grid and a figure that refer to each other are freed late."""
        return Style(**{field.name: getattr(self, field.name) for field in fields(Style)})

    @property
    def caption(self) -> str:
        """Caption of the picture: title, model, edits and input text."""
        positional, keywords = self.arguments
        values, sentence = [*positional, *keywords.values()], self.sentence
        runs = [value for value in values if isinstance(value, Record)]
        sites = [value for value in values if isinstance(value, Site)]
        original = ["original model"] if runs and "changed: " not in self.title else []
        caption = f"{', '.join([*self.title.split(' · '), *original])}."
        if self.facts.explains_rows:
            predicts_next = bool(sites) and not analysis.fills_in(runs[0])
            predicts_next = predicts_next and runs[0].predicted(sites[0], sentence=sentence)
            caption += f" {READ_AS.format(PREDICTS if predicts_next else READS)}"
        texts = dict.fromkeys(run.sentences[sentence].text for run in runs if sentence < len(run.sentences))
        quotes = ", ".join(f"“{without_surrogates(text)}”" for text in texts)
        return f"{caption} Text: {quotes}." if quotes else caption


def figure(function: Callable[..., F]) -> Callable[..., F]:
    """Decorate a function that makes a figure: the figure stores the call, for its code, its caption and caches."""

    @wraps(function)
    def make(*args: Any, **kwargs: Any) -> F:
        call = signature_of(function).bind(*args, **kwargs)
        return replace(function(*args, **kwargs), call=(make, call.arguments))

    return make


@dataclass(frozen=True, eq=False)
class SiteFigure(Figure):
    """Figure of one attention call, seen through a view.

    Attributes:
        rows, columns: queries and keys to show; None for all.

    Raises:
        InputError: if the view leaves no query or no key.
    """

    record: Record = field()
    site: Site
    _: KW_ONLY
    rows: slice | None = None
    columns: slice | None = None

    def __post_init__(self):
        self.attention_view  # noqa: B018 (a view that leaves nothing is refused at once)

    @cached_property
    def attention_view(self) -> AttentionView:
        window = {"rows": self.rows or ALL, "columns": self.columns or ALL}
        return views.see(self.record, self.site, sentence=self.sentence, view=self.view, **window)


def value_of(fact: Any) -> Any:
    """Return a fact, or the result of the function that computes it."""
    return fact() if callable(fact) else fact


def text_array(texts: Sequence[str]) -> np.ndarray:
    """Convert texts to a NumPy array without nulls, which NumPy would strip from the end as padding."""
    return np.array([without_surrogates(text).replace("\0", "␀") for text in texts], dtype=np.str_)


def number_arrays(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """Convert the numeric columns of a table to arrays."""
    numbers = table.select_dtypes("number")
    return {name: column.to_numpy(dtype=float, na_value=float("nan")) for name, column in numbers.items()}


def stem(record: Record, *what: object, sentence: int = 0, view: View = View()) -> str:
    """Build the stem of a file name from the model, the content of the figure, the input text and the edits."""
    return file_stem(record.source, *what, record.sentences[sentence].text, end=edits_in_name(record.edits, view))


def edits_in_name(edits: Edits, view: View = View()) -> str:
    """Summarize edits and view for a file name: "causal off 0.2 temperature 0.5"."""
    parts = [] if edits.own_mask else ["no own mask"]
    if edits.mask is not None:
        parts.append(str(edits.mask))
    if edits.heads_off:
        parts.append("off")
    for site, head in sorted(edits.heads_off):
        parts.append(f"{site.layer if site.kind == 'encoder' else site}.{head}")
    parts += [f"take {str(patch).removesuffix(f'-{patch.text}')}" for patch in edits.taken]  # without the source text
    parts += [f"{name.removesuffix(' rows')} {value}" for name, value in edits.phrases()]
    return " ".join(filter(None, [*parts, view.in_short()]))


def subtitles(record: Record | None, style: Style = Style(), sentence: int | None = None) -> list[str]:
    """Return lines with the origin of the weights and, in files, the edits; no lines without a record.

    Args:
        sentence: index of the sentence whose text is shown in a line; None for no line with a text.
    """
    if record is None:
        return []
    changed = () if style.on_screen else record.edits.in_words()
    precision = f"kept as {record.precision}" if record.precision else ""
    text = "" if sentence is None or style.on_screen else record.sentences[sentence].text
    edits = f"changed: {', '.join(changed)}" if changed else ""
    return [CAUTIONS.get(record.provenance, ""), precision, edits, f"text: {text_in_line(text)}" if text else ""]


def text_in_line(text: str) -> str:
    """Quote the beginning of a text, for a line under a title."""
    return f"“{visible_text(text, LONGEST_TEXT).replace('␣', ' ')}”"
