"""Weights from one token to the others, or from them to it, by which a text is shaded."""

from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz.analysis import BLOCKED, EMPTY, Cells, tables
from attnviz.analysis.sentences import MOST_NAMED, OFF, blocked_by, named, predicting
from attnviz.analysis.views import AttentionView, Groups
from attnviz.charts import axes
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.domain import MAY_ATTEND, NOT_A_NUMBER, POLICIES, Domain, colored, domain_of
from attnviz.core.amounts import written
from attnviz.core.display import as_sentence
from attnviz.core.errors import InputError
from attnviz.figures.base import SiteFigure
from attnviz.figures.figure import subtitles, text_array
from attnviz.figures.head import called
from attnviz.figures.strands import window

MOST_TOKENS = 400
"""Queries or keys drawn at most; of more, a window."""

SIDES = ("from", "to")
"""Whose attention is shown: what the chosen token gives to each key, or what each query gives to it."""


@dataclass(frozen=True, eq=False)
class Shade:
    """Weights from one token to others, or from them to it; arrays are of the other ends, (tokens,).

    Attributes:
        view: the window that is drawn.
        side: one of `SIDES`.
        index: which query, or which key, of the window.
        states, weights, blocked, reasons: as of `analysis.Cells`; `colored` is where a weight is to be shown.
        cells: the cells of the window.
        off: whether it is of one head, which is switched off.
        notes: that a window is drawn, where it is.
    """

    view: AttentionView
    side: str
    index: int
    weights: np.ndarray
    states: np.ndarray
    blocked: np.ndarray
    colored: np.ndarray
    reasons: tuple[str, ...]
    cells: Cells
    off: bool
    notes: tuple[str, ...]

    @property
    def ends(self) -> tuple[Groups, Groups]:
        """The tokens of which one is chosen, and those that are shaded."""
        parts = self.view.queries, self.view.keys
        return parts if self.side == "from" else parts[::-1]

    @property
    def strongest(self) -> tuple[int, int]:
        """The query and the key of the largest of these weights."""
        chosen, others = self.ends
        pair = int(chosen.starts[self.index]), int(others.starts[np.nan_to_num(self.weights, nan=-1.0).argmax()])
        return pair if self.side == "from" else pair[::-1]

    @property
    def one_text(self) -> bool:
        """Whether both are the same tokens."""
        same = np.array_equal(self.view.queries.starts, self.view.keys.starts)
        return self.view.site.kind != "cross" and same and self.view.queries.labels == self.view.keys.labels


def shade_of(
    every: AttentionView, head: int | str, *, chosen: int | None = None, side: str = "from", most: int = MOST_TOKENS
) -> Shade:
    """The attention from one token, or to it; of more than `most` tokens a window.

    Raises:
        InputError: if there is no such side, or the token is not there.
    """
    if side not in SIDES:
        raise InputError(f"Attention cannot be shown {side!r} a token; there are {', '.join(SIDES)}.")
    part = every.queries if side == "from" else every.keys
    if chosen is None:
        chosen = every.strongest_cell(head)[SIDES.index(side)]
    if part.index_of(chosen) is None:
        raise InputError(f"There is no token {chosen} to show attention {side}; there are {len(part)}, from 0.")
    pin = frozenset({(("query", "key")[SIDES.index(side)], chosen)})
    view = window(every, head, None, pin, most)
    notes = [] if len(view.queries) == len(every.queries) and len(view.keys) == len(every.keys) else [_window(view)]
    index = (view.queries if side == "from" else view.keys).index_of(chosen)
    cells = view.cells([head])[0]
    pick = (index, slice(None)) if side == "from" else (slice(None), index)
    arrays = (array[pick] for array in (cells.weights, cells.states, cells.blocked, colored(cells)))
    return Shade(
        view, side, index, *arrays, cells.reasons, _row(cells, pick), head in view.step.heads_off, tuple(notes)
    )


def _row(cells: Cells, pick: tuple) -> Cells:
    """The cells of one token alone, as one row."""
    parts = {name: np.atleast_2d(getattr(cells, name)[pick]) for name in ("weights", "states", "blocked")}
    return replace(cells, **parts)


def _window(view: AttentionView) -> str:
    spans = (f"{part.starts[0]} to {part.stops[-1] - 1}" for part in (view.queries, view.keys))
    return "too many tokens for one strip: queries {} and keys {}; the map shows all".format(*spans)


def in_words(shade: Shade) -> str:
    """Which tokens get most of one token's attention, or give it most."""
    token, weights = named(shade.ends[0], shade.index), np.nan_to_num(shade.weights)
    order = [i for i in np.argsort(-weights, kind="stable")[:MOST_NAMED].tolist() if weights[i] >= 0.005]
    listed = ", ".join(f"{named(shade.ends[1], i)} {weights[i]:.2f}" for i in order)
    if not listed:
        return f"{token} gives nobody attention." if shade.side == "from" else f"{token} gets no attention."
    ends = OFF if shade.off else "."
    if shade.side == "to":
        return f"{token} is looked at most by {listed}{ends}"
    return f"{token}{predicting(shade.view, shade.index)} looks most at {listed}{ends}"


TOOLTIP = {"query_name": QUERY, "key_name": KEY, "weight_text": "weight", "says": "cell"}


@dataclass(frozen=True, eq=False)
class ShadedFigure(SiteFigure):
    """Tokens, or patches, shaded by what one of them gives or gets.

    A click selects a token under the name "cell" with the fields query, key and rev: one of them a position, one -1.

    Attributes:
        chosen: position of the token; None for that of the strongest weight.
        side: "from" it, a query, or "to" it, a key.
    """

    head: int | str
    _: KW_ONLY
    chosen: int | None = None
    side: str = "from"

    most, kind = MOST_TOKENS, ""
    begin = "The sentence, shaded by the attention {} one token."

    @cached_property
    def shade(self) -> Shade:
        """The weights of the token."""
        return shade_of(self.attention_view, self.head, chosen=self.chosen, side=self.side, most=self.most)

    @cached_property
    def scale(self) -> Domain:
        """Color domain of the weights."""
        return domain_of(self.domain, self.shade.view, self.shade.cells)

    @property
    def _subject(self) -> tuple:
        heads = f"{'head' if isinstance(self.head, int) else 'heads'}-{self.head}"
        return self.site, f"{heads}-{self.kind}{self.side}-{self.shade.ends[0].starts[self.shade.index]}"

    @property
    def _heading(self) -> str:
        token = named(self.shade.ends[0], self.shade.index)
        return f"Attention {self.side} {token} · {called(self.attention_view, self.head)}"

    @property
    def lines(self) -> list[str]:
        """Lines under the title."""
        shade = self.shade
        notes = shade.notes or filter(None, [shade.view.window])
        return [*subtitles(self.record, self), self.scale.ending, *shade.view.notes, *notes]

    @cached_property
    def description(self) -> str:
        """The picture, the tokens that get most, what the view did, and what was changed."""
        shade, changed = self.shade, self.record.edits.in_words()
        notes = map(as_sentence, (*shade.view.notes, *shade.notes))
        changes = [f"Changed: {', '.join(changed)}."] if changed else []
        return " ".join([self.begin.format(self.side), in_words(shade), *notes, *changes])

    @cached_property
    def table(self) -> pd.DataFrame:
        """The cells of the chosen token."""
        table = tables.weights_table(self.shade.view, self.head)
        name = "query" if self.side == "from" else "key"
        cells = table[table[name] == int(self.shade.ends[0].starts[self.shade.index])].reset_index(drop=True)
        cells.attrs = dict(table.attrs)
        return cells

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """Weights over the tokens at the other end."""
        shade = self.shade
        return {
            "weights": shade.weights,
            "may_attend": shade.blocked == 0,
            "tokens": text_array(shade.ends[1].labels),
            "positions": shade.ends[1].starts,
        }

    def state(self, i: int) -> str:
        """The cell of one shaded token, in words."""
        shade = self.shade
        if shade.states[i] == EMPTY:
            return POLICIES[shade.view.step.scoring.empty_rows]
        if np.isnan(shade.weights[i]):
            return NOT_A_NUMBER
        return blocked_by(shade.reasons[shade.blocked[i] - 1]) if shade.states[i] == BLOCKED else MAY_ATTEND

    def readout(self, part: Groups, i: int, *, is_shaded: bool) -> dict:
        """Fields that a click on a token selects, and texts of its tooltip."""
        shade, position = self.shade, int(part.starts[i])
        is_query = (is_shaded and not shade.one_text) != (self.side == "from")
        selects = {"query": position if is_query else -1, "key": -1 if is_query else position, "rev": self.rev}
        ends = [axes.names(shade.ends[0])[shade.index] if is_shaded else "", axes.names(part)[i]]
        ends = ends if is_shaded == (self.side == "from") else ends[::-1]
        weight, text = (written(float(shade.weights[i]), ".4f"), self.state(i)) if is_shaded else ("", "")
        return selects | {"query_name": ends[0], "key_name": ends[1], "weight_text": weight, "says": text}
