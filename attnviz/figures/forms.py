"""A way to show one head, as the page Heads, the shell and the documentation list it."""

from collections.abc import Callable
from dataclasses import dataclass

from attnviz.core.edits import Site
from attnviz.core.record import Record

CELL, LINE, TOKEN = "cell", "line", "token"
"""Targets of a click on a figure: a cell; a line, or a token by its lines; a token."""


@dataclass(frozen=True)
class HeadForm:
    """A way to show one head.

    Attributes:
        figure: makes it of a record, a site and a head, or of several heads if it takes `heads`.
        takes: fields of the figure that the page and the shell have an option for: those of `OPTIONS`.
        selects: what a click selects, under the name "cell"; None for a figure that is drawn without a click.
        fits: whether there is one for an attention call of a record; None for any.
        is_on_page: whether the page Heads offers it.
    """

    figure: Callable
    takes: frozenset[str] = frozenset()
    selects: str | None = CELL
    fits: Callable[[Record, Site], bool] | None = None
    is_on_page: bool = True


OPTIONS = {
    "view": "what is hidden, and what is merged",
    "rows": "the part of the queries that is seen",
    "columns": "the part of the keys that is seen",
    "domain": "what the colors say",
    "row_sums": "the sum of each row at its end",
    "before": "the run before a change",
    "heads": "several heads at once",
    "least": "the smallest weight that is drawn",
    "pins": "tokens that are picked",
    "row": "the query that stands out",
    "chosen": "the token whose attention is shown",
    "less": "what is taken away from the weights of patches",
    "side": "whether it is attention from the token or to it",
}
"""Fields that a form can take, and their meaning."""
