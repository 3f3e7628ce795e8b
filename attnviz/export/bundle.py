"""Every file of one or several figures in one archive, with a page of text that says what is what."""

import io
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

from attnviz.core.errors import AttnvizError
from attnviz.export.spec import clean

FILES = (
    ("png", {}, "the picture"),
    ("png", {"scale": 2}, "the picture for sharp screens and slides"),
    ("png", {"ppi": 300}, "the picture for print, 300 dots per inch"),
    ("svg", {}, "the picture at any size, editable"),
    ("pdf", {}, "the picture for LaTeX and print"),
    ("html", {}, "the picture with the numbers under the pointer and as a table; needs no network"),
    ("json", {}, "the picture as Vega-Lite"),
    ("csv", {}, "the numbers as a table, UTF-8; text that a spreadsheet would take for a formula begins with '"),
    ("npz", {}, "the numbers as arrays: numpy.load(file)"),
)
NUMBERS = {"csv": "table", "npz": "arrays"}
"""Formats a bare chart does not have, and what they are made of."""


def pack(figures: Sequence[Any], render: Callable[..., bytes], filename: Callable[..., str]) -> bytes:
    """All files of the figures, each in a folder of its own if there are several.

    What cannot be made is left out, and the README says why.

    Raises:
        AttnvizError: if no file could be made.
    """
    files: dict[str, bytes] = {}
    lines = ["Made by attnviz: attention as pictures and numbers.", ""]
    problem = AttnvizError("There is no figure to pack.")
    for number, figure in enumerate(figures, 1):
        folder = f"{number:02d}-{filename(figure, 'zip').removesuffix('.zip')}/" if len(figures) > 1 else ""
        lines += [clean(figure.title), clean(figure.description), ""]
        for format, size, words in FILES:
            if format in NUMBERS and getattr(figure, NUMBERS[format]) is None:
                continue
            name = folder + filename(figure, format, **size)
            try:
                files[name] = render(figure, format, **size)
            except AttnvizError as error:
                problem, words = error, f"left out. {error}"
            lines.append(f"  {name}: {words}")
        lines.append("")
    if not files:
        raise problem
    return _archive({"README.txt": "\n".join(lines).encode()} | files)


def _archive(files: dict[str, bytes]) -> bytes:
    """A ZIP archive whose bytes follow from its files alone."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)  # Of 1980, on purpose.
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o644 << 16
            archive.writestr(entry, content)
    return file.getvalue()
