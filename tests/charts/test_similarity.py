"""How alike sentences are to a model."""

import math

import numpy as np
import pytest
import torch
from examples import some
from hypothesis import given
from hypothesis import strategies as st
from pictures import HOSTILE, data, draw, names, record_of, said, similarity, vectors_of

from attnviz import figures, metrics, words
from attnviz.core.errors import InputError
from attnviz.figures.similarity import MOST_SENTENCES

TEXTS = ["A cat.", "A dog.", "Rain."]
BEFORE = vectors_of(TEXTS, [[1.0, 0.0], [1.0, 1.0], [0.0, -2.0]])
AFTER = vectors_of(TEXTS, [[0.0, 3.0], [1.0, 1.0], [0.0, -1.0]])


def numbers(chart):
    return [row["text"] for row in data(chart, "pairs")]


@given(seed=st.integers(0, 999), scale=st.floats(0.01, 100))
def test_similarity_is_a_cosine(seed, scale):
    """Symmetric, 1 of a sentence with itself, and of directions alone; nothing moves that is only scaled."""
    vectors = torch.randn(5, 7, generator=torch.Generator().manual_seed(seed))
    one, other = (vectors_of(["x"] * 5, (vectors * factor).tolist()) for factor in (1, scale))

    found = metrics.similarity(one)

    expected = torch.nn.functional.cosine_similarity(vectors[:, None].double(), vectors[None].double(), dim=-1)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(metrics.similarity(other), found, atol=1e-5, rtol=0)
    torch.testing.assert_close(metrics.shift(one, other), torch.zeros(5).double(), atol=1e-5, rtol=0)
    assert metrics.shift(one, one).eq(0).all()


def test_shift_is_one_less_the_cosine():
    assert metrics.shift(BEFORE, AFTER).tolist() == pytest.approx([1, 0, 0])
    assert metrics.shift(vectors_of(["x"], [[1.0, 0.0]]), vectors_of(["x"], [[-5.0, 0.0]])).tolist() == [2]


def test_each_pair_has_its_number_in_its_square():
    chart = similarity(BEFORE)

    assert numbers(chart) == [
        *("1.00", "0.71", "0.00"),
        *("0.71", "1.00", "-0.71"),
        *("0.00", "-0.71", "1.00"),
    ]
    assert names(chart) == ["A cat. 1", "A dog. 2", "Rain. 3"]
    assert [row["column"] for row in data(chart, "pairs")] == [1, 2, 3] * 3
    assert [row["cosine"] for row in data(chart, "pairs")] == metrics.similarity(BEFORE).flatten().tolist()
    assert data(chart, "meta")[0]["caption"] == ""


def test_with_a_run_before_the_picture_says_how_far_each_sentence_moved():
    chart = similarity(AFTER, before=BEFORE)

    assert data(chart, "meta")[0]["caption"] == "moved"
    assert [row["moved"] for row in data(chart, "rows")] == ["1.0000", "0", "0"]
    assert figures.similarity(AFTER, before=BEFORE).form is figures.similarity(BEFORE).form


def test_numbers_words_and_arrays_of_similarity():
    figure = figures.similarity(AFTER, before=BEFORE)

    assert figure.name == "test-similarity-A-cat"
    assert figure.table[["sentence", "other"]].values.tolist() == [[i, j] for i in range(3) for j in range(3)]
    assert figure.table["moved"].tolist() == pytest.approx([1] * 3 + [0] * 6)
    assert np.allclose(figure.arrays["similarity"], metrics.similarity(AFTER))
    assert "most alike “A cat.” and “A dog.”, 0.71; least alike “A cat.” and “Rain.”, -1.00" in figure.description
    assert "“A cat.” 1.0000" in figure.description


def test_a_vector_of_zeros_is_alike_to_nothing():
    record = vectors_of(TEXTS[:2], [[0.0, 0.0], [1.0, 0.0]])

    assert numbers(similarity(record)) == ["NaN", "NaN", "NaN", "1.00"]
    assert figures.similarity(record, before=record).description
    assert math.isnan(float(metrics.shift(record, record)[0]))


def test_many_sentences_and_none_to_compare():
    many = vectors_of([f"s{i}" for i in range(30)], torch.eye(30).tolist())

    assert len(numbers(similarity(many))) == MOST_SENTENCES**2
    assert "the first 12 of 30 sentences" in said(similarity(many))
    assert len(figures.similarity(many).table) == 900
    assert words.similarity(vectors_of(["x"], [[1.0]])) == "Similarity of 1 sentence, the cosine of their vectors."
    with pytest.raises(InputError, match="no vectors"):
        similarity(record_of(["x"]))
    with pytest.raises(InputError, match="other sentences"):
        similarity(AFTER, before=many)


@pytest.mark.parametrize("dark", some([False, True], 1))
def test_hostile_sentences_are_drawn(dark):
    record = vectors_of(HOSTILE, torch.randn(len(HOSTILE), 4).tolist())

    assert draw(similarity(record, before=record, dark=dark).to_dict())[0].std() > 5
    assert figures.similarity(record).description.encode()
