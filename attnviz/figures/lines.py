"""Heads as lines from the tokens that look to those that are looked at: the stronger a line, the larger its weight."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pandas as pd

from attnviz.analysis import EMPTY, sentences
from attnviz.charts import axes, marks, signs
from attnviz.charts.axes import KEY, LONGEST_LABEL, QUERY, word_spans
from attnviz.charts.domain import NOT_A_NUMBER, POLICIES, colored
from attnviz.charts.grid import JOINED
from attnviz.charts.legends import LegendEntry, entry, heading, signs_spec, text_width, title_spec
from attnviz.charts.marks import Form, Spec, Table
from attnviz.charts.theme import LINE, MONO, Theme
from attnviz.core.amounts import written
from attnviz.core.display import as_sentence, in_title, visible_text
from attnviz.core.errors import InputError
from attnviz.figures.base import FigureFacts, SiteFigure, Views, subtitles, text_array
from attnviz.figures.head import called
from attnviz.figures.strands import SIDES, Pin, Strands, strands

DASHES = ((1, 0), (7, 3), (2, 3), (10, 3, 2, 3), (14, 5))
"""Pixels of strokes and gaps, for heads beyond the number of hues."""

GAP, ON_SCREEN, NARROWEST = 230, 380, 120
"""Pixels between the two columns of tokens, on a screen, and at least in a given width."""

PADDING, NUMBER = 8, 44
"""Pixels between lines and tokens, and of the weights at one side."""

HIGHEST, LOWEST, HEIGHT, LARGER = 38, 15, 360, 1.2
"""Pixels of a token at most and at least, and of all of them where that allows it; their factor on a screen."""

SAMPLES = (0.1, 0.25, 0.5, 1.0)
"""Weights in the legend."""

FAINT = 0.3
"""Factor of the opacity of gray lines, before which others stand out: pale and in color they would be small weights."""

MOST_HEADS = 4
"""Heads described in words at most."""

TOOLTIP = (("query_name", QUERY), ("key_name", KEY), ("weight_text", "weight"), ("head_name", "head"))


@dataclass(frozen=True, eq=False)
class HeadLines(SiteFigure):
    """Weights of one or several heads as lines, queries left and keys right. Table and arrays hold the drawn lines.

    A click selects under the name "cell" the fields query, key and rev: both of a line, one and -1 of a token. The line
    of the selected cell is emphasized, and its query is picked.

    Attributes:
        heads: numbers, or names of `analysis.AGGREGATIONS`; each has a hue, dashes and a name of its own.
        least: weights from here on are drawn; None for the strongest 400.
        pins: tokens that are picked: only lines that end at one of them are drawn.
        row: a query whose lines stand out while no token is picked; all others are faint until they are pointed at.

    Raises:
        InputError: if there are no heads, or too many to be told apart.
    """

    heads: Sequence[int | str]
    _: KW_ONLY
    least: float | None = None
    pins: frozenset[Pin] = frozenset()
    row: int | None = None

    def __post_init__(self):
        super().__post_init__()
        most, count = len(self.colors.hues) * len(DASHES), len(self.heads)
        if not 0 < count <= most or len(set(self.heads)) < count:
            raise InputError(f"Lines show from 1 to {most} heads, each once; {count} were given.")

    @cached_property
    def strands(self) -> Strands:
        """The weights that are drawn."""
        pins = frozenset(self.pins)
        return strands(self.attention_view, tuple(self.heads), selected=self.selected, pins=pins, least=self.least)

    def facts(self) -> FigureFacts:
        name = called(self.attention_view, self.heads[0])
        if len(self.heads) > 1:
            name = f"{self.site.head(*self.heads)} · {in_title(self.record.source)}"
        subject = self.site, f"lines-{'-'.join(map(str, self.heads))}"
        functions = {"table": self._table, "words": self._in_words, "arrays": self._arrays}
        return FigureFacts(heading=f"Lines · {name}", subject=subject, record=self.record, **functions)

    def _in_words(self) -> str:
        more = len(self.heads) - MOST_HEADS
        heads = [sentences.head(self.strands.view, head) for head in self.heads[:MOST_HEADS]]
        rest = [f"{more} more heads."] if more > 0 else []
        return " ".join(["Lines from queries to keys.", *heads, *rest, *map(as_sentence, self.strands.notes)])

    def _table(self) -> pd.DataFrame:
        """One row per line, the strongest first: head, query, query_token, key, key_token, weight."""
        strands, (queries, keys) = self.strands, self._sides
        rows, columns = strands.rows[::-1], strands.columns[::-1]
        table = pd.DataFrame(
            {
                "head": [self.heads[i] for i in strands.heads[::-1]],
                "query": queries.starts[rows],
                "query_token": [queries.labels[i] for i in rows],
                "key": keys.starts[columns],
                "key_token": [keys.labels[i] for i in columns],
                "weight": strands.weights[::-1],
            }
        )
        table.attrs["note"] = " ".join(map(as_sentence, (*strands.view.notes, *strands.notes)))
        return table

    def _arrays(self) -> dict[str, np.ndarray]:
        numbers = {f"line_{name}": self.table[name].to_numpy() for name in ("query", "key", "weight")}
        queries, keys = self._sides
        return numbers | {
            "line_head": text_array([str(head) for head in self.table["head"]]),
            "query_tokens": text_array(queries.labels),
            "key_tokens": text_array(keys.labels),
        }

    def draw(self) -> Views:
        return Views(self._form(), self._data())

    def _form(self) -> Form:
        colors, gap, most, is_cross = self.colors, self._gap, max(map(len, self._sides)), self.site.kind == "cross"

        def end(name: str) -> Spec:
            return {"y": marks.places(max(1, most), reverse=True) | {"field": name}}

        ends = end("y") | {"y2": {"field": "y2"}, "x": marks.pixels_at(0), "x2": marks.pixels_at(gap)}
        looks, strength = _looks(colors), STRENGTH | {"field": "weight", "legend": None}
        strokes = looks | {
            "stroke": marks.when(_FAINT, marks.pixels_at(colors.quiet), looks["stroke"]),
            "strokeOpacity": marks.when(_MEANT, strength, marks.pixels_at(0)),
            "opacity": marks.when(_FAINT, marks.pixels_at(FAINT), marks.pixels_at(1)),
            "strokeWidth": marks.when(_POINTED, marks.pixels_at(5), marks.pixels_at(2.0 if most > 24 else 2.5)),
        }
        hits = marks.layer(
            "lines", "rule", ends | {"tooltip": marks.tips(*TOOLTIP)}, strokeOpacity=0, cursor="pointer", strokeWidth=7
        )
        layers = [
            *_legends(several=len(self.heads) > 1, cross=is_cross, right=self._right, colors=colors),
            marks.layer("lines", "rule", ends | strokes),
            marks.layer("chosen", "rule", ends, color=colors.accent, strokeWidth=1.25),
            hits | {"name": "lines"},
            *(layer for i in (0, 1) for layer in _side(i, end, gap, is_cross, colors)),
        ]
        scales = dict.fromkeys(("shape", "fill", "stroke", "strokeDash"), "independent")
        pointed = marks.hover(["lines"], "side", "query", "key", "index")
        params = [marks.click("cell", ["lines"], "query", "key", "rev"), pointed]
        chart = {"layer": layers, "width": gap, "height": most * self._cell, "resolve": {"scale": scales}}
        return marks.whole(chart | {"params": params, "title": title_spec()}, colors)

    def _data(self) -> dict[str, Table]:
        strands, looks = self.strands, self._looks
        notes = [*subtitles(self.record, self), self.attention_view.window, *strands.view.notes, *strands.notes]
        if self._led is not None:
            notes.append(f"in color: where {sentences.named(self._sides[0], self._led)} looks")
        if any(map(word_spans, self._sides)):
            notes.append(JOINED)
        text = self.colors.text
        color = text if len(looks) > 1 else [*self.colors.hues * len(DASHES), self.colors.quiet][looks[0]]
        legend = [(text, signs.CROSS, self.colors.warning) for text in self._without]
        legend += [] if self._led is None else [("other rows", signs.DASH, self.colors.quiet)]
        return {
            "meta": heading(self._heading, notes, 170 + (ON_SCREEN if self.on_screen else GAP), self)
            | {"sample": [color]},
            "lines": self._lines(),
            "chosen": self._framed(),
            "queries": self._tokens(0),
            "keys": self._tokens(1),
            "words": self._words(),
            "heads": {"look": looks, "name": self._names},
            "legend": entry([LegendEntry(*sign, self.colors.background) for sign in legend]),
        }

    @property
    def _sides(self):
        return self.strands.view.queries, self.strands.view.keys

    @cached_property
    def _gap(self) -> int:
        """Pixels between the two columns of tokens."""
        if self.width is None:
            return ON_SCREEN if self.on_screen else GAP
        labels = [max(map(text_width, self._labels(side)), default=0.0) for side in (0, 1)]
        numbers = NUMBER if any(map(any, map(self._numbers, (0, 1)))) else 0
        return max(NARROWEST, min(GAP, int(self.width - sum(labels) - numbers) - 3 * PADDING))

    @property
    def _right(self) -> int:
        """Pixels right of the lines that labels and numbers take, where a legend stands beside them; else 0."""
        if not self.aside:
            return 0
        return round(self._tokens(1)["number_at"][0]) - self._gap - (0 if any(self._numbers(1)) else NUMBER)

    @property
    def _cell(self) -> float:
        """Height of a token's row in pixels."""
        larger = LARGER if self.on_screen else 1
        return float(max(LOWEST, min(HIGHEST * larger, HEIGHT * larger // max(1, *map(len, self._sides)))))

    @cached_property
    def _looks(self) -> list[int]:
        """Hue and dashes of each head: by its number, so that it stays while others come and go."""
        most = len(self.colors.hues) * len(DASHES)
        numbers = [head % most if isinstance(head, int) else -1 for head in self.heads]
        if len(self.heads) == 1:
            return [most if self.heads[0] in self.attention_view.step.heads_off else 0]
        return numbers if len(set(numbers)) == len(numbers) and -1 not in numbers else [*range(len(numbers))]

    @cached_property
    def _names(self) -> list[str]:
        names = [f"head {head}" if isinstance(head, int) else f"{head} of all heads" for head in self.heads]
        off = self.attention_view.step.heads_off
        return [f"{name} · off" if head in off else name for head, name in zip(self.heads, names, strict=True)]

    @property
    def _led(self) -> int | None:
        """The row whose lines stand out, where no token is picked."""
        return None if self.row is None or self.strands.pins else self._sides[0].index_of(self.row)

    @cached_property
    def _without(self) -> dict[str, set[int]]:
        """Rows that have no key left, or are no number, in any of the heads, by the words for it."""
        head_cells = self.strands.cells
        nan = np.stack([np.isnan(cells.weights).any(1) for cells in head_cells]).any(0)
        empty = np.stack([(cells.states == EMPTY).all(1) for cells in head_cells]).any(0)
        policy = POLICIES[self.attention_view.step.scoring.empty_rows]
        rows = {NOT_A_NUMBER: {*np.flatnonzero(nan & ~empty)}, policy: {*np.flatnonzero(empty)}}
        return {text: of for text, of in rows.items() if of}

    def _shift(self, heads: np.ndarray | int, by: float = 0.0) -> np.ndarray | float:
        """Ends of lines within a token: those of several heads beside each other; `by` are pixels from there."""
        apart = min(4.0, (self._cell - 6) / len(self.heads))
        return 0.5 + ((heads - (len(self.heads) - 1) / 2) * apart + by) / self._cell

    def _lines(self) -> Table:
        """A row for each line."""
        strands, (queries, keys), count = self.strands, self._sides, len(self.strands.weights)
        rows, columns, heads = strands.rows, strands.columns, strands.heads
        query_names, key_names = map(axes.names, self._sides)
        shift, led = self._shift(heads), self._led
        return {
            "y": (rows + shift).tolist(),
            "y2": (columns + shift).tolist(),
            "query": queries.starts[rows].tolist(),
            "key": keys.starts[columns].tolist(),
            "rev": [self.rev] * count,
            "index": [*range(count)],
            "side": ["line"] * count,
            "look": [self._looks[head] for head in heads],
            "weight": strands.weights.tolist(),
            "faint": (rows != led).tolist() if led is not None else [False] * count,
            "query_name": [query_names[row] for row in rows],
            "key_name": [key_names[column] for column in columns],
            "weight_text": [written(weight, ".4f") for weight in strands.weights.tolist()],
            "head_name": [self._names[head] for head in heads],
        }

    def _framed(self) -> Table:
        """Two thin lines around those of the selected cell, which stay as strong as their weights."""
        row, column = (
            part.index_of(position) for part, position in zip(self._sides, self.selected or (-1, -1), strict=True)
        )
        if row is None or column is None or not colored(self.strands.cells[0])[row, column]:
            return {"y": [], "y2": []}
        shifts = self._shift(0, -3.5), self._shift(len(self.heads) - 1, 3.5)
        return {"y": [row + shift for shift in shifts], "y2": [column + shift for shift in shifts]}

    def _tokens(self, side: int) -> Table:
        """The tokens of a side: what stands there, and where the strongest line of each goes."""
        part, mine, other = self._sides[side], *(axes.names(self._sides[end]) for end in (side, 1 - side))
        weights = np.nan_to_num(self.strands.cells[0].weights, nan=-1.0)
        weights = weights if side == 0 else weights.T
        most = weights.argmax(1)
        heaviest = weights.max(1).tolist()
        ends = [f"most: {other[i]}" if weight > 0 else "none" for i, weight in zip(most, heaviest, strict=True)]
        picked = {part.index_of(position) for name, position in self.strands.pins if name == SIDES[side]}
        led = {self._led} if side == 0 else set()
        accented = picked | ({part.index_of(self.selected[side])} if self.selected else led)
        warned, colors = set().union(*self._without.values()) if side == 0 else set(), self.colors
        positions, none, labels = part.starts.tolist(), [-1] * len(part), self._labels(side)
        inks = [colors.quiet if token.special else colors.text for token in part.tokens]
        inks = [colors.accent if i in accented else ink for i, ink in enumerate(inks)]
        widest = max(map(text_width, labels), default=0.0)
        number_at = self._gap + PADDING + widest + NUMBER if side else -PADDING - widest - NUMBER / 4
        return {
            "begin": [*range(len(part))],
            "middle": [i + 0.5 for i in range(len(part))],
            "end": [i + 1 for i in range(len(part))],
            "label": labels,
            "number": self._numbers(side),
            "number_at": [number_at] * len(part),
            "ink": [colors.warning if i in warned else ink for i, ink in enumerate(inks)],
            "picked": [i in picked for i in range(len(part))],
            "side": [SIDES[side]] * len(part),
            "query": positions if side == 0 else none,
            "key": none if side == 0 else positions,
            "rev": [self.rev] * len(part),
            "index": none,
            "query_name": mine if side == 0 else ends,
            "key_name": ends if side == 0 else mine,
            "weight_text": [written(weight, ".4f") if weight > 0 else "" for weight in heaviest],
        }

    def _labels(self, side: int) -> list[str]:
        """Tokens; those of rows without weights with a cross."""
        labels = [visible_text(label, LONGEST_LABEL) for label in self._sides[side].labels]
        crossed = set().union(*self._without.values()) if side == 0 else ()
        return [f"× {label}" if i in crossed else label for i, label in enumerate(labels)]

    def _numbers(self, side: int) -> list[str]:
        """At the other ends of one picked token its weights."""
        (end, position), *others = sorted(self.strands.pins) or [(SIDES[side], 0)]
        if others or end == SIDES[side] or len(self.heads) > 1:
            return [""] * len(self._sides[side])
        index, cells = self._sides[1 - side].index_of(position), self.strands.cells[0]
        pick = (index, slice(None)) if side == 1 else (slice(None), index)
        there = (colored(cells) & (cells.blocked == 0))[pick]
        return [f"{weight:.2f}" if ok else "" for weight, ok in zip(cells.weights[pick], there, strict=True)]

    def _words(self) -> Table:
        """Lines along the pieces of a word, and between the two texts of a pair, and turns."""
        rows, inset = [], 2 / self._cell
        for side, part in enumerate(self._sides):
            rows += [(side, begin + inset, end - inset, False) for begin, end in word_spans(part)]
            marks = [(token.segment, token.role) for token in part.tokens]
            rows += [(side, i, i, True) for i, (a, b) in enumerate(pairwise(marks), 1) if a != b]
        return {name: [row[i] for row in rows] for i, name in enumerate(("side", "begin", "end", "is_break"))}


_SIDE = "pointed.side[0]"
_MEANT = (
    f"!isValid(pointed.side) || {_SIDE} === 'line' || "
    f"({_SIDE} === 'query' ? datum.query === pointed.query[0] : datum.key === pointed.key[0])"
)
"""Whether a line belongs to what is pointed at."""

_POINTED = f"isValid(pointed.side) && {_SIDE} === 'line' && datum.index === pointed.index[0]"
_FAINT = "datum.faint && !isValid(pointed.side)"


STRENGTH = {"type": "quantitative", "scale": {"type": "pow", "exponent": 0.6, "domain": [0, 1], "range": [0, 1]}}
"""Opacity of a weight: by a power of it, a tenth is seen, and many that are nearly nothing are no fog."""


def _side(i: int, end: Callable[[str], Spec], gap: int, is_cross: bool, colors: Theme) -> list[Spec]:
    """Marks of the token labels on one side of the lines: queries left, keys right."""
    table, title, stack, align = (("queries", QUERY, "decoder", "right"), ("keys", KEY, "encoder", "left"))[i]
    at = {by: marks.pixels_at(gap + by if i else -by) for by in (1, 2, 4, PADDING, 68)}
    text, x = {"align": align, "font": MONO, "baseline": "middle"}, {"x": at[PADDING]}
    titles, span = [title, stack] if is_cross else [title], end("begin") | {"y2": {"field": "end"}}
    over = {"align": align, "baseline": "bottom", "dy": -12 - LINE * (len(titles) - 1), "lineHeight": LINE}
    label = x | end("middle") | {"text": marks.field("label"), "fill": marks.as_is("ink")}
    label["tooltip"] = marks.tips(*TOOLTIP[:-1])
    number = end("middle") | {"x": marks.pixels_of("number_at"), "text": marks.field("number")}
    pieces, breaks = span | {"x": at[2]}, end("begin") | {"x": at[2], "x2": at[68]}
    quiet, mine = {"color": colors.quiet}, f"datum.side === {i} &&"
    return [
        marks.layer("words", "rule", pieces, where=f"{mine} !datum.is_break", strokeWidth=1.25, **quiet),
        marks.layer("words", "rule", breaks, where=f"{mine} datum.is_break", color=colors.line),
        marks.layer("meta", "text", x | {"y": marks.pixels_at(0)}, text=titles, **quiet, **over),
        marks.layer(table, "rect", span | {"x": at[4], "x2": at[1]}, where="datum.picked", fill=colors.accent),
        marks.layer(table, "text", number, where="datum.number !== ''", **text | {"align": "right"}),
        marks.layer(table, "text", label, cursor="pointer", **text),
    ]


def _looks(colors: Theme, legend: Spec | None = None) -> dict[str, Spec]:
    """Hue and dashes of a head; the last are of a head which is off and alone."""
    palette = [*colors.hues * len(DASHES), colors.quiet]
    dashes = [[*dash] for dash in DASHES for _ in colors.hues] + [[*DASHES[0]]]
    ranges = {"stroke": palette, "strokeDash": dashes}
    domain = [*range(len(palette))]
    return {
        channel: marks.field("look") | {"scale": {"domain": domain, "range": values}, "legend": legend}
        for channel, values in ranges.items()
    }


def _legends(*, several: bool, cross: bool, right: int, colors: Theme) -> list[Spec]:
    """Unseen points that carry the legends: strength, of several heads hue and dashes, and other signs."""
    where = {"orient": "right", "offset": 14 + right} if right else {"orient": "bottom", "offset": 14}
    above = {"orient": "top", "offset": 52 if cross else 35}  # over the titles of both sides
    over = where if right else above
    symbol = {"symbolType": "stroke", "symbolSize": 676}
    strength = {
        "title": "weight: the stronger a line, the larger",
        "values": [*SAMPLES],
        "direction": "horizontal",
        "format": ".2~g",
        "symbolStrokeColor": {"expr": "(data('meta')[0] || {}).sample || 'gray'"},
        "symbolStrokeWidth": 3,
        **symbol,
        **over,
    }
    heads = "pluck(data('heads'), 'look')"
    name = f"(data('heads')[indexof({heads}, datum.value)] || {{}}).name || ''"
    named = {"title": None, "values": {"expr": heads}, "labelExpr": name, "symbolStrokeWidth": 2.5}
    named = named | {"symbolOpacity": 1, "columns": 3} | symbol | where
    points = marks.unseen("meta"), marks.unseen("heads")
    points[0]["encoding"]["opacity"] = STRENGTH | {"field": "strength", "legend": strength}
    points[1]["encoding"] |= _looks(colors, named if several else None)
    return [*points, signs_spec(where)]
