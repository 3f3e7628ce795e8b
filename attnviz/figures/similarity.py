"""How alike the sentences of a batch are to a model, and how far a change moved each: a small map with its numbers."""

from typing import Unpack

import altair as alt
import numpy as np

from attnviz import metrics, tables, words
from attnviz.charts import axes, frame, pixels
from attnviz.charts.frame import Frame, text_width
from attnviz.charts.picture import Form, Picture, formed
from attnviz.charts.style import Style
from attnviz.charts.theme import STOPS, TEXT_SIZE, Theme, config
from attnviz.core.amounts import written
from attnviz.core.display import in_title, isolated, shown
from attnviz.core.record import Record
from attnviz.figures.figure import Drawn, Figure, stem, subtitles, text_array, titled

CELL = 44
"""Pixels."""

MOST_SENTENCES = 12
"""Sentences drawn at most; the table holds all."""

LONGEST_SENTENCE = 32
"""Code points of a sentence shown beside its row."""

MEASURE = "cosine of the sentences' vectors; 1: the same direction"
MOVED = "moved: 1 − cosine of a sentence's vector before the change and after it"
SCALE = "cosine, from 0 to 1; below 0 looks like 0"


def similarity(record: Record, *, before: Record | None = None, **drawn: Unpack[Drawn]) -> Figure:
    """The cosine of every two sentences of the batch; with a run `before` a change, how far each one moved."""
    title = f"Similarity of the sentences · {in_title(record.source)}"
    return Figure(
        name=stem(record, "similarity"),
        title=titled(title, record),
        style=Style(**drawn),
        draw=lambda style: drawing_of(record, before, title, style),
        describe=lambda: words.similarity(record, before=before),
        tabulate=lambda: tables.similarity_table(record, before=before),
        collect=lambda: (
            {
                "similarity": metrics.similarity(record).numpy(),
                "sentences": text_array([sentence.text for sentence in record.sentences]),
            }
            | ({} if before is None else {"moved": metrics.shift(before, record).numpy()})
        ),
    )


def drawing_of(record: Record, before: Record | None, title: str, style: Style) -> Picture:
    """A square with its number for every two of the first sentences."""
    colors, every = style.colors, len(record.sentences)
    cosine = metrics.similarity(record).numpy()[:MOST_SENTENCES, :MOST_SENTENCES]
    names = [f"{_shown(one.text)} {i}" for i, one in enumerate(record.sentences[:MOST_SENTENCES], 1)]
    left, side = -max(map(text_width, names)) - axes.PADDING, CELL * len(cosine)
    lines = [MEASURE, f"vector of a sentence: {record.pooling}" if record.pooling else ""]
    lines += ["" if before is None else MOVED]
    lines += [f"the first {MOST_SENTENCES} of {every} sentences"] if every > MOST_SENTENCES else []
    lines += subtitles(record, style)
    around = frame.heading(title, lines, left=left, top=-CELL, width=side - left, colors=colors)
    if before is not None:
        moved = map(words.turned, metrics.shift(before, record).tolist()[:MOST_SENTENCES])
        said = [frame.words(side + 12, (i + 0.5) * CELL, text, colors.text) for i, text in enumerate(moved)]
        caption = frame.words(side + 12, -axes.PADDING - TEXT_SIZE / 2, "moved", colors.quiet)
        around += Frame(words=(*said, caption))
    cells = _cells(cosine, axes.keys([isolated(name) for name in names], {}), colors)
    return Picture(_form(colors), {"pairs": cells} | frame.tables(around))


def _shown(text: str) -> str:
    return shown(text, LONGEST_SENTENCE).replace("␣", " ")


def _cells(cosine: np.ndarray, bands: list[str], colors: Theme) -> dict[str, list]:
    """Each pair, with its number in the color that is read best on its ground; what is no number has no cosine."""
    values, known = cosine.ravel().tolist(), np.isfinite(cosine).ravel().tolist()
    inks = [
        pixels.readable(pixels.color_at(v, colors), colors) if k else colors.warning
        for v, k in zip(values, known, strict=True)
    ]
    rows, columns = (index.ravel().tolist() for index in np.indices(cosine.shape))
    return {
        "row": [bands[i] for i in rows],
        "column": [j + 1 for j in columns],
        "cosine": [value if k else None for value, k in zip(values, known, strict=True)],
        "text": [written(value, ".2f") for value in values],
        "ink": inks,
    }


@formed(4)
def _form(colors: Theme) -> Form:
    """A square per pair, and its number; the sentences are beside their rows, counted from 1 as lines are."""
    scale = alt.Scale(domain=STOPS, range=colors.ramp, interpolate="rgb", clamp=True)
    legend = alt.Legend(title=SCALE, gradientLength=frame.RAMP_WIDTH, values=[0, 0.5, 1], format="g")
    base = alt.Chart(alt.NamedData("pairs")).encode(
        y=alt.Y("row:N", title=None, axis=axes.band_axis(colors), scale=alt.Scale(padding=0)),
        x=alt.X("column:O", title=None, axis=alt.Axis(orient="top", labelAngle=0), scale=alt.Scale(padding=0)),
    )
    ground = alt.when("isValid(datum.cosine)").then(alt.Color("cosine:Q", scale=scale, legend=legend))
    squares = base.mark_rect(stroke=colors.background, aria=False, tooltip=None)
    squares = squares.encode(color=ground.otherwise(alt.value(colors.blocked)))
    texts = base.mark_text(aria=False, tooltip=None).encode(text=alt.Text("text:N"), fill=alt.Fill("ink:N", scale=None))
    chart = alt.layer(*frame.layers(), squares, texts, width=alt.Step(CELL), height=alt.Step(CELL), autosize="pad")
    return Form.of(chart.configure(**config(colors)))
