"""Weights from one token to the others, or from them to it, by which a text is shaded."""

from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz.analysis import BLOCKED, EMPTY, Cells, tables
from attnviz.analysis.sentences import MOST_NAMED, OFF, blocked_by, named, predicting
from attnviz.analysis.views import AttentionView, Groups
from attnviz.charts import axes, pixels
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.domain import MAY_ATTEND, NOT_A_NUMBER, POLICIES, Domain, colored, domain_of
from attnviz.charts.theme import Theme
from attnviz.core.amounts import written
from attnviz.core.display import as_sentence
from attnviz.core.errors import InputError
from attnviz.figures.base import FigureFacts, SiteFigure, subtitles, text_array
from attnviz.figures.head import called, heads_in_name
from attnviz.figures.lines import window

MOST_TOKENS = 400
"""Queries or keys drawn at most; of more, a window."""

SIDES = ("from", "to")
"""Whose attention is shown: what the chosen token gives to each key, or what each query gives to it."""

TOOLTIP = (("query_name", QUERY), ("key_name", KEY), ("weight_text", "weight"), ("says", "cell"))


@dataclass(frozen=True, eq=False)
class Shade:
    """Weights from one token to others, or from them to it.

    Attributes:
        view: the window that is drawn.
        side: one of `SIDES`.
        index: which query, or which key, of the window.
        cells: the cells of the other ends, as one row.
        off: whether it is of one head, which is switched off.
        notes: that a window is drawn, where it is.
    """

    view: AttentionView
    side: str
    index: int
    cells: Cells
    off: bool
    notes: tuple[str, ...]

    @cached_property
    def weights(self) -> np.ndarray:
        """Weight of each other end, (tokens,)."""
        return self.cells.weights[0]

    @cached_property
    def colored(self) -> np.ndarray:
        """Whether a weight is to be shown, (tokens,)."""
        return colored(self.cells)[0]

    @property
    def ends(self) -> tuple[Groups, Groups]:
        """The tokens of which one is chosen, and those that are shaded."""
        parts = self.view.queries, self.view.keys
        return parts if self.side == "from" else parts[::-1]

    @property
    def one_text(self) -> bool:
        """Whether both are the same tokens."""
        same = np.array_equal(self.view.queries.starts, self.view.keys.starts)
        return self.view.site.kind != "cross" and same and self.view.queries.labels == self.view.keys.labels


@dataclass(frozen=True, eq=False)
class ShadedFigure(SiteFigure):
    """Tokens, or patches, shaded by what one of them gives or gets.

    A click selects a token under the name "cell" with the fields query, key and rev: one of them a position, one -1.

    Attributes:
        chosen: position of the token; None for that of the strongest weight.
        side: "from" it, a query, or "to" it, a key.

    Raises:
        InputError: if there is no such side, or the token is not there.
    """

    head: int | str
    _: KW_ONLY
    chosen: int | None = None
    side: str = "from"

    most, kind = MOST_TOKENS, ""
    begin = "The sentence, shaded by the attention {} one token."

    @cached_property
    def shade(self) -> Shade:
        """The weights of the token; of more than `most` tokens those of a window."""
        if self.side not in SIDES:
            raise InputError(f"Attention cannot be shown {self.side!r} a token; there are {', '.join(SIDES)}.")
        every, end, chosen = self.attention_view, SIDES.index(self.side), self.chosen
        whole = every.queries, every.keys
        if chosen is None:
            chosen = every.strongest_cell(self.head)[end]
        if whole[end].index_of(chosen) is None:
            count = len(whole[end])
            raise InputError(f"There is no token {chosen} to show attention {self.side}; there are {count}, from 0.")
        view = window(every, self.head, None, frozenset({(("query", "key")[end], chosen)}), self.most)
        parts = view.queries, view.keys
        index, cells = parts[end].index_of(chosen), view.cells([self.head])[0]
        lines = {name: np.take(getattr(cells, name), [index], axis=end) for name in ("weights", "states", "blocked")}
        cells = replace(cells, **{name: line.reshape(1, -1) for name, line in lines.items()})
        spans = [f"{part.starts[0]} to {part.stops[-1] - 1}" for part in parts]
        note = "too many tokens for one strip: queries {} and keys {}; the map shows all".format(*spans)
        notes = () if [*map(len, parts)] == [*map(len, whole)] else (note,)
        return Shade(view, self.side, index, cells, self.head in view.step.heads_off, notes)

    @cached_property
    def scale(self) -> Domain:
        """Color domain of the weights."""
        return domain_of(self.domain, self.shade.view, self.shade.cells)

    @property
    def position(self) -> int:
        """Position of the token whose attention is shown."""
        return int(self.shade.ends[0].starts[self.shade.index])

    def facts(self) -> FigureFacts:
        return FigureFacts(
            heading=f"Attention {self.side} {self.token} · {called(self.attention_view, self.head)}",
            subject=(self.site, f"{heads_in_name(self.head)}-{self.kind}{self.side}-{self.position}"),
            table=self._table,
            words=self._in_words,
            arrays=self._arrays,
            record=self.record,
        )

    @property
    def token(self) -> str:
        """Name of the token in the title."""
        return named(self.shade.ends[0], self.shade.index)

    @property
    def lines(self) -> list[str]:
        """Lines under the title."""
        shade = self.shade
        notes = shade.notes or filter(None, [shade.view.window])
        return [*subtitles(self.record, self), self.scale.ending, *shade.view.notes, *notes]

    def _in_words(self) -> str:
        """The picture, the tokens that get most or give most, what the view did, and what was changed."""
        shade, changed = self.shade, self.record.edits.in_words()
        token, weights, is_from = named(shade.ends[0], shade.index), np.nan_to_num(shade.weights), self.side == "from"
        order = [i for i in np.argsort(-weights, kind="stable")[:MOST_NAMED].tolist() if weights[i] >= 0.005]
        listed = ", ".join(f"{named(shade.ends[1], i)} {weights[i]:.2f}" for i in order)
        looks = f"{predicting(shade.view, shade.index)} looks most at" if is_from else " is looked at most by"
        most = f"{token}{looks} {listed}{OFF if shade.off else '.'}"
        if not listed:
            most = f"{token} gives nobody attention." if is_from else f"{token} gets no attention."
        notes = map(as_sentence, (*shade.view.notes, *shade.notes))
        changes = [f"Changed: {', '.join(changed)}."] if changed else []
        return " ".join([self.begin.format(self.side), most, *notes, *changes])

    def _table(self) -> pd.DataFrame:
        """The cells of the chosen token."""
        table = tables.weights_table(self.shade.view, self.head)
        cells = table[table["query" if self.side == "from" else "key"] == self.position].reset_index(drop=True)
        cells.attrs = dict(table.attrs)
        return cells

    def _arrays(self) -> dict[str, np.ndarray]:
        """Weights over the tokens at the other end."""
        shade = self.shade
        return {
            "weights": shade.weights,
            "may_attend": shade.cells.blocked[0] == 0,
            "tokens": text_array(shade.ends[1].labels),
            "positions": shade.ends[1].starts,
        }

    def state(self, i: int) -> str:
        """The cell of one shaded token, in words."""
        shade, state = self.shade, self.shade.cells.states[0, i]
        if state == EMPTY:
            return POLICIES[shade.view.step.scoring.empty_rows]
        if np.isnan(shade.weights[i]):
            return NOT_A_NUMBER
        return blocked_by(shade.cells.reasons[shade.cells.blocked[0, i] - 1]) if state == BLOCKED else MAY_ATTEND

    def looks(self, part: Groups, colors: Theme, *, is_shaded: bool) -> list[dict]:
        """Colors of each token of a part, what a click on it selects, and what hovering says."""
        shade, names, chosen = self.shade, axes.names(part), axes.names(self.shade.ends[0])[self.shade.index]
        is_query, places = (is_shaded and not shade.one_text) != (self.side == "from"), part.starts.tolist()
        shades, rows = self.scale.shade(np.nan_to_num(shade.weights)), []
        for i, (position, name) in enumerate(zip(places, names, strict=True)):
            fill, stroke, ends, weight, says = colors.background, colors.line, ["", name], "", ""
            if is_shaded:
                weight, says, ends = written(float(shade.weights[i]), ".4f"), self.state(i), [chosen, name]
                fill = pixels.color_at(float(shades[i]), colors) if shade.colored[i] else colors.blocked
                stroke = colors.warning if "NaN" in says else stroke
            ink = pixels.readable(fill, colors)
            query_name, key_name = ends if is_shaded == (self.side == "from") else ends[::-1]
            rows.append(
                {
                    "fill": fill,
                    "ink": colors.quiet if part.tokens[i].special and ink == colors.text else ink,
                    "stroke": stroke,
                    "stroke_width": 1.0 if stroke == colors.line else 2.0,
                    "query": position if is_query else -1,
                    "key": -1 if is_query else position,
                    "rev": self.rev,
                    "query_name": query_name,
                    "key_name": key_name,
                    "weight_text": weight,
                    "says": says,
                }
            )
        return rows
