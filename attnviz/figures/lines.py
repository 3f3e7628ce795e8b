"""Heads as lines from the tokens that look to those that are looked at: the stronger a line, the larger its weight."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import altair as alt
import numpy as np
import pandas as pd

from attnviz import words
from attnviz.charts import axes, hatch
from attnviz.charts.axes import KEY, LONGEST_LABEL, QUERY, axis, label_width, word_spans
from attnviz.charts.domain import NOT_A_NUMBER, POLICIES, colored
from attnviz.charts.grid import JOINED, QUIET_MARK, clicked, share, state_legend, tooltip
from attnviz.charts.picture import Form, Table, columns, formed
from attnviz.charts.texts import Entry, entry, heading, text_width, titled
from attnviz.charts.theme import CHARACTER, MONO, Theme, config
from attnviz.core.amounts import written
from attnviz.core.display import as_sentence, in_title, shown
from attnviz.core.errors import InputError
from attnviz.figures import figure
from attnviz.figures.base import SiteFigure
from attnviz.figures.figure import stem, subtitles, text_array
from attnviz.figures.head import called
from attnviz.figures.strands import SIDES, Pin, Strands, strands
from attnviz.metrics import EMPTY

DASHES = ((1, 0), (7, 3), (2, 3), (10, 3, 2, 3), (14, 5))
"""Pixels of strokes and gaps, for heads beyond the number of hues."""

GAP, ON_SCREEN, NARROWEST = 230, 380, 120
"""Pixels between the two columns of tokens, on a screen, and at least in a given width."""

HIGHEST, LOWEST, HEIGHT, LARGER = 38, 15, 360, 1.2
"""Pixels of a token at most and at least, and of all of them where that allows it; their factor on a screen."""

SAMPLES = (0.1, 0.25, 0.5, 1.0)
"""Weights in the legend."""

FAINT = 0.3
"""Factor of the opacity of gray lines, before which others stand out: pale and in color they would be small weights."""

MOST_HEADS = 4
"""Heads described in words at most."""

LINES = ("y", "y2", "query", "key", "rev", "index", "side", "look", "weight", "faint")
TABLES = ("queries", "keys")
TOOLTIP = {"query_name": QUERY, "key_name": KEY, "weight_text": "weight", "head_name": "head"}


@dataclass(frozen=True, eq=False)
class HeadLines(SiteFigure):
    """Weights of one or several heads as lines, queries left and keys right. Table and arrays hold the drawn lines.

    A click selects under the name "cell" the fields query, key and rev: both of a line, one and -1 of a token. The line
    of the selected cell is emphasized, and its query is picked.

    Attributes:
        heads: numbers, or names of `metrics.AGGREGATIONS`; each has a hue, dashes and a name of its own.
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
        return strands(self.seen, tuple(self.heads), selected=self.selected, pins=pins, least=self.least)

    @cached_property
    def name(self) -> str:
        what = f"lines-{'-'.join(map(str, self.heads))}"
        return stem(self.record, self.site, what, sentence=self.sentence, view=self.view)

    @cached_property
    def title(self) -> str:
        return figure.titled(self._what, self.record)

    @property
    def _what(self) -> str:
        """What is drawn, beginning with a constant word."""
        if len(self.heads) == 1:
            return f"Lines · {called(self.seen, self.heads[0])}"
        return f"Lines · {self.site.head(*self.heads)} · {in_title(self.record.source)}"

    @cached_property
    def description(self) -> str:
        more = len(self.heads) - MOST_HEADS
        heads = [words.head(self.strands.seen, head) for head in self.heads[:MOST_HEADS]]
        rest = [f"{more} more heads."] if more > 0 else []
        return " ".join(["Lines from queries to keys.", *heads, *rest, *map(as_sentence, self.strands.notes)])

    @cached_property
    def table(self) -> pd.DataFrame:
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
        table.attrs["note"] = " ".join(map(as_sentence, (*strands.seen.notes, *strands.notes)))
        return table

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        numbers = {f"line_{name}": self.table[name].to_numpy() for name in ("query", "key", "weight")}
        queries, keys = self._sides
        return numbers | {
            "line_head": text_array([str(head) for head in self.table["head"]]),
            "query_tokens": text_array(queries.labels),
            "key_tokens": text_array(keys.labels),
        }

    @property
    def form(self) -> Form:
        gap = ON_SCREEN if self.on_screen else GAP
        if self.width is not None:
            labels = (max(map(text_width, self._labels(side)), default=0.0) for side in (0, 1))
            gap = max(NARROWEST, min(gap, int(self.width - sum(labels)) - 24))
        several, cross = len(self.heads) > 1, self.site.kind == "cross"
        return _form(gap, self._most, self._cell, several, cross, self.aside, self.colors)

    @cached_property
    def data(self) -> dict[str, Table]:
        strands, looks = self.strands, self._looks
        notes = [*subtitles(self.record, self), self.seen.window, *strands.seen.notes, *strands.notes]
        if self._led is not None:
            notes.append(f"in color: where {words.named(self._sides[0], self._led)} looks")
        if any(map(word_spans, self._sides)):
            notes.append(JOINED)
        text = self.colors.text
        color = text if len(looks) > 1 else _palette(self.colors)[looks[0]]
        signs = [(text, hatch.CROSS, self.colors.warning) for text in self._without]
        signs += [] if self._led is None else [("other rows", hatch.DASH, self.colors.quiet)]
        return {
            "meta": heading(self._what, notes, 170 + (ON_SCREEN if self.on_screen else GAP), self)
            | {"sample": [color]},
            "lines": columns((*LINES, *TOOLTIP), self._lines()),
            "chosen": columns(("y", "y2"), self._framed()),
            "queries": self._tokens(0),
            "keys": self._tokens(1),
            "words": self._words(),
            "heads": {"look": looks, "name": self._names},
            "legend": entry([Entry(*sign, self.colors.background) for sign in signs]),
        }

    @property
    def _sides(self):
        return self.strands.seen.queries, self.strands.seen.keys

    @property
    def _most(self) -> int:
        return max(map(len, self._sides))

    @property
    def _cell(self) -> float:
        """Pixels of a token."""
        larger = LARGER if self.on_screen else 1
        return float(max(LOWEST, min(HIGHEST * larger, HEIGHT * larger // max(1, self._most))))

    @property
    def _looks(self) -> list[int]:
        """Hue and dashes of each head: by its number, so that it stays while others come and go."""
        most = len(self.colors.hues) * len(DASHES)
        numbers = [head % most if isinstance(head, int) else -1 for head in self.heads]
        if len(self.heads) == 1:
            return [most if self.heads[0] in self.seen.step.heads_off else 0]
        return numbers if len(set(numbers)) == len(numbers) and -1 not in numbers else [*range(len(numbers))]

    @property
    def _names(self) -> list[str]:
        names = [f"head {head}" if isinstance(head, int) else f"{head} of all heads" for head in self.heads]
        off = self.seen.step.heads_off
        return [f"{name} · off" if head in off else name for head, name in zip(self.heads, names, strict=True)]

    @property
    def _led(self) -> int | None:
        """The row whose lines stand out, where no token is picked."""
        return None if self.row is None or self.strands.pins else self._sides[0].at(self.row)

    @cached_property
    def _without(self) -> dict[str, set[int]]:
        """Rows that have no key left, or are no number, in any of the heads, by the words for it."""
        found = self.strands.found
        nan = np.stack([np.isnan(cells.weights).any(1) for cells in found]).any(0)
        empty = np.stack([(cells.states == EMPTY).all(1) for cells in found]).any(0)
        policy = POLICIES[self.seen.step.scoring.empty_rows]
        rows = {NOT_A_NUMBER: {*np.flatnonzero(nan & ~empty)}, policy: {*np.flatnonzero(empty)}}
        return {text: of for text, of in rows.items() if of}

    def _lines(self) -> list[dict]:
        """A row for each line."""
        strands, looks, (queries, keys) = self.strands, self._looks, self._sides
        names, led = [axes.names(part) for part in self._sides], self._led
        return [
            {
                **self._ends(head, row, column),
                "query": int(queries.starts[row]),
                "key": int(keys.starts[column]),
                "rev": self.rev,
                "index": index,
                "side": "line",
                "look": looks[head],
                "weight": float(weight),
                "faint": led not in (None, row),
                "query_name": names[0][row],
                "key_name": names[1][column],
                "weight_text": written(float(weight), ".4f"),
                "head_name": self._names[head],
            }
            for index, (head, row, column, weight) in enumerate(
                zip(strands.heads.tolist(), strands.rows, strands.columns, strands.weights, strict=True)
            )
        ]

    def _ends(self, head: int, row: int, column: int, by: float = 0.0) -> dict:
        """Where a line begins and ends: lines of several heads end beside each other."""
        apart = min(4.0, (self._cell - 6) / len(self.heads))
        shift = 0.5 + ((head - (len(self.heads) - 1) / 2) * apart + by) / self._cell
        return {"y": float(row) + shift, "y2": float(column) + shift}

    def _framed(self) -> list[dict]:
        """Two thin lines around those of the selected cell, which stay as strong as their weights."""
        row, column = (part.at(at) for part, at in zip(self._sides, self.selected or (-1, -1), strict=True))
        if row is None or column is None or not colored(self.strands.found[0])[row, column]:
            return []
        return [self._ends(0, row, column, -3.5), self._ends(len(self.heads) - 1, row, column, 3.5)]

    def _tokens(self, side: int) -> Table:
        """The tokens of a side: what stands there, and where the strongest line of each goes."""
        part, mine, other = self._sides[side], *(axes.names(self._sides[at]) for at in (side, 1 - side))
        weights = np.nan_to_num(self.strands.found[0].weights, nan=-1.0)
        weights = weights if side == 0 else weights.T
        most = weights.argmax(1)
        heaviest = weights.max(1).tolist()
        ends = [f"most: {other[i]}" if weight > 0 else "none" for i, weight in zip(most, heaviest, strict=True)]
        picked = {part.at(at) for name, at in self.strands.pins if name == SIDES[side]}
        accented = picked | ({part.at(self.selected[side])} if self.selected else {self._led} if side == 0 else set())
        positions, none = part.starts.tolist(), [-1] * len(part)
        return {
            "middle": [i + 0.5 for i in range(len(part))],
            "label": self._labels(side),
            "quiet": [token.special for token in part.tokens],
            "warns": [side == 0 and any(i in rows for rows in self._without.values()) for i in range(len(part))],
            "accented": [i in accented for i in range(len(part))],
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
        """Tokens, those of rows without weights with a cross; at the other ends of one picked token its weights."""
        labels = [shown(label, LONGEST_LABEL) for label in self._sides[side].labels]
        if side == 0:
            crossed = set().union(*self._without.values())
            labels = [f"× {label}" if i in crossed else label for i, label in enumerate(labels)]
        if len(self.strands.pins) != 1 or len(self.heads) > 1:
            return labels
        ((end, at),) = self.strands.pins
        if end == SIDES[side]:
            return labels
        index, found = self._sides[1 - side].at(at), self.strands.found[0]
        pick = (index, slice(None)) if side == 1 else (slice(None), index)
        there = (colored(found) & (found.blocked == 0))[pick]
        digits = [f"{weight:.2f}" if ok else "    " for weight, ok in zip(found.weights[pick], there, strict=True)]
        longest = max(map(label_width, labels), default=0.0)
        gaps = [" " * (3 + round((longest - text_width(label)) / CHARACTER)) for label in labels]
        both = [
            (digit, gap, label) if side == 0 else (f"{label}\u200e", gap, digit)
            for label, gap, digit in zip(labels, gaps, digits, strict=True)
        ]
        return ["".join(parts).replace(" ", "\u00a0") for parts in both]

    def _words(self) -> Table:
        """Lines along the pieces of a word, and between the two texts of a pair."""
        rows, inset = [], 2 / self._cell
        for side, part in enumerate(self._sides):
            rows += [(side, begin + inset, end - inset, False) for begin, end in word_spans(part)]
            segments = [token.segment for token in part.tokens]
            rows += [(side, i, i, True) for i in range(1, len(part)) if segments[i] != segments[i - 1]]
        names = ("side", "begin", "end", "is_break")
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def _palette(colors: Theme) -> list[str]:
    """The color of each look; that of a head which is off and alone is the last."""
    return [*colors.hues * len(DASHES), colors.quiet]


_SIDE = "pointed.side[0]"
_MEANT = (
    f"!isValid(pointed.side) || {_SIDE} === 'line' || "
    f"({_SIDE} === 'query' ? datum.query === pointed.query[0] : datum.key === pointed.key[0])"
)
"""Whether a line belongs to what is pointed at."""

_POINTED = f"isValid(pointed.side) && {_SIDE} === 'line' && datum.index === pointed.index[0]"
_FAINT = "datum.faint && !isValid(pointed.side)"


@formed(64)
def _form(gap: int, most: int, cell: float, several: bool, cross: bool, aside: bool, colors: Theme) -> Form:
    scale = alt.Scale(domain=[0, max(1, most)], nice=False, zero=False, reverse=True)

    def y(name: str, axis: alt.Axis | None = None) -> alt.Y:
        return alt.Y(f"{name}:Q", scale=scale, axis=axis)

    def side(i: int) -> list[alt.Chart]:
        """An axis of tokens, bars at those that are picked, and the labels again, unseen, to be pointed at."""
        tokens, x = alt.Chart(alt.NamedData(TABLES[i])), (-8, gap + 8)[i]
        title = [(QUERY, KEY)[i], ("decoder", "encoder")[i]] if cross else (QUERY, KEY)[i]
        align = {"titleAngle": 0, "titleAlign": ("right", "left")[i], "titleBaseline": "bottom"}
        place = {"orient": ("left", "right")[i], "labelPadding": 8, "titleX": (-8, 8)[i], "titleY": -12}
        at = y("begin", axis(TABLES[i], most, 1, title, colors, **align, **place))
        bars = tokens.transform_calculate(begin="datum.middle - 0.5", end="datum.middle + 0.5")
        bars = bars.transform_filter("datum.picked").mark_rect(fill=colors.accent, **QUIET_MARK)
        begin, end = ((-4, -1), (gap + 1, gap + 4))[i]
        named = tooltip({name: title for name, title in TOOLTIP.items() if name != "head_name"})
        unseen = {"opacity": 0, "font": MONO, "baseline": "middle", "cursor": "pointer", "aria": False}
        text = tokens.mark_text(align=("right", "left")[i], **unseen)
        return [
            bars.encode(y=at, y2=alt.Y2("end"), x=alt.XValue(begin), x2=alt.X2Value(end)),
            text.encode(y=y("middle"), x=alt.XValue(x), text=alt.Text("label:N"), tooltip=named),
        ]

    def words(i: int) -> list[alt.Chart]:
        """Lines along the pieces of words, and between the two texts of a pair."""
        spans = alt.Chart(alt.NamedData("words")).transform_filter(f"datum.side === {i}")
        pieces, breaks = (spans.transform_filter(f"{sign}datum.is_break") for sign in ("!", ""))
        near, far = ((-2, -68), (gap + 2, gap + 68))[i]
        pieces = pieces.mark_rule(color=colors.quiet, strokeWidth=1.25, **QUIET_MARK)
        breaks = breaks.mark_rule(color=colors.line, **QUIET_MARK)
        return [
            pieces.encode(y=y("begin"), y2=alt.Y2("end"), x=alt.XValue(near)),
            breaks.encode(y=y("begin"), x=alt.XValue(near), x2=alt.X2Value(far)),
        ]

    ends = {"y": y("y"), "y2": alt.Y2("y2"), "x": alt.XValue(0), "x2": alt.X2Value(gap)}
    lines, chosen = alt.Chart(alt.NamedData("lines")), alt.Chart(alt.NamedData("chosen"))
    hits = lines.mark_rule(aria=False, strokeOpacity=0, cursor="pointer", strokeWidth=7)
    layers = [
        *_legends(several, cross, aside, colors),
        _strokes(lines, ends, 2.0 if most > 24 else 2.5, colors),
        chosen.mark_rule(color=colors.accent, strokeWidth=1.25, **QUIET_MARK).encode(**ends),
        hits.encode(**ends, tooltip=tooltip(TOOLTIP)).properties(name="lines"),
        *(layer for i in (0, 1) for layer in (*words(i), *side(i))),
    ]
    chart = alt.layer(*layers, width=gap, height=most * cell, autosize="pad", title=titled(colors))
    apart = dict.fromkeys(("shape", "fill", "stroke", "strokeDash"), "independent")
    chart = chart.resolve_axis(y="independent").resolve_scale(**apart)
    fields = ["side", "query", "key", "index"]
    pointed = alt.selection_point(name="pointed", fields=fields, on="pointerover", clear="pointerout")
    chart.params = share(["lines"], clicked("cell", "query", "key", "rev"), pointed)
    return Form.of(chart.configure(**config(colors)))


def _strokes(lines: alt.Chart, ends: dict, width: float, colors: Theme) -> alt.Chart:
    """The lines as they are seen."""
    looks, strength = _looks(colors), alt.StrokeOpacity("weight:Q", scale=STRENGTH, legend=None)
    return lines.mark_rule(aria=False, tooltip=None).encode(
        **ends,
        stroke=alt.when(_FAINT).then(alt.value(colors.quiet)).otherwise(looks["stroke"]),
        strokeOpacity=alt.when(_MEANT).then(strength).otherwise(alt.value(0)),
        opacity=alt.when(_FAINT).then(alt.value(FAINT)).otherwise(alt.value(1)),
        strokeWidth=alt.when(_POINTED).then(alt.value(5)).otherwise(alt.value(width)),
        strokeDash=looks["strokeDash"],
    )


STRENGTH = alt.Scale(type="pow", exponent=0.6, domain=[0, 1], range=[0, 1])
"""Opacity of a weight: by a power of it, a tenth is seen, and many that are nearly nothing are no fog."""


def _looks(colors: Theme, legend: alt.Legend | None = None) -> dict[str, alt.Stroke | alt.StrokeDash]:
    """Hue and dashes of a head."""
    palette = _palette(colors)
    ranges = palette, [[*dash] for dash in DASHES for _ in colors.hues] + [[*DASHES[0]]]
    hue, dash = (alt.Scale(domain=[*range(len(palette))], range=one) for one in ranges)
    stroke, dashes = alt.Stroke("look:N", scale=hue, legend=legend), alt.StrokeDash("look:N", scale=dash, legend=legend)
    return {"stroke": stroke, "strokeDash": dashes}


def _legends(several: bool, cross: bool, aside: bool, colors: Theme) -> list[alt.Chart]:
    """Unseen points that carry the legends: strength, of several heads hue and dashes, and other signs."""
    where = {"orient": "right" if aside else "bottom", "offset": 14}
    symbol, over = (
        {"symbolType": "stroke", "symbolSize": 676},
        where if aside else {"orient": "top", "offset": 52 if cross else 35},
    )
    sample = alt.expr("(data('meta')[0] || {}).sample || 'gray'")
    strength = alt.Legend(
        title="weight: the stronger a line, the larger", values=[*SAMPLES], direction="horizontal", format=".2~g",
        symbolStrokeColor=sample, symbolStrokeWidth=3, **symbol, **over,
    )  # fmt: skip
    looks = "pluck(data('heads'), 'look')"
    name = f"(data('heads')[indexof({looks}, datum.value)] || {{}}).name || ''"
    style = {"symbolStrokeWidth": 2.5, "symbolOpacity": 1, "columns": 3} | symbol | where
    named = alt.Legend(title=None, values=alt.expr(looks), labelExpr=name, **style) if several else None
    meta, heads = (
        alt.Chart(alt.NamedData(name))
        .mark_point(opacity=0, size=0, **QUIET_MARK)
        .encode(x=alt.XValue(0), y=alt.YValue(0))
        for name in ("meta", "heads")
    )
    return [
        meta.encode(opacity=alt.Opacity("strength:Q", scale=STRENGTH, legend=strength)),
        heads.encode(**_looks(colors, named)),
        state_legend(where),
    ]
