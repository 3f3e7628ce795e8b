"""Two maps and what the first has more than the second: three maps in a row, and how far each row differs."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Unpack

import numpy as np

from attnviz import tables, words
from attnviz.charts import axes, frame, hatch, panels, pixels
from attnviz.charts.domain import CROWDED, FAINT, NOT_A_NUMBER, Domain
from attnviz.charts.frame import SWATCH, Entry, Frame, Ramp, box, text_width
from attnviz.charts.panels import Panel, Panels
from attnviz.charts.size import Size, size_beside
from attnviz.charts.style import Style
from attnviz.charts.theme import LINE, TITLE_CHARACTER, WORD_CHARACTER, Theme
from attnviz.core.amounts import decimals, digits
from attnviz.core.display import file_stem, in_title, shown
from attnviz.core.tokens import Token
from attnviz.figures.figure import Drawn, Figure, edited, subtitles, text_array
from attnviz.metrics import BLOCKED
from attnviz.metrics.beside import BLANK, Beside, Side, tiles
from attnviz.words import all_heads

GAP, BAR, NUMBER = 34, 90, 40
"""Pixels between two maps, of the bar of a row that moved as far as can be, and of its number."""

WIDE = 250
"""Pixels of a map under which its signs can be explained."""

NARROWEST = 220
"""Pixels from the left of a map to the next one at least: its legend has this room."""

THIN = 5
"""Pixels of a row below which its bar touches the next: gaps between bars so thin would make a pattern."""

NUMBER_ROOM = 84
"""Pixels for the number of a cell behind the name of its map."""

LEAST = 0.05
"""The differences of largest size are at the end of the scale, but if they are smaller than this."""

AFTER = " after step "
"""In the name of a source, between the model and the step of its training."""

LONGEST_LABEL, LONGEST_EDITS, LONGEST_TEXT = 14, 16, 90
"""Code points of a token beside its row, of what was changed over a map, and of a sentence under the title."""

NAMES = "A", "B", "Difference A − B"

MORE = "higher in B", "higher in A"
"""What a negative and what a positive difference mean."""

AXES = "query ↓", "key →"
"""Left of the labels of the columns: what rows and columns are."""

PER_ROW = "difference per row"
"""Title of the bars."""

MEASURE = (
    "difference per row: total variation, half the sum of the sizes of its differences, from 0 (alike) to 1 (apart)"
)

ONLY = "blank: only A or only B has this token"
NO_TOKEN = 1
"""The pattern of what is blank: upright strokes; those of what is blocked are slanted."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparedPanel(Panel):
    """A table whose cells may be blocked or blank.

    Attributes:
        states: of its cells; those of `metrics.cells` and `BLANK`.
        ends: what is said behind a negative and a positive number; "" for nothing.
        places: how many digits each is read with; None for four.
    """

    states: np.ndarray
    ends: tuple[str, str] = ("", "")
    places: np.ndarray | None = None

    def texts(self) -> list[str]:
        said = {BLOCKED: "blocked", BLANK: "blank"}
        places = np.full(self.values.shape, 4) if self.places is None else self.places
        every = zip(*(each.ravel().tolist() for each in (self.values, self.states, places)), strict=True)
        return [said.get(state) or self._text(value, places) for value, state, places in every]

    def _text(self, value: float, places: int) -> str:
        end = self.ends[value > 0] if value and value == value else ""
        sign = "+" if value > 0 and self.signed else "−" if value < 0 else ""
        number = digits(value).removeprefix("−") if places == 4 else decimals(abs(value), places)
        return f"{sign}{number}{f'  {end}' if end else ''}".replace(" ", "\N{NO-BREAK SPACE}")

    def kinds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        hatched = np.select([self.states == BLOCKED, self.states == BLANK], [1, 1 + NO_TOKEN])
        crossed = np.isnan(self.values) & (hatched == 0)
        return (hatched == 0) & ~crossed, hatched, crossed


def difference(found: Beside, **drawn: Unpack[Drawn]) -> Figure:
    """A, B and A - B, and the total variation of each row; a screen says elsewhere what it shows.

    Args:
        found: what `metrics.beside.beside` gave.
    """
    return Figure(
        name=file_stem("compared", _stem(found.a), "with", _stem(found.b), end=edited(found.a.record.edits)),
        title=" · ".join([title_of(found), *lines_of(found)]),
        style=Style(**drawn),
        draw=lambda style: drawing_of(found, style),
        describe=lambda: words.compared(found),
        tabulate=lambda: tables.comparison_table(found),
        collect=lambda: _arrays(found),
    )


def _stem(side: Side) -> str:
    text = side.record.sentences[side.sentence].text
    return f"{side.record.source} {side.site.kind[0]}{side.site.layer} {side.head} {text[:16]}"


def _arrays(found: Beside) -> dict[str, np.ndarray]:
    tile = size_beside(len(found.rows), len(found.columns)).tile if found.is_long else 1
    numbers = [numbers for numbers, _ in found.tiled(tile)]
    arrays = {"difference": numbers[2], "variation": found.variation}
    if tile > 1:
        arrays["cells_per_side_of_tile"] = np.array(tile)
    for end, (side, name) in enumerate(((found.a, "a"), (found.b, "b"))):
        arrays[name] = numbers[end]
        for axis, what, places in ((0, "query", found.rows), (1, "key", found.columns)):
            texts = ["" if pair[end] is None else side.tokens[axis][pair[end]].text for pair in places]
            arrays[f"{what}_tokens_{name}"] = text_array(texts)
    return arrays


def drawing_of(found: Beside, style: Style) -> Panels:
    """The three maps with their labels, the bars of the rows, and the legends."""
    colors, size = style.colors, size_beside(len(found.rows), len(found.columns))
    chosen = found.most_cell if style.selected is None and style.on_screen else style.selected
    rest = (-1, -1) if chosen is None else tuple(place // size.tile for place in chosen)
    plan = _Plan(found, size, colors, rest)
    maps = [plan.panel(end) for end in range(3)]
    last = maps[-1]
    around = plan.bars().moved(last.x + size.width + 14, 0.0) + plan.legends(maps)
    for end, panel in enumerate(maps):
        around += plan.around(end).moved(panel.x, 0.0)
    entries = SWATCH + 12 if size.width < WIDE and plan.entries() else 0
    readout = (plan.left, size.height + 2 * LINE + 50 + entries)
    if not style.on_screen:
        wide = {"left": plan.left, "width": last.x + size.width + BAR + NUMBER - plan.left, "colors": colors}
        around += frame.heading(title_of(found), lines_of(found, size), top=-plan.above - 8, **wide)
    return Panels(tuple(maps), around, style, rest, *plan.names, readout=readout)


def title_of(found: Beside) -> str:
    """What is drawn, beginning with constant words."""
    names = [called(side) for side in (found.a, found.b)]
    return f"A and B compared · {names[0] if names[0] == names[1] else f'A: {names[0]} · B: {names[1]}'}"


def called(side: Side) -> str:
    """One side in short: "head 2 of cross layer 1 · translator"."""
    step = side.record.step(side.site)
    combined = f"{side.head} of {all_heads(step)} · {side.site}"
    what = side.site.head(side.head) if isinstance(side.head, int) else combined
    return f"{what} · {in_title(side.record.source)}"


def _step(side: Side) -> str:
    """Of a model trained here: how long it was trained."""
    _, _, step = side.record.source.partition(AFTER)
    return f"step {step}" if step.strip("0") else "untrained" if step else "trained"


def _edits(side: Side) -> str:
    """What was changed, where that is short enough to stand over a map."""
    said = ", ".join(side.record.edits.in_words()) or "original"
    return said if len(said) <= LONGEST_EDITS else "changed"


def _text(side: Side) -> str:
    return side.record.sentences[side.sentence].text


def _from_difference(*texts: str) -> tuple[str, ...]:
    """Two texts from the first word in which they differ: there is no room for all, and both may begin alike."""
    words = [text.split() for text in texts]
    same = next((i for i, (a, b) in enumerate(zip(*words, strict=False)) if a != b), min(map(len, words)) - 1)
    return texts if same < 1 else tuple(f"… {' '.join(each[same:])}" for each in words)


APART = (
    lambda side: side.record.source.partition(AFTER)[0],
    _step,
    lambda side: f"{side.head} of {side.site}" if isinstance(side.head, str) else side.site.head(side.head),
    _text,
    _edits,
)
"""What A and B are called, by the first in which they differ: model, step of training, head, text, edits."""


def told_apart(a: Side, b: Side) -> tuple[str, str] | None:
    """What two sides are called, each by that in which they differ; None if they do not."""
    each = ((say(a), say(b)) for say in APART)
    apart = next((pair for pair in each if pair[0] != pair[1]), None)
    if apart == (_text(a), _text(b)):
        apart = _from_difference(*apart)
    return apart and (in_title(apart[0]), in_title(apart[1]))


def names_of(found: Beside) -> tuple[str, str, str]:
    """What stands over each map: "A: trained", "B: untrained"."""
    apart = told_apart(found.a, found.b)
    named = (f"{name}: {one}" for name, one in zip(NAMES[:2], apart, strict=True)) if apart else NAMES[:2]
    return (*named, NAMES[2])


def lines_of(found: Beside, size: Size | None = None) -> list[str]:
    """Both texts, where the weights come from, what was changed, and what a picture leaves out."""
    size = size or size_beside(len(found.rows), len(found.columns))
    sides = found.a, found.b
    texts = [shown(side.record.sentences[side.sentence].text, LONGEST_TEXT).replace("␣", " ") for side in sides]
    said = [" · ".join(filter(None, subtitles(side.record))) for side in sides]
    window = [found.seen] if found.seen else []
    return [*_each(texts), *_each(said), *window, MEASURE, *axes.notes_on(size, TILES)]


def _each(said: list[str]) -> list[str]:
    """What is said of A and of B, once if it is the same."""
    return [said[0]] if said[0] == said[1] else [f"{name}: {one}" for name, one in zip("AB", said, strict=True)]


TILES = "each square shows the weight, and the difference, that is largest in size of"


def _label(tokens: tuple[tuple[Token, ...], ...], pair: tuple[int | None, int | None], end: int) -> tuple[str, bool]:
    both = [None if at is None else part[at] for part, at in zip(tokens, pair, strict=True)]
    there = [token for token in both if token is not None]
    quiet = len(there) == 1 or all(token.special for token in there)
    if end < 2:
        return ("" if both[end] is None else shown(both[end].text, LONGEST_LABEL)), quiet
    names = list(dict.fromkeys(shown(token.text, LONGEST_LABEL) for token in there))
    only = "" if len(there) == 2 else f" ({'B' if both[0] is None else 'A'})"
    return f"{' → '.join(names)}{only}", quiet


def in_words(tokens: tuple[tuple[Token, ...], tuple[Token, ...]], pair: tuple[int | None, int | None]) -> str:
    """A place of the grid: "cat (1) → dog (1)", or "cat (1), only in A"."""
    each = [None if at is None else f"{shown(part[at].text)} ({at})" for part, at in zip(tokens, pair, strict=True)]
    if None in each:
        return f"{each[0] or each[1]}, only in {'A' if each[1] is None else 'B'}"
    return each[0] if each[0] == each[1] else " → ".join(each)


@dataclass(frozen=True, eq=False)
class _Plan:
    """Where things stand around three maps of one size.

    Attributes:
        chosen: the row and the column whose labels are never left out; -1 for none.
    """

    found: Beside
    size: Size
    colors: Theme
    chosen: tuple[int, int]

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """What rows and columns are called in a readout."""
        return tuple([in_words(*part) for part in self._places(axis)] for axis in range(2))

    @cached_property
    def titles(self) -> tuple[str, ...]:
        """The names over the maps, as long as leaves room for the number of a cell."""
        longest = int((max(self.size.width, NARROWEST) + GAP - NUMBER_ROOM) / TITLE_CHARACTER)
        return tuple(self._title(end, name, longest) for end, name in enumerate(names_of(self.found)))

    def _title(self, end: int, name: str, longest: int) -> str:
        """A name that has room: a head's short one, or the beginning of another."""
        if len(name) > longest and end < 2 and isinstance(head := (side := self.sides[end]).head, int):
            name = name.replace(side.site.head(head), side.site.brief(head))
        return name if len(name) <= longest else f"{name[: longest - 1]}…"

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.found.a, self.found.b

    def _places(self, axis: int) -> Iterable[tuple]:
        """The tokens of A and B, and where each row (axis 0) or column stands in them."""
        tokens = self.found.a.tokens[axis], self.found.b.tokens[axis]
        return [(tokens, pair) for pair in (self.found.rows, self.found.columns)[axis][:: self.size.tile]]

    def labels(self, axis: int, end: int) -> list[tuple[str, bool]]:
        """What rows or columns are called beside A, B or their difference, and whether that stands back."""
        return [_label(*part, end) for part in self._places(axis)]

    def labeled(self, axis: int) -> list[int]:
        """The rows or columns that have room for their labels; the chosen one has that of those it would touch."""
        size, at = self.size, self.chosen[axis]
        count = size.columns if axis else size.rows
        every = [i for i in range(0, count, size.every) if at < 0 or abs(i - at) >= size.every]
        return every if at < 0 else [*every, at]

    def _left(self, end: int) -> float:
        """Pixels left of a map for the labels of its rows."""
        return max(map(text_width, [AXES[0], *(text for text, _ in self.labels(0, end))])) + axes.PADDING

    @property
    def left(self) -> float:
        return -self._left(0) - 8

    @property
    def above(self) -> float:
        """Pixels over the maps for the labels of the columns and a caption."""
        names = (self.labels(1, end)[i][0] for end in range(3) for i in self.labeled(1))
        return max([2 * LINE, *map(text_width, names)]) + axes.PADDING + LINE + 14

    def x(self, end: int) -> float:
        """Where a map begins; rows of the same tokens are labeled at the first alone."""
        left = 0.0 if self.found.queries.same else sum(self._left(i) for i in range(1, end + 1))
        return end * (max(self.size.width, NARROWEST) + GAP) + left

    def panel(self, end: int) -> ComparedPanel:
        (values, states), x, size = self.tiled[end], self.x(end), self.size
        return ComparedPanel(
            ("query", "key"),
            range(size.rows),
            range(size.columns),
            values,
            x,
            0.0,
            size.width,
            size.height,
            self.differing.top if end == 2 else self.scale.top,
            signed=end == 2,
            beside=(x + text_width(self.titles[end], TITLE_CHARACTER) + 12, -self.above + LINE / 2),
            states=states,
            ends=MORE if end == 2 else ("", ""),
            places=self.places,
            gray=end < 2 and self._is_off(self.sides[end]),
        )

    @staticmethod
    def _is_off(side: Side) -> bool:
        return side.head in side.record.step(side.site).heads_off

    @cached_property
    def tiled(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Numbers and states of the squares of A, B and their difference."""
        return self.found.tiled(self.size.tile)

    @cached_property
    def places(self) -> np.ndarray | None:
        """With how many digits each cell is read, the same in A, in B and in their difference; None for squares."""
        return None if self.size.tile > 1 else words.digits_of(*(numbers for numbers, _ in self.tiled))

    @cached_property
    def scale(self) -> Domain:
        """What the colors of A and B say, the same of both."""
        return self._domain(panels.limit_of(*(numbers for numbers, _ in self.tiled[:2])))

    @cached_property
    def differing(self) -> Domain:
        """What the colors of the difference say: of every two maps the same, unless it is too faint to be seen."""
        return self._domain(max(panels.limit_of(self.tiled[2][0]), LEAST))

    def _domain(self, largest: float) -> Domain:
        crowded = max(len(self.found.rows), len(self.found.columns)) > CROWDED
        return Domain("adapts", largest) if 0 < largest < (1 if crowded else FAINT) else Domain()

    def around(self, end: int) -> Frame:
        """The name of a map, the labels of its rows and columns, and a line around it."""
        size, colors = self.size, (self.colors.text, self.colors.quiet)
        outline = box(0, 0, size.width, size.height, stroke=self.colors.line)
        labeled = not (end and self.found.queries.same)
        rows, columns = self.labels(0, end), self.labels(1, end)
        at = -axes.PADDING
        return Frame(
            titles=(frame.words(0.0, -self.above + LINE / 2, self.titles[end], self.colors.text),),
            rows=tuple(
                frame.words(at, at - (i + 0.5) * LINE, name, colors[1]) for i, name in enumerate(AXES) if labeled
            )
            + tuple(
                frame.words(at, (i + 0.5) * size.cell, rows[i][0], colors[rows[i][1]])
                for i in (self.labeled(0) if labeled else ())
            ),
            columns=tuple(
                frame.words((i + 0.5) * size.cell, at, columns[i][0], colors[columns[i][1]]) for i in self.labeled(1)
            ),
            boxes=(outline,),
        )

    def bars(self) -> Frame:
        """How far each row differs, 0 to 1; its number where there is room for it, a dash where it has none."""
        size, colors = self.size, self.colors
        moved = tiles(self.found.variation[:, None], size.tile)[:, 0]
        boxes = [box(-0.5, 0, 0.5, size.height, fill=colors.line, width=0)]
        said = [frame.words(0, -axes.PADDING - LINE / 2, PER_ROW, colors.quiet)]
        half = size.cell / 2 if size.cell < THIN else max(0.5, min(6.0, size.cell / 2 - 2))
        for i, value in enumerate(moved.tolist()):
            y, end = (i + 0.5) * size.cell, 0 if np.isnan(value) else value * BAR
            if not np.isnan(value):
                boxes.append(box(0, y - half, end, y + half, fill=colors.ramp[5], width=0))
            if size.cell >= 13:
                said.append(frame.words(end + 6, y, "–" if np.isnan(value) else f"{value:.2f}", colors.text))
        return Frame(words=tuple(said), boxes=tuple(boxes))

    def legends(self, maps: list[Panel]) -> Frame:
        """What the colors of the weights mean, under A, and those of the difference, under it; the signs under B, or
        under all where that is too narrow."""
        limit, colors, wide = maps[2].limit, self.colors, {"width": self.size.width, "colors": self.colors}
        top = self.size.height + 14
        ends = ((0, f"−{limit:.2g} {MORE[0]}"), (0.5, "0"), (1, f"+{limit:.2g} {MORE[1]}"))
        caption = self.differing.ending or "difference, from −1 to 1"
        caption = f"colors end at {LEAST:g}" if panels.limit_of(maps[2].values) < LEAST else caption
        signed = Ramp(caption, pixels.ramp_uri(panels.ground(True, colors)), ends)
        drawn = self.legend_of_weights(maps[1].x, maps[2].x)
        if not panels.limit_of(maps[2].values):
            return drawn  # nothing differs, and no color says how much
        inward = text_width(ends[0][1], WORD_CHARACTER) / 2  # not under the map before
        return drawn + frame.legend([], signed, top=top, **wide).moved(maps[2].x + inward)

    def legend_of_weights(self, second: float, third: float) -> Frame:
        """What the colors and the signs of A and B mean.

        Args:
            second, third: where B and the difference begin.
        """
        size, colors, top = self.size, self.colors, self.size.height + 14
        if size.width >= WIDE:  # the ramp is a little wider than A
            x, y, wide = second, top + 4, third - second - GAP
        else:
            x, y, wide = 0.0, top + 2 * LINE + 34, third - GAP
        signs = frame.legend(self.entries(), None, top=y, width=wide, colors=colors).moved(x)
        return frame.legend([], self.scale.ramp(colors), top=top, width=size.width, colors=colors) + signs

    def entries(self) -> list[Entry]:
        colors, maps = self.colors, self.tiled[:2]
        hatched = ("blocked", hatch.shape(0, SWATCH), colors.hatch, 1.0)
        lacking = (ONLY, hatch.shape(NO_TOKEN, SWATCH), colors.hatch, 1.0)
        occurs = {
            hatched: any((states == BLOCKED).any() for _, states in maps),
            lacking: any((states == BLANK).any() for _, states in maps),
            (NOT_A_NUMBER, hatch.CROSS, colors.warning, 2.0): any(
                (np.isnan(weights) & (states != BLANK)).any() for weights, states in maps
            ),
        }
        return [Entry(*sign, colors.blocked) for sign, there in occurs.items() if there]
