"""How a picture is drawn, whatever it shows: one value that goes from the door of a figure to its last pixel."""

from dataclasses import dataclass

from attnviz.charts.theme import DARK, LIGHT, Theme


@dataclass(frozen=True, kw_only=True)
class Style:
    """How a picture is drawn.

    Attributes:
        dark: in the colors of a dark page.
        selected: what is outlined: the (query, key) of a cell, or a row.
        focused: the head that is framed, by its number or as (site, head).
        rev: a counter to raise after each click, so that the same thing can be clicked again.
        domain: what the color of a weight says, one of `charts.domain.DOMAINS`.
        row_sums: whether each row's sum is written at its end, and those that are not 1 are marked.
        side: how wide a map may be, in pixels; None for as wide as is good.
        width: pixels that the picture may take with all that stands around it; None for as many as it needs.
        zooms: whether a drag over a large map on a page asks to see a part of it.
        aside: whether the legend of a map stands right of it, as on a slide.
        paired: whether thumbnails stand beside their map on a page, with words at their right: they are smaller then.
        explained: whether the legend of the picture beside it holds for it, too: for the colors of thumbnails with one
            scale, for the strokes of a map.
        heading: what stands over the picture in place of its title and the lines under it; None for those.
        on_screen: whether the picture stands on a page, which says itself what was changed.
    """

    dark: bool = False
    selected: tuple[int, int] | int | None = None
    focused: object = None
    rev: int = 0
    domain: str = "adapts"
    row_sums: bool = False
    side: int | None = None
    width: int | None = None
    zooms: bool = False
    aside: bool = False
    paired: bool = False
    explained: bool = False
    heading: str | None = None
    on_screen: bool = False

    @property
    def is_paired(self) -> bool:
        """Whether it stands on a page beside its map, or beside its thumbnails."""
        return self.paired and self.on_screen

    @property
    def colors(self) -> Theme:
        return DARK if self.dark else LIGHT
