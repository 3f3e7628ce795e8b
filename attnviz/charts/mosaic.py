"""Many heads at a glance: a thumbnail per head, each one image, under one title and over one legend."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnviz.charts import frame, hatch, maps, pixels
from attnviz.charts.domain import Domain, adapted, colored, domain_of, legend_of
from attnviz.charts.frame import SWATCH, Entry, Frame, box, sign
from attnviz.charts.picture import Form, Picture, columns, formed
from attnviz.charts.state import blocked_by
from attnviz.charts.style import Style
from attnviz.charts.theme import Theme
from attnviz.core.amounts import written
from attnviz.core.edits import Site
from attnviz.metrics import Cells
from attnviz.views import Seen

Head = tuple[Site, int]


ABOVE, RIGHT = 8, 28
"""Pixels between the lines under the title and the thumbnails, and between these and a legend right of them."""

LEAST = 5
"""Pixels of the side of a window in a thumbnail at least."""

BESIDE = ("sides", "rows", "columns", "tokens")
"""What stands beside the thumbnails of some mosaics."""
AROUND = tuple(kind for kind in frame.KINDS if kind not in BESIDE)


@dataclass(frozen=True)
class Thumbnail:
    """Where a head stands, and what it is called under the pointer."""

    site: Site
    head: int
    x: float
    y: float
    name: str


@dataclass(frozen=True)
class Mosaic:
    """Where heads stand, and words beside them; in pixels.

    Attributes:
        side, height: of a thumbnail.
        width, bottom: of all.
        narrowest: the width in which the title is broken at least.
    """

    thumbnails: Sequence[Thumbnail]
    words: Frame
    side: int
    height: int
    width: float
    bottom: float
    narrowest: float = frame.NARROWEST

    def picture(self, seen: dict[Site, Seen], title: str, lines: Sequence[str], style: Style) -> Picture:
        """The thumbnails; a click selects one under "head" with the fields kind, layer, head and rev."""
        colors, around = style.colors, self.words
        found, rows = self._cells(seen), []
        scales = _scales(found, seen, style.domain)
        for one in self.thumbnails:
            off, cells = one.head in seen[one.site].step.heads_off, found[one.site, one.head]
            is_shown = colored(cells) & ~seen[one.site].padding[:: cells.tile, None]
            rows.append(self._row(one, cells, scales[one.site, one.head], style, is_shown, off=off))
            around += self._outline(one, seen[one.site], style, off=off)
        around += frame.heading(
            title, lines, left=0, top=-ABOVE, width=self.width, narrowest=self.narrowest, colors=colors
        )
        if scales and not (style.explained and style.on_screen and len({*scales.values()}) == 1):
            gray = all(one.head in seen[one.site].step.heads_off for one in self.thumbnails)
            ramp = legend_of([*scales.values()], colors, gray=gray)
            right, top = (self.width + RIGHT, 0.0) if style.aside else (0.0, self.bottom + 14)
            hatched = any(cells.blocked.any() for cells in found.values())
            entries = [Entry("blocked", hatch.shape(0, SWATCH), colors.hatch, 1.0, colors.blocked)] * hatched
            around += frame.legend(entries, ramp, top=top, width=self.width, colors=colors).moved(right)
        beside = tuple(kind for kind in BESIDE if getattr(self.words, kind))
        form = _form(self.side, self.height, self.width, self.bottom, colors, beside)
        return Picture(form, {"heads": columns(_COLUMNS, rows)} | frame.tables(around, AROUND + beside))

    def _cells(self, seen: dict[Site, Seen]) -> dict[Head, Cells]:
        """The cells of all heads of a site at once, as coarse as a thumbnail shows them: the largest of each tile."""
        found = {}
        for site, one in seen.items():
            heads = [place.head for place in self.thumbnails if place.site == site]
            tiles = one.cells(heads, tile_of(one, self.side, self.height))
            found |= {(site, head): cells for head, cells in zip(heads, tiles, strict=True)}
        return found

    def _row(
        self, one: Thumbnail, found: Cells, scale: Domain, style: Style, is_shown: np.ndarray, *, off: bool
    ) -> dict:
        """A row of data: the image, and what hovering says; `is_shown` where a weight has a color."""
        nan, sides = np.isnan(found.weights), {"height": self.height, "width": self.side}
        signs = [state.signs for state in blocked_by(found.reasons)]
        image = pixels.weights(scale.shade(found.weights), is_shown, found.blocked, nan, signs, **sides)
        most = found.weights[~nan]
        return {
            "x": one.x,
            "y": one.y,
            "kind": one.site.kind,
            "layer": one.site.layer,
            "head": one.head,
            "rev": style.rev,
            "uri": pixels.data_uri(image, pixels.palette(style.colors, gray=off)),
            "name": one.name,
            "largest": written(float(most.max()), ".4f") if len(most) else "NaN",
            "state": "off: its output is zero" if off else "on",
        }

    def _outline(self, one: Thumbnail, seen: Seen, style: Style, *, off: bool) -> Frame:
        """A line around a thumbnail; one that is off is struck through, the chosen one framed, and the window in it."""
        x, y, x2, y2, colors = one.x, one.y, one.x + self.side, one.y + self.height, style.colors
        drawn = Frame(boxes=(box(x, y, x2, y2, stroke=colors.line),))
        if off:
            struck = sign((x + x2) / 2, (y + y2) / 2, hatch.STRUCK, colors.quiet, 1.5, min(self.side, self.height))
            drawn += Frame(signs=(struck,))
        if style.focused in (one.head, (one.site, one.head)):
            drawn += Frame(boxes=(box(x - 2.5, y - 2.5, x2 + 2.5, y2 + 2.5, stroke=colors.accent, width=2.5),))
            if style.window is not None:
                drawn += Frame(boxes=(self._window(one, seen, style),))
        return drawn

    def _window(self, one: Thumbnail, seen: Seen, style: Style) -> dict[str, object]:
        """The part of a thumbnail's map that is seen elsewhere, at least as large as can be seen."""
        top, bottom, left, right = style.window
        ends = []
        for first, last, part, begin, length in (
            (left, right, seen.keys, one.x, self.side),
            (top, bottom, seen.queries, one.y, self.height),
        ):
            unit = length / max(1, len(part))
            low, high = np.searchsorted(part.starts, first) * unit, np.searchsorted(part.starts, last, "right") * unit
            grow = max(0.0, (LEAST - (high - low)) / 2)
            ends.append((begin + float(low - grow), begin + float(high + grow)))
        (x, x2), (y, y2) = ends
        return box(x, y, x2, y2, stroke=style.colors.accent, width=1.5)


def tile_of(seen: Seen, side: int, height: int) -> int:
    """Cells per side of the square that one pixel of a thumbnail stands for."""
    return max(1, -(-len(seen.queries) // height), -(-len(seen.keys) // side))


def _scales(found: dict[Head, Cells], seen: dict[Site, Seen], kind: str) -> dict[Head, Domain]:
    """What the colors of each head say: one that adapts, by itself, as its large map does."""
    if kind == "adapts":
        return {head: adapted(cells, seen[head[0]]) for head, cells in found.items()}
    for (site, _), cells in found.items():
        return dict.fromkeys(found, domain_of(kind, seen[site], cells))
    return {}


_COLUMNS = ("x", "y", "kind", "layer", "head", "rev", "uri", "name", "largest", "state")


@formed(64)
def _form(side: float, height: float, width: float, bottom: float, colors: Theme, beside: tuple[str, ...]) -> Form:
    fields = {"name": "head", "largest": "largest weight", "state": "state"}
    images = frame.image("heads", side, height, cursor="pointer").encode(tooltip=maps.tooltip(fields))
    images = images.add_params(maps.clicked("head", "kind", "layer", "head", "rev"))
    return frame.form([images], width, bottom, colors, kinds=AROUND + beside)
