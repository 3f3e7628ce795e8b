"""Figures: pictures with their names, words and numbers, for the app, the shell, notebooks and files."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import ismodule

from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.attribution import integrated_gradients, relevance, relevance_bars, rollout, rollout_row
from attnviz.figures.base import Figure
from attnviz.figures.contributions import carried, composition, contribution_parts, contributions
from attnviz.figures.contributions import contributions as replaced
from attnviz.figures.difference import difference
from attnviz.figures.head import distance, distance_over_corpus, head
from attnviz.figures.heads import AllHeads as heads
from attnviz.figures.heads import ModelHeads as overview
from attnviz.figures.lens import logit_lens, pushed
from attnviz.figures.lines import HeadLines as lines
from attnviz.figures.maps import checked, leaks, mask, states
from attnviz.figures.outputs import change, labels, lens_words, next_word, step_by_step
from attnviz.figures.patches import PatchImage as patches
from attnviz.figures.patches import on_grid
from attnviz.figures.steps import StageTables as stage
from attnviz.figures.steps import StepsOverview as chain
from attnviz.figures.text_strip import TextStrip as text_strip

CELL, LINE, TOKEN = "cell", "line", "token"
"""Targets of a click on a figure: a cell; a line or a token at its end; a token."""


@dataclass(frozen=True)
class HeadForm:
    """Form of a figure of one head, for the Heads page, the shell and the documentation.

    Attributes:
        figure: function or class that makes the figure of a record, a site and a head, or several if it takes `heads`.
        takes: fields of the figure that are options of the page and the shell.
        selects: target of a click, selected under the name "cell"; None for a figure without clicks.
        fits: function that returns whether an attention call of a record can be shown so; None for any.
        is_on_page: whether the Heads page offers it.
    """

    figure: Callable
    takes: frozenset[str] = frozenset()
    selects: str | None = CELL
    fits: Callable[[Record, Site], bool] | None = None
    is_on_page: bool = True


_PART = {"view", "rows", "columns"}
FORMS = {
    "map": HeadForm(head, frozenset({*_PART, "domain", "row_sums", "before"})),
    "lines": HeadForm(lines, frozenset({*_PART, "heads", "least", "pins"}), LINE),
    "text": HeadForm(text_strip, frozenset({*_PART, "domain", "chosen", "side"}), TOKEN),
    "picture": HeadForm(patches, frozenset({"view", "domain", "chosen", "side", "less"}), TOKEN, fits=on_grid),
    "distance": HeadForm(distance, selects=None, is_on_page=False),
}
"""Forms in which a head can be shown, by their names on the Heads page and in the shell."""
__all__ = [
    name
    for name, value in globals().items()
    if name[0] != "_" and not ismodule(value) and getattr(value, "__module__", __name__).startswith(__name__)
]
