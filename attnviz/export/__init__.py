"""Pictures as bytes: files that open anywhere, hold the exact numbers and ask the network for nothing."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attnviz.core.display import file_stem
from attnviz.core.errors import InputError
from attnviz.export import presets
from attnviz.export.bundle import pack
from attnviz.export.drawing import ExportError, warm
from attnviz.export.fonts import lacking
from attnviz.export.formats import FORMATS, Format, Request, figure_of, formats_for
from attnviz.export.presets import PRESETS

__all__ = [
    "FORMATS",
    "NAMES",
    "PRESETS",
    "ExportError",
    "Format",
    "filename",
    "files",
    "formats_for",
    "lacking",
    "render",
    "warm",
]

NAMES = (*FORMATS, "zip")
"""Every format by its extension."""

SCALES = (1, 2, 4)


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
        format: one of `NAMES`.
        preset: one of `PRESETS`: sized for a paper, a slide or a web page; None as on the screen.
        scale: 1, 2 or 4 times as many pixels; the picture prints at the same size. PNG only. With 1 a preset takes
            pixels of its own: 300 per inch for a paper.
        ppi: pixels per inch instead of a scale, 300 for print. PNG only.
        deadline: seconds that drawing may take.

    Raises:
        ExportError: if the picture cannot be drawn, or not in time.
        InputError: if there is no such format or scale.
    """
    if format not in NAMES:
        raise InputError(f"There is no format {format!r}. There are: {', '.join(NAMES)}.")
    if scale not in SCALES:
        raise InputError(f"The scale is {scale}; it must be 1, 2 or 4.")
    if ppi is not None and (scale != 1 or not 1 <= ppi <= 1200):
        raise InputError(f"The pixels per inch (ppi) are {ppi}; they go without a scale, and must be from 1 to 1200.")
    chosen = presets.preset(preset)
    figures = [*figure] if format == "zip" and isinstance(figure, Sequence) else [figure]
    requests = [Request(presets.styled(figure_of(item), chosen), chosen, scale, ppi, deadline) for item in figures]
    return FORMATS[format].write(requests[0]) if format != "zip" else _zip(requests, time.monotonic() + deadline)


def _zip(requests: Sequence[Request], until: float) -> bytes:
    """Every format of some figures; of two sizes of a PNG that a preset makes the same, one."""
    pictures = {id(request.figure): request for request in requests}

    def one_file(figure: Any, name: str, **size: int) -> bytes:
        request = pictures[id(figure)]
        sized = replace(request, **{"scale": 1, "ppi": None, "deadline": until - time.monotonic()} | size)
        if not FORMATS[name].numbers:
            vars(sized)["picture"] = request.picture
        return FORMATS[name].write(sized)

    preset = requests[0].preset if requests else None
    apart = {
        (name, name == "png" and Request(None, preset, **size).pixels_per_inch): (name, size, words)
        for name, size, words in reversed(files())
    }
    return pack([request.figure for request in requests], one_file, filename, [*reversed(apart.values())])


def files(*names: str) -> list[tuple[str, dict[str, int], str]]:
    """The files of a figure in a ZIP: format, size, and what the README says; those of some formats, or of all."""
    every = names or FORMATS
    return [(name, size, words) for name in every for size, words in FORMATS[name].zipped]


def filename(figure: Any, format: str, *, preset: str | None = None, scale: int = 1, ppi: int | None = None) -> str:
    """Name of the file: the figure's name, safe in every file system, with "-paper", "@2x" or "-300dpi"."""
    size = f"-{ppi}dpi" if ppi else ""
    if not ppi and scale != 1:
        size = f"@{scale}x"
    use = f"-{preset}" if preset and (format == "zip" or not FORMATS[format].numbers) else ""
    return f"{file_stem(figure_of(figure).name)}{use}{size if format == 'png' else ''}.{format}"
