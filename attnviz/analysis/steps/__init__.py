"""One attention call step by step: all numbers from tokens to output, and all numbers of one row."""

from attnviz.analysis.steps.row import MOST_TOKENS, Measures, Row, compare, dot_product_variance, measures, row
from attnviz.analysis.steps.stages import KEYS, LINEAR, Matrix, Stage, chain, products_stage, row_stage, values_stage
