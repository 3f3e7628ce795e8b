"""Attention of heads as lines from queries to keys: the larger a weight, the stronger its line."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from attnviz.analysis import EMPTY, Cells, sentences
from attnviz.analysis.views import AttentionView, Groups
from attnviz.charts import axes, marks, signs
from attnviz.charts.axes import KEY, LONGEST_LABEL, QUERY
from attnviz.charts.marks import LegendEntry, Spec, Table, heading, legend_table, signs_spec, text_width, title_spec
from attnviz.charts.signs import NOT_A_NUMBER, POLICIES, CellState, has_color
from attnviz.charts.theme import LINE, MONO
from attnviz.core.amounts import written
from attnviz.core.display import as_sentence, visible_text
from attnviz.core.errors import InputError
from attnviz.figures.base import FigureFacts, SiteFigure, Views, subtitles, text_array
from attnviz.figures.head import map_name

SIDES, ALIGN, STACKS = ("query", "key"), ("right", "left"), ("decoder", "encoder")
"""Ends of a line, alignment of their labels, and their stacks in an encoder-decoder model."""
Pin = tuple[str, int]
"""A picked token: its side, one of `SIDES`, and its position."""
MOST_TOKENS, MOST_LINES, MOST_ABOVE_LEAST, MOST_HEADS = 64, 400, 4_000, 4
"""Maximum numbers: queries or keys drawn; lines without and with a minimum weight; heads described in words."""
GAP, ON_SCREEN, NARROWEST, PADDING = 230, 380, 120, 8
"""Pixels between the two columns of tokens: in a file, on a screen, and at least; between a line and its token."""
HIGHEST, LOWEST, HEIGHT, LARGER = 38, 15, 360, 1.2
"""Pixels: largest and smallest height of a token, and target height of a column; factor of these on a screen."""
SAMPLES = (0.1, 0.25, 0.5, 1.0)
"""Weights in the legend."""
STRENGTH = {"type": "quantitative", "scale": {"type": "pow", "exponent": 0.6, "domain": [0, 1], "range": [0, 1]}}
"""Opacity by a power of the weight: 0.1 stays visible, and many tiny weights do not add up to a fog."""
SIZES = "size of the mixing weight, of either sign, as a share of the largest"
"""Title of the legend in linear attention."""
TOOLTIP = (("query_name", QUERY), ("key_name", KEY), ("weight_text", "weight"), ("head_name", "head"))
_SIDE = "pointed.side[0]"
_MEANT = (
    f"!isValid(pointed.side) || {_SIDE} === 'line' || "
    f"({_SIDE} === 'query' ? datum.query === pointed.query[0] : datum.key === pointed.key[0])"
)
_WIDE = f"datum.chosen || isValid(pointed.side) && {_SIDE} === 'line' && datum.index === pointed.index[0]"
"""Vega expressions: whether a line belongs to the hovered token, and whether it is hovered or selected."""


class Edges(NamedTuple):
    """Weights to draw, the smallest first, as arrays (lines,): indices of head, row and column, and the weight.

    `notes` are sentences on the number of lines, and on the tokens that are drawn.
    """

    heads: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    weights: np.ndarray
    notes: list[str]


@dataclass(frozen=True, eq=False)
class HeadLines(SiteFigure):
    """Weights of one or several heads as lines, queries left and keys right. Table and arrays contain the drawn lines.

    A click selects "cell" with the fields query, key and rev: both positions for a line; for a token, its position and
    -1 for the other side. The line of the selected cell is emphasized, and its query is picked.

    Attributes:
        heads: numbers of heads, or names of `analysis.AGGREGATIONS`; each has its own hue.
        least: minimum weight of a line; None for the 400 largest weights.
        pins: picked tokens: only lines that begin or end at a picked token are drawn.

    Raises:
        InputError: if there are no heads, a head is repeated, or there are too many to distinguish.
    """

    heads: Sequence[int | str]
    _: KW_ONLY
    least: float | None = None
    pins: frozenset[Pin] = frozenset()

    def __post_init__(self):
        super().__post_init__()
        most, count = len(self.colors.hues), len(self.heads)
        if not 0 < count <= most or len(set(self.heads)) < count:
            raise InputError(f"Lines show from 1 to {most} heads, each once; {count} were given.")

    @cached_property
    def _window(self) -> AttentionView:
        """View of the tokens that are drawn: at most MOST_TOKENS per side, around the selected and picked tokens."""
        pins = dict(sorted(self.pins, reverse=True))  # the first picked token of each side
        return self.attention_view.around(self.heads[0], self.selected, pins, MOST_TOKENS)

    @property
    def _sides(self) -> tuple[Groups, Groups]:
        """Queries and keys that are drawn."""
        return self._window.queries, self._window.keys

    @cached_property
    def _pins(self) -> frozenset[Pin]:
        """Picked tokens among those that are drawn, and the query of the selected cell."""
        tokens_of, picked = dict(zip(SIDES, self._sides, strict=True)), {*self.pins}
        if self.selected:
            picked.add(("query", self.selected[0]))
        return frozenset(
            (side, position) for side, position in picked if tokens_of[side].index_of(position) is not None
        )

    @cached_property
    def _cells(self) -> tuple[Cells, ...]:
        return tuple(self._window.cells(tuple(self.heads)))

    @cached_property
    def edges(self) -> Edges:
        """Weights of the picked tokens, or of all tokens, that are large enough to be drawn."""
        queries, keys = self._sides
        is_picked = np.full((len(queries), len(keys)), not self._pins)  # cells in the row or column of a picked token
        for side, position in self._pins:
            if side == "query":
                is_picked[queries.index_of(position)] = True
            else:
                is_picked[:, keys.index_of(position)] = True
        # arrays (heads, queries, keys); a row without an open key (EMPTY) is filled: its blocked cells have weights
        has_weight = np.stack([(cells.blocked == 0) | (cells.states == EMPTY) for cells in self._cells]) & is_picked
        weights = np.stack([cells.weights for cells in self._cells]).astype(np.float64)
        sizes = np.nan_to_num(np.abs(weights) if self._window.step.linear else weights)
        is_visible = has_weight & np.stack([*map(has_color, self._cells)]) & (sizes > 0)
        weights, sizes = weights[is_visible], sizes[is_visible]
        strongest = np.argsort(-sizes, kind="stable")[: MOST_LINES if self.least is None else MOST_ABOVE_LEAST]
        if self.least is not None:
            strongest = strongest[sizes[strongest] >= self.least]
        drawn = strongest[::-1]  # the strongest line is drawn last, over the others
        count = _count_note(sizes[drawn], int(has_weight.sum()), self._pins, self.least)
        notes = [*window_notes(self._window, self.attention_view, "lines"), count]
        return Edges(*np.argwhere(is_visible)[drawn].T, weights[drawn], notes)

    @property
    def facts(self) -> FigureFacts:
        name = map_name(self.attention_view, self.heads[0]) if len(self.heads) == 1 else self.site.head(*self.heads)
        subject = self.site, f"lines-{'-'.join(map(str, self.heads))}"
        facts = {"table": self._table, "words": self._in_words, "arrays": self._arrays}
        return FigureFacts(what=f"Lines · {name}", subject=subject, **facts)

    def _in_words(self) -> str:
        """Describe up to MOST_HEADS heads, and the lines that are drawn."""
        texts = ["Lines from queries to keys.", *(sentences.head(self._window, i) for i in self.heads[:MOST_HEADS])]
        if len(self.heads) > MOST_HEADS:
            texts.append(f"{len(self.heads) - MOST_HEADS} more heads.")
        return " ".join([*texts, *map(as_sentence, self.edges.notes)])

    def _table(self) -> pd.DataFrame:
        """Table with one row per line, the largest weight first: head, query, query_token, key, key_token, weight."""
        heads, rows, columns, weights = (array[::-1] for array in self.edges[:4])
        queries, keys = self._sides
        data = {"head": [self.heads[i] for i in heads]}
        data.update({"query": queries.starts[rows], "query_token": [queries.labels[i] for i in rows]})
        data.update({"key": keys.starts[columns], "key_token": [keys.labels[i] for i in columns]})
        table = pd.DataFrame(data | {"weight": weights})
        table.attrs["note"] = " ".join(map(as_sentence, (*self._window.notes, *self.edges.notes)))
        return table

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays to export: ends, weight and head of each line, and the tokens of both sides."""
        numbers = {f"line_{name}": self.table[name].to_numpy() for name in ("query", "key", "weight")}
        heads = {"line_head": text_array([str(head) for head in self.table["head"]])}
        queries, keys = (text_array(tokens.labels) for tokens in self._sides)
        return numbers | heads | {"query_tokens": queries, "key_tokens": keys}

    def draw(self) -> Views:
        """Draw lines between two columns of tokens; hovering changes their width and opacity."""
        gap, constant = self._gap, marks.pixels_at
        ends = {"y": self._y("y"), "y2": {"field": "y2"}, "x": constant(0), "x2": constant(gap)}
        width, wide = 2.0 if self._most_tokens > 24 else 2.5, 5 if len(self.heads) == 1 else 4
        strokes = {
            "stroke": marks.as_is("ink"),
            "strokeOpacity": marks.when(_MEANT, STRENGTH | {"field": "weight", "legend": None}, constant(0)),
            "strokeWidth": marks.when(_WIDE, constant(wide), constant(width)),
        }
        pointer = {"strokeOpacity": 0, "cursor": "pointer", "strokeWidth": 7}  # invisible, but easy to hit
        layers = [
            *self._legends(),
            marks.layer("lines", "rule", ends | strokes),
            marks.layer("lines", "rule", ends | {"tooltip": marks.tips(*TOOLTIP)}, **pointer) | {"name": "lines"},
            *self._side(0),
            *self._side(1),
        ]
        pointed = marks.hover(["lines"], "side", "query", "key", "index")
        params = [marks.click("cell", ["lines"], "query", "key", "rev"), pointed]
        scales = dict.fromkeys(("shape", "fill", "stroke"), "independent")
        chart = {"layer": layers, "width": gap, "height": self._most_tokens * self._cell, "resolve": {"scale": scales}}
        return Views(marks.whole(chart | {"params": params, "title": title_spec()}, self.colors), self._data())

    def _data(self) -> dict[str, Table]:
        """Build the tables of the chart: titles, lines, tokens of both sides, and the legend."""
        edges, colors = self.edges, self.colors
        notes = [*subtitles(self.record, self), self.attention_view.window, *self._window.rule, *self._window.notes]
        notes += edges.notes
        names_and_inks = zip(self._names, self._inks, strict=True) if len(self.heads) > 1 else ()
        legend = [LegendEntry(name, "", ink, ink) for name, ink in names_and_inks]
        legend += signs.legend([CellState(text, "background", "cross") for text in self._weightless_rows], colors)
        meta = heading(self.heading_text, notes, 170 + (ON_SCREEN if self.on_screen else GAP), self)
        return {
            "meta": meta | {"sample": [colors.text if len(self.heads) > 1 else self._inks[0]]},
            "lines": self._lines(),
            "queries": self._tokens(0),
            "keys": self._tokens(1),
            "legend": legend_table(legend),
        }

    @property
    def _most_tokens(self) -> int:
        """Number of tokens of the longer side."""
        return max(1, *map(len, self._sides))

    def _y(self, name: str) -> Spec:
        """Build channel y, which reads the field `name`, in tokens from the top."""
        return marks.places(self._most_tokens, reverse=True) | {"field": name}

    @cached_property
    def _gap(self) -> int:
        """Pixels between the two columns of tokens."""
        if self.width is None:
            return ON_SCREEN if self.on_screen else GAP
        return max(NARROWEST, min(GAP, int(self.width - sum(map(_widest, self._labels))) - 3 * PADDING))

    @property
    def _cell(self) -> float:
        """Height of a token in pixels."""
        larger = LARGER if self.on_screen else 1
        return float(max(LOWEST, min(HIGHEST * larger, HEIGHT * larger // self._most_tokens)))

    @cached_property
    def _inks(self) -> list[str]:
        """Color of each head by its number; if two heads would have the same color, colors by order."""
        hues, first = self.colors.hues, self.heads[0]
        if len(self.heads) == 1:
            return [self.colors.quiet if first in self.attention_view.step.heads_off else hues[0]]
        numbers = [head % len(hues) for head in self.heads if isinstance(head, int)]
        if len({*numbers}) == len(self.heads):
            return [hues[number] for number in numbers]
        return [*hues[: len(self.heads)]]

    @cached_property
    def _names(self) -> list[str]:
        """Name of each head for tooltips and the legend: "head 2 · off", or "mean of all heads"."""
        names = [f"head {head}" if isinstance(head, int) else f"{head} of all heads" for head in self.heads]
        off = self.attention_view.step.heads_off
        return [f"{name} · off" if head in off else name for head, name in zip(self.heads, names, strict=True)]

    @cached_property
    def _weightless_rows(self) -> dict[str, set[int]]:
        """Rows that are fully masked or NaN in any of the heads, by their legend text."""
        has_nan = np.stack([np.isnan(cells.weights).any(1) for cells in self._cells]).any(0)
        is_masked = np.stack([(cells.states == EMPTY).all(1) for cells in self._cells]).any(0)
        policy = POLICIES[self.attention_view.step.scoring.empty_rows]
        by_text = {NOT_A_NUMBER: {*np.flatnonzero(has_nan & ~is_masked)}, policy: {*np.flatnonzero(is_masked)}}
        return {text: rows for text, rows in by_text.items() if rows}

    def _lines(self) -> Table:
        """Build the table of lines; lines of several heads are shifted, so that they do not cover each other."""
        edges, (queries, keys), count = self.edges, self._sides, len(self.edges.weights)
        rows, columns, heads = edges.rows, edges.columns, edges.heads
        distance = min(4.0, (self._cell - 6) / len(self.heads)) / self._cell  # in heights of a token; at most 4 pixels
        shift = 0.5 + (heads - (len(self.heads) - 1) / 2) * distance
        query, key = self.selected or (-1, -1)
        is_selected = (rows == queries.index_of(query)) & (columns == keys.index_of(key))
        strength = edges.weights  # 0 to 1
        if self._window.step.linear:
            strength = np.abs(edges.weights) / np.abs(edges.weights).max(initial=1e-9)
        query_names, key_names = map(axes.names, self._sides)
        return {
            "y": (rows + shift).tolist(),
            "y2": (columns + shift).tolist(),
            "query": queries.starts[rows].tolist(),
            "key": keys.starts[columns].tolist(),
            "rev": [self.rev] * count,
            "index": [*range(count)],
            "side": ["line"] * count,
            "ink": [self._inks[head] for head in heads],
            "weight": strength.tolist(),
            "chosen": is_selected.tolist(),
            "query_name": [query_names[row] for row in rows],
            "key_name": [key_names[column] for column in columns],
            "weight_text": [written(weight, ".4f") for weight in edges.weights.tolist()],
            "head_name": [self._names[head] for head in heads],
        }

    def _tokens(self, side: int) -> Table:
        """Build the table of the tokens of the queries (`side` 0) or keys (1)."""
        tokens, colors, count = self._sides[side], self.colors, len(self._sides[side])
        positions = tokens.starts.tolist()
        picked = {tokens.index_of(position) for name, position in self._pins if name == SIDES[side]}
        inks = [colors.quiet if token.special else colors.text for token in tokens.tokens]
        selected = tokens.index_of(self.selected[side]) if self.selected else None
        for i in picked if selected is None else {*picked, selected}:
            inks[i] = colors.accent
        weightless_queries = set().union(*self._weightless_rows.values())
        for i in weightless_queries if side == 0 else ():
            inks[i] = colors.warning
        turns = [(token.segment, token.role) for token in tokens.tokens]
        return {
            "begin": [*range(count)],
            "middle": [i + 0.5 for i in range(count)],
            "end": [*range(1, count + 1)],
            "label": self._labels[side],
            "ink": inks,
            "picked": [i in picked for i in range(count)],
            "breaks": [i > 0 and turns[i] != turns[i - 1] for i in range(count)],
            "side": [SIDES[side]] * count,
            "query": [-1] * count if side else positions,
            "key": positions if side else [-1] * count,
            "rev": [self.rev] * count,
            "index": [-1] * count,
            "name": axes.names(tokens),
        }

    @cached_property
    def _labels(self) -> tuple[list[str], list[str]]:
        """Labels of queries (with × if without weights) and keys; with weights if one token of one head is picked."""
        queries, keys = ([visible_text(label, LONGEST_LABEL) for label in side.labels] for side in self._sides)
        for row in set().union(*self._weightless_rows.values()):
            queries[row] = f"× {queries[row]}"
        if len(self._pins) == len(self.heads) == 1:
            [(picked_side, _)] = self._pins
            for row, column, weight in zip(*self.edges[1:4], strict=True):
                if picked_side == "query":
                    keys[column] += f" {weight:.2f}"
                else:
                    queries[row] = f"{weight:.2f} {queries[row]}"
        return queries, keys

    def _side(self, side: int) -> list[Spec]:
        """Build the layers of the token labels: of queries, on the left (`side` 0), or of keys, on the right (1)."""
        table, titles, align = ("queries", "keys")[side], [(QUERY, KEY)[side]], ALIGN[side]
        # channels x by pixels from the ends of the lines
        x_at = {distance: marks.pixels_at(self._gap + distance if side else -distance) for distance in (1, 2, 4, 8, 68)}
        begin, middle = self._y("begin"), self._y("middle")
        text, x = {"align": align, "font": MONO, "baseline": "middle"}, {"x": x_at[PADDING]}
        titles += [STACKS[side]] if self.site.kind == "cross" else []
        over = {"align": align, "baseline": "bottom", "dy": -12 - LINE * (len(titles) - 1), "lineHeight": LINE}
        title = x | {"y": marks.pixels_at(0)}
        label = x | {"y": middle, "text": marks.field("label"), "fill": marks.as_is("ink")}
        label["tooltip"] = marks.tips(("name", (QUERY, KEY)[side]))
        turn = {"y": begin, "x": x_at[2], "x2": x_at[68]}
        picked = {"y": begin, "y2": {"field": "end"}, "x": x_at[4], "x2": x_at[1]}
        return [
            marks.layer(table, "rule", turn, where="datum.breaks", color=self.colors.line),
            marks.layer("meta", "text", title, text=titles, color=self.colors.quiet, **over),
            marks.layer(table, "rect", picked, where="datum.picked", fill=self.colors.accent),
            marks.layer(table, "text", label, cursor="pointer", **text),
        ]

    def _legends(self) -> list[Spec]:
        """Build invisible points that carry the legends: opacity, hues of several heads, and rows without weights."""
        where = {"orient": "bottom", "offset": 14}
        above = {"orient": "top", "offset": 52 if self.site.kind == "cross" else 35}  # over the titles of both sides
        if self.aside:
            where = above = {"orient": "right", "offset": 14 + PADDING + round(_widest(self._labels[1]))}
        strength = {
            "title": SIZES if self._window.step.linear else "weight: the stronger a line, the larger",
            "values": [*SAMPLES],
            "direction": "horizontal",
            "format": ".2~g",
            "symbolStrokeColor": {"expr": "(data('meta')[0] || {}).sample || 'gray'"},
            "symbolStrokeWidth": 3,
            "symbolType": "stroke",
            "symbolSize": 676,
            **above,
        }
        point = marks.unseen("meta")
        point["encoding"]["opacity"] = STRENGTH | {"field": "strength", "legend": strength}
        return [point, signs_spec(where)]


def _widest(labels: Sequence[str]) -> float:
    """Return the width of the widest label in pixels."""
    return max(map(text_width, labels), default=0.0)


def _count_note(weights: np.ndarray, total: int, pins: frozenset[Pin], least: float | None) -> str:
    """Write how many of `total` weights, of all tokens or of the picked ones, have a line."""
    noun = "token" if len(pins) == 1 else "tokens"
    count, picked = len(weights), f" of the picked {noun}" if pins else ""
    if count == total:
        return f"all {total:,} weights{picked} have a line" if total else f"no weight{picked} to draw"
    note = f"{count:,} of {total:,} weights{picked} have a line"
    if least is not None and count < MOST_ABOVE_LEAST:
        return f"{note}: those of at least {least:g}"
    return f"{note}: the strongest, from {weights[0]:.2g} on" if count else note


def window_notes(view: AttentionView, whole: AttentionView, form: str) -> list[str]:
    """Return a note if `view` has only some tokens of `whole`, as a figure, named by `form`, has no room for all."""
    spans = []
    for name, drawn, tokens in (("queries", view.queries, whole.queries), ("keys", view.keys, whole.keys)):
        if len(drawn) < len(tokens):
            total = "" if whole.window else f" of {len(tokens):,}"
            spans.append(f"{name} {drawn.starts[0]} to {drawn.stops[-1] - 1}{total}")
    return [f"too many tokens for {form}: {' and '.join(spans)}; the map shows all"] if spans else []
