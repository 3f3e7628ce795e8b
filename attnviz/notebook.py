"""Display in a notebook: a record shows a page with every head, and a figure shows its picture.

The page is in a sandboxed frame, and the picture is an image: neither uses a network or runs code in the notebook.
"""

import html
import sys
from typing import Any

from attnviz.core.errors import AttnvizError


def register() -> None:
    """Register the display of records and figures in IPython, if this Python runs in a notebook."""
    shell = sys.modules["IPython"].get_ipython()  # None outside of a notebook
    if shell is None:
        return
    formatters = shell.display_formatter.formatters
    formatters["text/html"].for_type_by_name("attnviz.core.record", "Record", _page)
    formatters["image/svg+xml"].for_type_by_name("attnviz.figures.base", "Figure", _picture)
    formatters["text/plain"].for_type_by_name("attnviz.figures.base", "Figure", _in_words)


def _page(record: Any) -> str:
    """Make the HTML of a page with every head of a record."""
    from attnviz.export.explore import explore

    try:
        return explore(record)._repr_html_()
    except AttnvizError as error:  # it has too many weights, or none
        return f"<p>{html.escape(str(error))}</p>"


def _picture(figure: Any) -> str:
    """Make the SVG of a figure."""
    from attnviz.export import render

    return render(figure, "svg").decode()


def _in_words(figure: Any, printer: Any, cycle: bool) -> None:
    """Print the description of a figure, for people who cannot see the picture."""
    printer.text(figure.description)
