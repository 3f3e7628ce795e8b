"""Sinusoidal positions: the paper's formula and what follows from it."""

import math

import pytest
import torch
from torch.testing import assert_close

from attnviz.models.transformer import sinusoidal


@pytest.mark.parametrize(("length", "d_model"), [(1, 2), (7, 16), (13, 5), (53, 64), (3, 1), (0, 4)])
def test_the_table_is_the_formula_of_the_paper(length, d_model):
    """PE(p, 2i) = sin(p / 10000^(2i / d_model)), PE(p, 2i + 1) = cos of the same; an odd width ends with a sine."""
    table = sinusoidal(length, d_model)

    assert table.shape == (length, d_model)
    for position in range(length):
        for column in range(d_model):
            angle = position / 10_000 ** (2 * (column // 2) / d_model)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert math.isclose(table[position, column].item(), expected, abs_tol=1e-5)


def test_the_first_position_is_zeros_and_ones():
    """sin 0 and cos 0."""
    assert sinusoidal(1, 6).tolist() == [[0, 1, 0, 1, 0, 1]]


def test_two_positions_are_as_alike_as_they_are_far_apart():
    """Their dot product depends on the distance alone, and each has the same length."""
    table = sinusoidal(41, 32).double()
    products = table @ table.T

    for distance in range(20):
        diagonal = products.diagonal(distance)
        assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-4)
    assert_close(products.diagonal(), torch.full((41,), 16.0, dtype=torch.float64), rtol=0, atol=1e-5)


def test_a_longer_table_begins_with_the_shorter():
    """A word added at the end moves no position."""
    assert torch.equal(sinusoidal(50, 18)[:20], sinusoidal(20, 18))
