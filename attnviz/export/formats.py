"""File formats of figures, sizes for a paper or a slide, file names, and archives.

A new format needs one entry in `FORMATS` and one case in `file_content`; menu, shell and ZIP then offer the format.
"""

import io
import re
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any

from attnviz import figures, files
from attnviz.charts.theme import TEXT_SIZE, Style
from attnviz.core.display import file_stem
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.record import Record
from attnviz.export import numbers
from attnviz.export.draw import ExportError, clean, draw, finish_svg, json_text, lacking, vega_lite
from attnviz.export.explore import explore
from attnviz.export.page import page

POINTS_PER_INCH = 72
"""Points per inch, and pixels per inch of a PNG at scale 1: a pixel of a chart is a point in PDF."""

TWO_COLUMNS = 6.9  # width in inches of two columns of a paper with the space between


@dataclass(frozen=True)
class Preset:
    """Size of a picture for one use.

    Attributes:
        inches: maximum width, and maximum width to use instead if text would become too small with the first.
        high: maximum height in inches.
        points: size of the text, and smallest size to which the text may be shrunk.
        ppi: pixels per inch of a PNG by default.
        in_text: whether the picture is part of a text: without title and margin, in light colors.
        side: maximum side of a map in pixels, with its legend on the right; None for a legend below.
    """

    inches: tuple[float, float]
    high: float
    points: tuple[float, float]
    ppi: int = 144
    in_text: bool = False
    side: int | None = None


PRESETS = {
    "paper": Preset((3.35, TWO_COLUMNS), 9.0, (8, 6), ppi=300, in_text=True),
    "slide": Preset((10.0, 12.5), 7.0, (18, 18), side=220),
    "web": Preset((760 / 72, 1100 / 72), 2000 / 72, (12, 12)),
}


class SizedFigure:
    """Figure in the size of a preset (None: in its own size), to be drawn within `limit` seconds of its creation."""

    def __init__(self, figure: Any, preset: Preset | None, limit: float):
        self.figure, self.preset = figure_of(figure), preset
        self.limit, self.begun = limit, time.monotonic()
        self.scale = preset.points[0] / TEXT_SIZE if preset else 1.0  # points per pixel of the screen
        self.padding = 2 if preset and preset.in_text else 10
        if preset and isinstance(figure, Style):
            sized = {"width": int(preset.inches[0] * POINTS_PER_INCH / self.scale) - 2 * self.padding}
            if preset.side and not isinstance(figure.side, str):  # in a `TokenWeights`, `side` is "from" or "to"
                sized["side"], sized["aside"] = preset.side, True
            if preset.in_text:
                sized["heading"], sized["dark"] = "", False
            self.figure = replace(figure, **sized)

    @cached_property
    def vega_lite(self) -> dict:
        """Vega-Lite of the figure, with the margin of the preset."""
        chart = vega_lite(self.figure)
        return chart | {"config": chart["config"] | {"padding": self.padding}} if self.preset else chart

    def draw(self, kind: str, **options: Any) -> bytes:
        """Draw the picture as "png", "svg" or "pdf"; `options` are arguments of `export.draw.draw`."""
        if preset := self.preset:
            sizes = (inches * POINTS_PER_INCH for inches in (*preset.inches, preset.high))
            options["fits"] = (self.scale, *sizes, preset.points[1] / preset.points[0])  # see `png_svg_pdf.resize`
        return draw(kind, self.vega_lite, limit=self.limit, begun=self.begun, **options)

    def density(self, scale: int = 1, ppi: int | None = None) -> int:
        """Return the pixels per inch of a PNG: `ppi`, those of the preset if `scale` is 1, or 72 times `scale`."""
        if ppi is not None:
            return ppi
        return self.preset.ppi if self.preset and scale == 1 else POINTS_PER_INCH * scale


def figure_of(figure: Any) -> Any:
    """Return the figure itself, or an Altair chart with the attributes of a figure, without numbers or description."""
    if hasattr(figure, "to_dict"):
        return SimpleNamespace(name="figure", title="Figure", description="", chart=figure, table=None, arrays=None)
    if not hasattr(figure, "title"):
        raise InputError(f"A {type(figure).__name__} is not a figure: give a Figure or an Altair chart.")
    return figure


@dataclass(frozen=True)
class Format:
    """File format; its key in `FORMATS` is its extension, and `file_content` creates its files.

    Attributes:
        place: row of the export menu that offers the format: "first", "more" or "" for none.
        label: purpose of the format, for a menu and the README of a ZIP.
        numbers: attribute of a figure that the file contains: "table" or "arrays"; "" for a picture.
    """

    mime: str
    place: str
    label: str
    numbers: str = ""


AS_TEXT = "the numbers for a spreadsheet, UTF-8; a ' is added before text that it could run as a formula"
FORMATS = {
    "png": Format("image/png", "first", "a picture for slides and messages"),
    "svg": Format("image/svg+xml", "first", "a picture sharp at any size, to edit"),
    "pdf": Format("application/pdf", "first", "a picture sharp at any size, to print"),
    "html": Format("text/html", "more", "a page with each number on hover and as a table; it needs no network"),
    "json": Format("application/json", "", "Vega-Lite, for other programs"),
    "csv": Format("text/csv", "first", AS_TEXT, "table"),
    "npz": Format("application/octet-stream", "more", "the numbers for NumPy: numpy.load(file)", "arrays"),
}
"""Formats of a figure, by extension; there is also "zip", for all formats of one or several figures."""

LARGER = (({"scale": 2}, "a picture for sharp screens"), ({"ppi": 300}, "a picture for print, 300 dots per inch"))
"""Options and labels of the additional sizes of a PNG in a ZIP."""

NAMES = (*FORMATS, "zip")  # extensions of all formats


def file_content(picture: SizedFigure, format: str, scale: int = 1, ppi: int | None = None) -> bytes:
    """Return the content of the file of a figure in a format; `scale` and `ppi` are for PNG, see `render`."""
    figure, numbers_name = picture.figure, FORMATS[format].numbers
    if numbers_name and getattr(figure, numbers_name) is None:
        raise InputError(f"An Altair chart has no {numbers_name} to save as numbers: give a Figure.")
    match format:
        case "png":
            return picture.draw("png", ppi=picture.density(scale, ppi))
        case "svg":
            return finish_svg(picture.draw("svg"), figure.title, figure.description)
        case "html":
            return page(figure, picture.vega_lite)
        case "json":
            return json_text(picture.vega_lite).encode()
        case "csv":
            return numbers.csv(figure.table)
        case "npz":
            return numbers.npz(figure.arrays, f"{figure.title}\n{figure.description}")
    return picture.draw(format)


def render(
    figure: Any,
    format: str,
    *,
    preset: str | None = None,
    scale: int = 1,
    ppi: int | None = None,
    deadline: float = 30.0,
) -> bytes:
    """Return the content of a file of one figure, or with "zip" of several figures.

    The same figure gives the same bytes, except as PDF (and therefore ZIP), because vl-convert numbers fonts randomly.

    Args:
        figure: `Figure`, Altair chart (not for formats of numbers), or, for "zip", sequence of figures.
        format: extension, one of `NAMES`.
        preset: size for a paper, a slide or a web page, one of `PRESETS`; None for the size on the screen.
        scale: factor of the resolution of a PNG: 1, 2 or 4; the printed size does not change. With 1, a preset uses its
            own resolution, such as 300 pixels per inch for a paper.
        ppi: pixels per inch of a PNG, in place of `scale`; 300 for print.
        deadline: maximum number of seconds for drawing.

    Raises:
        ExportError: if the picture cannot be drawn within `deadline`.
        InputError: if there is no such format, preset or scale.
    """
    if format not in NAMES:
        raise InputError(f"There is no format {format!r}. Available formats: {', '.join(NAMES)}.")
    if scale not in (1, 2, 4):
        raise InputError(f"The scale is {scale}; it must be 1, 2 or 4.")
    if ppi is not None and (scale != 1 or not 1 <= ppi <= 1200):
        raise InputError(f"The pixels per inch (ppi) are {ppi}; give 1 to 1200, and no scale.")
    if preset is not None and preset not in PRESETS:
        raise InputError(f"There is no preset {preset!r}. Available presets: {', '.join(PRESETS)}.")
    items = figure if format == "zip" and isinstance(figure, Sequence) else [figure]
    pictures = [SizedFigure(item, PRESETS.get(preset), deadline) for item in items]
    return _archive(pictures, FORMATS) if format == "zip" else file_content(pictures[0], format, scale, ppi)


def filename(figure: Any, format: str, *, preset: str | None = None, scale: int = 1, ppi: int | None = None) -> str:
    """Return the file name: the name of the figure, with an ending such as "-paper", "@2x" or "-300dpi" if needed."""
    ending = f"-{preset}" if preset and (format == "zip" or not FORMATS[format].numbers) else ""
    if format == "png" and ppi:
        ending += f"-{ppi}dpi"
    elif format == "png" and scale != 1:
        ending += f"@{scale}x"
    return f"{file_stem(figure_of(figure).name)}{ending}.{format}"


def notes(figure: Any, preset: str | None = None) -> list[str]:
    """Return warnings about a file: characters that no bundled font has, and a picture that is two columns wide."""
    warnings, size = [], PRESETS.get(preset)
    if missing := lacking(getattr(figure, "caption", "")):
        listed = ", ".join([*missing[:8], *(["…"] if len(missing) > 8 else [])])
        why = "another font of this computer draws them, or a box is drawn"
        warnings.append(f"attnviz has no font for {listed}: {why}.")
    if size and size.inches[1] == TWO_COLUMNS:
        svg = SizedFigure(figure, size, limit=30).draw("svg").decode()
        inches = float(re.search(r'width="([\d.]+)pt"', svg)[1]) / POINTS_PER_INCH
        if inches > size.inches[0] + 0.01:
            why = f"in one column ({size.inches[0]} in) its text would be smaller than {size.points[1]} pt"
            warnings.append(f"The picture takes two columns ({inches:.1f} in): {why}.")
    return warnings


MOST_ROWS = 1_000_000
"""Maximum number of rows of all tables, which take a second; for larger tables, the README refers to the saved run."""

CASE, PAGE = "case.attn", "every-head.html"
IN_CASE = (
    f"the whole run. Drop it on the app, or: attnviz open {CASE}; in Python attnviz.read('{CASE}'). "
    f"'attnviz open {CASE} --verify' runs the model again and lists the differences"
)
IN_PAGE = "every head as map, lines and text. Open it in any browser; it needs no network"


def everything(
    record: Record,
    displayed: Sequence[figures.Figure] = (),
    *,
    before: Record | None = None,
    settings: dict[str, Any] | None = None,
    sentence: int = 0,
    site: Site | None = None,
    head: int = 0,
    dark: bool = False,
    deadline: float = 120.0,
) -> bytes:
    """Return a ZIP archive of a run: the run as a file, an explorer page, and pictures with their numbers.

    Args:
        displayed: figures of the current page, which come first; then all heads of each attention call.
        before: run without changes.
        settings: settings to save, see `attnviz.save`.
        site, head: head that the explorer page shows first.
        deadline: maximum number of seconds for drawing; later pictures are left out, and the README says so.
    """
    total_rows = 0

    def limited_content(picture: SizedFigure, format: str) -> bytes:
        """Return the content of a file, unless it and all tables before it have more than MOST_ROWS rows together."""
        nonlocal total_rows
        rows = len(picture.figure.table) if format == "csv" else 0
        if total_rows + rows > MOST_ROWS:
            raise ExportError(f"It would have {rows:,} rows; the same numbers are in {CASE}.")
        total_rows += rows
        return file_content(picture, format)

    all_heads = (figures.heads(record, call, sentence=sentence, dark=dark) for call in record.sites)
    pictures = {figure.title: SizedFigure(figure, None, deadline) for figure in (*displayed, *all_heads)}
    other_files = (
        (CASE, IN_CASE, lambda: files.saved(record, settings=settings)),
        (PAGE, IN_PAGE, lambda: explore(record, before=before, sentence=sentence, site=site, head=head).encode()),
    )
    return _archive([*pictures.values()], ("svg", "csv"), limited_content, other_files)


def _archive(
    pictures: Sequence[SizedFigure],
    formats: Iterable[str],
    content_of: Callable[..., bytes] = file_content,
    other_files: Sequence[tuple[str, str, Callable[[], bytes]]] = (),
) -> bytes:
    """Build a ZIP archive with a README that describes each file; the same files always give the same archive.

    With several figures, each has a folder such as "01-head-2/" or, if there are `other_files`, only the number "01-"
    before its file names. A file that fails is left out, and the README has the reason.

    Args:
        content_of: function that returns the content of the file of a figure in a format.
        other_files: name, description for the README, and function that returns the content.
    """
    contents: dict[str, bytes] = {}
    problems: list[AttnvizError] = []
    lines = ["Made by attnviz: attention as pictures and numbers.", ""]

    def add(name: str, note: str, make: Callable[[], bytes]) -> None:
        """Add the file that `make` returns, with a note in the README, or only the reason why it failed."""
        try:
            contents[name] = make()
        except AttnvizError as error:
            problems.append(error)
            note = f"left out. {error}"
        lines.append(f"  {name}: {note}")

    for file in other_files:
        add(*file)
    for number, picture in enumerate(pictures, 1):
        figure = picture.figure
        directory = "" if other_files else f"{file_stem(figure.name)}/"
        folder = f"{number:02d}-{directory}" if len(pictures) > 1 else ""
        lines += ["", clean(figure.title), clean(figure.description), ""]
        for format in formats:
            numbers_name = FORMATS[format].numbers
            if isinstance(figure, SimpleNamespace) and numbers_name and getattr(figure, numbers_name) is None:
                continue  # an Altair chart has no numbers
            sizes = [({}, FORMATS[format].label), *(LARGER if format == "png" else ())]
            by_density: dict[int, tuple[dict, str]] = {}  # files with the same pixels per inch are written once
            for size, label in sizes:
                by_density.setdefault(picture.density(**size), (size, label))
            for size, label in by_density.values():
                add(folder + filename(figure, format, **size), label, partial(content_of, picture, format, **size))
    if not contents:
        raise problems[-1] if problems else AttnvizError("There is no figure to pack.")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in ({"README.txt": "\n".join([*lines, ""]).encode()} | contents).items():
            entry = zipfile.ZipInfo(name)  # Dated 1980, so that the same content gives the same archive.
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o644 << 16
            archive.writestr(entry, content, compresslevel=1)  # a quarter of the default's time, for 5 % more bytes
    return file.getvalue()
