"""Every file of one or several figures in one archive, with a page of text that says what is what."""

import io
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
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


def pack(
    figures: Sequence[Any],
    render: Callable[..., bytes],
    filename: Callable[..., str],
    formats: Sequence[tuple[str, dict[str, int], str]] = FILES,
    beside: Sequence[tuple[str, str, Callable[[], bytes]]] = (),
) -> bytes:
    """All files of the figures; of several, in a folder of each, or beside others with a number before their names.

    What cannot be made is left out, and the README says why.

    Args:
        beside: other files: the name of each, what the README says of it, and what makes it.

    Raises:
        AttnvizError: if no file could be made.
    """
    files: dict[str, bytes] = {}
    problems: list[AttnvizError] = []

    def made(name: str, words: str, make: Callable[[], bytes]) -> str:
        try:
            files[name] = make()
        except AttnvizError as error:
            problems.append(error)
            words = f"left out. {error}"
        return f"  {name}: {words}"

    lines = ["Made by attnviz: attention as pictures and numbers.", "", *(made(*one) for one in beside), ""]
    for number, figure in enumerate(figures, 1):
        own = "" if beside else f"{filename(figure, 'zip').removesuffix('.zip')}/"
        folder = f"{number:02d}-{own}" if len(figures) > 1 else ""
        lines += [clean(figure.title), clean(figure.description), ""]
        for format, size, words in formats:
            if (
                vars(figure).get(NUMBERS.get(format, ""), format) is not None
            ):  # what is not made yet is not made for this
                make = partial(render, figure, format, **size)
                lines.append(made(folder + filename(figure, format, **size), words, make))
        lines.append("")
    if not files:
        raise problems[-1] if problems else AttnvizError("There is no figure to pack.")
    return _archive({"README.txt": "\n".join(lines).encode()} | files)


def _archive(files: dict[str, bytes]) -> bytes:
    """A ZIP archive whose bytes follow from its files alone."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)  # Of 1980, on purpose.
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o644 << 16
            archive.writestr(entry, content, compresslevel=1)  # a quarter of the time, and a twentieth more bytes
    return file.getvalue()
