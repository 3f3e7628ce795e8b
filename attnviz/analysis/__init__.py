"""Analysis of records: metrics of heads, maps, predictions, rollout, circuits, tables, sentences and views.

Numbers are exact; n x n arrays are computed in blocks of rows. No model is run here.
"""

from attnviz.analysis.blocks import AGGREGATIONS, ByDistance, by_distance, may_attend, weights_of
from attnviz.analysis.circuits import circuits
from attnviz.analysis.contributions import contributions
from attnviz.analysis.lens import WordGrid, lens_words, logit_lens, pushed
from attnviz.analysis.maps import BLOCKED, EMPTY, NAN, STATES, WEIGHT, Cells, cells, cells_of, pooled, strongest
from attnviz.analysis.predictions import (
    NextWord,
    cut,
    fills_in,
    is_number,
    labels,
    labels_tokens,
    most_changed,
    next_words,
    output_change,
    predicted_words,
    same_input,
    shift,
    similarity,
    token_at,
)

from attnviz.analysis import sentences, steps, tables, views  # isort: skip: these use the names above
