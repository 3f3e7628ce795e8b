"""How alike the sentences of a batch are to a model, and how far a change moved each: a small map with its numbers."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import altair as alt
import numpy as np
import pandas as pd

from attnviz import metrics, tables, words
from attnviz.charts import pixels
from attnviz.charts.interaction import QUIET_MARK
from attnviz.charts.picture import Form, Table, formed
from attnviz.charts.texts import heading, text_width, titled
from attnviz.charts.theme import MONO, STOPS, Theme, config
from attnviz.core.amounts import written
from attnviz.core.display import in_title, isolated, visible_text
from attnviz.core.record import Record
from attnviz.figures import figure
from attnviz.figures.base import Figure
from attnviz.figures.figure import stem, subtitles, text_array

CELL = 44
"""Pixels."""

MOST_SENTENCES = 12
"""Sentences drawn at most; the table holds all."""

LONGEST_SENTENCE = 32
"""Code points of a sentence shown beside its row."""

MEASURE = "cosine of the sentences' vectors; 1: the same direction"
MOVED = "moved: 1 - cosine of a sentence's vector before the change and after it"
SCALE = "cosine, from 0 to 1; below 0 looks like 0"


@dataclass(frozen=True, eq=False)
class SentenceSimilarity(Figure):
    """The cosine of every two sentences of the batch; with a run `before` a change, how far each one moved.

    Raises:
        InputError: if the model gives sentences no vectors, or the runs are of other sentences.
    """

    record: Record
    _: KW_ONLY
    before: Record | None = None

    def __post_init__(self):
        self._cosines, self._moved  # noqa: B018 (runs without vectors are refused at once)

    @cached_property
    def name(self) -> str:
        return stem(self.record, "similarity")

    @cached_property
    def title(self) -> str:
        return figure.titled(self._heading, self.record)

    @cached_property
    def description(self) -> str:
        return words.similarity(self.record, before=self.before)

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.similarity_table(self.record, before=self.before)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        sentences = text_array([sentence.text for sentence in self.record.sentences])
        moved = {} if self._moved is None else {"moved": self._moved}
        return {"similarity": self._cosines, "sentences": sentences} | moved

    @property
    def form(self) -> Form:
        return _form(self.colors)

    @cached_property
    def data(self) -> dict[str, Table]:
        """Tables of the chart: meta, the sentences, and a row for every two of the first of them."""
        sentences, moved = self.record.sentences, self._moved
        names = [f"{_label(sentence.text)} {i}" for i, sentence in enumerate(sentences[:MOST_SENTENCES], 1)]
        texts = [""] * len(names) if moved is None else [*map(words.turned, moved.tolist()[:MOST_SENTENCES])]
        many = f"the first {MOST_SENTENCES} of {len(sentences)} sentences" if len(sentences) > MOST_SENTENCES else ""
        pooled = f"vector of a sentence: {self.record.pooling}" if self.record.pooling else ""
        lines = [MEASURE, pooled, "" if moved is None else MOVED, many, *subtitles(self.record, self)]
        meta = heading(self._heading, lines, max(map(text_width, names)) + CELL * len(names), self)
        rows = {"row": [*range(1, len(names) + 1)], "name": [*map(isolated, names)], "moved": texts}
        return {
            "meta": meta | {"caption": ["" if moved is None else "moved"]},
            "rows": rows,
            "pairs": _pairs(self._cosines[:MOST_SENTENCES, :MOST_SENTENCES], self.colors),
        }

    @property
    def _heading(self) -> str:
        return f"Similarity of the sentences · {in_title(self.record.source)}"

    @cached_property
    def _cosines(self) -> np.ndarray:
        return metrics.similarity(self.record).numpy()

    @cached_property
    def _moved(self) -> np.ndarray | None:
        return None if self.before is None else metrics.shift(self.before, self.record).numpy()


def _label(text: str) -> str:
    return visible_text(text, LONGEST_SENTENCE).replace("␣", " ")


def _pairs(cosines: np.ndarray, colors: Theme) -> Table:
    """Each pair, with its number in the color that is read best on its ground; what is no number has no cosine."""
    values, finite = cosines.ravel().tolist(), np.isfinite(cosines).ravel().tolist()
    inks = [
        pixels.readable(pixels.color_at(value, colors), colors) if is_finite else colors.warning
        for value, is_finite in zip(values, finite, strict=True)
    ]
    rows, columns = (index.ravel() + 1 for index in np.indices(cosines.shape))
    return {
        "row": rows.tolist(),
        "column": columns.tolist(),
        "cosine": [value if is_finite else None for value, is_finite in zip(values, finite, strict=True)],
        "text": [written(value, ".2f") for value in values],
        "ink": inks,
    }


@formed(4)
def _form(colors: Theme) -> Form:
    """A square per pair, and its number; the sentences are beside their rows, counted from 1 as lines are."""
    meta, rows, pairs = (alt.Chart(alt.NamedData(name)) for name in ("meta", "rows", "pairs"))
    y = alt.Y("row:O", axis=None, scale=alt.Scale(type="band", padding=0))
    x = alt.X("column:O", axis=alt.Axis(title=None, orient="top", labelAngle=0), scale=alt.Scale(padding=0))
    scale = alt.Scale(domain=STOPS, range=colors.ramp, interpolate="rgb", clamp=True)
    legend = alt.Legend(title=SCALE, gradientLength=160, values=[0, 0.5, 1], format="g")
    ground = alt.when("isValid(datum.cosine)").then(alt.Color("cosine:Q", scale=scale, legend=legend))
    squares = pairs.mark_rect(stroke=colors.background, **QUIET_MARK)
    numbers = pairs.mark_text(**QUIET_MARK).encode(y=y, x=x, text="text:N", fill=alt.Fill("ink:N", scale=None))
    right = alt.XValue("width")
    names = rows.mark_text(align="right", font=MONO, dx=-6, **QUIET_MARK).encode(y=y, x=alt.XValue(0), text="name:N")
    moved = rows.mark_text(align="left", dx=12, **QUIET_MARK).encode(y=y, x=right, text="moved:N")
    caption = meta.mark_text(align="left", dx=12, color=colors.quiet, **QUIET_MARK)
    layers = [
        squares.encode(y=y, x=x, color=ground.otherwise(alt.value(colors.blocked))),
        numbers,
        names,
        moved,
        caption.encode(x=right, y=alt.YValue(-12), text="caption:N"),
    ]
    size = {"width": alt.Step(CELL), "height": alt.Step(CELL)}
    chart = alt.layer(*layers, **size, autosize="pad", title=titled(colors))
    return Form.of(chart.configure(**config(colors)))
