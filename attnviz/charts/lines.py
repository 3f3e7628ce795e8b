"""Heads as lines from the tokens that look to the tokens that are looked at: the opacity of a line is its weight."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import altair as alt
import numpy as np

from attnviz.charts import axes, frame, hatch, heatmap, maps
from attnviz.charts.axes import KEY, LONGEST_LABEL, PADDING, QUERY
from attnviz.charts.frame import Frame, box, sign, text_width, words
from attnviz.charts.picture import Form, Picture, Table
from attnviz.charts.strands import Pin, Strands, strands
from attnviz.charts.theme import LINE, WORD_CHARACTER, Theme, config, theme
from attnviz.core.display import in_title, shown
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.views import Groups, View

GAP = 230
"""Pixels between the two columns of tokens."""

HIGHEST, LOWEST, HEIGHT = 38, 15, 420
"""Pixels of a token at most and at least, and of all of them where that allows it."""

DASHES = ((), (7, 3), (2, 3), (10, 3, 2, 3), (14, 5))
"""Pixels of strokes and gaps: of more heads than there are hues."""

SAMPLES = (0.1, 0.25, 0.5, 0.75, 1.0)
"""Weights whose opacity is shown in the legend."""

OPACITY = "opacity of a line: its weight"


def lines(
    record: Record,
    site: Site,
    heads: Sequence[int | str],
    *,
    sentence: int = 0,
    view: View = View(),
    least: float | None = None,
    selected: tuple[int, int] | None = None,
    pins: frozenset[Pin] = frozenset(),
    dark: bool = False,
    rev: int = 0,
) -> alt.LayerChart:
    """Draw weights of one or several heads as lines, queries left and keys right.

    A click selects under the name "cell" the fields query, key and rev: both of a line, one and -1 of a token.

    Args:
        heads: numbers, or names of `metrics.AGGREGATIONS`; each has a hue, dashes and a name of its own.
        view: what is merged and left out; the picture says it.
        least: weights from here on are drawn; None for the strongest 400.
        selected: the (query, key) whose line is emphasized, and whose query is picked.
        pins: tokens that are picked: only lines that end at one of them are drawn.
        rev: a counter to raise after each click.
    """
    drawn = {"view": view, "least": least, "selected": selected, "pins": pins, "dark": dark, "rev": rev}
    return picture(record, site, heads, sentence=sentence, **drawn).chart


def picture(
    record: Record,
    site: Site,
    heads: Sequence[int | str],
    *,
    sentence: int = 0,
    view: View = View(),
    least: float | None = None,
    selected: tuple[int, int] | None = None,
    pins: frozenset[Pin] = frozenset(),
    dark: bool = False,
    rev: int = 0,
    edits: bool = True,
) -> Picture:
    """What `lines` draws. The arguments are the same, and whether the picture says what was changed."""
    styles = styles_of(record, site, heads, theme(dark))
    asked = {"sentence": sentence, "view": view, "selected": selected, "pins": pins, "least": least}
    drawn = strands(record, site, heads, **asked)
    plan = _Plan(drawn, styles, selected, theme(dark), rev)
    said = [*heatmap.subtitles_of(record, edits=edits), *drawn.seen.notes, *drawn.notes, *plan.notes]
    around = plan.around(title_of(record, site, heads), said)
    tables = {"lines": _columns(plan.lines(), LINE_COLUMNS), "hits": _columns(plan.hits(), HIT_COLUMNS)}
    return Picture(_form(plan.height, plan.colors), tables | frame.tables(around))


def title_of(record: Record, site: Site, heads: Sequence[int | str]) -> str:
    """What is drawn, beginning with a constant word."""
    if len(heads) == 1:
        return f"Lines · {heatmap.title_of(record, site, heads[0])}"
    return f"Lines · heads {', '.join(map(str, heads))} · {site} · {in_title(record.source)}"


@dataclass(frozen=True)
class Style:
    """How the lines of a head look: a color, which of `DASHES`, and what it is called."""

    color: str
    dash: int
    name: str


def styles_of(record: Record, site: Site, heads: Sequence[int | str], colors: Theme) -> tuple[Style, ...]:
    """A look for each head: by its number, so that it stays while others come and go. One alone that is off is gray.

    Raises:
        InputError: if there are none, or too many to be told apart.
    """
    most = len(colors.hues) * len(DASHES)
    if not heads or len(heads) > most or len(set(heads)) < len(heads):
        raise InputError(f"Lines show from 1 to {most} heads, each once; {len(heads)} were given.")
    off = record.step(site).heads_off
    numbers = [head % most if isinstance(head, int) else -1 for head in heads]
    if len(set(numbers)) < len(heads) or len(heads) == 1:
        numbers = list(range(len(heads)))
    names = [f"head {head}" if isinstance(head, int) else f"{head} of all heads" for head in heads]
    return tuple(
        Style(
            colors.quiet if head in off and len(heads) == 1 else colors.hues[number % len(colors.hues)],
            number // len(colors.hues) % len(DASHES),
            f"{name} · off" if head in off else name,
        )
        for head, number, name in zip(heads, numbers, names, strict=True)
    )


@dataclass(frozen=True, eq=False)
class _Plan:
    """Where tokens and lines stand; pixels are counted from the upper end of the left column."""

    drawn: Strands
    styles: tuple[Style, ...]
    selected: tuple[int, int] | None
    colors: Theme
    rev: int

    @property
    def sides(self) -> tuple[Groups, Groups]:
        return self.drawn.seen.queries, self.drawn.seen.keys

    @property
    def most(self) -> int:
        return max(map(len, self.sides))

    @property
    def cell(self) -> float:
        return float(max(LOWEST, min(HIGHEST, HEIGHT // max(1, self.most))))

    @property
    def height(self) -> float:
        return self.cell * self.most

    @property
    def notes(self) -> list[str]:
        joined = [axes.JOINED] if any(token.joined for part in self.sides for token in part.tokens[1:]) else []
        return [*joined, "what is framed is the selected cell"] if self.chosen else joined

    @property
    def chosen(self) -> tuple[int, int] | None:
        """Row and column of the selected cell, if it has a line."""
        row, column = (part.at(at) for part, at in zip(self.sides, self.selected or (-1, -1), strict=True))
        if row is None or column is None or not heatmap.colored(self.drawn.found[0])[row, column]:
            return None
        return row, column

    def y(self, index: int, head: int = 0) -> float:
        """The middle of a token; lines of several heads end beside each other."""
        apart = min(4.0, (self.cell - 6) / len(self.styles))
        return (index + 0.5) * self.cell + (head - (len(self.styles) - 1) / 2) * apart

    # Lines

    def lines(self) -> list[dict]:
        drawn = zip(self.drawn.heads.tolist(), self.drawn.rows, self.drawn.columns, self.drawn.weights, strict=True)
        rows = [self._line(i, *line) for i, line in enumerate(drawn)]
        return rows + self._framed() + self._samples()

    def _framed(self) -> list[dict]:
        """Two thin lines around those of the selected cell, which keep their opacity."""
        if not self.chosen:
            return []
        accent = {"color": self.colors.accent, "opacity": 1.0, "dash": 0, "width": 1.25}
        first, last = (self._line(-1, head, *self.chosen, 1.0) | accent for head in (0, len(self.styles) - 1))
        return [line | {"y": line["y"] + by, "y2": line["y2"] + by} for line, by in ((first, -3.5), (last, 3.5))]

    def _line(self, index: int, head: int, row: int, column: int, weight: float) -> dict:
        queries, keys = self.sides
        style = self.styles[head]
        return {
            "x": 0.0,
            "y": self.y(row, head),
            "x2": float(GAP),
            "y2": self.y(column, head),
            "query": int(queries.starts[row]),
            "key": int(keys.starts[column]),
            "head": head,
            "index": index,
            "kind": "weight",
            "color": style.color,
            "opacity": float(weight),
            "dash": style.dash,
            "width": 2.0 if self.most > 24 else 2.5,
        }

    def _samples(self) -> list[dict]:
        """Lines of the legend: opacities, and of several heads the look of each."""
        plain = {"query": -1, "key": -1, "index": -1, "kind": "legend", "width": 3.0}
        y, color = self.height + 40, self.styles[0].color if len(self.styles) == 1 else self.colors.text
        rows = [
            {"x": x, "y": y, "x2": x + 32.0, "y2": y, "head": -1, "color": color, "opacity": weight, "dash": 0} | plain
            for x, weight in zip(self._sample_places(), SAMPLES, strict=True)
        ]
        if len(self.styles) == 1:
            return rows
        return rows + [
            {"x": x, "y": y, "x2": x + 34.0, "y2": y, "head": head, "color": style.color, "opacity": 1.0}
            | {"dash": style.dash}
            | plain
            for head, (style, (x, y)) in enumerate(zip(self.styles, self._places(), strict=True))
        ]

    def _sample_places(self) -> list[float]:
        return [i * 44.0 - self.room for i in range(len(SAMPLES))]

    def _places(self) -> list[tuple[float, float]]:
        """Where the heads of a legend stand."""
        wide = max(text_width(style.name, WORD_CHARACTER) for style in self.styles) + 34 + 30
        columns = max(1, int((GAP + 160) // wide))
        top = self.height + 84
        return [(i % columns * wide - self.room, top + i // columns * 22) for i in range(len(self.styles))]

    # What the pointer meets

    def hits(self) -> list[dict]:
        """A wide, unseen stroke on each line, token and head of the legend: what hovering says, what a click means."""
        return [*map(self._hit, self.lines()[: len(self.drawn.weights)]), *self._token_hits(), *self._head_hits()]

    def _hit(self, line: dict) -> dict:
        queries, keys = self.sides
        names = (axes.names(queries)[queries.at(line["query"])], axes.names(keys)[keys.at(line["key"])])
        return {**line, "wide": 7.0, "side": "line", **self._says(*names, line["opacity"], line["head"])}

    def _says(self, query: str, key: str, weight: float | None, head: int) -> dict:
        number = "" if weight is None else maps.number(weight, ".4f")
        name = self.styles[head].name if head >= 0 else ""
        return {"rev": self.rev, "query_name": query, "key_name": key, "weight_text": number, "head_name": name}

    def _token_hits(self) -> list[dict]:
        weights = np.nan_to_num(self.drawn.found[0].weights, nan=-1.0)
        names = [axes.names(part) for part in self.sides]
        hits = []
        for side, part in enumerate(self.sides):
            for i in range(len(part)):
                row = weights[i] if side == 0 else weights[:, i]
                most = int(row.argmax())
                other = f"most: {names[1 - side][most]}" if row[most] > 0 else "none"
                named = (names[0][i], other) if side == 0 else (other, names[1][i])
                y, wide = (i + 0.5) * self.cell, max(40.0, self._width(side)) + PADDING
                x = -wide if side == 0 else float(GAP)
                ends = {"query": int(part.starts[i]) if side == 0 else -1, "key": int(part.starts[i]) if side else -1}
                said = self._says(*named, float(row[most]) if row[most] > 0 else None, 0)
                where = {"x": x, "x2": x + wide, "y": y, "y2": y, "wide": self.cell, "index": -1}
                hits.append(where | ends | said | {"head": -1, "side": ("query", "key")[side]})
        return hits

    def _head_hits(self) -> list[dict]:
        if len(self.styles) == 1:
            return []
        return [
            {"x": x, "y": y, "x2": x + 34 + 8 + text_width(style.name, WORD_CHARACTER), "y2": y, "wide": 20.0}
            | {"query": -1, "key": -1, "index": -1, "head": head, "side": "head"}
            | self._says("", "", None, head)
            for head, (style, (x, y)) in enumerate(zip(self.styles, self._places(), strict=True))
        ]

    # What stands around

    def _width(self, side: int) -> float:
        return max((text_width(shown(label, LONGEST_LABEL)) for label in self.sides[side].labels), default=0.0)

    @property
    def _empty(self) -> dict[int, str]:
        """What is said at a row: that no key is left, or that it is no number, in any of the heads."""
        policy = heatmap.POLICIES[self.drawn.seen.step.empty_rows]
        nan = np.stack([np.isnan(cells.weights).any(1) for cells in self.drawn.found]).any(0)
        empty = np.stack([(cells.states == heatmap.EMPTY).all(1) for cells in self.drawn.found]).any(0)
        said = {int(i): heatmap.NOT_A_NUMBER for i in np.flatnonzero(nan)}
        return said | {int(i): policy for i in np.flatnonzero(empty)}

    @property
    def room(self) -> float:
        """Pixels left of the lines."""
        label = shown_labels(self.sides[0])
        said = max((text_width(label[i]) + text_width(text) + 34 for i, text in self._empty.items()), default=0.0)
        numbers = 44.0 if self._numbered == "key" else 0.0
        return PADDING + max(self._width(0) + numbers, said, 40.0)

    @property
    def _numbered(self) -> str:
        """Which side the one token is of whose weights are written at the other ends; "" for none."""
        return next(iter(self.drawn.pins))[0] if len(self.drawn.pins) == 1 and len(self.styles) == 1 else ""

    def around(self, title: str, said: Sequence[str]) -> Frame:
        width = self.room + GAP + PADDING + self._width(1)
        drawn = self._labels() + self._ends() + self._written() + self._legend()
        top = -LINE - 14
        return drawn + frame.heading(title, said, left=-self.room, top=top, width=width, colors=self.colors)

    def _labels(self) -> Frame:
        cross = self.drawn.seen.site.kind == "cross"
        names = [f"{QUERY}{' · decoder' * cross}", f"{KEY}{' · encoder' * cross}"]
        left, right = (self._side(side) for side in (0, 1))
        titles = words(-self.room, -12, names[0], self.colors.quiet), words(GAP, -12, names[1], self.colors.quiet)
        return Frame(rows=left, tokens=right, words=titles) + self._ties()

    def _side(self, side: int) -> tuple[dict, ...]:
        part = self.sides[side]
        picked = {part.at(at) for name, at in self.drawn.pins if name == ("query", "key")[side]}
        picked |= {part.at(self.selected[side])} if self.selected else set()
        x = GAP + PADDING + 2 if side else -PADDING - 2
        colors = (
            self.colors.accent if i in picked else self.colors.quiet if token.special else self.colors.text
            for i, token in enumerate(part.tokens)
        )
        labels = zip(shown_labels(part), colors, strict=True)
        return tuple(words(x, (i + 0.5) * self.cell, text, color) for i, (text, color) in enumerate(labels))

    def _ends(self) -> Frame:
        """A bar at each picked token; at a row with no weights, why."""
        boxes, signs, said = [], [], []
        for side, at in self.drawn.pins:
            i, x = self.sides[side == "key"].at(at), GAP + 1.0 if side == "key" else -4.0
            boxes.append(box(x, i * self.cell + 2, x + 3, (i + 1) * self.cell - 2, fill=self.colors.accent, width=0))
        labels = shown_labels(self.sides[0])
        for i, text in self._empty.items():
            x, y = -PADDING - 2 - text_width(labels[i]) - 14, self.y(i)
            signs.append(sign(x, y, hatch.CROSS, self.colors.warning, 2.0, 9))
            said.append(words(x - 10, y, text, self.colors.warning))
        return Frame(boxes=tuple(boxes), signs=tuple(signs), rows=tuple(said))

    def _ties(self) -> Frame:
        """A line along the pieces of each word; a rule where the second text of a pair begins."""
        boxes = []
        for side, part in enumerate(self.sides):
            x = GAP + 1.5 if side else -2.75
            begins = [i for i, token in enumerate(part.tokens) if not (token.joined and i)]
            for a, b in zip(begins, [*begins[1:], len(part)], strict=True):
                if b - a > 1:
                    y, y2 = a * self.cell + 2, b * self.cell - 2
                    boxes.append(box(x, y, x + 1.25, y2, fill=self.colors.quiet, width=0))
            segments = [token.segment for token in part.tokens]
            for i in range(1, len(part)):
                if segments[i] != segments[i - 1]:
                    far, y = self._width(side) + PADDING, i * self.cell
                    ends = (GAP + PADDING, GAP + far) if side else (-far, -PADDING)
                    boxes.append(box(ends[0], y - 0.5, ends[1], y + 0.5, fill=self.colors.line, width=0))
        return Frame(boxes=tuple(boxes))

    def _written(self) -> Frame:
        """The weights of the one picked token, at their other ends."""
        if not self._numbered:
            return Frame()
        (side, at), weights = next(iter(self.drawn.pins)), np.nan_to_num(self.drawn.found[0].weights)
        index = self.sides[side == "key"].at(at)
        row = weights[index] if side == "query" else weights[:, index]
        x = GAP + PADDING + 2 + self._width(1) + 44 if side == "query" else -PADDING - 2 - self._width(0) - 10
        taken = self._empty if side == "key" else {}
        return Frame(
            rows=tuple(
                words(x, self.y(i), f"{weight:.2f}", self.colors.text)
                for i, weight in enumerate(row.tolist())
                if weight >= 0.005 and i not in taken
            )
        )

    def _legend(self) -> Frame:
        y = self.height + 40
        drawn = Frame(
            words=(words(-self.room, self.height + 22, OPACITY, self.colors.quiet),),
            ticks=tuple(
                words(x + 16, y + 15, f"{weight:g}", self.colors.text)
                for x, weight in zip(self._sample_places(), SAMPLES, strict=True)
            ),
        )
        if len(self.styles) == 1:
            return drawn
        named = zip(self.styles, self._places(), strict=True)
        return drawn + Frame(words=tuple(words(x + 42, y, style.name, self.colors.text) for style, (x, y) in named))


def shown_labels(part: Groups) -> list[str]:
    return [shown(label, LONGEST_LABEL) for label in part.labels]


LINE_COLUMNS = (
    "x", "y", "x2", "y2", "query", "key", "head", "index", "kind", "color", "opacity", "dash", "width",
)  # fmt: skip
TOOLTIP = {"query_name": QUERY, "key_name": KEY, "weight_text": "weight", "head_name": "head"}
HIT_COLUMNS = ("x", "y", "x2", "y2", "query", "key", "head", "index", "side", "wide", "rev", *TOOLTIP)


def _columns(rows: list[dict], names: Sequence[str]) -> Table:
    return {name: [row[name] for row in rows] for name in names}


_SIDE = "pointed.side[0]"
_MEANT = (
    f"datum.kind === 'legend' || !isValid(pointed.side) || {_SIDE} === 'line' || "
    f"({_SIDE} === 'query' ? datum.query === pointed.query[0] : "
    f"{_SIDE} === 'key' ? datum.key === pointed.key[0] : datum.head === pointed.head[0])"
)
"""Whether a line belongs to what is pointed at."""

_POINTED = f"isValid(pointed.side) && {_SIDE} === 'line' && datum.index === pointed.index[0]"


@lru_cache(maxsize=64)
def _form(height: float, colors: Theme) -> Form:
    x, y = frame.pixels()
    ends = {"x": x, "y": y, "x2": "x2:Q", "y2": "y2:Q"}
    dash = alt.when("datum.dash === 1").then(alt.value(list(DASHES[1])))
    for i in range(2, len(DASHES)):
        dash = dash.when(f"datum.dash === {i}").then(alt.value(list(DASHES[i])))
    drawn = (
        alt.Chart(alt.NamedData("lines"))
        .mark_rule(aria=False, tooltip=None)
        .encode(
            **ends,
            stroke=alt.Stroke("color:N", scale=None),
            opacity=alt.when(_MEANT).then(alt.Opacity("opacity:Q", scale=None)).otherwise(alt.value(0)),
            strokeWidth=alt.when(_POINTED).then(alt.value(5)).otherwise(alt.StrokeWidth("width:Q", scale=None)),
            strokeDash=dash.otherwise(alt.value([1, 0])),
        )
    )
    pointed = alt.selection_point(
        name="pointed", fields=["side", "query", "key", "head", "index"], on="pointerover", clear="pointerout"
    )
    hits = (
        alt.Chart(alt.NamedData("hits"))
        .mark_rule(aria=False, opacity=0, cursor="pointer")
        .encode(
            **ends,
            strokeWidth=alt.StrokeWidth("wide:Q", scale=None),
            tooltip=[alt.Tooltip(f"{field}:N", title=name) for field, name in TOOLTIP.items()],
        )
        .add_params(maps.clicked("cell", "query", "key", "rev"), pointed)
    )
    chart = alt.layer(drawn, *frame.layers(), hits, width=GAP, height=height, autosize="pad")
    return Form.of(chart.configure(**config(colors)))
