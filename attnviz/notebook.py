"""Display in a notebook: a cell that ends with a record shows every head, one that ends with a figure its picture.

The page of a record is in a sandboxed frame, and a picture is an image: neither uses a network or runs code in the
notebook.
"""

import html
import sys
from typing import Any

from attnviz.core.errors import AttnvizError


def register() -> None:
    """Register the display of records and figures in IPython, if this Python runs in a notebook."""
    if (shell := sys.modules["IPython"].get_ipython()) is None:
        return
    formatters = shell.display_formatter.formatters
    formatters["text/html"].for_type_by_name("attnviz.core.record", "Record", _page)
    formatters["image/svg+xml"].for_type_by_name("attnviz.figures.base", "Figure", _picture)
    formatters["text/plain"].for_type_by_name("attnviz.figures.base", "Figure", _in_words)


def _page(record: Any) -> str:
    """Make the HTML of a record."""
    from attnviz.export.explore import explore

    try:
        return explore(record)._repr_html_()
    except AttnvizError as error:  # it has too many weights, or none
        return f"<p>{html.escape(str(error))}</p>"


def _picture(figure: Any) -> str:
    from attnviz.export import render

    return render(figure, "svg").decode()


def _in_words(figure: Any, printer: Any, cycle: bool) -> None:
    """Print the description of a figure, for people who cannot see the picture."""
    printer.text(figure.description)
