"""Notebook display of a value in the last line of a cell: of a record every head, of a figure its picture.

Nothing of it asks a network or runs as code of the notebook: the page stands in a frame, the picture is an image.
"""

import html
import sys
from typing import Any

from attnviz.core.errors import AttnvizError


def register() -> None:
    """Tell the notebook that this Python runs in, if it is one."""
    if (shell := sys.modules["IPython"].get_ipython()) is None:
        return
    formatters = shell.display_formatter.formatters
    formatters["text/html"].for_type_by_name("attnviz.core.record", "Record", _page)
    formatters["image/svg+xml"].for_type_by_name("attnviz.figures.base", "Figure", _picture)
    formatters["text/plain"].for_type_by_name("attnviz.figures.base", "Figure", _in_words)


def _page(record: Any) -> str:
    from attnviz.export.explore import explore

    try:
        return explore(record)._repr_html_()
    except AttnvizError as error:  # it has too many weights, or none
        return f"<p>{html.escape(str(error))}</p>"


def _picture(figure: Any) -> str:
    from attnviz.export import render

    return render(figure, "svg").decode()


def _in_words(figure: Any, printer: Any, cycle: bool) -> None:
    """For those who cannot see the picture."""
    printer.text(figure.description)
