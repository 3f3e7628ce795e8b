"""A picture whose patches a model read: the brighter a patch, the more attention it gets from one of them."""

import base64
import io
from dataclasses import dataclass
from functools import lru_cache
from typing import Unpack

import altair as alt
import numpy as np
from PIL import Image

from attnviz import tables
from attnviz.charts import frame, grid, pixels
from attnviz.charts.domain import Domain, domain_of
from attnviz.charts.frame import Frame, box, text_width, words
from attnviz.charts.picture import Form, Picture, columns, formed
from attnviz.charts.style import Style
from attnviz.charts.theme import DARK, LINE, Theme
from attnviz.core.display import in_title, shown
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.patches import Patches
from attnviz.core.record import Record
from attnviz.figures import shade as shades
from attnviz.figures.figure import Figure, Shown, see, stem, subtitles, titled
from attnviz.figures.head import called
from attnviz.figures.shade import Shade, shade_of
from attnviz.figures.text_strip import TOOLTIP, of_token, state_of
from attnviz.views import Groups

SIDE, GAP = 300, 20
"""Pixels of the longer side of a picture, and between two."""
LEAST = 24.0
"""Pixels of its shorter side at least: positions in time are one row of patches."""
VEIL = 0.9
"""How much of a dark veil covers a patch that gets nothing."""
CHIP = 24
"""Pixels of the height of a position that is no patch."""


def patches(
    record: Record,
    site: Site,
    head: int | str,
    *,
    chosen: int | None = None,
    side: str = "from",
    **given: Unpack[Shown],
) -> Figure:
    """The picture, each patch as bright as the attention that one position gives it, or that it gives this position.

    A click selects a position under the name "cell" with the fields query, key and rev: one of them a position, one -1.

    Args:
        chosen: the position; None for that of the strongest weight.
        side: "from" it, a query, or "to" it, a key.

    Raises:
        InputError: if neither the queries nor the keys of the site are patches.
    """
    seen, style = see(record, site, **given)
    if not on_grid(record, site):
        raise InputError(f"Neither queries nor keys of {site} are patches of a picture: say record(grid=...).")
    shade = shade_of(seen, head, chosen=chosen, side=side, most=record.patches.count)
    title = f"Attention {side} {_named(shade)} · {called(seen, head)}"
    what = f"{'head' if isinstance(head, int) else 'heads'}-{head}-picture-{side}-{shade.ends[0].starts[shade.index]}"
    return Figure(
        name=stem(record, site, what, sentence=seen.sentence, view=seen.view),
        title=titled(title, record),
        style=style,
        draw=lambda style: _Pictures(shade, domain_of(style.domain, shade.seen, shade.cells), style).drawn(title),
        describe=lambda: shades.described(_what(record.patches, shade), shade),
        tabulate=lambda: of_token(tables.weights_table(shade.seen, head), shade),
        collect=lambda: shades.arrays(shade) | {"grid": np.array([record.patches.rows, record.patches.columns])},
    )


def on_grid(record: Record, site: Site) -> bool:
    """Whether the queries or the keys of a site are patches of a picture."""
    return record.patches is not None and record.patches.count in record.step(site).shape[2:]


def _named(shade: Shade) -> str:
    return in_title(shade.ends[0].labels[shade.index])


def _what(patches: Patches, shade: Shade) -> str:
    size = f"{patches.rows} x {patches.columns}"
    return f"A picture of {size} patches, the brighter the more attention {shade.side} one position."


@dataclass(frozen=True, eq=False)
class _Pictures:
    shade: Shade
    scale: Domain
    style: Style

    @property
    def colors(self) -> Theme:
        return self.style.colors

    @property
    def patches(self) -> Patches:
        return self.shade.seen.record.patches

    @property
    def image(self) -> str:
        images = self.patches.images
        return data_uri(self.patches, self.shade.seen.sentence) if images else ""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a picture in pixels: its own shape, else that of the grid."""
        images = self.patches.images
        high, wide = images[self.shade.seen.sentence].shape[:2] if images else (self.patches.rows, self.patches.columns)
        factor = SIDE / max(high, wide)
        return max(LEAST, wide * factor), max(LEAST, high * factor)

    def drawn(self, title: str) -> Picture:
        """Where the position stands on the picture, and beside it, or below it in a given width, where it looks."""
        (wide, high), chosen, shaded = self.size, *self.shade.ends
        record = self.shade.seen.record
        said = [*subtitles(record, self.style), *self.shade.seen.notes, *self.shade.notes]
        width = {"width": self.style.width or 2 * wide + GAP, "narrowest": self.style.width or frame.NARROWEST}
        around = frame.heading(title, said, left=0, top=-14, colors=self.colors, **width)
        rows, pictures, x, y, bottom = [], [], 0.0, 0.0, 0.0
        alone = self.shade.one_text and not self.image  # nothing is to be seen without colors
        for end, is_shaded in ((shaded, True),) if alone else ((chosen, False), (shaded, True)):
            part, below, picture = self._end(end, x, y, is_shaded)
            rows, around, pictures = rows + part, around + below, pictures + picture
            bottom = max([bottom, *(row["y2"] for row in part)])
            x, y = (x, bottom + LINE + 8) if self.style.width else (wide + GAP, y)
        around += self._legend(bottom + 12)
        data = {"cells of the picture": columns(COLUMNS, rows), "pictures": columns(("x", "y", "uri"), pictures)}
        width = wide if self.style.width or alone else 2 * wide + GAP
        return Picture(_form(self.colors, wide, high, width), data | frame.tables(around))

    def _end(self, part: Groups, x: float, y: float, shaded: bool) -> tuple[list[dict], Frame, list[dict]]:
        """One end of the attention: its patches on the picture, the other positions in a line below."""
        (wide, high), patches, rows = self.size, self.patches, []
        is_picture = int(part.stops[-1]) <= patches.count == self._positions(part)
        across, top, chip = x, y + (high + 8 if is_picture else 0), 0.0
        for i, start in enumerate(part.starts.tolist()):
            place = patches.place(start) if is_picture else None
            if place is not None:
                cell = (wide / patches.columns, high / patches.rows)
                at = {"x": x + place[1] * cell[0], "y": y + place[0] * cell[1]}
                at |= {"x2": at["x"] + cell[0], "y2": at["y"] + cell[1], "text": ""}
            else:
                text = shown(part.labels[i], 16)
                chip = text_width(text) + 12
                if across > x and across + chip > x + wide:
                    across, top = x, top + CHIP + 4
                at = {"x": across, "y": top, "x2": across + chip, "y2": top + CHIP, "text": text}
                across += chip + 4
            rows.append(at | self._cell(part, i, shaded, place is not None))
        picture = [{"x": x, "y": y, "uri": self.image}] if is_picture and self.image else []
        return rows, self._outlines(rows, part, shaded), picture

    def _positions(self, part: Groups) -> int:
        queries, keys = self.shade.seen.step.shape[2:]
        mine = (part is self.shade.ends[0]) == (self.shade.side == "from")
        return queries if mine else keys - self.shade.seen.step.has_sink

    def _cell(self, part: Groups, i: int, shaded: bool, patch: bool) -> dict:
        """What a cell looks like, what it says, and what a click on it selects."""
        shade, colors, position = self.shade, self.colors, int(part.starts[i])
        query = (shaded and not shade.one_text) != (shade.side == "from")
        mine, name = (in_title(text) for text in (shade.ends[0].labels[shade.index], part.labels[i]))
        looks, looked = (mine, name) if shade.side == "from" else (name, mine)
        says = {"query": position if query else -1, "key": -1 if query else position, "rev": self.style.rev}
        says |= {"query_name": looks, "key_name": looked, "weight_text": "", "says": ""}
        if not shaded:
            names = (
                {"query_name": name, "key_name": ""} if shade.side == "from" else {"query_name": "", "key_name": name}
            )
            return says | names | {"fill": colors.background, "cover": 0.0 if patch and self.image else 1.0}
        says |= {"weight_text": f"{shade.weights[i]:.4f}", "says": state_of(shade, i)}
        if not shade.colored[i]:
            return says | {"fill": colors.blocked, "cover": 1.0}
        bright = float(self.scale.shade(shade.weights)[i])
        if patch and self.image:
            return says | {"fill": DARK.background, "cover": VEIL * (1 - bright)}
        return says | {"fill": pixels.color_at(bright, colors), "cover": 1.0}

    def _outlines(self, rows: list[dict], part: Groups, shaded: bool) -> Frame:
        """A frame around the chosen position, on both where they are the same, and the names of other positions."""
        shade, boxes = self.shade, []
        if not shaded or shade.one_text:
            row = rows[shade.index]
            boxes.append(box(row["x"], row["y"], row["x2"], row["y2"], stroke=self.colors.accent, width=2.5))
        inks = ((row, pixels.readable(row["fill"], self.colors)) for row in rows if row["text"])
        tokens = (words(row["x"] + 6, row["y"] + CHIP / 2, row["text"], ink) for row, ink in inks)
        return Frame(boxes=tuple(boxes), tokens=tuple(tokens))

    def _legend(self, top: float) -> Frame:
        width = self.size[0] if self.style.width else 2 * self.size[0] + GAP
        if not self.image:
            return frame.legend([], self.scale.ramp(self.colors), top=top, width=width, colors=self.colors)
        caption = f"The brighter a patch, the larger its {self.scale.caption.replace('colors end', 'the brightest is')}"
        return frame.lines(caption, left=0, top=top, width=width, colors=self.colors)


COLUMNS = ("x", "y", "x2", "y2", "fill", "cover", "query", "key", "rev", *TOOLTIP)


@formed(8)
def _form(colors: Theme, wide: float, high: float, width: float) -> Form:
    x, y = frame.pixels()
    cells = (
        alt.Chart(alt.NamedData("cells of the picture"))
        .mark_rect(aria=False, cursor="pointer", stroke=colors.line, strokeWidth=0.4)
        .encode(
            x=x,
            y=y,
            x2="x2:Q",
            y2="y2:Q",
            fill=alt.Fill("fill:N", scale=None),
            fillOpacity=alt.FillOpacity("cover:Q", scale=None),
            tooltip=grid.tooltip(TOOLTIP),
        )
        .add_params(grid.clicked("cell", "query", "key", "rev"))
    )
    picture = alt.Chart(alt.NamedData("pictures")).mark_image(
        width=wide, height=high, align="left", baseline="top", aspect=False, aria=False, tooltip=None
    )
    return frame.form([picture.encode(x=x, y=y, url=alt.Url("uri:N")), cells], width, 1, colors)


@lru_cache(maxsize=8)
def data_uri(patches: Patches, sentence: int) -> str:
    """A picture as a data URI; nothing else may stand in a file that is drawn."""
    file = io.BytesIO()
    Image.fromarray(patches.images[sentence].numpy()).save(file, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()
