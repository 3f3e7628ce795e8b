"""What a figure is, and what those of records share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import altair as alt
import numpy as np
import pandas as pd

from attnviz.charts import heatmap
from attnviz.charts.picture import Picture, Table
from attnviz.core.display import without_surrogates
from attnviz.core.edits import Edits
from attnviz.core.record import Record
from attnviz.views import View


@dataclass(frozen=True, eq=False)
class Figure:
    """One picture and everything that goes with it. Its parts are made when they are first asked for, and kept.

    Attributes:
        name: a file's stem that says what is shown; ASCII, safe in every file system, at most 80 characters.
        title: one line, with where the weights come from and what was changed.
        describe, draw, show, tabulate, collect: make `description`, `chart`, `screen` with `screen_data`, `table`, and
            `arrays`.
    """

    name: str
    title: str
    describe: Callable[[], str]
    draw: Callable[[], alt.TopLevelMixin]
    show: Callable[[], tuple[dict, Table | None]]
    tabulate: Callable[[], pd.DataFrame]
    collect: Callable[[], dict[str, np.ndarray]]

    @cached_property
    def description(self) -> str:
        """What the picture shows, in words with its main numbers, for those who cannot see it."""
        return self.describe()

    @cached_property
    def chart(self) -> alt.TopLevelMixin:
        """Vega-Lite, for files and notebooks."""
        return self.draw()

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
        return self.show()

    @cached_property
    def table(self) -> pd.DataFrame:
        """The exact numbers behind the picture."""
        return self.tabulate()

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The same as arrays."""
        return self.collect()


def text_array(texts: Sequence[str]) -> np.ndarray:
    """Texts as NumPy can hold them: it takes a null at the end of one for padding."""
    return np.array([without_surrogates(text).replace("\0", "␀") for text in texts], dtype=np.str_)


def drawn_by(picture: Callable[..., Picture]) -> dict[str, Callable]:
    """What draws a picture, for `Figure`. On the screen the edits stand beside it, not on it."""
    return {"draw": lambda: picture().chart, "show": lambda: (picture(edits=False).spec, None)}


def edited(edits: Edits, view: View = View()) -> str:
    """What was changed and how it is looked at, in short, for a file's name: "subsequent off 0.2 temperature 0.5"."""
    places = ((site.layer if site.kind == "encoder" else site, head) for site, head in sorted(edits.heads_off))
    parts = [] if edits.own_mask else ["no own mask"]
    parts += [] if edits.mask is None else [str(edits.mask)]
    parts += ["off " + " ".join(f"{place}.{head}" for place, head in places)] if edits.heads_off else []
    parts += [f"{what.removesuffix(' rows')} {value}" for what, value in edits.phrases()]
    return " ".join([*parts, *filter(None, [view.in_short()])])


def titled(title: str, record: Record) -> str:
    return " · ".join(part for part in (title, *heatmap.subtitles_of(record)) if part)
