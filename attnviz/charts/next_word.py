"""What a model expects next, or in place of a blank, and what it expected before a change."""

from collections.abc import Sequence

from attnviz import metrics
from attnviz.charts import axes, bars
from attnviz.charts.heatmap import subtitles_of
from attnviz.charts.picture import Picture
from attnviz.charts.theme import Theme, theme
from attnviz.core.display import in_title, shown
from attnviz.core.record import Record
from attnviz.metrics import NextWord
from attnviz.words import OTHER_WORDS, quoted_token

NO_NUMBERS = "the probabilities are not numbers (NaN)"


def picture(
    record: Record,
    position: int,
    *,
    before: Record | None = None,
    sentence: int = 0,
    count: int = 5,
    dark: bool = False,
    edits: bool = True,
) -> Picture:
    """Draw a bar for each of the `count` words that are most probable after a position.

    With a run `before` a change there are the words of either, each with two bars. A run that had read other tokens by
    then is not drawn, and the picture says so.

    Args:
        edits: whether the picture says what was changed.
    """
    colors = theme(dark)
    found = metrics.next_words(record, position, before=before, sentence=sentence, count=count)
    compared = before is not None and metrics.read_alike(before, record, position, sentence=sentence)
    notes = [OTHER_WORDS] if before is not None and not compared else []
    lines = [*notes, *subtitles_of(record, edits=edits)]
    return probabilities(found, title_of(record, position, sentence), lines, colors)


def probabilities(found: Sequence[NextWord], title: str, lines: Sequence[str], colors: Theme) -> Picture:
    """Words and their bars, in pairs where what was before is known, under a title and lines."""
    compared = any(next.before is not None for next in found)
    columns = [bars.Column([next.probability for next in found], name=bars.AFTER if compared else "")]
    if compared:
        columns.insert(0, bars.Column([next.before for next in found], name=bars.BEFORE, hollow=True))
    names, lines = [shown(next.word, axes.LONGEST_LABEL) for next in found], lines if found else [NO_NUMBERS, *lines]
    return bars.picture(names, columns, title, lines, colors, paired=compared)


def title_of(record: Record, position: int, sentence: int = 0) -> str:
    """What is drawn, beginning with constant words."""
    token = quoted_token(metrics.token_at(record, position, sentence=sentence), position)
    what = "Most probable in place of" if metrics.fills_in(record) else "Next word after"
    return f"{what} {token} · {in_title(record.source)}"
