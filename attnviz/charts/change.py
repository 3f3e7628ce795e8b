"""What an edit did to the output: how far each token's vector moved."""

import math

from attnviz import metrics
from attnviz.charts import axes, bars
from attnviz.charts.heatmap import subtitles_of
from attnviz.charts.picture import Picture
from attnviz.charts.theme import theme
from attnviz.core.display import in_title, shown
from attnviz.core.record import Record

MOST_BARS = 40
"""Of longer sentences the tokens that moved most are shown; the table holds all."""


def picture(before: Record, after: Record, *, sentence: int = 0, dark: bool = False, edits: bool = True) -> Picture:
    """Draw a bar per token: ||after - before|| / ||before|| of its output vector; a token that did not move says 0.

    Args:
        edits: whether the picture says what was changed.
    """
    every = metrics.output_change(before, after, sentence).tolist()
    kept = sorted(sorted(range(len(every)), key=lambda i: -_rank(every[i]))[:MOST_BARS])
    moved, tokens = [every[i] for i in kept], after.read[sentence].tokens
    longest = max((m for m in moved if math.isfinite(m)), default=0.0) or 1.0
    names = [shown(tokens[i].text, axes.LONGEST_LABEL) for i in kept]
    marks = {place: axes.QUIET for place, i in enumerate(kept) if tokens[i].special}
    lines = _lines(after, len(moved), len(every), edits)
    column = bars.Column(moved, longest=longest)
    return bars.picture(names, [column], title_of(after), lines, theme(dark), length=240, marks=marks)


def title_of(after: Record) -> str:
    """What is drawn, beginning with constant words."""
    return f"Change of the output, compared with the untouched model · {in_title(after.source)}"


def _rank(moved: float) -> float:
    """What is not a number comes first: it is what one must not miss."""
    return math.inf if math.isnan(moved) else moved


def _lines(after: Record, drawn: int, tokens: int, edits: bool) -> list[str]:
    """What is measured, what is left out, where the weights come from, and what was changed if that is to be said."""
    left_out = [f"the {drawn} of {tokens} tokens that moved most"] if drawn < tokens else []
    measure = "how far each token's output vector moved, as a share of its length"
    unchanged = ["changed: nothing"] if edits and not after.edits.in_words() else []
    return [measure, *left_out, *subtitles_of(after, edits=edits), *unchanged]
