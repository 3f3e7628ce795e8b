"""What an edit did to the output: how far each token's vector moved."""

import math
from typing import Unpack

from attnviz import metrics, tables, words
from attnviz.charts import axes, bars
from attnviz.charts.picture import Picture
from attnviz.charts.style import Style
from attnviz.core.display import in_title, shown
from attnviz.core.record import Record
from attnviz.figures.figure import Drawn, Figure, stem, subtitles, text_array, titled

MOST_BARS = 40
"""Tokens drawn at most, those that moved most; the table holds all."""


def change(before: Record, after: Record, *, sentence: int = 0, **drawn: Unpack[Drawn]) -> Figure:
    """A bar per token: ||after - before|| / ||before|| of its output vector; a token that did not move says 0."""
    moved = metrics.output_change(before, after, sentence).numpy()
    labels = after.read[sentence].labels[: len(moved)]
    return Figure(
        name=stem(after, "change", sentence=sentence),
        title=titled(title_of(after), after),
        style=Style(**drawn),
        draw=lambda style: drawing_of(moved.tolist(), after, sentence, style),
        describe=lambda: words.change(moved, labels),
        tabulate=lambda: tables.change_table(before, after, sentence=sentence),
        collect=lambda: {"change": moved, "tokens": text_array(labels)},
    )


def title_of(after: Record) -> str:
    """What is drawn, beginning with constant words."""
    return f"Change of the output, compared with the original model · {in_title(after.source)}"


def drawing_of(every: list[float], after: Record, sentence: int, style: Style) -> Picture:
    """The bars; what is not a number comes first: it is what one must not miss."""
    order = sorted(range(len(every)), key=lambda i: -math.inf if math.isnan(every[i]) else -every[i])
    kept = sorted(order[:MOST_BARS])
    moved, tokens = [every[i] for i in kept], after.read[sentence].tokens
    longest = max((m for m in moved if math.isfinite(m)), default=0.0) or 1.0
    names = [shown(tokens[i].text, axes.LONGEST_LABEL) for i in kept]
    marks = {place: axes.QUIET for place, i in enumerate(kept) if tokens[i].special}
    left_out = [f"the {len(kept)} of {len(every)} tokens that moved most"] if len(kept) < len(every) else []
    measure = "how far each token's output vector moved, as a share of its length"
    unchanged = [] if style.on_screen or after.edits.in_words() else ["changed: nothing"]
    lines = [measure, *left_out, *subtitles(after, style), *unchanged]
    column = bars.Column(moved, longest=longest)
    return bars.picture(names, [column], title_of(after), lines, style.colors, length=240, marks=marks)
