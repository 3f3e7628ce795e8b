"""The sentence itself, each token shaded by the attention from one token, or to it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Unpack

import altair as alt
import numpy as np
import pandas as pd

from attnviz import tables
from attnviz.charts import axes, frame, grid, hatch, pixels, state
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.domain import MAY_ATTEND, NOT_A_NUMBER, POLICIES, Domain, domain_of
from attnviz.charts.frame import Entry, Frame, box, sign, text_width, words
from attnviz.charts.picture import Form, Picture, columns, formed
from attnviz.charts.style import Style
from attnviz.charts.theme import CHARACTER, LINE, MONO, TEXT_SIZE, Theme
from attnviz.core import display
from attnviz.core.amounts import written
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures import shade as shades
from attnviz.figures.figure import Figure, Shown, see, stem, subtitles, titled
from attnviz.figures.head import called
from attnviz.figures.shade import Shade, shade_of
from attnviz.metrics import BLOCKED, EMPTY
from attnviz.views import Groups
from attnviz.words import blocked_by, named

WIDTH, WIDER = 560, 620
"""Pixels in which the sentence is broken into lines, and on a screen."""

SIZE, HIGH, LONGEST = 15, 26, 24
"""Pixels of type and of a token's ground, code points of a token."""

LARGER, FEW = 1.4, 40
"""Factor of these on a screen, and tokens for which it has room; it lists each of so many, too."""

BLANK = 5.0
"""Pixels between two words; pieces of a word stand close together."""

NUMBERED = 40
"""Tokens up to which each weight is written under its token."""

LINED, CHIP, ARROW, BAR = 28, 24, 28, 280
"""Pixels of a line of the list of what each token looks at most, of a token and an arrow in it, and of the bar of a
weight of 1."""

EACH = {"from": "What each token looks at most", "to": "Which token looks most at each"}


def text_strip(
    record: Record,
    site: Site,
    head: int | str,
    *,
    chosen: int | None = None,
    side: str = "from",
    **shown: Unpack[Shown],
) -> Figure:
    """The sentence, shaded by what one token gives or gets; of two sentences both.

    A click selects a token under the name "cell" with the fields query, key and rev: one of them a position, one -1.

    Args:
        chosen: the position of the token; None for that of the strongest weight.
        side: "from" it, a query, or "to" it, a key.
        shown: `selected` is the (query, key) whose other end is outlined.
    """
    seen, style = see(record, site, **shown)
    shade = shade_of(seen, head, chosen=chosen, side=side)
    title = f"Attention {side} {named(shade.ends[0], shade.index)} · {called(seen, head)}"
    what = f"{'head' if isinstance(head, int) else 'heads'}-{head}-{side}-{shade.ends[0].starts[shade.index]}"
    return Figure(
        name=stem(record, site, what, sentence=seen.sentence, view=seen.view),
        title=titled(title, record),
        style=style,
        draw=lambda style: drawing_of(shade, title, style),
        describe=lambda: shades.described(f"The sentence, shaded by the attention {side} one token.", shade),
        tabulate=lambda: of_token(tables.weights_table(shade.seen, head), shade),
        collect=lambda: shades.arrays(shade),
    )


def of_token(table: pd.DataFrame, shade: Shade) -> pd.DataFrame:
    """The rows of a table of cells that are of the chosen token."""
    name = "query" if shade.side == "from" else "key"
    kept = table[table[name] == int(shade.ends[0].starts[shade.index])].reset_index(drop=True)
    kept.attrs = dict(table.attrs)
    return kept


def drawing_of(shade: Shade, title: str, style: Style) -> Picture:
    """The tokens on their grounds, and what stands around them."""
    strip = _Strip(shade, domain_of(style.domain, shade.seen, shade.cells), style)
    said = [
        *subtitles(shade.seen.record, style),
        *shade.seen.notes,
        *(shade.notes or filter(None, [shade.seen.window])),
    ]
    table, around = strip.drawn(title, said)
    return Picture(
        _form(strip.wide, SIZE * strip.larger, strip.colors), {"words of the text": table} | frame.tables(around)
    )


def state_of(shade: Shade, i: int) -> str:
    """What the cell of one token is, in words."""
    if shade.states[i] == EMPTY:
        return POLICIES[shade.seen.step.scoring.empty_rows]
    if np.isnan(shade.weights[i]):
        return NOT_A_NUMBER
    return blocked_by(shade.reasons[shade.blocked[i] - 1]) if shade.states[i] == BLOCKED else MAY_ATTEND


def balanced(wides: Sequence[float], gaps: Sequence[float], most: float) -> list[tuple[float, int]]:
    """Where each of some tokens begins, in pixels, and on which line: few lines, of much the same length.

    Args:
        wides: of the tokens, in pixels.
        gaps: left of each where it begins no line.
        most: pixels of a line, unless one token takes more.
    """

    def broken(most: float) -> list[tuple[float, int]]:
        places, end, line = [], 0.0, 0
        for i, (wide, gap) in enumerate(zip(wides, gaps, strict=True)):
            x, line = (end + gap * (i > 0), line) if not i or end + gap + wide <= most else (0.0, line + 1)
            places.append((x, line))
            end = x + wide
        return places

    def lines(most: float) -> int:
        return max((line for _, line in broken(most)), default=0)

    narrower = (most - by for by in range(0, int(most), 4))
    return broken(min(takewhile(lambda wide: lines(wide) == lines(most), narrower), default=most))


@dataclass(frozen=True, eq=False)
class _Strip:
    shade: Shade
    scale: Domain
    style: Style

    @cached_property
    def colors(self) -> Theme:
        """Those of the style; without colors for a head that is off."""
        colors = self.style.colors
        return replace(colors, ramp=pixels.gray_ramp(colors)) if self.shade.off else colors

    @property
    def bar(self) -> str:
        """The color of a bar as long as a weight."""
        return self.colors.quiet if self.shade.off else self.colors.hues[0]

    @property
    def wide(self) -> int:
        """Pixels of a line."""
        return WIDER if self.style.on_screen else WIDTH

    @property
    def larger(self) -> float:
        """How many times as large the tokens are."""
        return LARGER if self.style.on_screen and max(map(len, self.shade.ends)) <= FEW else 1

    def drawn(self, title: str, said: Sequence[str]) -> tuple[dict, Frame]:
        """The tokens as a table, and what stands around them."""
        chosen, shaded = self.shade.ends
        around = frame.heading(title, said, left=0, top=-14, width=self.wide, narrowest=self.wide, colors=self.colors)
        rows: list[dict] = []
        y = 0.0
        if not self.shade.one_text:
            around += self._caption(y, 0)
            first, y = self._paragraph(chosen, y + LINE + 6, shaded=False)
            rows += first
            y += 8
            around += self._caption(y, 1)
            y += LINE + 6
        second, y = self._paragraph(shaded, y, shaded=True)
        rows += second
        around += self._signs(second) + self._outlines(rows, len(rows) - len(second))
        legend = self._legend(y + 8)
        around += legend
        if self.style.on_screen and len(chosen) <= FEW:
            listed, beside = self._listed(frame.bottom(legend) + LINE)
            rows, around = rows + listed, around + beside
        return columns(COLUMNS, rows), around

    def _listed(self, top: float) -> tuple[list[dict], Frame]:
        """Of each token on the chosen one's side the strongest weight, its other end and a bar; a click chooses it."""
        shade, colors = self.shade, self.colors
        names = [[display.shown(text, LONGEST) for text in part.labels] for part in shade.ends]
        right = max(map(text_width, names[0])) + 12 + ARROW
        bar = right + max(map(text_width, names[1])) + 24
        rows, around = [], Frame(words=(words(0, top + LINE / 2, EACH[shade.side], colors.quiet),))
        for i, (j, weight) in enumerate(zip(*(part.tolist() for part in shade.each), strict=True)):
            y = top + LINE + 8 + i * LINED
            fill = pixels.color_at(float(self.scale.shade(np.array(weight))), colors)
            said = {"fill": fill, "ink": pixels.readable(fill, colors), "weight_text": written(weight, ".4f")}
            rows += [self._chip(0, i, names[0][i], 0.0, y), self._chip(1, j, names[1][j], right, y) | said]
            end, middle, chosen = bar + BAR * weight, y + CHIP / 2, i == shade.index
            around += Frame(
                ticks=(words(right - ARROW / 2, middle, "→" if shade.side == "from" else "←", colors.quiet),),
                words=(words(end + 6, middle, f"{weight:.2f}", colors.accent if chosen else colors.text),),
                boxes=(box(bar, middle - 4, end, middle + 4, fill=colors.accent if chosen else self.bar),),
                tokens=tuple(words(row["x"] + 6, middle, row["name"], row["ink"]) for row in rows[-2:]),
            )
        return rows, around

    def _chip(self, end: int, i: int, name: str, x: float, y: float) -> dict:
        """A token of the list, whose small type is no part of the text."""
        place = {"x": x, "y": y, "x2": x + text_width(name) + 12, "y2": y + CHIP, "middle": x, "line": y}
        return self._token(self.shade.ends[end], i, False) | place | {"text": "", "name": name}

    def _caption(self, y: float, end: int) -> Frame:
        """What a text is, where there are two."""
        query = (end == 0) == (self.shade.side == "from")
        cross = self.shade.seen.site.kind == "cross"
        whose = (" · decoder" if query else " · encoder") if cross else ""
        return Frame(words=(words(0, y + LINE / 2, f"{QUERY if query else KEY}{whose}", self.colors.quiet),))

    def _paragraph(self, part: Groups, top: float, *, shaded: bool) -> tuple[list[dict], float]:
        """The tokens in lines, and where they end; in a text from right to left they begin at the right."""
        numbered = shaded and len(part) <= NUMBERED
        high = HIGH * self.larger
        step = high + (LINE + 8 if numbered else 8)
        texts = [display.shown(token.text, LONGEST) for token in part.tokens]
        letter, least = CHARACTER * SIZE * self.larger / TEXT_SIZE, 36.0 if numbered else 14.0
        wides = [max(text_width(text, letter) + 10, least) for text in texts]
        places = balanced(wides, [1.0 if token.joined else BLANK for token in part.tokens], self.wide)
        rows = [
            {"x": x, "y": top + line * step, "x2": x + wide, "y2": top + line * step + high, "text": text}
            | self._token(part, i, shaded)
            for i, ((x, line), wide, text) in enumerate(zip(places, wides, texts, strict=True))
        ]
        if axes.from_right(part.labels):
            rows = [row | {"x": self.wide - row["x2"], "x2": self.wide - row["x"]} for row in rows]
        for row in rows:
            row["middle"], row["line"] = (row["x"] + row["x2"]) / 2, row["y"] + high / 2
        return rows, (rows[-1]["y"] if rows else top) + step

    def _token(self, part: Groups, i: int, shaded: bool) -> dict:
        shade, colors = self.shade, self.colors
        name = axes.names(part)[i]
        mine = axes.names(shade.ends[0])[shade.index]
        position, query = int(part.starts[i]), (shaded and not shade.one_text) != (shade.side == "from")
        says = {"query": position if query else -1, "key": -1 if query else position, "rev": self.style.rev}
        fill, weight, state = colors.background, "", ""
        if shaded:
            fill, weight, state = self._ground(i), written(float(shade.weights[i]), ".4f"), state_of(self.shade, i)
        looks, looked = (mine, name) if shade.side == "from" else (name, mine)
        names = {"query_name": looks, "key_name": looked} if shaded else {"query_name": name, "key_name": ""}
        if not shaded and shade.side == "to":
            names = {"query_name": "", "key_name": name}
        ink = pixels.readable(fill, colors)
        quiet = part.tokens[i].special and ink == colors.text
        return (
            says
            | names
            | {
                "fill": fill,
                "ink": colors.quiet if quiet else ink,
                "weight_text": weight,
                "says": state,
            }
        )

    def _ground(self, i: int) -> str:
        if not self.shade.colored[i]:
            return self.colors.blocked
        return pixels.color_at(float(self.scale.shade(self.shade.weights)[i]), self.colors)

    def _signs(self, rows: list[dict]) -> Frame:
        """Strokes on what is no weight, and the weights in digits."""
        shade, signs, digits = self.shade, [], []
        for i, row in enumerate(rows):
            if np.isnan(shade.weights[i]):
                signs.append(sign(row["x"] + 9, row["y"] - 2, hatch.CROSS, self.colors.warning, 2.0, 11))
            if len(rows) > NUMBERED or np.isnan(shade.weights[i]):
                continue
            text = f"{shade.weights[i]:.2f}" if shade.colored[i] else "–"
            digits.append(words(row["middle"], row["y2"] + LINE / 2, text, self.colors.quiet))
        return Frame(signs=tuple(signs), ticks=tuple(digits))

    def _outlines(self, rows: list[dict], before: int) -> Frame:
        """A frame around the chosen token, and a thin one around the other end of the selected cell."""
        boxes = [(rows[self.shade.index], 2.5)]
        if self.style.selected:
            at = self.style.selected[1 if self.shade.side == "from" else 0]
            other = self.shade.ends[1].at(at)
            boxes += [(rows[before + other], 1.25)] if other is not None else []
        return Frame(
            boxes=tuple(
                box(row["x"] - 1, row["y"] - 1, row["x2"] + 1, row["y2"] + 1, stroke=self.colors.accent, width=width)
                for row, width in boxes
            )
        )

    def _legend(self, top: float) -> Frame:
        colors = self.colors
        entries = [Entry(text, hatch.DASH, colors.hatch, 1.0, colors.blocked) for text in self._not_weights()]
        more = len(entries) - state.MOST_RULES
        entries = entries if more <= 0 else [*entries[: state.MOST_RULES], state.others(more, colors)]
        return frame.legend(entries, self.scale.ramp(colors), top=top, width=self.wide, colors=colors)

    def _not_weights(self) -> list[str]:
        states = (state_of(self.shade, i) for i in range(len(self.shade.weights)) if not self.shade.colored[i])
        return list(dict.fromkeys(states))


TOOLTIP = {"query_name": QUERY, "key_name": KEY, "weight_text": "weight", "says": "cell"}
COLUMNS = (
    "x", "y", "x2", "y2", "middle", "line", "text", "fill", "ink", "query", "key", "rev", *TOOLTIP,
)  # fmt: skip


@formed(8)
def _form(wide: int, size: float, colors: Theme) -> Form:
    x, y = frame.pixels()
    base = alt.Chart(alt.NamedData("words of the text"))
    grounds = (
        base.mark_rect(aria=False, cursor="pointer", cornerRadius=3, stroke=colors.line, strokeWidth=1)
        .encode(
            x=x,
            y=y,
            x2="x2:Q",
            y2="y2:Q",
            fill=alt.Fill("fill:N", scale=None),
            tooltip=grid.tooltip(TOOLTIP),
        )
        .add_params(grid.clicked("cell", "query", "key", "rev"))
    )
    texts = base.mark_text(
        aria=False, tooltip=None, align="center", baseline="middle", font=MONO, fontSize=size
    ).encode(
        x=alt.X("middle:Q", scale=None, axis=None),
        y=alt.Y("line:Q", scale=None, axis=None),
        text=alt.Text("text:N"),
        fill=alt.Fill("ink:N", scale=None),
    )
    # The texts let the pointer through to their grounds: they stand below all that is around.
    return frame.form([grounds, texts], wide, 1, colors)
