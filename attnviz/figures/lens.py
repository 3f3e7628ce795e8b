"""Logit lens: predictions from the residual stream after each layer, and words that one head pushes up and down."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from attnviz import analysis
from attnviz.analysis import WordGrid
from attnviz.analysis.sentences import quoted, quoted_token
from attnviz.analysis.views import Groups, as_tokens
from attnviz.charts import axes
from attnviz.charts.axes import GridSide, Size
from attnviz.charts.grid import Grid
from attnviz.charts.marks import Ramp, scale_of, text_width
from attnviz.charts.pixels import Number, Squares
from attnviz.charts.signs import CellState
from attnviz.core.amounts import percent
from attnviz.core.display import isolated, visible_text
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.base import Figure, FigureFacts, figure, text_array
from attnviz.figures.forms import text_side

MOST_POSITIONS = 12
"""Number of positions that are drawn by default: the last ones of the text."""
LONGEST, HEIGHT, NARROWEST = 10, 26, 40
"""Maximum number of characters of a word in a cell or above a column; height and smallest width of a cell in pixels."""
SHRINKS, ROWS = 4 / 3, 130
"""Factor by which a file may shrink a picture, from 8 to 6 points; width of the row names in pixels."""
A_READING = "only the top row is what the model predicts; the others are a reading"
NOTHING = "This head is off or writes nothing here: it pushes no word."
FIXED = "through W_O, the last norm with this run's scale, and the unembedding"
KINDS = CellState("", "ramp", legend=""), CellState("NaN: not a number", "blocked", legend="")


@dataclass(frozen=True, eq=False, kw_only=True)
class WordMap(Figure):
    """Grid of words, rows by positions; in a narrow file, only the last positions that fit are shown.

    A click selects a cell under the name "cell" with the fields query (row), key (position) and rev.

    Attributes:
        facts: title, lines, numbers and words.
        words: words with their numbers; the cells are empty if all numbers are 0.
        row_title: title of the rows.
        number: name of the numbers.
        ramp: color scale of the numbers.
        is_stream: whether the rows are stages of a stream, drawn with the last stage on top.
    """

    facts: FigureFacts
    words: WordGrid
    row_title: str
    number: str
    ramp: Ramp
    is_stream: bool = False

    def draw(self) -> Grid:
        """Draw the words that fit; if the selected position would be left out, earlier positions are drawn."""
        words, length, header = self.words, self.record.read[self.sentence].length, self.above
        order, names = slice(None), [*words.rows]
        if self.is_stream:  # from top to bottom: the last stage, which is the prediction, to the first
            order, names = slice(None, None, -1), ["prediction", *words.rows[-2::-1]]
        word_rows = [row if words.values.any() else [""] * len(row) for row in words.words[order]]
        texts = [[axes.short(word, LONGEST) for word in row] for row in word_rows]
        tokens = [axes.short(token, LONGEST) for token in words.tokens]
        wide = max(NARROWEST, round(max(text_width(text) for row in [*texts, tokens] for text in row)) + 10)
        num_drawn = len(tokens)
        if self.width and not self.on_screen:
            num_drawn = max(1, int((self.width * SHRINKS - ROWS) // wide))
        begin = max(0, len(tokens) - num_drawn)
        if self.selected and self.selected[1] in words.positions:
            begin = min(begin, words.positions.index(self.selected[1]))
        drawn = slice(begin, begin + num_drawn)
        positions, values = words.positions[drawn], words.values[order, drawn]
        groups = Groups(as_tokens(words.tokens[drawn]), np.array(positions), np.array(positions) + 1)
        span = f"positions {positions[0]} to {positions[-1]} of {length} (0 to {length - 1})"
        title = f"Token read, {span}" if len(positions) < len(tokens) else "Token read"
        note = [span] if len(words.positions) < length and not self.on_screen else []
        numbers = [f"{value:+.3g}" if self.ramp.signed else percent(value) for value in values.ravel().tolist()]
        return Grid(
            **header | {"lines": [*header["lines"], *note]},
            rows=text_side(self.row_title, "query", names),
            columns=GridSide(groups, title, "key", tokens[drawn]),
            size=Size("rectangles", wide, *values.shape, high=HEIGHT),
            squares=Squares(
                states=np.isnan(values).astype(int),
                kinds=KINDS,
                numbers=[Number("number", values, numbers, self.number)],
                ramp=self.ramp,
                texts=[isolated(visible_text(word)) for row in word_rows for word in row[drawn]],
                text_title="word",
                written=[text for row in texts for text in row[drawn]],
            ),
            ramp=self.ramp,
        )


@figure
def logit_lens(record: Record, *, sentence: int = 0, columns: slice | None = None, **style: Any) -> WordMap:
    """Draw the most probable word after each layer at each position: embedding at the bottom, prediction on top.

    Args:
        columns: positions to show; None for the last `MOST_POSITIONS`.

    Raises:
        InputError: if the record has no stream, or there is no such sentence or position.
    """
    words = analysis.logit_lens(record, sentence=sentence, positions=_positions(record, sentence, columns))

    def in_words() -> str:
        """Describe the most probable word after each layer, at the last position."""
        rows = zip(words.rows, words.words, words.values, strict=True)
        course = "; ".join(f"{name} {quoted(row[-1])} {percent(float(p[-1]))}" for name, row, p in rows)
        token = quoted_token(words.tokens[-1], words.positions[-1])
        return f"Most probable word after {token}, layer by layer: {course}. Only the last is the model's prediction."

    facts = FigureFacts(
        what="Words through the layers (logit lens)",
        lines=[A_READING],
        subject=("logit lens",),
        table=partial(words.table.rename, columns={"row": "after", "value": "probability"}),
        words=in_words,
        arrays=partial(_arrays_of, words),
    )
    form = {"row_title": "Residual stream after", "number": "probability", "ramp": Ramp("probability of the word", 1.0)}
    return WordMap(facts=facts, words=words, is_stream=True, record=record, sentence=sentence, **form, **style)


@figure
def pushed(
    record: Record,
    site: Site,
    head: int,
    *,
    sentence: int = 0,
    columns: slice | None = None,
    count: int = 5,
    **style: Any,
) -> WordMap:
    """Draw the `count` words that the output of one head pushes up most, and down most, after each position.

    Args:
        columns: positions to show; None for the last `MOST_POSITIONS`.

    Raises:
        InputError: if the record has no stream, or there is no such sentence, position or head.
    """
    window = {"sentence": sentence, "positions": _positions(record, sentence, columns)}
    words = analysis.pushed(record, site, head, count=count, **window)
    has_words = bool(words.values.any())

    def in_words() -> str:
        """Describe the word that is pushed up most, and down most, at each position."""
        up, down = [], []
        for token, position, *pushed_words in zip(words.tokens, words.positions, *words.words, strict=True):
            up.append(f"after {quoted_token(token, position)}: {quoted(pushed_words[0])}")
            down.append(f"after {quoted_token(token, position)}: {quoted(pushed_words[-1])}")
        return f"Words pushed up most: {', '.join(up)}. Words pushed down most: {', '.join(down)}."

    facts = FigureFacts(
        what=f"Words that {site.head(head)} pushes up and down",
        lines=[FIXED if has_words else NOTHING],
        subject=("pushed words", site, f"head {head}"),
        table=partial(words.table.rename, columns={"row": "pushed", "value": "adds"}),
        words=in_words if has_words else NOTHING,
        arrays=partial(_arrays_of, words),
    )
    ramp = scale_of("adds to the word's logit", words.values, signed=True)
    form = {"row_title": "Pushed", "number": "adds to its logit", "ramp": ramp}
    return WordMap(facts=facts, words=words, record=record, sentence=sentence, **form, **style)


def _positions(record: Record, sentence: int, columns: slice | None) -> range:
    """Return the positions to show: those of the slice, or the last MOST_POSITIONS if there is none."""
    positions = range(record.read[sentence].length)
    if columns is None:
        return positions[-MOST_POSITIONS:]
    return range(columns.start or 0, len(positions) if columns.stop is None else columns.stop)


def _arrays_of(grid: WordGrid) -> dict[str, np.ndarray]:
    """Return the arrays to export: words and numbers, (rows, positions), and the names of both axes."""
    words = text_array([word for row in grid.words for word in row]).reshape(grid.values.shape)
    texts = {"words": words, "rows": text_array(grid.rows), "tokens": text_array(grid.tokens)}
    return texts | {"values": grid.values, "positions": np.array(grid.positions)}
