"""Words that the residual stream would predict after each layer, and words that one head pushes up and down."""

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis import NextWord, WordGrid
from attnviz.analysis.lens import stages
from attnviz.analysis.sentences import quoted, quoted_token
from attnviz.analysis.views import Groups, as_tokens, groups
from attnviz.charts import axes
from attnviz.charts.bars import Bars
from attnviz.charts.grid import Grid
from attnviz.charts.legends import Ramp
from attnviz.charts.size import Size
from attnviz.charts.state import CellState
from attnviz.charts.texts import text_width
from attnviz.core.amounts import percent
from attnviz.core.display import isolated, visible_text
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.base import GridFigure
from attnviz.figures.figure import text_array
from attnviz.figures.outputs import NextWordBars, probabilities

MOST_POSITIONS = 12
"""Columns that are drawn where no part is chosen: the last ones."""

LONGEST, HEIGHT, NARROWEST = 10, 26, 40
"""Characters of a word in a cell or over a column, and pixels of a cell: high, and wide at least."""

A_READING = "only the top row is what the model predicts; the others are a reading"
NOTHING = "This head is off or writes nothing here: it pushes no word."
FIXED = "through W_O, the last norm with this run's scale, and the unembedding"

KINDS = CellState("", "ramp", legend=""), CellState("NaN: not a number", "blocked", legend="")


@dataclass(frozen=True, eq=False)
class WordGridFigure(GridFigure):
    """A word in each cell of rows by positions.

    A click selects a cell under the name "cell" with the fields query, its row, key, its position, and rev.

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
        self.words  # noqa: B018 (a record without a stream is refused at once)

    @cached_property
    @abstractmethod
    def words(self) -> WordGrid:
        """The words with their numbers, from the first row on."""

    @property
    def positions(self) -> range:
        """The positions that are seen."""
        length = self.record.read[self.sentence].length
        if self.columns is None:
            return range(max(0, length - MOST_POSITIONS), length)
        stop = length if self.columns.stop is None else self.columns.stop
        return range(self.columns.start or 0, stop)

    @cached_property
    def table(self) -> pd.DataFrame:
        return self.words.table.rename(columns=dict(zip(("row", "value"), self._columns, strict=True)))

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        words = text_array([word for row in self.words.words for word in row])
        return {
            "words": words.reshape(self.words.values.shape),
            "values": self.words.values,
            "rows": text_array(self.words.rows),
            "positions": np.array(self.words.positions),
            "tokens": text_array(self.words.tokens),
        }

    def _drawn(self, words: WordGrid, line: str, titles: tuple[str, str, str], numbers: list[str], ramp: Ramp) -> Grid:
        """The words as cells.

        Args:
            words: the first row on top.
            titles: of the rows, of the columns, and of the numbers.
            numbers: the values as texts, row by row.
            ramp: their scale.
        """
        length, positions = self.record.read[self.sentence].length, words.positions
        part = f"positions {positions[0]} to {positions[-1]} of {length} (0 to {length - 1})"
        every = [word for row in words.words for word in row]
        texts, tokens = ([axes.short(text, LONGEST) for text in part] for part in (every, words.tokens))
        widest = max(map(text_width, [*texts, *tokens]))
        size = Size("rectangles", max(NARROWEST, round(widest) + 10), *words.values.shape, high=HEIGHT)
        rows, starts = groups(as_tokens(words.rows)), np.array(positions)
        columns = Groups(as_tokens(words.tokens), starts, starts + 1)
        places = words.values / (ramp.top or 1.0)
        return Grid(
            **self._above(line, part if len(positions) < length and not self.on_screen else ""),
            rows=rows,
            columns=columns,
            size=size,
            states=np.isnan(words.values).astype(int),
            kinds=KINDS,
            titles=titles[:2],
            shade=np.nan_to_num((places + 1) / 2 if ramp.signed else places),
            ramp=ramp,
            numbers={"number": (words.values, numbers)},
            cell_texts=[isolated(visible_text(word)) for word in every],
            written=texts,
            tips=(("says", "word"), ("number_text", titles[2])),
            labels=([*words.rows], tokens),
            called=([*words.rows], axes.names(columns)),
        )


@dataclass(frozen=True, eq=False)
class LogitLens(WordGridFigure):
    """The most probable word after each layer and position: the embedding at the bottom, the prediction on top."""

    _subject, _what = ("logit lens",), "Words through the layers (logit lens)"
    _columns = "after", "probability"

    @cached_property
    def words(self) -> WordGrid:
        return analysis.logit_lens(self.record, sentence=self.sentence, positions=self.positions)

    @cached_property
    def description(self) -> str:
        words, last = self.words, len(self.words.positions) - 1
        rows = zip(words.rows, words.words, words.values, strict=True)
        course = "; ".join(f"{name} {quoted(row[last])} {percent(float(p[last]))}" for name, row, p in rows)
        token = quoted_token(words.tokens[last], words.positions[last])
        return f"Most probable word after {token}, layer by layer: {course}. Only the last is the model's prediction."

    @cached_property
    def grid(self) -> Grid:
        words = self.words
        rows = ("prediction", *words.rows[-2::-1])
        above = WordGrid(rows, words.positions, words.tokens, words.words[::-1], words.values[::-1])
        titles = "Residual stream after", "Token read", "probability"
        numbers = [percent(value) for value in above.values.ravel().tolist()]
        return self._drawn(above, A_READING, titles, numbers, Ramp("probability of the word", 1.0, self.colors.ramp))


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

    _columns = "pushed", "adds"

    @cached_property
    def words(self) -> WordGrid:
        options = {"count": self.count, "sentence": self.sentence, "positions": self.positions}
        return analysis.pushed(self.record, self.site, self.head, **options)

    @property
    def _subject(self) -> tuple:
        return "pushed words", self.site, f"head {self.head}"

    @property
    def _what(self) -> str:
        return f"Words that {self.site.head(self.head)} pushes up and down"

    @cached_property
    def description(self) -> str:
        if not self.words.values.any():
            return NOTHING
        up, down = (
            ", ".join(
                f"after {quoted_token(token, position)}: {quoted(word)}"
                for token, position, word in zip(self.words.tokens, self.words.positions, row, strict=True)
            )
            for row in (self.words.words[0], self.words.words[-1])
        )
        return f"Pushed up most {up}. Pushed down most {down}."

    @cached_property
    def grid(self) -> Grid:
        words, numbers = self.words, [f"{value:+.3g}" for value in self.words.values.ravel().tolist()]
        top, pushes = float(np.nanmax(np.abs(words.values))), words.values.any()
        if not pushes:
            words = replace(words, words=((("",) * len(words.positions)),) * len(words.rows))
        ramp = Ramp("adds to the word's logit", top, self.colors.diverging, signed=True)
        titles = "Pushed", "Token read", "adds to its logit"
        return self._drawn(words, FIXED if pushes else NOTHING, titles, numbers, ramp)


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
        return analysis.lens_words(self.record, self.stage, self.position, **options)

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
        return probabilities(self.words, self._above(), others=True)
