"""Two maps and what the second has more than the first: three maps in a row on one grid, and how far each row moved."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnviz.charts import axes, frame, hatch, panels, pixels
from attnviz.charts.frame import SWATCH, Entry, Frame, Ramp, box, text_width, words
from attnviz.charts.heatmap import NOT_A_NUMBER, subtitles_of
from attnviz.charts.panels import Panel, Panels
from attnviz.charts.size import Size, size_beside
from attnviz.charts.theme import LINE, WORD_CHARACTER, Theme, theme
from attnviz.core.amounts import digits
from attnviz.core.display import in_title, shown
from attnviz.core.tokens import Token
from attnviz.metrics import BLOCKED
from attnviz.metrics.beside import BLANK, Beside, Side, tiled_states, tiles
from attnviz.words import all_heads

GAP, BAR, NUMBER = 34, 90, 40
"""Pixels between two maps, of the bar of a row that moved as far as can be, and of its number."""

WIDE = 250
"""Pixels of a map under which its signs can be explained."""

NARROWEST = 220
"""Pixels from the left of a map to the next one at least: its legend has this room."""

LEAST = 0.05
"""The differences of largest size are at the end of the scale, but if they are smaller than this."""

LONGEST_LABEL, LONGEST_TEXT = 14, 90
"""Code points of a token beside its row, and of a sentence under the title."""

NAMES = "A", "B", "Difference"

MORE = "A more", "B more"
"""What a negative and what a positive difference mean."""

MOVED = "row moved"
MEASURE = "row moved: total variation, half the sum of the sizes of its differences, from 0 (alike) to 1 (apart)"

ONLY = "blank: only the other has this token"


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparedPanel(Panel):
    """A table whose cells may be blocked or blank.

    Attributes:
        states: of its cells; those of `metrics.cells` and `BLANK`.
        ends: what is said behind a negative and a positive number; "" for nothing.
    """

    states: np.ndarray
    ends: tuple[str, str] = ("", "")

    def texts(self) -> list[str]:
        said = {BLOCKED: "blocked", BLANK: "blank"}
        every = zip(self.values.ravel().tolist(), self.states.ravel().tolist(), strict=True)
        return [said.get(state) or self._text(value) for value, state in every]

    def _text(self, value: float) -> str:
        end = self.ends[value > 0] if value and value == value else ""
        sign = "+" if value > 0 and self.signed else ""
        return f"{sign}{digits(value)}{f'  {end}' if end else ''}".replace(" ", "\N{NO-BREAK SPACE}")

    def kinds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        blocked = self.states == BLOCKED
        open_cells = ~blocked & (self.states != BLANK)
        crossed = np.isnan(self.values) & open_cells
        return open_cells & ~crossed, blocked, crossed


def drawing_of(
    found: Beside,
    *,
    selected: tuple[int, int] | None = None,
    dark: bool = False,
    rev: int = 0,
    titled: bool = True,
) -> Panels:
    """Draw A, B and B - A, and the total variation of each row.

    Args:
        found: what `metrics.beside.beside` gave.
        selected: the (row, column) of the grid that is outlined in all three.
        titled: whether the picture says what it shows, where a page does not.
    """
    colors, size = theme(dark), size_beside(len(found.rows), len(found.columns))
    labels = [[_labels(found, axis, end, size.tile) for end in range(3)] for axis in range(2)]
    above = _above(labels[1], size)
    maps, around, x = [], Frame(), 0.0
    for end in range(3):
        if end:
            x += max(size.width, NARROWEST) + GAP + (0.0 if found.comparison.queries.same else _room(labels[0][end]))
        panel = _panel(found, end, x, size, above)
        maps.append(panel)
        around += _around(panel, NAMES[end], labels[0][end], labels[1][end], size, above, colors, first=not end)
        if found.comparison.queries.same and end:
            around = replace(around, rows=around.rows[: -(-size.rows // size.every)])
    last = maps[-1]
    around += _bars(found, last.x + size.width + 14, size, above, colors)
    around += _legends(found, maps, size, colors)
    left = -_room(labels[0][0]) - 8
    bottom = size.height + 2 * LINE + 50 + (SWATCH + 12 if size.width < WIDE and _entries(found, colors) else 0)
    if titled:
        wide = last.x + size.width + BAR + NUMBER - left
        top = -above - 8
        around += frame.heading(title_of(found), lines_of(found, size), left=left, top=top, width=wide, colors=colors)
    row, column = (-1, -1) if selected is None else (place // size.tile for place in selected)
    names = (tuple(_names(found, axis, size.tile)) for axis in range(2))
    return Panels(tuple(maps), around, (row, column), *names, readout=(left, bottom), rev=rev)


def title_of(found: Beside) -> str:
    """What is drawn, beginning with constant words."""
    names = [called(side) for side in (found.a, found.b)]
    return f"A and B compared · {names[0] if names[0] == names[1] else f'A: {names[0]} · B: {names[1]}'}"


def called(side: Side) -> str:
    """One side in short: "head 2 · cross layer 1 · translator"."""
    step = side.record.step(side.site)
    what = f"head {side.head}" if isinstance(side.head, int) else f"{side.head} of {all_heads(step)}"
    return f"{what} · {side.site} · {in_title(side.record.source)}"


def lines_of(found: Beside, size: Size | None = None) -> list[str]:
    """Both texts, where the weights come from, what was changed, and what a picture leaves out."""
    size = size or size_beside(len(found.rows), len(found.columns))
    sides = found.a, found.b
    texts = [shown(side.record.sentences[side.sentence].text, LONGEST_TEXT).replace("␣", " ") for side in sides]
    said = [" · ".join(filter(None, subtitles_of(side.record))) for side in sides]
    return [*_each(texts), *_each(said), MEASURE, *axes.notes_on(size, _TILES)]


def _each(said: list[str]) -> list[str]:
    """What is said of A and of B, once if it is the same."""
    return [said[0]] if said[0] == said[1] else [f"{name}: {one}" for name, one in zip("AB", said, strict=True)]


_TILES = "each square shows the weight, and the difference, that is largest in size of"


def _labels(found: Beside, axis: int, end: int, tile: int) -> list[tuple[str, bool]]:
    """What the rows (axis 0) or columns are called beside A, B or their difference, and whether that stands back."""
    tokens = found.a.tokens[axis], found.b.tokens[axis]
    return [_label(tokens, pair, end) for pair in (found.rows, found.columns)[axis][::tile]]


def _label(tokens: tuple[tuple[Token, ...], ...], pair: tuple[int | None, int | None], end: int) -> tuple[str, bool]:
    both = [None if at is None else part[at] for part, at in zip(tokens, pair, strict=True)]
    there = [token for token in both if token is not None]
    quiet = len(there) == 1 or all(token.special for token in there)
    if end < 2:
        return ("" if both[end] is None else shown(both[end].text, LONGEST_LABEL)), quiet
    names = list(dict.fromkeys(shown(token.text, LONGEST_LABEL) for token in there))
    return " → ".join(names), quiet


def _names(found: Beside, axis: int, tile: int) -> list[str]:
    """What rows or columns are called in a readout."""
    tokens = found.a.tokens[axis], found.b.tokens[axis]
    return [in_words(tokens, pair) for pair in (found.rows, found.columns)[axis][::tile]]


def in_words(tokens: tuple[tuple[Token, ...], tuple[Token, ...]], pair: tuple[int | None, int | None]) -> str:
    """A place of the grid: "cat (1) → dog (1)", or "cat (1), only in A"."""
    each = [None if at is None else f"{shown(part[at].text)} ({at})" for part, at in zip(tokens, pair, strict=True)]
    if None in each:
        return f"{each[0] or each[1]}, only in {'A' if each[1] is None else 'B'}"
    return each[0] if each[0] == each[1] else " → ".join(each)


def _room(labels: list[tuple[str, bool]]) -> float:
    return max((text_width(text) for text, _ in labels), default=0.0) + axes.PADDING


def _above(columns: list[list[tuple[str, bool]]], size: Size) -> float:
    """Pixels over the maps for the labels of the columns and a caption."""
    return max(text_width(text) for part in columns for text, _ in part[:: size.every]) + axes.PADDING + LINE + 14


def _panel(found: Beside, end: int, x: float, size: Size, above: float) -> ComparedPanel:
    numbers, states = (*found.maps, (found.difference, found.states))[end]
    values, states = tiles(numbers, size.tile), tiled_states(states, size.tile)
    limit = max(panels.limit_of(values), LEAST) if end == 2 else 1.0
    caption = text_width(NAMES[end], WORD_CHARACTER) + 18
    return ComparedPanel(
        ("query", "key"),
        range(size.rows),
        range(size.columns),
        values,
        x,
        0.0,
        size.width,
        size.height,
        limit,
        signed=end == 2,
        beside=(x + caption, -above + LINE / 2),
        states=states,
        ends=MORE if end == 2 else ("", ""),
    )


def _around(panel: Panel, name: str, rows, columns, size: Size, above: float, colors: Theme, *, first: bool) -> Frame:
    """The name of a map, the labels of its rows and columns, and a line around it."""
    cell, color = size.cell, (colors.text, colors.quiet)
    return Frame(
        titles=(words(panel.x, -above + LINE / 2, name, colors.text),),
        rows=tuple(
            words(panel.x - axes.PADDING, (i + 0.5) * cell, rows[i][0], color[rows[i][1]])
            for i in range(0, len(rows), size.every)
        ),
        columns=tuple(
            words(panel.x + (i + 0.5) * cell, -axes.PADDING, columns[i][0], color[columns[i][1]])
            for i in range(0, len(columns), size.every)
        ),
        boxes=(box(panel.x, 0, panel.x + panel.width, panel.height, stroke=colors.line),),
    )


def _bars(found: Beside, x: float, size: Size, above: float, colors: Theme) -> Frame:
    """How far each row moved, 0 to 1; its number where there is room for it, a dash where it has none."""
    moved = tiles(found.variation[:, None].repeat(size.tile, 1), size.tile)[:, 0]
    drawn = Frame(
        words=(words(x, -axes.PADDING - LINE / 2, MOVED, colors.quiet),),
        boxes=(box(x - 0.5, 0, x + 0.5, size.height, fill=colors.line, width=0),),
    )
    half, numbered = max(0.5, min(6.0, size.cell / 2 - 2)), size.cell >= 13
    for i, value in enumerate(moved.tolist()):
        y, known = (i + 0.5) * size.cell, value == value
        end = x + (value if known else 0.0) * BAR
        drawn += Frame(
            boxes=(box(x, y - half, end, y + half, fill=colors.ramp[5], width=0),) if known else (),
            words=(words(end + 6, y, f"{value:.2f}" if known else "–", colors.text),) if numbered else (),
        )
    return drawn


def _legends(found: Beside, maps: list[Panel], size: Size, colors: Theme) -> Frame:
    """What the colors of the weights mean, under A, and those of the difference, under it."""
    limit, top = maps[2].limit, size.height + 14
    weight = Ramp("weight, from 0 to 1", pixels.ramp_uri(colors), ((0, "0"), (0.5, "0.5"), (1, "1")))
    ends = ((0, f"{MORE[0]} {limit:.2g}"), (0.5, "0"), (1, f"{limit:.2g} {MORE[1]}"))
    signed = Ramp("difference, the largest at the end", pixels.ramp_uri(panels.ground(True, colors)), ends)
    x, y = _entries_at(size, maps)
    entries = frame.legend(_entries(found, colors), None, top=y, width=maps[2].x - x - GAP, colors=colors)
    drawn = frame.legend([], weight, top=top, width=size.width, colors=colors) + _moved(entries, x)
    return drawn + _moved(frame.legend([], signed, top=top, width=size.width, colors=colors), maps[2].x)


def _entries_at(size: Size, maps: Sequence[Panel]) -> tuple[float, float]:
    """Where the signs are explained: under B, or under all where that is too narrow."""
    below = size.height + 14
    return (maps[1].x, below + 4) if size.width >= WIDE else (0.0, below + 2 * LINE + 34)


def _entries(found: Beside, colors: Theme) -> list[Entry]:
    entries = []
    if any((states == BLOCKED).any() for _, states in found.maps):
        entries.append(Entry("blocked", hatch.shape(0, frame.SWATCH), colors.hatch, 1.0, colors.blocked))
    if any((states == BLANK).any() for _, states in found.maps):
        entries.append(Entry(ONLY, "", colors.hatch, 0.0, colors.blocked))
    if any((np.isnan(weights) & (states != BLANK)).any() for weights, states in found.maps):
        entries.append(Entry(NOT_A_NUMBER, hatch.CROSS, colors.warning, 2.0, colors.blocked))
    return entries


def _moved(drawn: Frame, right: float) -> Frame:
    """The same frame, some pixels to the right."""
    sides = ("x", "x2")
    return Frame(
        **{
            kind: tuple({k: v + right if k in sides else v for k, v in item.items()} for item in items)
            for kind, items in vars(drawn).items()
        }
    )
