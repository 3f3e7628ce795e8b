"""One attention call step by step: every number from tokens to output, and a row in full."""

from attnviz.analysis.steps.row import (
    MOST_TOKENS,
    Compared,
    DotProducts,
    Measures,
    Row,
    compare,
    dot_product_variance,
    measures,
    row,
)
from attnviz.analysis.steps.stages import KEYS, Matrix, Stage, chain
