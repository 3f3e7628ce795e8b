"""One attention call step by step: every number from tokens to output, what knobs do to it, and what can be measured.

    record = source.run(source.tokenize(["the cat sat"]))
    for stage in walk.chain(record, source, site, head=1):
        print(stage.title, stage.text, stage.shape, stage.missing or stage.changed)

Everything here is a pure function of a record that gives frozen values with the tensors of that record.
"""

from attnviz.walk.chain import chain
from attnviz.walk.checks import Against, Check, check
from attnviz.walk.edited import editable, with_edited
from attnviz.walk.equations import EquationPart
from attnviz.walk.knobs import Exhibit, Knobs, dropped, exhibit
from attnviz.walk.laws import DotProducts, Permutation, dot_product_variance, permutation
from attnviz.walk.measures import Compared, Measures, compare, compare_rows, gradient_size, measures
from attnviz.walk.rows import Neurons, Row, neurons, row
from attnviz.walk.stages import KEYS, Matrix, Stage
from attnviz.walk.windows import MOST_TOKENS, MOST_WIDTH
