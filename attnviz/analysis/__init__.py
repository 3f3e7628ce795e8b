"""Analysis of records: numbers of heads and maps, predictions, rollout, circuits, tables, sentences and views.

Numbers are exact; what would need n x n of them is computed in blocks of rows. No model is run here.
"""

from attnviz.analysis.blocks import BLOCK, pool, row_slices, tile_of
from attnviz.analysis.changes import output_change, shift, similarity
from attnviz.analysis.circuits import Circuits, circuits
from attnviz.analysis.combined import (
    AGGREGATIONS,
    combined_weights,
    empty_queries,
    may_attend,
    reasons_of,
    weights_of,
)
from attnviz.analysis.contributions import Contributions, contributions
from attnviz.analysis.grouped import Spans, first_reasons, grouped, stretch
from attnviz.analysis.lens import WordGrid, lens_words, logit_lens, pushed
from attnviz.analysis.predictions import (
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
from attnviz.analysis.rows import strongest
from attnviz.analysis.spread import ByDistance, by_distance, by_part, links, on_places, row_sums
from attnviz.analysis.tiles import TILES, Pooled, pooled, pooled_mask
from attnviz.analysis.windows import BLOCKED, EMPTY, NAN, STATES, WEIGHT, Cells, cells, cells_of, largest_weight

from attnviz.analysis import sentences, steps, tables, views  # isort: skip: these use the names above
