"""One attention call step by step: every number from tokens to output, a row in full, and a check of both.

    record = source.run(source.tokenize(["the cat sat"]))
    for stage in steps.chain(record, source, site, head=1):
        print(stage.title, stage.sizes, stage.missing or stage.changed)

Everything here is a pure function of a record; its tables hold the tensors of that record.
"""

from attnviz.analysis.steps.measures import Compared, DotProducts, Measures, compare, dot_product_variance, measures
from attnviz.analysis.steps.row import MOST_TOKENS, MOST_WIDTH, Check, Row, check, row
from attnviz.analysis.steps.stages import KEYS, Matrix, Stage, chain
