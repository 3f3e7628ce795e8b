"""Words that the residual stream would predict after each layer, and words that one head pushes up and down."""

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial

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
from attnviz.charts.legends import Ramp, text_width
from attnviz.charts.signs import CellState
from attnviz.charts.size import Size
from attnviz.core.amounts import percent
from attnviz.core.display import isolated, visible_text
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.base import Figure, FigureFacts, text_array
from attnviz.figures.outputs import NextWordBars, probabilities

MOST_POSITIONS = 12
"""Columns that are drawn where no part is chosen: the last ones."""
LONGEST, HEIGHT, NARROWEST = 10, 26, 40
"""Characters of a word in a cell or over a column, and pixels of a cell: high, and wide at least."""
SHRINKS, ROWS = 4 / 3, 130
"""Factor by which a file may shrink a picture for its column, from 8 to 6 points, and pixels of the names of rows."""

A_READING = "only the top row is what the model predicts; the others are a reading"
NOTHING = "This head is off or writes nothing here: it pushes no word."
FIXED = "through W_O, the last norm with this run's scale, and the unembedding"
KINDS = CellState("", "ramp", legend=""), CellState("NaN: not a number", "blocked", legend="")


@dataclass(frozen=True, eq=False)
class WordGridFigure(Figure):
    """A word in each cell of rows by positions; a file for a narrow column draws the last positions that fit.

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
        """Positions that are drawn as columns: those of `columns`, else the last ones."""
        every = range(self.record.read[self.sentence].length)
        if self.columns is None:
            return every[-MOST_POSITIONS:]
        return range(self.columns.start or 0, len(every) if self.columns.stop is None else self.columns.stop)

    def _facts_of(self, what: str, columns: tuple[str, str], *subject: object) -> FigureFacts:
        """FigureFacts of a grid of words; `columns` are what its table calls a row and a number."""
        names = dict(zip(("row", "value"), columns, strict=True))
        table = partial(self.words.table.rename, columns=names)
        functions = {"table": table, "words": self._in_words, "arrays": self._arrays}
        return FigureFacts(what=what, subject=subject, record=self.record, **functions)

    def _arrays(self) -> dict[str, np.ndarray]:
        grid = self.words
        words = text_array([word for row in grid.words for word in row]).reshape(grid.values.shape)
        texts = {"words": words, "rows": text_array(grid.rows), "tokens": text_array(grid.tokens)}
        return texts | {"values": grid.values, "positions": np.array(grid.positions)}

    def _word_grid(
        self, line: str, title: str, ramp: Ramp, number: str, *, top_last: bool = False, wordless: bool = False
    ) -> Grid:
        """The words as cells.

        Args:
            title: of the rows.
            number: name of the numbers.
            top_last: whether the last row is on top, as the end of a stream.
            wordless: whether no word stands in the cells.
        """
        words, length = self.words, self.record.read[self.sentence].length
        order = slice(None, None, -1 if top_last else 1)
        every = [["" if wordless else word for word in row] for row in words.words[order]]
        names = ["prediction", *words.rows[-2::-1]] if top_last else [*words.rows]
        texts = [[axes.short(word, LONGEST) for word in row] for row in [*every, words.tokens]]
        tokens = texts.pop()
        wide = max(NARROWEST, round(max(map(text_width, [*tokens, *(text for row in texts for text in row)]))) + 10)
        count = len(tokens)
        if self.width and not self.on_screen:
            count = min(count, max(1, int((self.width * SHRINKS - ROWS) // wide)))
        begin = len(tokens) - count
        if self.selected and self.selected[1] in words.positions:
            begin = min(begin, words.positions.index(self.selected[1]))
        part = slice(begin, begin + count)
        positions, values, read = words.positions[part], words.values[order, part], tokens[part]
        span = f"positions {positions[0]} to {positions[-1]} of {length} (0 to {length - 1})"
        axis = "Token read" + (f", {span}" if count < len(tokens) else "")
        rows, starts = groups(as_tokens(names)), np.array(positions)
        columns = Groups(as_tokens(words.tokens[part]), starts, starts + 1)
        shade, flat = values / (ramp.top or 1.0), values.ravel().tolist()
        return Grid(
            **self._above(line, span if len(words.positions) < length and not self.on_screen else ""),
            rows=rows,
            columns=columns,
            size=Size("rectangles", wide, *values.shape, high=HEIGHT),
            states=np.isnan(values).astype(int),
            kinds=KINDS,
            titles=(title, axis),
            shade=np.nan_to_num((shade + 1) / 2 if ramp.signed else shade),
            ramp=ramp,
            numbers={"number": (values, [f"{value:+.3g}" if ramp.signed else percent(value) for value in flat])},
            cell_texts=[isolated(visible_text(word)) for row in every for word in row[part]],
            written=[text for row in texts for text in row[part]],
            tips=(("says", "word"), ("number_text", number)),
            labels=(names, read),
            called=(names, axes.names(columns)),
        )


@dataclass(frozen=True, eq=False)
class LogitLens(WordGridFigure):
    """The most probable word after each layer and position: the embedding at the bottom, the prediction on top."""

    def facts(self) -> FigureFacts:
        return self._facts_of("Words through the layers (logit lens)", ("after", "probability"), "logit lens")

    @cached_property
    def words(self) -> WordGrid:
        return analysis.logit_lens(self.record, sentence=self.sentence, positions=self.positions)

    def _in_words(self) -> str:
        words = self.words
        rows = zip(words.rows, words.words, words.values, strict=True)
        course = "; ".join(f"{name} {quoted(row[-1])} {percent(float(p[-1]))}" for name, row, p in rows)
        token = quoted_token(words.tokens[-1], words.positions[-1])
        return f"Most probable word after {token}, layer by layer: {course}. Only the last is the model's prediction."

    def draw(self) -> Grid:
        ramp = Ramp("probability of the word", 1.0, self.colors.ramp)
        return self._word_grid(A_READING, "Residual stream after", ramp, "probability", top_last=True)


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

    def facts(self) -> FigureFacts:
        what = f"Words that {self.site.head(self.head)} pushes up and down"
        return self._facts_of(what, ("pushed", "adds"), "pushed words", self.site, f"head {self.head}")

    @cached_property
    def words(self) -> WordGrid:
        options = {"count": self.count, "sentence": self.sentence, "positions": self.positions}
        return analysis.pushed(self.record, self.site, self.head, **options)

    def _in_words(self) -> str:
        words = self.words
        if not words.values.any():
            return NOTHING
        tokens = [quoted_token(*place) for place in zip(words.tokens, words.positions, strict=True)]
        up, down = (
            ", ".join(f"after {token}: {quoted(word)}" for token, word in zip(tokens, row, strict=True))
            for row in (words.words[0], words.words[-1])
        )
        return f"Pushed up most {up}. Pushed down most {down}."

    def draw(self) -> Grid:
        top, pushes = float(np.nanmax(np.abs(self.words.values))), self.words.values.any()
        ramp = Ramp("adds to the word's logit", top, self.colors.diverging, signed=True)
        return self._word_grid(FIXED if pushes else NOTHING, "Pushed", ramp, "adds to its logit", wordless=not pushes)


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

    def facts(self) -> FigureFacts:
        return replace(super().facts(), table=self._table, words=self._in_words)

    def _called(self) -> tuple[str, str]:
        stage = stages(self.record)[self.stage]
        return f"lens {stage}", f"Logit lens after {stage}: next word after"

    def _in_words(self) -> str:
        words = ", ".join(f"{quoted(word.word)} {percent(word.probability)}" for word in self.words)
        return f"{self._heading}: {words}."

    def _table(self) -> pd.DataFrame:
        return pd.DataFrame([(word.word, word.probability) for word in self.words], columns=["word", "probability"])

    def draw(self) -> Bars:
        return probabilities(self.words, self._beside(), others=True)
