"""Words that the residual stream would predict after each layer, and words that one head pushes up and down."""

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz import metrics
from attnviz.charts.bars import Bars
from attnviz.charts.legends import Ramp
from attnviz.charts.picture import Form, Table
from attnviz.charts.word_cells import WordCells
from attnviz.core.amounts import percent
from attnviz.core.display import in_title
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.base import Figure
from attnviz.figures.figure import stem, subtitles, text_array, titled
from attnviz.figures.next_word import NextWordBars, probabilities
from attnviz.metrics import NextWord, WordGrid
from attnviz.metrics.lens import stages
from attnviz.words import quoted, quoted_token

MOST_POSITIONS = 12
"""Columns that are drawn where no part is chosen: the last ones."""

A_READING = "only the top row is what the model predicts; the others are a reading"
EMPTY = "This head is off or writes nothing here: it pushes no word."
FIXED = "through W_O, the last norm with this run's scale, and the unembedding"


@dataclass(frozen=True, eq=False)
class WordGridFigure(Figure):
    """A word in each cell of rows by positions.

    Attributes:
        sentence: which of the batch.
        columns: the positions that are seen; None for the last `MOST_POSITIONS`.

    Raises:
        InputError: if the record has no stream, or there is nothing there.
    """

    record: Record
    _: KW_ONLY
    sentence: int = 0
    columns: slice | None = None

    def __post_init__(self):
        self.grid  # noqa: B018 (a record without a stream is refused at once)

    @cached_property
    @abstractmethod
    def grid(self) -> WordGrid:
        """The words with their numbers; the first row at the bottom or at the top, see `cells`."""

    @cached_property
    @abstractmethod
    def cells(self) -> WordCells:
        """The words as they are drawn."""

    @property
    @abstractmethod
    def _heading(self) -> str: ...

    @property
    @abstractmethod
    def _columns(self) -> dict[str, str]:
        """Names of the columns "row" and "value" of the table."""

    @property
    def positions(self) -> range:
        """The positions that are seen."""
        length = self.record.read[self.sentence].length
        if self.columns is None:
            return range(max(0, length - MOST_POSITIONS), length)
        stop = length if self.columns.stop is None else self.columns.stop
        return range(self.columns.start or 0, stop)

    @cached_property
    def title(self) -> str:
        return titled(self._heading, self.record)

    @cached_property
    def table(self) -> pd.DataFrame:
        return self.grid.table.rename(columns=self._columns)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        words = text_array([word for row in self.grid.words for word in row])
        return {
            "words": words.reshape(self.grid.values.shape),
            "values": self.grid.values,
            "rows": text_array(self.grid.rows),
            "positions": np.array(self.grid.positions),
            "tokens": text_array(self.grid.tokens),
        }

    @property
    def form(self) -> Form:
        return self.cells.form

    @property
    def data(self) -> dict[str, Table]:
        return self.cells.data

    @property
    def _lines(self) -> list[str]:
        length, positions = self.record.read[self.sentence].length, self.grid.positions
        part = f"positions {positions[0]} to {positions[-1]} of {length} (0 to {length - 1})"
        return [part if len(positions) < length and not self.on_screen else "", *subtitles(self.record, self)]

    def _of_column(self, row: int) -> list[str]:
        tokens = zip(self.grid.tokens, self.grid.positions, self.grid.words[row], strict=True)
        return [f"after {quoted_token(token, position)}: {quoted(word)}" for token, position, word in tokens]


@dataclass(frozen=True, eq=False)
class LogitLens(WordGridFigure):
    """The most probable word after each layer and position: the embedding at the bottom, the prediction on top."""

    @cached_property
    def grid(self) -> WordGrid:
        return metrics.logit_lens(self.record, sentence=self.sentence, positions=self.positions)

    @cached_property
    def name(self) -> str:
        return stem(self.record, "logit lens", sentence=self.sentence)

    @property
    def _heading(self) -> str:
        return f"Words through the layers (logit lens) · {in_title(self.record.source)}"

    @property
    def _columns(self) -> dict[str, str]:
        return {"row": "after", "value": "probability"}

    @cached_property
    def description(self) -> str:
        last = len(self.grid.positions) - 1
        rows = zip(self.grid.rows, self.grid.words, self.grid.values, strict=True)
        course = "; ".join(f"{name} {quoted(words[last])} {percent(float(p[last]))}" for name, words, p in rows)
        token = quoted_token(self.grid.tokens[last], self.grid.positions[last])
        return f"Most probable word after {token}, layer by layer: {course}. Only the last is the model's prediction."

    @cached_property
    def cells(self) -> WordCells:
        grid = self.grid
        return WordCells(
            title=self._heading,
            lines=[A_READING, *self._lines],
            titles=("Residual stream after", "Token read", "word", "probability"),
            rows=["prediction", *grid.rows[-2::-1]],
            positions=grid.positions,
            tokens=grid.tokens,
            words=grid.words[::-1],
            values=grid.values[::-1],
            numbers=[[percent(value) for value in row] for row in grid.values[::-1].tolist()],
            ramp=Ramp("probability of the word", 1.0, self.colors.ramp),
            style=self.style,
        )


@dataclass(frozen=True, eq=False)
class PushedWords(WordGridFigure):
    """The words that the output of one head pushes up and down most after each position, `count` of each."""

    record: Record
    site: Site
    head: int
    _: KW_ONLY
    sentence: int = 0
    columns: slice | None = None
    count: int = 5

    @cached_property
    def grid(self) -> WordGrid:
        options = {"count": self.count, "sentence": self.sentence, "positions": self.positions}
        return metrics.pushed(self.record, self.site, self.head, **options)

    @cached_property
    def name(self) -> str:
        return stem(self.record, "pushed words", self.site, f"head {self.head}", sentence=self.sentence)

    @property
    def _heading(self) -> str:
        where = f"{in_title(self.record.source)} · {self.site} · head {self.head}"
        return f"Words that the head pushes up and down · {where}"

    @property
    def _columns(self) -> dict[str, str]:
        return {"row": "pushed", "value": "adds"}

    @cached_property
    def description(self) -> str:
        if not self.grid.values.any():
            return EMPTY
        up, down = (", ".join(self._of_column(row)) for row in (0, -1))
        return f"Pushed up most {up}. Pushed down most {down}."

    @cached_property
    def cells(self) -> WordCells:
        grid, top = self.grid, float(np.nanmax(np.abs(self.grid.values)))
        return WordCells(
            title=self._heading,
            lines=[FIXED if grid.values.any() else EMPTY, *self._lines],
            titles=("Pushed", "Token read", "word", "adds to its logit"),
            rows=grid.rows,
            positions=grid.positions,
            tokens=grid.tokens,
            words=grid.words if grid.values.any() else [[""] * len(grid.positions) for _ in grid.rows],
            values=grid.values,
            numbers=[[f"{value:+.3g}" for value in row] for row in grid.values.tolist()],
            ramp=Ramp("adds to the word's logit", top, self.colors.diverging, signed=True),
            style=self.style,
        )


@dataclass(frozen=True, eq=False)
class LensBars(NextWordBars):
    """A bar for each of the most probable words of one cell of the logit lens.

    Attributes:
        stage: 0 for the embedding, i for after i layers; the last is the prediction.
    """

    stage: int = -1

    @cached_property
    def words(self) -> tuple[NextWord, ...]:
        options = {"sentence": self.sentence, "count": self.count}
        return metrics.lens_words(self.record, self.stage, self.position, **options)

    @property
    def _called(self) -> tuple[str, str]:
        stage = stages(self.record)[self.stage]
        return f"lens {stage}", f"Logit lens after {stage}: next word after"

    @cached_property
    def description(self) -> str:
        words = ", ".join(f"{quoted(word.word)} {percent(word.probability)}" for word in self.words)
        return f"{self._heading}: {words}."

    @cached_property
    def table(self) -> pd.DataFrame:
        rows = [(word.word, word.probability) for word in self.words]
        return pd.DataFrame(rows, columns=["word", "probability"])

    @cached_property
    def bars(self) -> Bars:
        return probabilities(self.words, self._heading, subtitles(self.record, self), self.style, others=True)
