"""All heads of one attention call at a glance: a thumbnail per head, each one image."""

from functools import lru_cache

import altair as alt
import numpy as np

from attnviz import views
from attnviz.charts import frame, hatch, maps, pixels
from attnviz.charts.frame import Frame, box, sign, words
from attnviz.charts.heatmap import Domain, colored, domain_of, subtitles_of
from attnviz.charts.maps import number
from attnviz.charts.picture import Form, Picture
from attnviz.charts.theme import Theme, config, theme
from attnviz.core.display import in_title
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.metrics import Cells
from attnviz.views import Seen, View

WIDTH = 336
"""Pixels of the whole mosaic, so that it fits a phone."""

WIDEST = 150
"""Pixels of a thumbnail at most where there are one or two."""

GAP, LABEL = 14, 20


def picture(
    record: Record,
    site: Site,
    *,
    sentence: int = 0,
    view: View = View(),
    domain: str = "fixed",
    dark: bool = False,
    focused: int | None = None,
    rev: int = 0,
    edits: bool = True,
) -> Picture:
    """Draw a thumbnail of every head; a click selects one under the name "head" with the fields head and rev.

    Args:
        view, domain: as in `heatmap`.
        focused: the head that is framed.
        rev: a counter to raise after each click, so that the same head can be clicked again.
        edits: whether the picture says what was changed.
    """
    step, colors = record.step(site), theme(dark)
    seen = views.see(record, site, sentence=sentence, view=view)
    scale = domain_of(domain, seen)
    columns = columns_of(step.num_heads)
    side = (WIDTH - GAP * (columns - 1)) // columns
    side = min(side, WIDEST) if step.num_heads <= 2 else side
    height = round(side * _aspect(seen))
    tile = max(1, -(-len(seen.queries) // height), -(-len(seen.keys) // side))
    thumbnails, around = [], Frame()
    for head, found in enumerate(seen.cells(range(step.num_heads), tile)):
        x = head % columns * (side + GAP)
        y = head // columns * (height + LABEL + GAP) + LABEL
        off = head in step.heads_off
        thumbnails.append(
            {"x": x, "y": y, "rev": rev} | _thumbnail(head, found, scale, side, height, off=off, colors=colors)
        )
        around += _around(head, x, y, side, height, off=off, focused=head == focused, colors=colors)
    bottom = -(-step.num_heads // columns) * (height + LABEL + GAP) - GAP
    title = title_of(record, site)
    ramp = frame.Ramp(scale.caption, pixels.ramp_uri(colors), scale.ticks)
    lines = [*subtitles_of(record, edits=edits), *seen.notes]
    around += frame.heading(title, lines, left=0, top=-8, width=WIDTH, narrowest=WIDTH, colors=colors)
    around += frame.legend([], ramp, top=bottom + 14, width=WIDTH, colors=colors)
    table = {name: [thumbnail[name] for thumbnail in thumbnails] for name in thumbnails[0]}
    return Picture(_form(side, height, bottom, colors), {"heads": table} | frame.tables(around))


def title_of(record: Record, site: Site) -> str:
    """What is drawn, beginning with constant words."""
    return f"All heads · {site} · {in_title(record.source)}"


def columns_of(heads: int) -> int:
    return 1 if heads == 1 else 2 if heads <= 4 else 3 if heads <= 9 else 4


def _aspect(seen: Seen) -> float:
    """Height of a thumbnail per width."""
    return max(0.25, min(2.0, len(seen.queries) / max(1, len(seen.keys))))


def _thumbnail(head: int, found: Cells, scale: Domain, side: int, height: int, *, off: bool, colors: Theme) -> dict:
    """One row of data: the image, and what hovering says."""
    nan = np.isnan(found.weights)
    image = pixels.paint(scale.shade(found.weights), colored(found), found.blocked, nan, height=height, width=side)
    most = found.weights[~nan]
    return {
        "head": head,
        "uri": pixels.data_uri(image, pixels.palette(colors, gray=off)),
        "name": f"head {head}",
        "largest": number(float(most.max()), ".4f") if len(most) else "NaN",
        "state": "off: its output is zero" if off else "on",
    }


@lru_cache(maxsize=64)
def _form(side: float, height: float, bottom: float, colors: Theme) -> Form:
    x, y = frame.pixels()
    fields = {"name": "head", "largest": "largest weight", "state": "state"}
    mark = {"width": side, "height": height, "align": "left", "baseline": "top", "cursor": "pointer", "aria": False}
    images = (
        alt.Chart(alt.NamedData("heads"))
        .mark_image(smooth=False, aspect=False, **mark)
        .encode(x=x, y=y, url="uri:N", tooltip=maps.tooltip(fields))
        .add_params(maps.clicked("head", "head", "rev"))
    )
    chart = alt.layer(images, *frame.layers(), width=WIDTH, height=bottom, autosize="pad")
    return Form.of(chart.configure(**config(colors)))


def _around(
    head: int, x: float, y: float, side: float, height: float, *, off: bool, focused: bool, colors: Theme
) -> Frame:
    """A thumbnail's number and outline; a head that is off is struck through and says so."""
    color = colors.accent if focused else colors.quiet if off else colors.text
    drawn = Frame(
        words=(words(x, y - LABEL / 2, f"head {head}{' · off' if off else ''}", color),),
        boxes=(box(x, y, x + side, y + height, stroke=colors.line),),
    )
    if off:
        drawn += Frame(signs=(sign(x + side / 2, y + height / 2, hatch.STRUCK, colors.quiet, 1.5, min(side, height)),))
    if focused:
        drawn += Frame(
            boxes=(box(x - 2.5, y - 2.5, x + side + 2.5, y + height + 2.5, stroke=colors.accent, width=2.5),)
        )
    return drawn
