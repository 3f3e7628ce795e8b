"""Figures: pictures with their names, words and numbers, for the app, the shell, notebooks and files."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import ismodule

from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.attribution import AttributionBars as integrated_gradients
from attnviz.figures.attribution import RelevanceBars as relevance_bars
from attnviz.figures.attribution import RelevanceMap as relevance
from attnviz.figures.attribution import Rollout as rollout
from attnviz.figures.attribution import RolloutRow as rollout_row
from attnviz.figures.base import Figure
from attnviz.figures.contributions import CarriedHeads as carried
from attnviz.figures.contributions import CompositionMap as composition
from attnviz.figures.contributions import HeadContributions as contributions
from attnviz.figures.contributions import HeadContributions as replaced
from attnviz.figures.contributions import PartContributions as contribution_parts
from attnviz.figures.difference import Difference as difference
from attnviz.figures.head import CorpusDistance as distance_over_corpus
from attnviz.figures.head import DistanceProfile as distance
from attnviz.figures.head import HeadMap as head
from attnviz.figures.heads import AllHeads as heads
from attnviz.figures.heads import ModelHeads as overview
from attnviz.figures.lens import LensBars as lens_words
from attnviz.figures.lens import LogitLens as logit_lens
from attnviz.figures.lens import PushedWords as pushed
from attnviz.figures.lines import HeadLines as lines
from attnviz.figures.maps import MaskGrid as mask
from attnviz.figures.maps import StateMap as states
from attnviz.figures.maps import leaks
from attnviz.figures.outputs import LabelBars as labels
from attnviz.figures.outputs import NextWordBars as next_word
from attnviz.figures.outputs import OutputChange as change
from attnviz.figures.outputs import StepByStep as step_by_step
from attnviz.figures.patches import PatchImage as patches
from attnviz.figures.patches import on_grid
from attnviz.figures.steps import LargestWeights as spread
from attnviz.figures.steps import StageTables as stage
from attnviz.figures.steps import StepsOverview as chain
from attnviz.figures.steps import neurons, row, values
from attnviz.figures.text_strip import TextStrip as text_strip

CELL, LINE, TOKEN = "cell", "line", "token"
"""Targets of a click on a figure: a cell; a line or a token at its end; a token."""


@dataclass(frozen=True)
class HeadForm:
    """Form of a figure of one head, for the page Heads, the shell and the documentation.

    Attributes:
        figure: class of the figure, called with a record, a site and a head, or with several heads if it takes `heads`.
        takes: fields of the figure that are options of the page and the shell.
        selects: target of a click, selected under the name "cell"; None for a figure without clicks.
        fits: function that returns whether an attention call of a record can be shown so; None for any.
        is_on_page: whether the page Heads offers it.
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
"""Forms in which a head can be shown, by their names on the page Heads and in the shell."""

__all__ = [
    name
    for name, value in globals().items()
    if name[0] != "_" and not ismodule(value) and getattr(value, "__module__", __name__).startswith(__name__)
]
