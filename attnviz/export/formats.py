"""Every format a figure can be saved in. A new one is one entry of `FORMATS`: menu, shell and ZIP read it there."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from attnviz.core.errors import InputError
from attnviz.export import data, fonts, page, presets, spec
from attnviz.export.drawing import draw, javascript
from attnviz.export.presets import Preset

PIXELS_PER_INCH = 72
"""Resolution of a picture at scale 1: the unit of the charts is the point of PDF files."""


@dataclass(frozen=True, eq=False)
class Request:
    """A figure to be saved, and how.

    Attributes:
        figure: a `Figure`, already in the width and colors of the preset.
        scale: times as many pixels, of a PNG.
        ppi: pixels per inch of a PNG instead of a scale.
        deadline: seconds that drawing may take.
    """

    figure: Any
    preset: Preset | None = None
    scale: int = 1
    ppi: int | None = None
    deadline: float = 30.0

    @cached_property
    def picture(self) -> dict:
        """The figure as Vega-Lite."""
        return presets.fitted(spec.of(self.figure), self.preset)

    @property
    def pixels_per_inch(self) -> int:
        """Pixels per inch of a PNG."""
        preset = self.preset.ppi if self.preset and self.scale == 1 else PIXELS_PER_INCH * self.scale
        return self.ppi or preset

    def draw(self, kind: str, **options: int) -> bytes:
        """The picture by vl-convert."""
        fits = {"fits": (self.preset.scale, *self.preset.fits)} if self.preset else {}
        return draw(kind, spec.to_json(self.picture), deadline=self.deadline, **fits, **options)

    def numbers(self, name: str) -> Any:
        """The table or the arrays of the figure.

        Raises:
            InputError: if it is a bare chart.
        """
        if (numbers := getattr(self.figure, name)) is None:
            raise InputError(f"A bare chart has no {name} to save as numbers: give a Figure.")
        return numbers


@dataclass(frozen=True)
class Format:
    """One kind of file; its extension is its name in `FORMATS`.

    Attributes:
        label: what it is for, in a menu.
        write: makes the file.
        zipped: what the README of a ZIP says of it, by the size it has there; none if it is in no ZIP.
        numbers: the part of a figure that it holds if it is no picture: "table" or "arrays".
        place: where menus offer it: "first", "more" or "" for nowhere.
    """

    mime: str
    label: str
    write: Callable[[Request], bytes]
    zipped: tuple[tuple[dict[str, int], str], ...] = ()
    numbers: str = ""
    place: str = ""


def _svg(request: Request) -> bytes:
    return spec.named(fonts.embedded(request.draw("svg")), request.figure)


def _npz(request: Request) -> bytes:
    figure = request.figure
    return data.npz(request.numbers("arrays"), f"{figure.title}\n{figure.description}")


PRINT = (
    ({}, "the picture"),
    ({"scale": 2}, "the picture for sharp screens and slides"),
    ({"ppi": 300}, "the picture for print, 300 dots per inch"),
)
FORMULA = "the numbers as a table, UTF-8; text that a spreadsheet would take for a formula begins with '"
POINTER = "the picture with the numbers under the pointer and as a table; needs no network"

FORMATS = {
    "png": Format(
        "image/png",
        "a picture for slides and messages",
        lambda request: request.draw("png", ppi=request.pixels_per_inch),
        PRINT,
        place="first",
    ),
    "svg": Format(
        "image/svg+xml",
        "a picture sharp at any size, to edit",
        _svg,
        (({}, "the picture at any size, editable"),),
        place="first",
    ),
    "pdf": Format(
        "application/pdf",
        "a picture sharp at any size, to print",
        lambda request: request.draw("pdf"),
        (({}, "the picture for LaTeX and print"),),
        place="first",
    ),
    "html": Format(
        "text/html",
        "a page with each number on hover",
        lambda request: page.write(request.figure, request.picture, javascript()),
        (({}, POINTER),),
        place="more",
    ),
    "json": Format(
        "application/json",
        "Vega-Lite, for other programs",
        lambda request: spec.to_json(request.picture).encode(),
        (({}, "the picture as Vega-Lite"),),
    ),
    "csv": Format(
        "text/csv",
        "the numbers for a spreadsheet",
        lambda request: data.separated(request.numbers("table"), ","),
        (({}, FORMULA),),
        "table",
        "first",
    ),
    "npz": Format(
        "application/octet-stream",
        "the numbers for NumPy",
        _npz,
        (({}, "the numbers as arrays: numpy.load(file)"),),
        "arrays",
        "more",
    ),
}
"""Formats of one figure, by their extensions; "zip" besides is all of them, of one figure or several."""


def formats_for(place: str) -> tuple[str, ...]:
    """The formats that menus offer at a place."""
    return tuple(name for name, format in FORMATS.items() if format.place == place)


def figure_of(figure: Any) -> Any:
    """A bare chart as a figure that has a picture and nothing else.

    Raises:
        InputError: if it is neither.
    """
    if hasattr(figure, "to_dict"):
        return SimpleNamespace(name="figure", title="Figure", description="", chart=figure, table=None, arrays=None)
    if not hasattr(figure, "title"):
        raise InputError(f"A {type(figure).__name__} is no figure: give a Figure or an Altair chart.")
    return figure
