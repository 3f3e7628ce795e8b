"""The fixed pattern of the Sparse Transformer, held against its two heads as the paper writes them."""

from hypothesis import given
from hypothesis import strategies as st

from attnviz.core.masks import Fixed


@given(stride=st.integers(1, 7), summary=st.integers(0, 7), n=st.integers(1, 15))
def test_it_is_both_heads_of_the_paper(stride, summary, n):
    """A(1): the same block so far. A(2): the last `summary` places of every block."""
    grid = Fixed(stride, summary).grid(n)

    for i in range(n):
        first = {j for j in range(i + 1) if j // stride == i // stride}
        second = {j for j in range(i + 1) if j % stride in range(stride - min(summary, stride), stride)}
        assert set(grid[i].nonzero().flatten().tolist()) == first | second
