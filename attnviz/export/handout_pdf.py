"""A handout as PDF, set by Typst: no browser, no program beside Python, all fonts inside."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from attnviz.charts.theme import LIGHT
from attnviz.core import assets
from attnviz.export.drawing import ExportError
from attnviz.export.handout import Section, drawn
from attnviz.export.spec import clean

TEMPLATE = Path(__file__).with_name("handout.typ")
FOLDERS = ("fonts", "embed")
"""Folders of assets with fonts."""


def handout_pdf(title: str, lead: Sequence[str], sections: Sequence[Section], *, deadline: float = 60.0) -> bytes:
    """All sections as one PDF on A4; the arguments are those of `handout`.

    Raises:
        ExportError: if Typst is not installed, a picture cannot be drawn, or not in time.
    """
    try:
        import typst
    except ImportError as error:
        raise ExportError("A handout as PDF needs Typst. Install it with: pip install 'attnviz[pdf]'") from error
    until, pictures = time.monotonic() + deadline, {}
    parts = [_section(one, pictures, until) for one in sections]
    said = {"title": title, "lead": lead, "sections": parts, "ink": LIGHT.text, "line": LIGHT.line}
    files = {"main": TEMPLATE.read_bytes(), "handout.json": json.dumps(_cleaned(said)).encode()} | pictures
    fonts = [str(assets.path(folder)) for folder in FOLDERS]
    try:
        return typst.compile(files, format="pdf", font_paths=fonts)
    except typst.TypstError as error:
        raise ExportError(f"The handout could not be set: {error}") from error


def _section(section: Section, pictures: dict[str, bytes], until: float) -> dict[str, Any]:
    """What the template reads of a section; its pictures are added to the others."""
    shown = []
    for figure in section.figures:
        name = f"{len(pictures)}.svg"
        pictures[name] = drawn(figure, until)
        shown.append({"file": name, "alt": figure.description})
    tables = [{"head": head, "rows": rows} for head, rows in section.tables]
    return asdict(replace(section, figures=(), tables=())) | {"pictures": shown, "tables": tables}


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {name: _cleaned(one) for name, one in value.items()}
    return [*map(_cleaned, value)] if isinstance(value, list | tuple) else value
