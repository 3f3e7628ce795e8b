"""Where the tokens and the lines of a head stand: the rows of every line, and of all that the pointer meets."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnviz.charts import axes
from attnviz.charts.axes import LONGEST_LABEL, PADDING
from attnviz.charts.domain import NOT_A_NUMBER, POLICIES, colored
from attnviz.charts.frame import text_width
from attnviz.charts.style import Style
from attnviz.charts.theme import WORD_CHARACTER, Theme
from attnviz.core.amounts import written
from attnviz.core.display import shown
from attnviz.core.errors import InputError
from attnviz.figures.strands import Strands
from attnviz.metrics import EMPTY
from attnviz.views import Groups, Seen
from attnviz.words import named

GAP, NUMBER = 230, 44
"""Pixels between the two columns of tokens, and of the weights beside one of them."""

HIGHEST, LOWEST, HEIGHT = 38, 15, 360
"""Pixels of a token at most and at least, and of all of them where that allows it."""

WIDE, LARGER = 380, 1.2
"""Pixels between the columns on a screen, and the factor of a token's pixels there."""

DASHES = ((), (7, 3), (2, 3), (10, 3, 2, 3), (14, 5))
"""Pixels of strokes and gaps, for heads beyond the number of hues."""

SAMPLES = (0.1, 0.25, 0.5, 0.75, 1.0)
"""Weights whose lines are shown in the legend."""


@dataclass(frozen=True)
class LineStyle:
    """How the lines of a head look: a color, which of `DASHES`, and what it is called."""

    color: str
    dash: int
    name: str


def styles_of(seen: Seen, heads: Sequence[int | str], colors: Theme) -> tuple[LineStyle, ...]:
    """A look for each head: by its number, so that it stays while others come and go. One alone that is off is gray.

    Raises:
        InputError: if there are none, or too many to be told apart.
    """
    most = len(colors.hues) * len(DASHES)
    if not heads or len(heads) > most or len(set(heads)) < len(heads):
        raise InputError(f"Lines show from 1 to {most} heads, each once; {len(heads)} were given.")
    off = seen.step.heads_off
    numbers = [head % most if isinstance(head, int) else -1 for head in heads]
    if len(set(numbers)) < len(heads) or len(heads) == 1:
        numbers = list(range(len(heads)))
    names = [f"head {head}" if isinstance(head, int) else f"{head} of all heads" for head in heads]
    return tuple(
        LineStyle(
            colors.quiet if head in off and len(heads) == 1 else colors.hues[number % len(colors.hues)],
            number // len(colors.hues) % len(DASHES),
            f"{name} · off" if head in off else name,
        )
        for head, number, name in zip(heads, numbers, names, strict=True)
    )


@dataclass(frozen=True, eq=False)
class Plan:
    """Where tokens and lines stand; pixels are counted from the upper end of the left column."""

    drawn: Strands
    styles: tuple[LineStyle, ...]
    style: Style
    row: int | None = None

    @property
    def colors(self) -> Theme:
        return self.style.colors

    @property
    def sides(self) -> tuple[Groups, Groups]:
        return self.drawn.seen.queries, self.drawn.seen.keys

    @property
    def most(self) -> int:
        return max(map(len, self.sides))

    @property
    def cell(self) -> float:
        larger = LARGER if self.style.on_screen else 1
        return float(max(LOWEST, min(HIGHEST * larger, HEIGHT * larger // max(1, self.most))))

    @property
    def height(self) -> float:
        return self.cell * self.most

    @property
    def notes(self) -> list[str]:
        joined = any(token.joined for part in self.sides for token in part.tokens[1:])
        if self.led is None:
            return [axes.JOINED] * joined
        return [f"in color: where {named(self.sides[0], self.led)} looks", *[axes.JOINED] * joined]

    @property
    def led(self) -> int | None:
        """The row whose lines stand out, where no token is picked."""
        return None if self.row is None or self.drawn.pins else self.sides[0].at(self.row)

    @property
    def chosen(self) -> tuple[int, int] | None:
        """Row and column of the selected cell, if it has a line."""
        row, column = (part.at(at) for part, at in zip(self.sides, self.style.selected or (-1, -1), strict=True))
        if row is None or column is None or not colored(self.drawn.found[0])[row, column]:
            return None
        return row, column

    def y(self, index: int, head: int = 0) -> float:
        """The middle of a token; lines of several heads end beside each other."""
        apart = min(4.0, (self.cell - 6) / len(self.styles))
        return (index + 0.5) * self.cell + (head - (len(self.styles) - 1) / 2) * apart

    def width(self, side: int) -> float:
        """Pixels of the longest label of a side."""
        return max((text_width(shown(label, LONGEST_LABEL)) for label in self.sides[side].labels), default=0.0)

    @property
    def empty(self) -> dict[int, str]:
        """What is said at a row: that no key is left, or that it is no number, in any of the heads."""
        policy = POLICIES[self.drawn.seen.step.scoring.empty_rows]
        nan = np.stack([np.isnan(cells.weights).any(1) for cells in self.drawn.found]).any(0)
        empty = np.stack([(cells.states == EMPTY).all(1) for cells in self.drawn.found]).any(0)
        said = {int(i): NOT_A_NUMBER for i in np.flatnonzero(nan)}
        return said | {int(i): policy for i in np.flatnonzero(empty)}

    @property
    def left(self) -> float:
        """Pixels left of the lines."""
        label = shown_labels(self.sides[0])
        said = max((text_width(label[i]) + text_width(text) + 34 for i, text in self.empty.items()), default=0.0)
        numbers = NUMBER if self.numbered == "key" else 0.0
        return PADDING + max(self.width(0) + numbers, said, 40.0)

    @property
    def gap(self) -> float:
        """Pixels between the two columns."""
        return WIDE if self.style.on_screen else GAP

    @property
    def numbered(self) -> str:
        """Which side the one token is of whose weights are written at the other ends; "" for none."""
        return next(iter(self.drawn.pins))[0] if len(self.drawn.pins) == 1 and len(self.styles) == 1 else ""

    # Lines

    def lines(self) -> list[dict]:
        """A row for each line: of the weights, around the selected cell, and of the legend."""
        drawn = zip(self.drawn.heads.tolist(), self.drawn.rows, self.drawn.columns, self.drawn.weights, strict=True)
        rows = [self._line(i, *line) for i, line in enumerate(drawn)]
        return rows + self._framed() + self._samples()

    def _framed(self) -> list[dict]:
        """Two thin lines around those of the selected cell, which stay as strong as their weights."""
        if not self.chosen:
            return []
        accent = {"color": self.colors.accent, "weight": 1.0, "dash": 0, "width": 1.25}
        first, last = (self._line(-1, head, *self.chosen, 1.0) | accent for head in (0, len(self.styles) - 1))
        return [line | {"y": line["y"] + by, "y2": line["y2"] + by} for line, by in ((first, -3.5), (last, 3.5))]

    def _line(self, index: int, head: int, row: int, column: int, weight: float) -> dict:
        queries, keys = self.sides
        style = self.styles[head]
        return {
            "x": 0.0,
            "y": self.y(row, head),
            "x2": self.gap,
            "y2": self.y(column, head),
            "query": int(queries.starts[row]),
            "key": int(keys.starts[column]),
            "head": head,
            "index": index,
            "kind": "weight",
            "color": style.color,
            "weight": float(weight),
            "dash": style.dash,
            "width": 2.0 if self.most > 24 else 2.5,
            "faint": self.led not in (None, row),
        }

    def _samples(self) -> list[dict]:
        """Lines of the legend: of some weights, and of several heads the look of each."""
        plain = {"query": -1, "key": -1, "index": -1, "kind": "legend", "width": 3.0, "faint": False}
        y, color = self.height + 40, self.styles[0].color if len(self.styles) == 1 else self.colors.text
        rows = [
            {"x": x, "y": y, "x2": x + 32.0, "y2": y, "head": -1, "color": color, "weight": weight, "dash": 0} | plain
            for x, weight in zip(self.sample_places(), SAMPLES, strict=True)
        ]
        if len(self.styles) == 1:
            return rows
        return rows + [
            {"x": x, "y": y, "x2": x + 34.0, "y2": y, "head": head, "color": style.color, "weight": 1.0}
            | {"dash": style.dash}
            | plain
            for head, (style, (x, y)) in enumerate(zip(self.styles, self.places(), strict=True))
        ]

    def sample_places(self) -> list[float]:
        """Where the lines of the legend begin."""
        return [i * 44.0 - self.left for i in range(len(SAMPLES))]

    def places(self) -> list[tuple[float, float]]:
        """Where the heads of a legend stand."""
        wide = max(text_width(style.name, WORD_CHARACTER) for style in self.styles) + 34 + 30
        columns = max(1, int((self.gap + 160) // wide))
        top = self.height + 84
        return [(i % columns * wide - self.left, top + i // columns * 22) for i in range(len(self.styles))]

    # What the pointer meets

    def hits(self) -> list[dict]:
        """A wide, unseen stroke on each line, token and head of the legend: what hovering says, what a click means."""
        return [*map(self._hit, self.lines()[: len(self.drawn.weights)]), *self._token_hits(), *self._head_hits()]

    def _hit(self, line: dict) -> dict:
        queries, keys = self.sides
        names = (axes.names(queries)[queries.at(line["query"])], axes.names(keys)[keys.at(line["key"])])
        return {**line, "wide": 7.0, "side": "line", **self._says(*names, line["weight"], line["head"])}

    def _says(self, query: str, key: str, weight: float | None, head: int) -> dict:
        text = "" if weight is None else written(weight, ".4f")
        name = self.styles[head].name if head >= 0 else ""
        return {"rev": self.style.rev, "query_name": query, "key_name": key, "weight_text": text, "head_name": name}

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
                y, wide = (i + 0.5) * self.cell, max(40.0, self.width(side)) + PADDING
                x = -wide if side == 0 else self.gap
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
            for head, (style, (x, y)) in enumerate(zip(self.styles, self.places(), strict=True))
        ]


def shown_labels(part: Groups) -> list[str]:
    """What tokens are called beside the lines."""
    return [shown(label, LONGEST_LABEL) for label in part.labels]
