"""Every file of one or several figures in one archive, with a page of text that says what is what."""

import io
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from attnviz.core.errors import AttnvizError
from attnviz.export.formats import FORMATS
from attnviz.export.spec import clean


def pack(
    figures: Sequence[Any],
    render: Callable[..., bytes],
    filename: Callable[..., str],
    files: Sequence[tuple[str, dict[str, int], str]],
    beside: Sequence[tuple[str, str, Callable[[], bytes]]] = (),
) -> bytes:
    """All files of the figures; of several, in a folder of each, or beside others with a number before their names.

    What cannot be made is left out, and the README says why.

    Args:
        files: format, size, and what the README says, of each file of a figure.
        beside: other files: the name of each, what the README says of it, and what makes it.

    Raises:
        AttnvizError: if no file could be made.
    """
    contents: dict[str, bytes] = {}
    problems: list[AttnvizError] = []

    def add(name: str, words: str, make: Callable[[], bytes]) -> str:
        try:
            contents[name] = make()
        except AttnvizError as error:
            problems.append(error)
            words = f"left out. {error}"
        return f"  {name}: {words}"

    lines = ["Made by attnviz: attention as pictures and numbers.", "", *(add(*file) for file in beside), ""]
    for number, figure in enumerate(figures, 1):
        own = "" if beside else f"{filename(figure, 'zip').removesuffix('.zip')}/"
        folder = f"{number:02d}-{own}" if len(figures) > 1 else ""
        lines += [clean(figure.title), clean(figure.description), ""]
        for name, size, words in files:
            if vars(figure).get(FORMATS[name].numbers, name) is not None:  # what is not made yet is not made for this
                lines.append(add(folder + filename(figure, name, **size), words, partial(render, figure, name, **size)))
        lines.append("")
    if not contents:
        raise problems[-1] if problems else AttnvizError("There is no figure to pack.")
    return _archive({"README.txt": "\n".join(lines).encode()} | contents)


def _archive(files: dict[str, bytes]) -> bytes:
    """A ZIP archive whose bytes follow from its files alone."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)  # Of 1980, on purpose.
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o644 << 16
            archive.writestr(entry, content, compresslevel=1)  # a quarter of the time, and a twentieth more bytes
    return file.getvalue()
