"""Sizes of pictures for where they go: a column of a paper, a slide, a web page."""

from dataclasses import dataclass, replace
from typing import Any

from attnviz.charts.style import Style
from attnviz.charts.theme import TEXT_SIZE
from attnviz.core.errors import InputError

POINTS_PER_INCH = 72


@dataclass(frozen=True)
class Preset:
    """How a picture is made for one use.

    Attributes:
        label: in words, for a menu.
        inches: the width at most; of a picture that is wider with its text in `points`, the second.
        points: the size of its text.
        ppi: pixels per inch of a PNG, unless a size is asked for.
        high: inches that it is high at most.
        padding: pixels around the picture: a page of a paper has margins of its own.
        title: whether the title stays, and under it where the weights come from and what was changed.
        light: whether it is in light colors, also where the page is dark.
        side: pixels of a map at most where its legend stands right of it; None for under it.
    """

    label: str
    inches: tuple[float, float]
    points: float
    high: float
    ppi: int = 144
    padding: int = 10
    title: bool = True
    light: bool = False
    side: int | None = None

    @property
    def scale(self) -> float:
        """Points per pixel of the screen."""
        return self.points / TEXT_SIZE

    @property
    def width(self) -> int:
        """Pixels of the screen between the paddings."""
        return int(self.inches[0] * POINTS_PER_INCH / self.scale) - 2 * self.padding

    @property
    def fits(self) -> tuple[float, float, float]:
        """Both widths and the height in points."""
        return self.inches[0] * POINTS_PER_INCH, self.inches[1] * POINTS_PER_INCH, self.high * POINTS_PER_INCH


PRESETS = {
    "paper": Preset(
        "one column (3.35 in), 8 pt, no title", (3.35, 7.0), 8, 9.0, ppi=300, padding=2, title=False, light=True
    ),
    "slide": Preset("fits 12.5 x 7 in, up to 18 pt", (10.0, 12.5), 18, 7.0, side=220),
    "web": Preset("760 px wide, 12 px", (760 / 72, 1100 / 72), 12, 2000 / 72),
}


def preset(name: str | None) -> Preset | None:
    """A preset by its name.

    Raises:
        InputError: if there is none of that name.
    """
    if name is not None and name not in PRESETS:
        raise InputError(f"There is no preset {name!r}. There are: {', '.join(PRESETS)}.")
    return PRESETS.get(name)


def styled(figure: Any, chosen: Preset | None) -> Any:
    """A figure as wide as a preset lets it be; a bare chart stays as it is."""
    if chosen is not None and isinstance(figure, Style):
        is_map = not isinstance(figure.side, str)  # of tokens that are shaded it says from or to which one
        wide = {"side": chosen.side, "aside": True} if chosen.side is not None and is_map else {}
        if not chosen.title:
            wide["heading"] = ""
        return replace(figure, width=chosen.width, dark=figure.dark and not chosen.light, **wide)
    return figure


def fitted(picture: dict, chosen: Preset | None) -> dict:
    """The Vega-Lite of a picture without what a preset leaves out."""
    if chosen is None:
        return picture
    return picture | {"config": picture.get("config", {}) | {"padding": chosen.padding}}
