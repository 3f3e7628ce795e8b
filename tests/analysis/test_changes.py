"""How alike sentences are to a model, and how far a change moved each."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pictures import record_of, vectors_of

from attnviz import analysis
from attnviz.core.errors import InputError


@given(seed=st.integers(0, 999), scale=st.floats(0.01, 100))
def test_similarity_of_sentences_is_a_cosine(seed, scale):
    """Symmetric, 1 of a sentence with itself, and of directions alone; nothing moves that is only scaled."""
    vectors = torch.randn(5, 7, generator=torch.Generator().manual_seed(seed))
    one, other = (vectors_of(["x"] * 5, (vectors * factor).tolist()) for factor in (1, scale))
    found = analysis.similarity(one)

    expected = torch.nn.functional.cosine_similarity(vectors[:, None].double(), vectors[None].double(), dim=-1)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(analysis.similarity(other), found, atol=1e-5, rtol=0)
    torch.testing.assert_close(analysis.shift(one, other), torch.zeros(5).double(), atol=1e-5, rtol=0)
    assert analysis.shift(one, one).eq(0).all()


def test_a_shift_is_one_less_the_cosine():
    """NaN of a vector of zeros; runs of other sentences, and of models without vectors, are refused."""
    moved = analysis.shift(
        vectors_of(["x"] * 3, [[1.0, 0], [1, 0], [0, 0]]), vectors_of(["x"] * 3, [[0.0, 3], [-5, 0], [1, 1]])
    )

    assert moved.tolist() == pytest.approx([1, 2, math.nan], nan_ok=True)
    with pytest.raises(InputError, match="no sentence embeddings"):
        analysis.similarity(record_of(["x"]))
    with pytest.raises(InputError, match="other sentences"):
        analysis.shift(vectors_of(["x"], [[1.0]]), vectors_of(["y"], [[1.0]]))
