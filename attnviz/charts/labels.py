"""What a model that classifies makes of a sentence, and what it made of it before a change."""

from attnviz import metrics
from attnviz.charts.heatmap import subtitles_of
from attnviz.charts.next_word import probabilities
from attnviz.charts.picture import Picture
from attnviz.charts.theme import theme
from attnviz.core.display import in_title
from attnviz.core.record import Record

MOST_LABELS = 12
"""Of more classes so many are drawn; the table holds all."""

ONE_LABEL = "the model gives one number: the logistic function of it is drawn"


def picture(
    record: Record, *, before: Record | None = None, sentence: int = 0, dark: bool = False, edits: bool = True
) -> Picture:
    """Draw a bar for the probability of each class; with a run `before` a change two, before and after.

    Args:
        edits: whether the picture says what was changed.
    """
    found = metrics.labels(record, before=before, sentence=sentence)
    notes = [f"the {MOST_LABELS} most probable of {len(found):,} labels"] if len(found) > MOST_LABELS else []
    notes += [ONE_LABEL] if len(found) == 1 else []
    lines = [*notes, *subtitles_of(record, edits=edits)]
    return probabilities(found[:MOST_LABELS], title_of(record), lines, theme(dark))


def title_of(record: Record) -> str:
    """What is drawn, beginning with constant words."""
    return f"Labels of the sentence · {in_title(record.source)}"
