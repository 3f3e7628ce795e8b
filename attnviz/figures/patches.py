"""A picture whose patches a model read: the brighter a patch, the more attention it gets from one of them."""

import base64
import io
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import altair as alt
import numpy as np
from PIL import Image

from attnviz.charts import interaction, legends, pixels
from attnviz.charts.picture import INDEPENDENT, Form, Table, columns, formed
from attnviz.charts.texts import broken, heading, text_width, titled
from attnviz.charts.theme import DARK, LINE, MONO, WORD_CHARACTER, Theme, config
from attnviz.core.display import in_title, visible_text
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.patches import Patches
from attnviz.core.record import Record
from attnviz.figures.head import called
from attnviz.figures.shade import TOOLTIP, ShadedFigure
from attnviz.views import Groups

SIDE, GAP = 300, 20
"""Pixels of the longer side of a picture, and between two."""
LEAST = 24.0
"""Pixels of its shorter side at least: positions in time are one row of patches."""
VEIL = 0.9
"""How much of a dark veil covers a patch that gets nothing."""
CHIP = 24
"""Pixels of the height of a position that is no patch."""

BRIGHTEST = "the brightest is"

COLUMNS = (
    "x", "y", "x2", "y2", "fill", "cover", "stroke", "stroke_width", "text", "ink", "query", "key", "rev", *TOOLTIP,
)  # fmt: skip


def on_grid(record: Record, site: Site) -> bool:
    """Whether the queries or the keys of a site are patches of a picture."""
    return record.patches is not None and record.patches.count in record.step(site).shape[2:]


@dataclass(frozen=True, eq=False)
class PatchImage(ShadedFigure):
    """The picture, each patch as bright as the attention that one position gives it, or that it gives this position.

    Raises:
        InputError: if neither the queries nor the keys of the site are patches.
    """

    kind = "picture-"

    def __post_init__(self):
        if not on_grid(self.record, self.site):
            raise InputError(f"Neither queries nor keys of {self.site} are patches of a picture: say record(grid=...).")
        super().__post_init__()

    @property
    def most(self) -> int:
        """Positions drawn at most: all."""
        return self._patches.count

    @property
    def begin(self) -> str:
        size = f"{self._patches.rows} x {self._patches.columns}"
        return f"A picture of {size} patches, the brighter the more attention {{}} one position."

    @property
    def heading_text(self) -> str:
        name = in_title(self.shade.ends[0].labels[self.shade.index])
        return f"Attention {self.side} {name} · {called(self.attention_view, self.head)}"

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return super().arrays | {"grid": np.array([self._patches.rows, self._patches.columns])}

    @property
    def lines(self) -> list[str]:
        return [line for line in super().lines if line != self.scale.ending or not self._image]

    @property
    def form(self) -> Form:
        width, height, picture = self._extent
        ramp = None if self._image else replace(self.scale.legend(self.colors), top=0.0)
        return _form(width, height, picture, ramp, self.colors)

    @cached_property
    def data(self) -> dict[str, Table]:
        cells, pictures = self._layout
        width = self._extent[0]
        meta = heading(self.heading_text, self.lines, width, self) | {"top": [self.scale.top]}
        if self._image:
            caption = f"The brighter a patch, the larger its {self.scale.caption.replace('colors end', BRIGHTEST)}"
            meta["caption"] = ["\n".join(broken([caption], width / WORD_CHARACTER))]
        return {
            "meta": meta,
            "pictures": columns(("x", "y", "uri"), pictures),
            "cells": columns(COLUMNS, cells),
        }

    @property
    def _patches(self) -> Patches:
        return self.record.patches

    @property
    def _image(self) -> str:
        return data_uri(self._patches, self.sentence) if self._patches.images else ""

    @property
    def _size(self) -> tuple[float, float]:
        """Width and height of a picture in pixels: its own shape, else that of the grid."""
        images, patches = self._patches.images, self._patches
        high, wide = images[self.sentence].shape[:2] if images else (patches.rows, patches.columns)
        factor = SIDE / max(high, wide)
        return max(LEAST, wide * factor), max(LEAST, high * factor)

    @property
    def _extent(self) -> tuple[float, float, tuple[float, float]]:
        """Width and height of all, and of a picture."""
        cells, _ = self._layout
        return max(row["x2"] for row in cells), max(row["y2"] for row in cells), self._size

    @cached_property
    def _layout(self) -> tuple[list[dict], list[dict]]:
        """Cells and pictures: where the position stands, and beside it, or below in a given width, where it looks."""
        chosen, shaded = self.shade.ends
        alone = self.shade.one_text and not self._image  # nothing is to be seen without colors
        cells, pictures, x, y = [], [], 0.0, 0.0
        for part, is_shaded in [(shaded, True)] if alone else [(chosen, False), (shaded, True)]:
            is_picture = self._is_picture(part)
            rows = self._cells(part, x, y, is_shaded=is_shaded, is_picture=is_picture)
            if not is_shaded or self.shade.one_text:
                rows[self.shade.index] |= {"stroke": self.colors.accent, "stroke_width": 2.5}
            pictures += [{"x": x, "y": y, "uri": self._image}] if is_picture and self._image else []
            cells += rows
            x, y = (0.0, max(row["y2"] for row in rows) + LINE) if self.width else (self._size[0] + GAP, 0.0)
        return cells, pictures

    def _is_picture(self, part: Groups) -> bool:
        """Whether the positions of one end are patches."""
        queries, keys = self.shade.view.step.shape[2:]
        is_query = (part is self.shade.ends[0]) == (self.side == "from")
        positions = queries if is_query else keys - self.shade.view.step.has_sink
        return int(part.stops[-1]) <= self._patches.count == positions

    def _cells(self, part: Groups, x: float, y: float, *, is_shaded: bool, is_picture: bool) -> list[dict]:
        """Patches on their picture, the other positions in a line below."""
        (wide, high), patches, rows = self._size, self._patches, []
        across, top = x, y + (high + 8 if is_picture else 0)
        for i, start in enumerate(part.starts.tolist()):
            place = patches.place(start) if is_picture else None
            if place is not None:
                width, height, text = wide / patches.columns, high / patches.rows, ""
                left, upper = x + place[1] * width, y + place[0] * height
            else:
                text, height = visible_text(part.labels[i], 16), CHIP
                width = text_width(text) + 12
                if across > x and across + width > x + wide:
                    across, top = x, top + CHIP + 4
                left, upper = across, top
                across += width + 4
            box = {"x": left, "y": upper, "x2": left + width, "y2": upper + height, "text": text}
            look = self._look(i, is_shaded=is_shaded, is_bare=place is not None and bool(self._image))
            rows.append(box | look | self.readout(part, i, is_shaded=is_shaded))
        return rows

    def _look(self, i: int, *, is_shaded: bool, is_bare: bool) -> dict:
        """The ground of a cell and how much it covers; `is_bare` is a patch of a picture that is there."""
        shade, colors = self.shade, self.colors
        fill, cover = colors.background, 1.0 - is_bare
        if is_shaded and not shade.colored[i]:
            fill, cover = colors.blocked, 1.0
        elif is_shaded:
            bright = float(self.scale.shade(shade.weights)[i])
            fill, cover = (DARK.background, VEIL * (1 - bright)) if is_bare else (pixels.color_at(bright, colors), 1.0)
        ink = pixels.readable(fill, colors)
        return {"fill": fill, "cover": cover, "ink": ink, "stroke": colors.line, "stroke_width": 0.4}


@formed(16)
def _form(width: float, height: float, picture: tuple[float, float], ramp: legends.Ramp | None, colors: Theme) -> Form:
    x, y = (channel(f"{name}:Q", scale=None, axis=None) for channel, name in ((alt.X, "x"), (alt.Y, "y")))
    mark = {"width": picture[0], "height": picture[1], "align": "left", "baseline": "top", "aspect": False}
    pictures = alt.Chart(alt.NamedData("pictures")).mark_image(**mark, **interaction.QUIET_MARK)
    base = alt.Chart(alt.NamedData("cells"), name="cells")
    cells = base.mark_rect(aria=False, cursor="pointer").encode(
        x=x,
        y=y,
        x2="x2:Q",
        y2="y2:Q",
        fill=alt.Fill("fill:N", scale=None),
        fillOpacity=alt.FillOpacity("cover:Q", scale=None),
        stroke=alt.Stroke("stroke:N", scale=None),
        strokeWidth=alt.StrokeWidth("stroke_width:Q", scale=None),
        order=alt.Order("stroke_width:Q"),
        tooltip=interaction.tooltip(TOOLTIP),
    )
    names = alt.Chart(alt.NamedData("cells")).mark_text(
        align="left", baseline="middle", dx=6, dy=CHIP / 2, font=MONO, **interaction.QUIET_MARK
    )
    names = names.encode(x=x, y=y, text="text:N", fill=alt.Fill("ink:N", scale=None))
    if ramp is None:
        below = {"align": "left", "baseline": "top", "lineBreak": "\n", "lineHeight": LINE, "color": colors.quiet}
        legend = alt.Chart(alt.NamedData("meta")).mark_text(**below, **interaction.QUIET_MARK)
        legend = legend.encode(x=alt.XValue(0), y=alt.YValue(height + 12), text="caption:N")
    else:
        legend = legends.ramp_legend(ramp, {"orient": "bottom", "offset": 10})
    layers = [legend, pictures.encode(x=x, y=y, url="uri:N"), cells, names]
    chart = alt.layer(*layers, width=width, height=height, autosize="pad", title=titled(colors), resolve=INDEPENDENT)
    chart.params = interaction.share(["cells"], interaction.clicked("cell", "query", "key", "rev"))
    return Form.of(chart.configure(**config(colors)))


@lru_cache(maxsize=8)
def data_uri(patches: Patches, sentence: int) -> str:
    """A picture as a data URI; nothing else may stand in a file that is drawn."""
    file = io.BytesIO()
    Image.fromarray(patches.images[sentence].numpy()).save(file, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()
