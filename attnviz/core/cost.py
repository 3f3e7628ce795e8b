"""Cost of attention under a mask, against full attention: cells, floating-point operations, bytes."""

import math
from dataclasses import dataclass

from attnviz.core.errors import MaskError
from attnviz.core.masks import Full, Mask

COUNTED = 2**22
"""How many cells are counted one by one: 2,048 x 2,048. Beyond that, as many rows as make so many cells."""


@dataclass(frozen=True)
class Amount:
    """Cost of some cells (pairs of a query and a key) in one layer and for one sentence.

    Attributes:
        cells: pairs in one head.
        flops_scores: of q kᵀ: 2 · heads · cells · d_k, a multiplication and an addition for each product.
        flops_output: of weights @ v: 2 · heads · cells · d_v.
        bytes_scores: of the scores, if they are held: heads · cells · bytes of a number.
    """

    cells: int
    flops_scores: int
    flops_output: int
    bytes_scores: int


@dataclass(frozen=True)
class Cost:
    """The cost under a mask beside that of full attention.

    `masked` is what the allowed cells cost: what a kernel that skips every blocked cell has to do. A dense
    implementation, PyTorch's and ours included, computes the blocked cells too and costs `full`; kernels that skip
    whole blocks lie between.

    Attributes:
        masked: what the cells that may be attended to cost.
        full: what all queries x keys cells cost.
        estimated: whether the cells were counted in some rows only.
        rows_counted: in how many rows they were counted.
    """

    masked: Amount
    full: Amount
    estimated: bool
    rows_counted: int

    @property
    def sparsity(self) -> float:
        """The share of cells that are blocked, from 0 to 1; 0 if there is no cell."""
        return 1 - self.masked.cells / self.full.cells if self.full.cells else 0.0


def cost(
    mask: Mask | None,
    queries: int,
    keys: int | None = None,
    *,
    heads: int,
    d_k: int,
    d_v: int | None = None,
    bytes_per_number: int = 4,
    sentence: int = 0,
    counted: int = COUNTED,
) -> Cost:
    """Count what attention costs under a mask and without it; see `Amount` for the formulas.

    Up to `counted` cells every cell is counted. Beyond that only some rows are, each the middle of a stretch of rows
    that it stands for; all stretches are equal, but for a shorter one at the end. That is within a key per row where
    the keys per row grow steadily, as under a causal mask; it misses what is special about single rows, such as
    painted cells and global tokens. So 131,072 x 131,072 are estimated from 32 rows. No more than a block of cells is
    ever held (`masks.base.BLOCK`).

    Args:
        mask: who may attend to whom; None for everyone.
        keys: defaults to `queries`.
        d_v: defaults to `d_k`.
        bytes_per_number: 4 for float32, 2 for float16 and bfloat16.
        sentence: of a mask that differs between sentences, the one.
        counted: about how many cells to count at most, in whole rows, and at least one.

    Raises:
        MaskError: if a size is negative.
    """
    keys, d_v = (queries if keys is None else keys), (d_k if d_v is None else d_v)
    sizes = {"queries": queries, "keys": keys, "heads": heads, "d_k": d_k, "d_v": d_v, "bytes": bytes_per_number}
    for name, size in sizes.items():
        if size < 0:
            raise MaskError(f"The cost of attention was asked for {name} = {size}; it must be 0 or more.")
    stretch = max(1, min(queries, math.ceil(queries * keys / max(1, counted))))
    end = queries - queries % stretch  # of the stretches that are equal
    middles = [(stretch, slice(stretch // 2, end, stretch))]
    if end < queries:
        middle = (end + queries) // 2
        middles.append((queries - end, slice(middle, middle + 1)))
    cells = rows_counted = 0
    for size, rows in middles:
        left = (mask or Full()).keys_left(queries, keys, sentence=sentence, rows=rows)
        cells += size * left.sum().item()
        rows_counted += len(left)

    def amount(cells: int) -> Amount:
        products = 2 * heads * cells
        return Amount(cells, products * d_k, products * d_v, heads * cells * bytes_per_number)

    return Cost(amount(cells), amount(queries * keys), stretch > 1, rows_counted)
