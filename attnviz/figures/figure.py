"""What a figure is, and what those of records share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any, NamedTuple, TypedDict, Unpack

import altair as alt
import numpy as np
import pandas as pd

from attnviz import metrics, views
from attnviz.charts.picture import Drawing, Table
from attnviz.charts.style import Style
from attnviz.charts.theme import CAUTIONS
from attnviz.core.display import file_stem, shown, without_surrogates
from attnviz.core.edits import Edits, Site
from attnviz.core.record import ALL, Record
from attnviz.views import Seen, View

MAPS, READ_AS = ("head", "heads", "overview", "difference"), "Row: the word {}; column: the word looked at."
"""Figures of weights, and how their captions say to read them."""

READS, PREDICTS = "that looks", "just read, where the model predicts the next one"
"""What a row is, and what it is where a model predicts the next word after it."""


class Drawn(TypedDict, total=False):
    """How a figure is drawn; see `charts.style.Style`."""

    dark: bool
    selected: tuple[int, int] | int | None
    focused: Any
    rev: int
    domain: str
    row_sums: bool
    side: int | None
    width: int | None
    zooms: bool
    window: tuple[int, int, int, int] | None
    paired: bool
    explained: bool


class Shown(Drawn, total=False):
    """What is looked at of a site, see `views.see`, and how it is drawn."""

    sentence: int
    view: View
    rows: slice | None
    columns: slice | None


def see(record: Record, site: Site, **shown: Unpack[Shown]) -> tuple[Seen, Style]:
    """What is looked at, and how it is drawn; made once for chart, words and table.

    Raises:
        InputError: if the view leaves nothing to see.
    """
    asked = {name: shown.pop(name) for name in ("sentence", "view", "rows", "columns") if name in shown}
    asked |= {name: asked.get(name) or ALL for name in ("rows", "columns")}
    return views.see(record, site, **asked), Style(**shown)


@dataclass(frozen=True, eq=False)
class Figure:
    """One picture and everything that goes with it. Its parts are made when they are first asked for, and kept.

    Attributes:
        name: a file's stem that says what is shown; ASCII, safe in every file system, at most 80 characters.
        title: one line, with where the weights come from and what was changed.
        style: how it is drawn.
        draw, describe, tabulate, collect: make what is drawn in a style, `description`, `table` and `arrays`.
        show: gives `screen` and `screen_data`, where somebody keeps them; None has them drawn.
        call: the call of `attnviz.figures` that makes it.
        seconds: that going once through what it shows takes here, about, where somebody knows it.
    """

    name: str
    title: str
    style: Style
    draw: Callable[[Style], Drawing]
    describe: Callable[[], str]
    tabulate: Callable[[], pd.DataFrame]
    collect: Callable[[], dict[str, np.ndarray]]
    show: Callable[[], tuple[dict, Table | None]] | None = None
    call: "Call | None" = None
    seconds: float = 0.0

    @cached_property
    def description(self) -> str:
        """What the picture shows, in words with its main numbers, for those who cannot see it."""
        return self.describe()

    @cached_property
    def chart(self) -> alt.TopLevelMixin:
        """Vega-Lite, for files and notebooks."""
        return self.draw(self.style).chart

    @property
    def screen(self) -> dict:
        """A specification for Streamlit's `vega_lite_chart`, which stays the same while the picture changes.

        Full Vega where a large map needs a readout under the pointer, else Vega-Lite.
        """
        return self._shown[0]

    @property
    def screen_data(self) -> Table | None:
        """The data to hand over beside `screen`; None if it holds them itself."""
        return self._shown[1]

    @cached_property
    def _shown(self) -> tuple[dict, Table | None]:
        return self.drawn_for_screen() if self.show is None else self.show()

    def drawn_for_screen(self) -> tuple[dict, Table | None]:
        """`screen` and `screen_data`, made anew: what was changed stands beside the picture, not on it."""
        return self.draw(replace(self.style, on_screen=True)).screen

    @property
    def caption(self) -> str:
        """What a text under the picture says: what is drawn, the model, what was changed, and the text that it read."""
        named = self.call.named if self.call else {}
        given = (*self.call.arguments, *named.values()) if self.call else ()
        records, at = [one for one in given if isinstance(one, Record)], named.get("sentence", 0)
        texts = dict.fromkeys(record.sentences[at].text for record in records if at < len(record.sentences))
        site = next((one for one in given if isinstance(one, Site)), None)
        next_word = site and not metrics.fills_in(records[0]) and records[0].predicted(site, sentence=at)
        reads = f" {READ_AS.format(PREDICTS if next_word else READS)}" * bool(self.call and self.call.name in MAPS)
        original = [] if "changed: " in self.title or not records else ["original model"]
        read = ", ".join(f"“{without_surrogates(text)}”" for text in texts)
        return f"{', '.join([*self.title.split(' · '), *original])}.{reads}{f' Text: {read}.' if read else ''}"

    @cached_property
    def table(self) -> pd.DataFrame:
        """The exact numbers behind the picture."""
        return self.tabulate()

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The same as arrays."""
        return self.collect()


class Call(NamedTuple):
    """A function of `attnviz.figures` by its name, and what it was given."""

    name: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]


def called(make: Callable[..., Figure]) -> Callable[..., Figure]:
    """The function, whose figures know their `call`."""

    @wraps(make)
    def figure(*arguments: Any, **named: Any) -> Figure:
        return replace(make(*arguments, **named), call=Call(make.__name__, arguments, named))

    return figure


def text_array(texts: Sequence[str]) -> np.ndarray:
    """Texts as NumPy can hold them: it takes a null at the end of one for padding."""
    return np.array([without_surrogates(text).replace("\0", "␀") for text in texts], dtype=np.str_)


def number_arrays(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """The columns of numbers of a table."""
    numbers = table.select_dtypes("number")
    return {name: column.to_numpy(dtype=float, na_value=float("nan")) for name, column in numbers.items()}


def stem(record: Record, *what: object, sentence: int = 0, view: View = View()) -> str:
    """The name of a figure of a record: its source, what is shown, its text, and what was changed."""
    text = record.sentences[sentence].text
    return file_stem(record.source, *what, text, end=edited(record.edits, view))


def edited(edits: Edits, view: View = View()) -> str:
    """What was changed and how it is looked at, in short, for a file's name: "causal off 0.2 temperature 0.5"."""
    places = ((site.layer if site.kind == "encoder" else site, head) for site, head in sorted(edits.heads_off))
    parts = [] if edits.own_mask else ["no own mask"]
    parts += [] if edits.mask is None else [str(edits.mask)]
    parts += ["off " + " ".join(f"{place}.{head}" for place, head in places)] if edits.heads_off else []
    parts += [f"{what.removesuffix(' rows')} {value}" for what, value in edits.phrases()]
    return " ".join([*parts, *filter(None, [view.in_short()])])


def titled(title: str, record: Record) -> str:
    return " · ".join(part for part in (title, *subtitles(record)) if part)


LONGEST_TEXT = 160
"""Code points of a text under a title."""


def subtitles(record: Record, style: Style = Style(), sentence: int | None = None) -> list[str]:
    """Where the weights come from, and what was changed; a screen says that elsewhere.

    Args:
        sentence: whose text is said, too, where nothing else of the picture does.
    """
    changed = () if style.on_screen else record.edits.in_words()
    kept = f"kept as {record.precision}" if record.precision else ""
    text = "" if sentence is None or style.on_screen else record.sentences[sentence].text
    read = f"text: “{shown(text, LONGEST_TEXT).replace('␣', ' ')}”" if text else ""
    return [CAUTIONS.get(record.provenance, ""), kept, f"changed: {', '.join(changed)}" if changed else "", read]
