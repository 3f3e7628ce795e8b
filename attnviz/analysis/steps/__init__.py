"""One attention call step by step: every number from tokens to output, and a row in full.

    record = source.run(source.tokenize(["the cat sat"]))
    for stage in steps.chain(record, source, site, head=1):
        print(stage.title, stage.shape, stage.missing or stage.changed)

Everything here is a pure function of a record; its tables hold the tensors of that record.
"""

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
