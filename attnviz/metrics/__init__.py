"""Numbers read off records. Everything here is exact; what would need n x n numbers is worked in row blocks.

What a window holds, what a model says and how far vectors moved are named here.
"""

from attnviz.metrics.blocks import BLOCK, pool, row_slices, tile_of
from attnviz.metrics.changes import output_change, shift, similarity
from attnviz.metrics.circuits import Circuits, circuits
from attnviz.metrics.combined import (
    AGGREGATIONS,
    combined_weights,
    empty_queries,
    may_attend,
    reasons_of,
    weights_of,
)
from attnviz.metrics.contributions import Contributions, contributions
from attnviz.metrics.grouped import Spans, first_reasons, grouped, stretch
from attnviz.metrics.lens import WordGrid, lens_words, logit_lens, pushed
from attnviz.metrics.predictions import (
    NOT_A_NUMBER,
    NextWord,
    PredictedWord,
    cut,
    fills_in,
    is_number,
    labels,
    labels_tokens,
    most_changed,
    nameless_id,
    next_words,
    predicted_words,
    predicting,
    read_alike,
    token_at,
)
from attnviz.metrics.rows import strongest
from attnviz.metrics.spread import ByDistance, by_distance, by_part, links, on_places, row_sums
from attnviz.metrics.tiles import TILES, Pooled, pooled, pooled_mask
from attnviz.metrics.windows import BLOCKED, EMPTY, NAN, STATES, WEIGHT, Cells, cells, cells_of, largest_weight
