"""One mask as a grid: who may attend to whom, and which rule says no."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial

import numpy as np

from attnviz.analysis import sentences, tables, views
from attnviz.analysis.views import SeenMask, View
from attnviz.charts.axes import names
from attnviz.charts.domain import MAY_ATTEND
from attnviz.charts.grid import Grid, RowEnd, framed, predictions, size_within, with_predictions
from attnviz.charts.signs import CellState, blocked_by
from attnviz.charts.size import size_of
from attnviz.charts.theme import Style
from attnviz.core.display import file_stem
from attnviz.core.masks import And, Full, Mask, Or
from attnviz.core.record import ALL
from attnviz.core.tokens import Token
from attnviz.figures.base import Figure, FigureFacts, text_array

MOST_WHOLE = 4096**2
"""Cells of a mask that are written one by one."""

LONGEST_TITLE = 45
"""Characters of a title on a screen; of longer rules only the number is said, as the legend names each."""

ALONE, READS = "what each row may look at", "each row: what it may read to predict the next word"
TARGETS = "each row: what it may read to predict its target"
COUNTED = "keys: how many each query has left"
PREDICTS, TARGET = "predicts", "target"

Tokens = Sequence[Token | str]


@dataclass(frozen=True, eq=False)
class MaskGrid(Figure):
    """A mask over tokens: a dot where a query may attend to a key, strokes where a rule forbids it.

    A click selects a cell under the name "cell" with the fields query, key and rev.

    Attributes:
        queries: the input token of each row.
        keys: of each column; the queries if none are given.
        predicted: the token that each row predicts, or ""; it is written at the end of its row.
        targets: whether these tokens are the right answers, not what a model says.
        rows, columns: the part that is seen; all if none is given.
        counted: whether each row says how many keys it has left; through a view, none does.
        brush: whether a drag on the screen selects cells, where each is a rectangle, under the name "drag", as
            stretches {"row": [begin, end], "column": [begin, end]}.
        yours: the part of the mask that a person set, not the model; None where nobody did.
    """

    mask: Mask
    queries: Tokens
    keys: Tokens | None = None
    _: KW_ONLY
    predicted: Tokens | None = None
    targets: bool = False
    sentence: int = 0
    view: View = View()
    rows: slice | None = None
    columns: slice | None = None
    counted: bool = False
    brush: bool = False
    yours: Mask | None = None

    def __post_init__(self):
        self.mask_view  # noqa: B018 (a view that leaves nothing is refused at once)

    @cached_property
    def tokens(self) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        return views.as_tokens(self.queries), views.as_tokens(self.queries if self.keys is None else self.keys)

    @cached_property
    def mask_view(self) -> SeenMask:
        """The mask through the view."""
        window = {"rows": self.rows or ALL, "columns": self.columns or ALL}
        return views.see_mask(self.mask, *self.tokens, sentence=self.sentence, view=self.view, **window)

    def facts(self) -> FigureFacts:
        text = " ".join(token.text for token in self.tokens[0])
        return FigureFacts(
            title=" · ".join(filter(None, [title_of(self.mask), self.mask_view.window])),
            name=file_stem("mask", str(self.mask), text, end=self.view.in_short()),
            table=partial(tables.mask_table, self.mask_view),
            words=partial(sentences.mask, self.mask_view),
            arrays=partial(arrays_of, self.mask_view),
        )

    def draw(self) -> Grid:
        mask_view, colors = self.mask_view, self.colors
        texts = [token.text for token in views.as_tokens(self.predicted or ())]
        predicted = mask_view.queries.last(texts) if any(texts) else ()
        empty = np.flatnonzero(mask_view.queries.every(mask_view.left == 0)).tolist()
        counted = self.counted and self.view == View()
        ends = predictions(predicted, self, TARGET if self.targets else PREDICTS)
        if counted:
            left = mask_view.left[mask_view.queries.starts].tolist()
            inks = [colors.text if count else colors.warning for count in left]
            ends.insert(0, RowEnd("beside", "keys", [str(count or "none") for count in left], inks))
        size = size_within(mask_view.queries, mask_view.keys, self, ends)
        reasons, blocked = mask_view.blocked(size.tile)
        rules = blocked_by(reasons, self.yours.rules() if self.yours else ())
        reading = TARGETS if self.targets else READS
        return Grid(
            title=title_of(self.mask, self),
            lines=[reading if predicted else ALONE, COUNTED if counted else "", mask_view.window, *mask_view.notes],
            rows=mask_view.queries,
            columns=mask_view.keys,
            size=size,
            states=blocked,
            kinds=[CellState(MAY_ATTEND, "open", "dot"), *rules],
            style=self.style,
            called=(with_predictions(mask_view.queries, predicted, size.tile), names(mask_view.keys, size.tile)),
            ends=ends,
            framed=empty,
            notes=[framed("fully masked row", self)] if empty and not counted else [],
            tiles="an open square has an open cell among its",
            brush=self.brush and self.on_screen,
        )


def title_of(mask: Mask, style: Style = Style()) -> str:
    """Which mask is drawn; one that blocks nothing is none. On a screen it takes one line."""
    title, rules = f"Mask: {'none' if isinstance(mask, Full) else mask}", _rules(mask)
    short = style.on_screen and rules > 1 and len(title) > LONGEST_TITLE
    return f"Mask: {rules} rules" if short else title


def _rules(mask: Mask) -> int:
    """Number of rules that a mask joins."""
    return sum(map(_rules, mask.masks)) if isinstance(mask, And | Or) else 1


def arrays_of(mask_view: SeenMask) -> dict[str, np.ndarray]:
    """Cells that may be attended to; of more than `MOST_WHOLE` square tiles, open where any cell is."""
    queries, keys = len(mask_view.queries), len(mask_view.keys)
    tile = 1 if queries * keys <= MOST_WHOLE else size_of(queries, keys).tile
    arrays = {"may_attend": mask_view.blocked(tile)[1] == 0}
    if tile > 1:
        arrays["cells_per_side_of_tile"] = np.array(tile)
    tokens = mask_view.queries.labels[::tile], mask_view.keys.labels[::tile]
    return arrays | {"query_tokens": text_array(tokens[0]), "key_tokens": text_array(tokens[1])}
