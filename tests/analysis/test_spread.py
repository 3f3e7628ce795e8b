"""Spread of attention in a long text, compared with the whole map at small lengths."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import B, H
from test_tiles import steps, windows

from attnviz import analysis
from attnviz.analysis import blocks, maps

heads = st.integers(0, H - 1) | st.sampled_from(analysis.AGGREGATIONS)
sides = st.tuples(st.integers(1, 12), st.integers(1, 12))


def whole(step, head, sentence):
    """The weights, and where one may attend, as arrays."""
    weights = analysis.weights_of(step, head, sentence=sentence).double().numpy()
    return weights, analysis.may_attend(step, head, sentence=sentence).numpy()


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)


@contextmanager
def in_blocks(high, wide):
    """Blocks of so many queries and keys at most."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "HEIGHT", high)
        patch.setattr(blocks, "WIDTH", wide)
        yield


@given(step=steps, head=heads, sentence=st.integers(0, B - 1), block=sides)
def test_attention_by_distance_is_the_sum_of_each_diagonal(step, head, sentence, block):
    """And the curve in bins adds up to it; the share within any distance is what a loop over cells gives."""
    weights, open = whole(step, head, sentence)
    if step.has_sink:
        weights, open = weights[:, :-1], open[:, :-1]
    with in_blocks(*block):
        found = analysis.by_distance(step, head, sentence=sentence)
    far = np.arange(weights.shape[1]) - np.arange(len(weights))[:, None]

    for distance, total, pairs in zip(found.distances, found.sums, found.pairs, strict=True):
        assert total == pytest.approx(weights[far == distance].sum(), abs=1e-4, nan_ok=True)
        assert pairs == open[far == distance].sum()
    curve = found.curve()
    assert curve["pairs"].sum() == open.sum()
    if np.isfinite(weights).all() and weights.sum() > 1e-3:
        assert curve["share"].sum() == pytest.approx(1)
        for most in (0, 1, 3, 50):
            assert found.within(most) == pytest.approx(weights[abs(far) <= most].sum() / weights.sum(), abs=1e-4)
        for near, furthest, share, *_ in curve.itertuples(index=False):
            inside = (far >= min(near, furthest)) & (far <= max(near, furthest))
            assert share == pytest.approx(weights[inside].sum() / weights.sum(), abs=1e-4)


@given(step=steps, head=heads, sentence=st.integers(0, B - 1), block=sides, window=st.tuples(windows, windows))
def test_what_stands_out_in_a_row_is_what_the_whole_row_says(step, head, sentence, block, window):
    """The largest weight of a window and its column, NaN aside, and the sum over all keys."""
    weights, _ = whole(step, head, sentence)
    cells = np.nan_to_num(weights[window], nan=-1)
    with in_blocks(*block):
        most, at = analysis.strongest(step, head, sentence=sentence, rows=window[0], columns=window[1])
        sums = maps.row_sums(step, head, sentence=sentence, rows=window[0])

    assert sums.numpy() == pytest.approx(weights[window[0]].sum(1), abs=1e-4, nan_ok=True)
    if cells.size:
        assert most == pytest.approx(cells.max(1), abs=1e-5)
        assert np.take_along_axis(cells, at[:, None], 1)[:, 0] == pytest.approx(most, abs=1e-5)
    else:
        assert not len(at) or not len(cells)
