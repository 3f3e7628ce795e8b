"""A sentence as text, its tokens shaded by their attention from, or to, one chosen token."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz.analysis import BLOCKED, EMPTY, Cells, tables
from attnviz.analysis.sentences import MOST_NAMED, OFF, blocked_by, named, predicting
from attnviz.analysis.views import AttentionView, Groups
from attnviz.charts import axes, marks, pixels, signs
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.marks import PHONE, LegendEntry, Ramp, Spec, heading, ramp_spec, scale_of, text_width, title_spec
from attnviz.charts.signs import MAY_ATTEND, NOT_A_NUMBER, POLICIES, CellState, Domain, domain_of, has_color
from attnviz.charts.theme import CHARACTER, LINE, MONO, TEXT_SIZE, Theme, gray_ramp
from attnviz.core.amounts import written
from attnviz.core.display import as_sentence, visible_text
from attnviz.core.errors import InputError
from attnviz.figures.base import FigureFacts, SiteFigure, Views, subtitles, text_array
from attnviz.figures.head import heads_in_name, map_name
from attnviz.figures.lines import window_notes

MOST_TOKENS, FEW, LONGEST = 400, 40, 24
"""Maximum numbers: tokens drawn, tokens if each has its weight below it, and code points of a token."""
WIDTH, WIDER, SIZE, HIGH, LARGER = 560, 620, 15, 26, 1.4
"""Pixels: line width in a file and on a screen, type size, and height of a token; factor for few tokens on a screen."""
BLANK, BETWEEN = 5.0, 8
"""Pixels between two words (pieces of a word have less space), and between two lines."""
SIDES = ("from", "to")
"""Direction of the attention: from the chosen token to each key, or from each query to the chosen token."""
TOOLTIP = (("query_name", QUERY), ("key_name", KEY), ("weight_text", "weight"), ("says", "cell"))
PLACES = ("x", "x2", "y", "y2", "text", "number")
LOOKS = ("fill", "ink", "stroke", "stroke_width", "query", "key", "rev", *dict(TOOLTIP))
"""Columns of a table of tokens: pixels and texts; colors, values that a click selects, and tooltips."""


@dataclass(frozen=True, eq=False)
class TokenWeights(SiteFigure):
    """Base class of figures whose tokens, or patches, are shaded by their attention from or to one chosen token.

    A click selects a token as "cell" with the fields query, key and rev: its position on one side, -1 for the other.

    Attributes:
        chosen: position of the chosen token; None for that of the largest weight.
        side: "from" for attention from the token as a query, or "to" for attention to the token as a key.

    Raises:
        InputError: if there is no such side or token.
    """

    head: int | str
    _: KW_ONLY
    chosen: int | None = None
    side: str = "from"

    most, kind = MOST_TOKENS, ""  # maximum number of tokens drawn; prefix in the file name
    begin = "The sentence, shaded by the attention {} one token."

    @cached_property
    def position(self) -> int:
        """Position of the chosen token; of merged tokens, that of the first."""
        if self.side not in SIDES:
            raise InputError(f"There is no side {self.side!r}. Available sides: {', '.join(SIDES)}.")
        view, axis = self.attention_view, SIDES.index(self.side)  # 0: queries, 1: keys
        tokens = (view.queries, view.keys)[axis]
        chosen = view.strongest_cell(self.head)[axis] if self.chosen is None else self.chosen
        index, count = tokens.index_of(chosen), len(tokens)
        if index is None:
            raise InputError(f"There is no token {chosen} to show attention {self.side}; indices: 0 to {count - 1}.")
        return int(tokens.starts[index])

    @cached_property
    def window(self) -> AttentionView:
        """View of the tokens to draw: all, or at most `most` around the chosen token and its largest weight."""
        pins = {"query" if self.side == "from" else "key": self.position}
        return self.attention_view.around(self.head, None, pins, self.most)

    @property
    def ends(self) -> tuple[Groups, Groups]:
        """Tokens among which one is chosen, and tokens that are shaded: queries and keys, or keys and queries."""
        sides = self.window.queries, self.window.keys
        return sides if self.side == "from" else sides[::-1]

    @cached_property
    def index(self) -> int:
        """Index of the chosen token among the drawn tokens of its side."""
        return self.ends[0].index_of(self.position)

    @cached_property
    def cells(self) -> Cells:
        """Cells between the chosen token and each shaded token, as one row, (1, shaded tokens)."""
        cells, chosen = self.window.cells([self.head])[0], (self.index, slice(None))
        if self.side == "to":
            chosen = slice(None), self.index
        rows = {name: getattr(cells, name)[chosen].reshape(1, -1) for name in ("weights", "states", "blocked")}
        return replace(cells, **rows)

    @property
    def weights(self) -> np.ndarray:
        """Weights between the chosen token and each shaded token, (shaded tokens,)."""
        return self.cells.weights[0]

    @cached_property
    def has_color(self) -> np.ndarray:
        """Whether each shaded token has a weight to show, boolean (shaded tokens,)."""
        return has_color(self.cells)[0]

    @cached_property
    def scale(self) -> Domain:
        return domain_of(self.domain, self.window, self.cells)

    @cached_property
    def ramp(self) -> Ramp:
        """Color scale of the weights; diverging in linear attention."""
        if self.window.step.linear:
            return scale_of(self.window.step.weight_name, self.weights, signed=True)
        return self.scale.ramp()

    @property
    def one_text(self) -> bool:
        """Whether queries and keys are the same tokens."""
        queries, keys = self.window.queries, self.window.keys
        is_equal = np.array_equal(queries.starts, keys.starts) and queries.labels == keys.labels
        return self.site.kind != "cross" and is_equal

    @property
    def token(self) -> str:
        return named(self.ends[0], self.index)

    @property
    def notes(self) -> list[str]:
        """Sentences about merged or hidden tokens and, if only some tokens are drawn, about their positions."""
        return [*self.window.notes, *window_notes(self.window, self.attention_view, "one strip")]

    @property
    def lines(self) -> list[str]:
        """Lines under the title: origin of the weights, edits, end of the color scale, tokens that are drawn."""
        positions = "" if window_notes(self.window, self.attention_view, "one strip") else self.window.window
        ending = "" if self.ramp.signed else self.scale.ending
        # `rule` says how linear attention makes its weights; `notes` give the positions if some tokens are not drawn
        return [*subtitles(self.record, self), ending, *self.window.rule, *self.notes, positions]

    @property
    def facts(self) -> FigureFacts:
        return FigureFacts(
            what=f"Attention {self.side} {self.token} · {map_name(self.attention_view, self.head)}",
            subject=(self.site, f"{heads_in_name(self.head)}-{self.kind}{self.side}-{self.position}"),
            table=self._table,
            words=self._in_words,
            arrays=self._arrays,
        )

    def _in_words(self) -> str:
        """Describe the picture, the tokens with the largest weights, the view and the edits."""
        token, weights, is_linear = named(self.ends[0], self.index), np.nan_to_num(self.weights), self.ramp.signed
        sizes = np.abs(weights) if is_linear else weights
        largest = [i for i in np.argsort(-sizes, kind="stable")[:MOST_NAMED].tolist() if sizes[i] >= 0.005]
        listed = ", ".join(f"{named(self.ends[1], i)} {weights[i]:.2f}" for i in largest)
        if self.side == "from":
            verb, none = "takes most from" if is_linear else "looks most at", "gives nobody attention"
            token_and_word = f"{token}{predicting(self.window, self.index)}"
        else:
            verb, none = "is taken most by" if is_linear else "is looked at most by", "gets no attention"
            token_and_word = token
        ending = OFF if self.head in self.window.step.heads_off else "."
        sentence = f"{token_and_word} {verb} {listed}{ending}" if listed else f"{token} {none}."
        notes = [as_sentence(note) for note in (*self.window.rule, *self.notes)]
        if changed := self.record.edits.in_words():
            notes.append(f"Changed: {', '.join(changed)}.")
        return " ".join([self.begin.format(self.side), sentence, *notes])

    def _table(self) -> pd.DataFrame:
        """Return the rows of `tables.weights_table` whose query (or key, if `side` is "to") is the chosen token."""
        table = tables.weights_table(self.window, self.head)
        cells = table[table["query" if self.side == "from" else "key"] == self.position].reset_index(drop=True)
        cells.attrs = dict(table.attrs)
        return cells

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays to export: weight, whether it is allowed, text and position of each shaded token."""
        tokens = {"tokens": text_array(self.ends[1].labels), "positions": self.ends[1].starts}
        return {"weights": self.weights, "may_attend": self.cells.blocked[0] == 0} | tokens

    def state(self, i: int) -> str:
        """Describe the state of the cell of the shaded token `i`."""
        state = self.cells.states[0, i]
        if state == EMPTY:
            return POLICIES[self.window.step.scoring.empty_rows]
        if np.isnan(self.weights[i]):
            return NOT_A_NUMBER
        return blocked_by(self.cells.reasons[self.cells.blocked[0, i] - 1]) if state == BLOCKED else MAY_ATTEND

    def looks(self, part: Groups, colors: Theme, *, is_shaded: bool) -> list[dict]:
        """Build the rows of the token table for one side, the shaded tokens or those among which one is chosen."""
        chosen, are_keys = axes.names(self.ends[0])[self.index], is_shaded == (self.side == "from")
        selects_query = not are_keys
        if self.one_text and is_shaded:  # a click on a shaded token makes it the chosen token
            selects_query = self.side == "from"
        shades, rows = self.ramp.shade(self.weights), []
        for i, (position, name) in enumerate(zip(part.starts.tolist(), axes.names(part), strict=True)):
            fill, other_name, weight, state = colors.background, "", "", ""
            if is_shaded:
                weight, state, other_name = written(float(self.weights[i]), ".4f"), self.state(i), chosen
                fill = pixels.color_at(float(shades[i]), colors) if self.has_color[i] else colors.blocked
            query_name, key_name = (other_name, name) if are_keys else (name, other_name)
            ink, is_nan = pixels.readable(fill, colors), "NaN" in state
            row = {
                "fill": fill,
                "ink": colors.quiet if part.tokens[i].special and ink == colors.text else ink,
                "stroke": colors.warning if is_nan else colors.line,
                "stroke_width": 2.0 if is_nan else 1.0,
                "query": position if selects_query else -1,
                "key": -1 if selects_query else position,
                "rev": self.rev,
                "query_name": query_name,
                "key_name": key_name,
                "weight_text": weight,
                "says": state,
            }
            rows.append(row)
        if self.one_text or not is_shaded:
            rows[self.index] |= {"stroke": colors.accent, "stroke_width": 2.5}
        return rows


@dataclass(frozen=True, eq=False)
class TextStrip(TokenWeights):
    """Sentence shaded by attention from or to one token, or both texts of cross-attention; `selected` is outlined."""

    def draw(self) -> Views:
        """Draw the tokens line by line, with captions, the color scale and a legend."""
        tokens, captions, height = self._layout
        right = math.ceil(max((token["x2"] for token in tokens), default=0.0))
        extent = right if self.on_screen else self.width or WIDTH  # as narrow as the text on screen, for a phone
        where = {"orient": "bottom", "offset": 10}
        caption = {"x": marks.pixels_at(0), "y": marks.pixels_of("y"), "text": marks.field("text")}
        layers = [
            ramp_spec(self.ramp, self._colors.ramp, where),
            marks.signs_spec(where),
            *word_layers("tokens", SIZE * self._larger, self._colors, "tokens"),
            marks.layer("captions", "text", caption, color=self.colors.quiet, align="left", baseline="middle"),
        ]
        chart = {"layer": layers, "width": extent, "height": height, "resolve": marks.APART, "title": title_spec()}
        form = marks.whole(chart | {"params": [marks.click("cell", ["tokens"], "query", "key", "rev")]}, self._colors)
        data = {
            "meta": heading(self.heading_text, self.lines, extent, self, PHONE) | {"top": [self.ramp.top]},
            "tokens": marks.columns((*PLACES, *LOOKS), tokens),
            "captions": marks.columns(("y", "text"), captions),
            "legend": marks.legend_table(self._legend),
        }
        return Views(form, data)

    @cached_property
    def _colors(self) -> Theme:
        """Colors of the theme, with a gray ramp for a head that is switched off."""
        if self.ramp.signed:
            return replace(self.colors, ramp=self.colors.diverging)
        is_off = self.head in self.window.step.heads_off
        return replace(self.colors, ramp=gray_ramp(self.colors)) if is_off else self.colors

    @property
    def _larger(self) -> float:
        """Factor of all sizes: larger on a screen if there are few tokens."""
        return LARGER if self.on_screen and max(map(len, self.ends)) <= FEW else 1

    @cached_property
    def _layout(self) -> tuple[list[dict], list[dict], float]:
        """Rows of the tables of tokens and of captions, with their pixels, and the height of the picture."""
        tokens, captions, y = [], [], 0.0
        sides = [(self.ends[1], True)] if self.one_text else [(self.ends[0], False), (self.ends[1], True)]
        line_width, high = self.width or (WIDER if self.on_screen else WIDTH), HIGH * self._larger
        character = CHARACTER * SIZE * self._larger / TEXT_SIZE
        for side, is_shaded in sides:
            rows, has_numbers = self.looks(side, self._colors, is_shaded=is_shaded), is_shaded and len(side) <= FEW
            selected = side.index_of(self.selected[self.side == "from"]) if self.selected and is_shaded else None
            if selected is not None and not (self.one_text and selected == self.index):
                rows[selected] |= {"stroke": self.colors.accent, "stroke_width": 1.5}
            are_keys = is_shaded == (self.side == "from")
            name, stack = (KEY, "encoder") if are_keys else (QUERY, "decoder")
            name = f"{name} · {stack}" if self.site.kind == "cross" else name
            line_height = high + BETWEEN + (LINE if has_numbers else 0)
            title = [(name, 0, 0)] if len(sides) > 1 else []  # a caption without tokens
            for caption, start, stop in [*title, *side.turns]:
                if caption:
                    captions.append({"y": y + LINE / 2, "text": caption})
                    y += LINE + 6
                texts = [visible_text(token.text, LONGEST) for token in side.tokens[start:stop]]
                widths = [max(text_width(text, character) + 10, 36.0 if has_numbers else 14.0) for text in texts]
                gaps = [1.0 if token.joined else BLANK for token in side.tokens[start:stop]]
                places = balance_lines(widths, gaps, line_width)
                for i, (offset, line), width, text in zip(range(start, stop), places, widths, texts, strict=True):
                    left = line_width - offset - width if axes.from_right(side.labels) else offset
                    top, number = y + line * line_height, ""
                    if has_numbers:
                        number = f"{self.weights[i]:.2f}" if self.has_color[i] else "–"
                    if has_numbers and np.isnan(self.weights[i]):
                        number = "NaN"
                    box = {"x": left, "x2": left + width, "y": top, "y2": top + high, "text": text}
                    tokens.append(box | {"number": number} | rows[i])
                num_lines = places[-1][1] + 1 if places else 0
                y += num_lines * line_height
            if not is_shaded:
                y += BETWEEN
        return tokens, captions, y

    @property
    def _legend(self) -> list[LegendEntry]:
        """Legend lines for tokens without a weight."""
        colors, token_by_state = self._colors, {self.state(i): i for i in np.flatnonzero(~self.has_color).tolist()}
        states = []
        for text, i in token_by_state.items():
            states.append(CellState(text, "blocked", "frame" if np.isnan(self.weights[i]) else "dash"))
        entries, left_out = signs.legend(states[: signs.MOST_RULES], colors), len(states) - signs.MOST_RULES
        return entries + signs.more_rules(left_out, colors)


def balance_lines(widths: Sequence[float], gaps: Sequence[float], most: float) -> list[tuple[float, int]]:
    """Break tokens into as few lines as possible, of similar length; return the left end and the line of each token.

    Args:
        widths: widths of the tokens in pixels.
        gaps: pixels left of each token, unless it begins a line.
        most: pixels of a line; a wider token has a line of its own.
    """

    def break_lines(line_width: float) -> list[tuple[float, int]]:
        """Break the tokens into lines of at most `line_width` pixels."""
        places, end, line = [], 0.0, 0
        for i, (width, gap) in enumerate(zip(widths, gaps, strict=True)):
            x = end + gap if i else end
            if i and x + width > line_width:
                x, line = 0.0, line + 1
            places.append((x, line))
            end = x + width
        return places

    places = narrower = break_lines(most)
    while narrower and narrower[-1][1] == places[-1][1] and most > 0:  # while the number of lines is the same
        places, most = narrower, most - 4
        narrower = break_lines(most)
    return places


def word_layers(table: str, size: float, colors: Theme, name: str, where: str = "") -> list[Spec]:
    """Build the layers of tokens: rectangles (called `name` for clicks), texts and numbers; `where` selects rows."""
    middle = [{"calculate": f"(datum.{axis} + datum.{axis}2) / 2", "as": f"{axis}m"} for axis in "xy"]
    text, x = {"align": "center", "baseline": "middle"}, {"x": marks.pixels_of("xm")}
    box = marks.box(marks.pixels_of("x"), marks.pixels_of("y"))
    grounds = box | marks.looks() | {"tooltip": marks.tips(*TOOLTIP)}
    written = x | {"y": marks.pixels_of("ym"), "text": marks.field("text"), "fill": marks.as_is("ink")}
    numbers = x | {"y": marks.pixels_of("y2"), "text": marks.field("number")}
    layers = [
        marks.layer(table, "text", written, where=where, font=MONO, fontSize=size, **text),
        marks.layer(table, "text", numbers, where=where, color=colors.quiet, dy=LINE / 2, **text),
    ]
    return [
        marks.layer(table, "rect", grounds, where=where, cursor="pointer", cornerRadius=3) | {"name": name},
        *(layer | {"transform": [*layer.get("transform", ()), *middle]} for layer in layers),
    ]
