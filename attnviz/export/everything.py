"""A whole run in one archive: the file that opens again, a page for any browser, and pictures with their numbers."""

import time
from collections.abc import Sequence
from typing import Any

from attnviz import export, figures, files
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.export import bundle
from attnviz.export.explore import explore
from attnviz.figures import Figure

FILES = export.files("svg", "csv")

MOST_ROWS = 1_000_000
"""Rows of all tables together, which take a second. The first ones are written; of the others it is said where their
numbers are."""

CASE, PAGE = "case.attn", "every-head.html"
IN_CASE = (
    f"the whole run. Drop it on the app, or: attnviz open {CASE}; in Python attnviz.read('{CASE}'). "
    f"'attnviz verify {CASE}' runs the model again and says what differs"
)
IN_PAGE = "every head as map, lines and text. Open it in any browser; it needs no network"


def everything(
    record: Record,
    displayed: Sequence[Figure] = (),
    *,
    before: Record | None = None,
    settings: dict[str, Any] | None = None,
    sentence: int = 0,
    site: Site | None = None,
    head: int = 0,
    dark: bool = False,
    deadline: float = 120.0,
) -> bytes:
    """A ZIP archive of a run, with a README that says how each file is opened.

    Args:
        displayed: figures of the page; these come first, then all heads of each layer.
        before: the run without changes.
        settings: see `attnviz.save`.
        site, head: where the page for a browser opens.
        deadline: seconds that drawing may take; what is not drawn by then is left out, and the README says so.
    """
    until, rows = time.monotonic() + deadline, 0

    def one_file(figure: Figure, format: str) -> bytes:
        nonlocal rows
        if format == "csv":
            count = _rows(figure, record)
            if rows + count > MOST_ROWS:
                raise export.ExportError(f"It has {count:,} rows; the same numbers are in {CASE}.")
            rows += count
        return export.render(figure, format, deadline=until - time.monotonic())

    layers = (figures.heads(record, place, sentence=sentence, dark=dark) for place in record.sites)
    every = {figure.title: figure for figure in (*displayed, *layers)}
    opens = {"before": before, "sentence": sentence, "site": site, "head": head}
    beside = (
        (CASE, IN_CASE, lambda: files.saved(record, settings=settings)),
        (PAGE, IN_PAGE, lambda: explore(record, **opens).encode()),
    )
    return bundle.pack([*every.values()], one_file, export.filename, FILES, beside)


def _rows(figure: Figure, record: Record) -> int:
    """Rows of the table of a figure of cells, at most; 0 of others."""
    sites = (argument for argument in figure.arguments[0] if isinstance(argument, Site))
    site = next((site for site in sites if site in record.sites), None)
    if site is None:
        return 0
    _, heads, queries, keys = record.step(site).shape
    return queries * keys * (heads if type(figure) is figures.heads else 1)
