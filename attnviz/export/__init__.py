"""Pictures as bytes: files that open anywhere, hold the exact numbers and ask the network for nothing."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from attnviz.core.display import file_stem
from attnviz.core.errors import InputError
from attnviz.export import data, fonts, page, presets, spec
from attnviz.export.bundle import FILES, pack
from attnviz.export.drawing import ExportError, draw, javascript, warm
from attnviz.export.fonts import lacking
from attnviz.export.presets import PRESETS, Preset

__all__ = ["FORMATS", "PRESETS", "ExportError", "Format", "filename", "lacking", "render", "warm"]


@dataclass(frozen=True)
class Format:
    """One kind of file. `label` is what it is for."""

    extension: str
    mime: str
    label: str


FORMATS = {
    "png": Format("png", "image/png", "a picture for slides and messages"),
    "svg": Format("svg", "image/svg+xml", "a picture sharp at any size, to edit"),
    "pdf": Format("pdf", "application/pdf", "a picture sharp at any size, to print"),
    "html": Format("html", "text/html", "a page with each number on hover"),
    "json": Format("json", "application/json", "Vega-Lite, for other programs"),
    "csv": Format("csv", "text/csv", "the numbers for a spreadsheet"),
    "npz": Format("npz", "application/octet-stream", "the numbers for NumPy"),
    "zip": Format("zip", "application/zip", "all of these in one file"),
}

SCALES = (1, 2, 4)
PIXELS_PER_INCH = 72
"""Of a picture at scale 1: the unit of the charts is the point of PDF files."""


def render(
    figure: Any,
    format: str,
    *,
    preset: str | None = None,
    scale: int = 1,
    ppi: int | None = None,
    deadline: float = 30.0,
) -> bytes:
    """One figure as a file; with "zip" also several.

    The same figure gives the same bytes, but for PDF (and so ZIP): vl-convert numbers its fonts at random.

    Args:
        figure: a `Figure`, a bare Altair chart (without the formats of numbers), or for "zip" a sequence of figures.
        format: one of `FORMATS`.
        preset: one of `PRESETS`: sized for a paper, a slide or a web page; None as on the screen.
        scale: 1, 2 or 4 times as many pixels; the picture prints at the same size. PNG only. With 1 a preset takes
            pixels of its own: 300 per inch for a paper.
        ppi: pixels per inch instead of a scale, 300 for print. PNG only.
        deadline: seconds that drawing may take.

    Raises:
        ExportError: if the picture cannot be drawn, or not in time.
        InputError: if there is no such format or scale.
    """
    if format not in FORMATS:
        raise InputError(f"There is no format {format!r}. There are: {', '.join(FORMATS)}.")
    if scale not in SCALES:
        raise InputError(f"The scale is {scale}; it must be 1, 2 or 4.")
    if ppi is not None and (scale != 1 or not 1 <= ppi <= 1200):
        raise InputError(f"The pixels per inch (ppi) are {ppi}; they go without a scale, and must be from 1 to 1200.")
    chosen = presets.preset(preset)
    if format == "zip":
        until = time.monotonic() + deadline
        every = figure if isinstance(figure, Sequence) else [figure]
        figures = [presets.styled(_figure(one), chosen) for one in every]
        pictures: dict[int, dict] = {}

        def one_file(one: Any, kind: str, **size: int) -> bytes:
            if id(one) not in pictures:
                pictures[id(one)] = presets.fitted(spec.of(one), chosen)
            return _render(one, kind, pictures[id(one)], chosen, deadline=until - time.monotonic(), **size)

        apart = {
            (kind, kind == "png" and _ppi(chosen, **size)): (kind, size, words) for kind, size, words in FILES[::-1]
        }
        return pack(figures, one_file, filename, [*apart.values()][::-1])
    one = presets.styled(_figure(figure), chosen)
    return _render(one, format, None, chosen, scale=scale, ppi=ppi, deadline=deadline)


def filename(figure: Any, format: str, *, preset: str | None = None, scale: int = 1, ppi: int | None = None) -> str:
    """What the file is called: the figure's name, safe in every file system, with "-paper", "@2x" or "-300dpi"."""
    size = f"-{ppi}dpi" if ppi else f"@{scale}x" if scale != 1 else ""
    use = f"-{preset}" if preset and format not in ("csv", "npz") else ""
    return f"{file_stem(_figure(figure).name)}{use}{size if format == 'png' else ''}.{FORMATS[format].extension}"


def _render(
    figure: Any,
    format: str,
    picture: dict | None,
    chosen: Preset | None,
    *,
    scale: int = 1,
    ppi: int | None = None,
    deadline: float = 30.0,
) -> bytes:
    match format:
        case "csv":
            return data.csv(_numbers(figure, "table", format))
        case "npz":
            return data.npz(_numbers(figure, "arrays", format), f"{figure.title}\n{figure.description}")
    picture = picture or presets.fitted(spec.of(figure), chosen)
    asked = {"deadline": deadline} | ({"fits": (chosen.scale, *chosen.fits)} if chosen else {})
    match format:
        case "json":
            return spec.to_json(picture).encode()
        case "html":
            return page.write(figure, picture, javascript())
        case "svg":
            return spec.named(fonts.embedded(draw("svg", spec.to_json(picture), **asked)), figure)
        case "pdf":
            return draw("pdf", spec.to_json(picture), **asked)
    return draw("png", spec.to_json(picture), ppi=_ppi(chosen, scale, ppi), **asked)


def _ppi(chosen: Preset | None, scale: int = 1, ppi: int | None = None) -> int:
    """Pixels per inch of a PNG."""
    return ppi or (chosen.ppi if chosen and scale == 1 else PIXELS_PER_INCH * scale)


def _figure(figure: Any) -> Any:
    """A bare chart as a figure that has a picture and nothing else."""
    if hasattr(figure, "to_dict"):
        return SimpleNamespace(name="figure", title="Figure", description="", chart=figure, table=None, arrays=None)
    if not hasattr(figure, "title"):
        raise InputError(f"A {type(figure).__name__} is no figure: give a Figure or an Altair chart.")
    return figure


def _numbers(figure: Any, name: str, format: str) -> Any:
    found = getattr(figure, name)
    if found is None:
        raise InputError(f"A bare chart has no {name} for {format}: give a Figure.")
    return found
