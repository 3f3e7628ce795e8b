"""Token axes and where they leave room.

No text of a user stands in an expression, a field name or a tooltip's name: labels are data, as band keys
(`attnviz.core.display.band_keys`), and the expressions here are constants.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt

from attnviz.charts.frame import Frame, box, text_width, words
from attnviz.charts.size import Size
from attnviz.charts.theme import TEXT_SIZE, Theme
from attnviz.core.display import band_keys, isolated, shown
from attnviz.core.tokens import Token
from attnviz.views import Groups

QUERY, KEY = "Query (from)", "Key (to)"

LONGEST_LABEL = 16
"""Code points of a token shown on an axis."""

PADDING, TITLE_PADDING = 6, 10
"""Pixels between cells and labels, and between labels and an axis title."""

TIE = 3.0
"""Pixels from the map to the lines that join the pieces of words."""

_LABEL = "substring(datum.label, 5)"
_IS = "substring(datum.label, 4, 5) === '{}'"
QUIET, CHOSEN = "-", "*"
"""Marks of band keys whose labels stand back, and stand out."""


def bands(tokens: Sequence[Token | str]) -> list[str]:
    """Band keys of tokens; special tokens and padding are marked to be drawn lighter."""
    labels = [token if isinstance(token, str) else token.text for token in tokens]
    quiet = [i for i, token in enumerate(tokens) if not isinstance(token, str) and token.special]
    return band_keys(labels, quiet, LONGEST_LABEL)


def keys(labels: Sequence[str], marks: Mapping[int, str]) -> list[str]:
    """Band keys of labels as they are to be drawn; `marks` are `QUIET` or `CHOSEN`, by their positions."""
    return [f"{i:04d}{marks.get(i, ' ')}{label}" for i, label in enumerate(labels)]


def names(groups: Groups, tile: int = 1) -> list[str]:
    """What rows or columns are called in a readout: the token and its position; of a tile, the first and the last."""
    labels = groups.labels

    def name(i: int) -> str:
        return f"{isolated(shown(labels[i]))} ({groups.place(i)})"

    if tile == 1:
        return [name(i) for i in range(len(labels))]
    return [f"{name(i)} … {name(min(i + tile, len(labels)) - 1)}" for i in range(0, len(labels), tile)]


JOINED = "a line beside tokens joins the pieces of a word"


def note_on_ties(rows: Groups, columns: Groups, size: Size) -> list[str]:
    """What the lines of `ties` mean, if there are any."""
    return [JOINED] if any(_words(part, size) for part in (rows, columns)) else []


def ties(rows: Groups, columns: Groups, size: Size, colors: Theme) -> Frame:
    """A line between the labels and the map along the pieces of each word that was cut."""
    cell = size.cell
    down = (
        box(-TIE, a * cell + 2, -TIE + 1.25, b * cell - 2, fill=colors.quiet, width=0) for a, b in _words(rows, size)
    )
    across = (
        box(a * cell + 2, -TIE, b * cell - 2, -TIE + 1.25, fill=colors.quiet, width=0) for a, b in _words(columns, size)
    )
    return Frame(boxes=(*down, *across))


def _words(groups: Groups, size: Size) -> list[tuple[int, int]]:
    """Where words of several pieces begin and end, counted in squares; none where not every token is labeled."""
    begins = [i for i, token in enumerate(groups.tokens) if not (token.joined and i)]
    spans = zip(begins, [*begins[1:], len(groups)], strict=True)
    return [] if size.tile * size.every > 1 else [(begin, end) for begin, end in spans if end - begin > 1]


def notes_on(size: Size, shows: str = "each square shows the largest of") -> list[str]:
    """What must be said about a map that shows less than everything."""
    notes = [f"{shows} {size.tile} × {size.tile} cells"] if size.tile > 1 else []
    if size.every * size.tile > 1:
        notes.append(f"every {ordinal(size.every * size.tile)} token is labeled")
    return notes


def axis(
    table: str,
    count: int,
    every: int,
    title: str | Sequence[str],
    colors: Theme,
    *,
    upright: bool = False,
    extent: int = 0,
    **settings: object,
) -> alt.Axis:
    """An axis of rows, or of columns on top: labels are read from a table, by their places; every n-th is drawn."""
    row = f"(data('{table}')[floor(datum.value)] || {{}})"
    marked = (("warns", colors.warning), ("accented", colors.accent), ("quiet", colors.quiet))
    marks = [{"test": f"{row}.{name}", "value": color} for name, color in marked]
    color = {"condition": marks, "value": colors.text}
    top: dict = {}
    if table.endswith("columns"):
        top = {"orient": "top", "labelAngle": 0, "minExtent": extent}
    if upright:
        top |= {"labelAngle": 270, "labelAlign": "left", "labelBaseline": "middle"}
    values = alt.expr(f"sequence(0.5, {count}, {every})")
    return alt.Axis(
        title=title,
        labelExpr=f"{row}.label || ''",
        labelColor=color,
        labelOverlap=False,
        values=values,
        **top,
        **settings,
    )


def word_spans(groups: Groups) -> list[tuple[int, int]]:
    """Where words of several pieces begin and end."""
    begins = [i for i, token in enumerate(groups.tokens) if not (token.joined and i)]
    spans = zip(begins, [*begins[1:], len(groups)], strict=True)
    return [(begin, end) for begin, end in spans if end - begin > 1]


def label_width(label: str) -> float:
    """About how wide the label of a token is, in pixels."""
    return text_width(shown(label, LONGEST_LABEL))


def ordinal(n: int) -> str:
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


@dataclass(frozen=True)
class Edges:
    """Room that axes take beside a map.

    Attributes:
        left, top: pixels, negative, of the outer edges of the axis titles.
        angle: by which column labels are turned, as they are wider than their cells; else 0.
    """

    left: float
    top: float
    angle: int


def edges(rows: Sequence[str], columns: Sequence[str], size: Size, *, upright: bool = False) -> Edges:
    """The room that the labels of these bands need; each `size.every`-th is drawn, of columns perhaps upright."""
    row, column = (max((text_width(band[5:]) for band in names[:: size.every]), default=0) for names in (rows, columns))
    turned = upright or column > size.cell - 4
    beyond = PADDING + TITLE_PADDING + TEXT_SIZE + 2
    high = column if turned else TEXT_SIZE
    return Edges(-(row + beyond), -(high + beyond), 90 if turned else 0)


def encodings(titles: tuple[str, str], angle: int, colors: Theme) -> tuple[alt.Y, alt.X]:
    """Rows and columns of a map whose bands are in query_band and key_band; column labels stand on top."""
    top = {"orient": "top", "labelAngle": -angle} | ({"labelAlign": "left", "labelBaseline": "middle"} if angle else {})
    scale = alt.Scale(paddingInner=0, paddingOuter=0)
    return (
        alt.Y("query_band:N", title=titles[0], axis=band_axis(colors, zindex=1), scale=scale),
        alt.X("key_band:N", title=titles[1], axis=band_axis(colors, **top), scale=scale),
    )


def band_axis(colors: Theme, **settings) -> alt.Axis:
    """An axis whose labels are band keys."""
    marked = [
        {"test": _IS.format(mark), "value": color} for mark, color in ((QUIET, colors.quiet), (CHOSEN, colors.accent))
    ]
    color = {"condition": marked, "value": colors.text}
    return alt.Axis(labelExpr=_LABEL, labelOverlap=False, labelColor=color, labelPadding=PADDING, **settings)


def drawn(
    titles: tuple[str, str], rows: Sequence[str], columns: Sequence[str], size: Size, room: Edges, colors: Theme
) -> Frame:
    """The same axes as a frame, for maps that are images; each `size.every`-th token is labeled."""
    half, step = TEXT_SIZE / 2 + 1, size.every
    return Frame(
        rows=tuple(_label(-PADDING, (i + 0.5) * size.cell, rows[i], colors) for i in range(0, len(rows), step)),
        columns=tuple(
            _label((j + 0.5) * size.cell, -PADDING, columns[j], colors) for j in range(0, len(columns), step)
        ),
        sides=(words(room.left + half, size.height / 2, titles[0], colors.quiet),),
        ticks=(words(size.width / 2, room.top + half, titles[1], colors.quiet),),
    )


def _label(x: float, y: float, band: str, colors: Theme) -> dict:
    return words(x, y, band[5:], colors.quiet if band[4] == "-" else colors.text)


def from_right(labels: Sequence[str]) -> bool:
    """Whether a text runs from right to left: its first letter of either kind does."""
    kinds = (unicodedata.bidirectional(character) for label in labels for character in label)
    return next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L"
