"""Logit lens: predictions from the residual stream after each layer, and words that one head pushes up and down."""

from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis import NextWord, WordGrid
from attnviz.analysis.lens import stages
from attnviz.analysis.sentences import quoted, quoted_token
from attnviz.analysis.views import Groups, as_tokens, groups
from attnviz.charts import axes
from attnviz.charts.axes import GridSide, Size
from attnviz.charts.grid import Grid, Number
from attnviz.charts.marks import Ramp, text_width
from attnviz.charts.signs import CellState
from attnviz.core.amounts import percent
from attnviz.core.display import isolated, visible_text
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.base import Figure, FigureFacts, text_array
from attnviz.figures.outputs import NextWordBars

MOST_POSITIONS = 12
"""Number of positions drawn by default, counted from the end."""
LONGEST, HEIGHT, NARROWEST = 10, 26, 40
"""Most characters of a word in a cell or over a column; pixels of a cell: its height, and its least width."""
SHRINKS, ROWS = 4 / 3, 130
"""Factor by which a file may shrink a picture, from 8 to 6 points; pixels of the row names."""

A_READING = "only the top row is what the model predicts; the others are a reading"
NOTHING = "This head is off or writes nothing here: it pushes no word."
FIXED = "through W_O, the last norm with this run's scale, and the unembedding"
KINDS = CellState("", "ramp", legend=""), CellState("NaN: not a number", "blocked", legend="")


@dataclass(frozen=True, eq=False)
class WordGridFigure(Figure):
    """Grid of `words` of a subclass, rows by positions; a file for a narrow column shows the last positions that fit.

    A click selects a cell under the name "cell" with the fields query (row), key (position) and rev.

    Attributes:
        sentence: number of the sentence in the batch.
        columns: positions to show; None for the last `MOST_POSITIONS`.

    Raises:
        InputError: if the record has no stream, or there is no such sentence, position or head.
    """

    record: Record
    _: KW_ONLY
    sentence: int = 0
    columns: slice | None = None

    def __post_init__(self):
        self.words  # noqa: B018 (a record without a stream is refused at once)

    @property
    def _window(self) -> dict[str, Any]:
        """Sentence and positions to show, as keyword arguments of the analysis."""
        every, part = range(self.record.read[self.sentence].length), self.columns
        if part is None:
            return {"sentence": self.sentence, "positions": every[-MOST_POSITIONS:]}
        stop = len(every) if part.stop is None else part.stop
        return {"sentence": self.sentence, "positions": range(part.start or 0, stop)}

    def _grid_facts(self, what: str, columns: tuple[str, str], *subject: object) -> FigureFacts:
        """Return the facts; `columns` are the names of the table columns of rows and of numbers."""
        table = partial(self.words.table.rename, columns=dict(zip(("row", "value"), columns, strict=True)))
        facts = {"table": table, "words": self._in_words, "arrays": self._arrays}
        return FigureFacts(what=what, subject=subject, **facts)

    def _arrays(self) -> dict[str, np.ndarray]:
        grid = self.words
        words = text_array([word for row in grid.words for word in row]).reshape(grid.values.shape)
        texts = {"words": words, "rows": text_array(grid.rows), "tokens": text_array(grid.tokens)}
        return texts | {"values": grid.values, "positions": np.array(grid.positions)}

    def _grid(self, line: str, title: str, number: str, ramp: Ramp, *, is_stream: bool = False) -> Grid:
        """Build the grid; the cells are empty if all numbers are 0.

        Args:
            title: title of the rows.
            number: name of the numbers.
            is_stream: whether the rows are stages of a stream, drawn with the last stage on top.
        """
        words, length, order = (
            self.words,
            self.record.read[self.sentence].length,
            slice(None, None, -1 if is_stream else 1),
        )
        names = ["prediction", *words.rows[-2::-1]] if is_stream else [*words.rows]
        every = [row if words.values.any() else [""] * len(row) for row in words.words[order]]
        *texts, tokens = ([axes.short(word, LONGEST) for word in row] for row in [*every, words.tokens])
        wide = max(NARROWEST, round(max(text_width(text) for row in [*texts, tokens] for text in row)) + 10)
        fits = int((self.width * SHRINKS - ROWS) // wide) if self.width and not self.on_screen else len(tokens)
        begin = max(0, len(tokens) - max(1, fits))
        if self.selected and self.selected[1] in words.positions:
            begin = min(begin, words.positions.index(self.selected[1]))
        part = slice(begin, begin + max(1, fits))
        positions, values = words.positions[part], words.values[order, part]
        span = f"positions {positions[0]} to {positions[-1]} of {length} (0 to {length - 1})"
        starts, flat = np.array(positions), values.ravel().tolist()
        columns = Groups(as_tokens(words.tokens[part]), starts, starts + 1)
        over = f"Token read, {span}" if len(positions) < len(tokens) else "Token read"
        numbers = [f"{value:+.3g}" if ramp.signed else percent(value) for value in flat]
        return Grid(
            **self._header(line, span if len(words.positions) < length and not self.on_screen else ""),
            rows=GridSide(groups(as_tokens(names)), title, "query", names, names),
            columns=GridSide(columns, over, "key", tokens[part]),
            size=Size("rectangles", wide, *values.shape, high=HEIGHT),
            states=np.isnan(values).astype(int),
            kinds=KINDS,
            shade=ramp.shade(values),
            ramp=ramp,
            numbers=[Number("number", values, numbers, number)],
            texts=[isolated(visible_text(word)) for row in every for word in row[part]],
            text_title="word",
            written=[text for row in texts for text in row[part]],
        )


@dataclass(frozen=True, eq=False)
class LogitLens(WordGridFigure):
    """Grid of the most probable word after each layer at each position: embedding at the bottom, prediction on top."""

    @cached_property
    def words(self) -> WordGrid:
        return analysis.logit_lens(self.record, **self._window)

    def facts(self) -> FigureFacts:
        return self._grid_facts("Words through the layers (logit lens)", ("after", "probability"), "logit lens")

    def _in_words(self) -> str:
        words = self.words
        rows = zip(words.rows, words.words, words.values, strict=True)
        course = "; ".join(f"{name} {quoted(row[-1])} {percent(float(p[-1]))}" for name, row, p in rows)
        token = quoted_token(words.tokens[-1], words.positions[-1])
        return f"Most probable word after {token}, layer by layer: {course}. Only the last is the model's prediction."

    def draw(self) -> Grid:
        ramp = Ramp("probability of the word", 1.0, self.colors.ramp)
        return self._grid(A_READING, "Residual stream after", "probability", ramp, is_stream=True)


@dataclass(frozen=True, eq=False)
class PushedWords(WordGridFigure):
    """Grid of the `count` words that the output of one head pushes up most, and down most, after each position."""

    site: Site
    head: int
    _: KW_ONLY
    count: int = 5

    @cached_property
    def words(self) -> WordGrid:
        return analysis.pushed(self.record, self.site, self.head, count=self.count, **self._window)

    def facts(self) -> FigureFacts:
        what, subject = f"Words that {self.site.head(self.head)} pushes up and down", f"head {self.head}"
        return self._grid_facts(what, ("pushed", "adds"), "pushed words", self.site, subject)

    def _in_words(self) -> str:
        words = self.words
        tokens = [quoted_token(*place) for place in zip(words.tokens, words.positions, strict=True)]
        up, down = (
            ", ".join(f"after {token}: {quoted(word)}" for token, word in zip(tokens, row, strict=True))
            for row in (words.words[0], words.words[-1])
        )
        return f"Words pushed up most: {up}. Words pushed down most: {down}." if words.values.any() else NOTHING

    def draw(self) -> Grid:
        values = self.words.values
        ramp = Ramp("adds to the word's logit", float(np.nanmax(np.abs(values))), self.colors.diverging, signed=True)
        return self._grid(FIXED if values.any() else NOTHING, "Pushed", "adds to its logit", ramp)


@dataclass(frozen=True, eq=False)
class LensBars(NextWordBars):
    """Bars of the most probable words in one cell of the logit lens.

    Attributes:
        stage: 0 for the embedding, i for after i layers; the last is the prediction.
    """

    stage: int = -1

    @cached_property
    def predicted(self) -> tuple[NextWord, ...]:
        return analysis.lens_words(self.record, self.stage, self.position, sentence=self.sentence, count=self.count)

    @property
    def _prediction_name(self) -> tuple[str, str]:
        stage = stages(self.record)[self.stage]
        return f"lens {stage}", f"Logit lens after {stage}: next word after"

    def facts(self) -> FigureFacts:
        facts, words = super().facts(), [(word.word, word.probability) for word in self.predicted]
        listed = ", ".join(f"{quoted(word)} {percent(probability)}" for word, probability in words)
        table = pd.DataFrame(words, columns=["word", "probability"])
        return replace(facts, table=table, words=f"{facts.what}: {listed}.")
