"""A map in tiles is what the whole map gives, however it is cut up on the way."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import B, H, K, Q, biases, booleans, masks, tensors

from attnviz import analysis
from attnviz.analysis import blocks, maps
from attnviz.core.attention import attend
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Global, Subsequent, Window
from attnviz.core.record import Step
from attnviz.core.scoring import Scoring
from attnviz.core.tap import Tap

SITE = Site("cross", 0)


def step_of(dtype, mask, *, sinks=None, heads_mask=False, queries=Q, keys=K, **changes):
    """An attention call with these changes."""
    query, key, value = tensors(dtype, queries=queries, keys=keys)
    tap = Tap(Edits(mask=mask, **changes))
    own = booleans((B, H, queries, keys)) if heads_mask else None
    tap.attend(query, key, value, site=SITE, mask=own, sinks=sinks)
    return tap.steps[0]


steps = st.builds(
    step_of,
    st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
    st.none() | masks(),
    sinks=st.none() | st.just(torch.tensor([0.5, -1.0, 2.0])),
    heads_mask=st.booleans(),
    queries=st.integers(1, 2 * Q),
    keys=st.integers(1, 2 * K),
    temperature=st.sampled_from([1.0, 0.1]),
    softcap=st.sampled_from([None, 2.0]),
    bias=st.lists(biases, max_size=1).map(tuple),
    empty_rows=st.sampled_from(["zero", "nan", "uniform"]),
)
windows = st.builds(slice, st.none() | st.integers(0, 3), st.none() | st.integers(5, 20), st.none() | st.integers(1, 3))


def check(step, head, tile, rows, columns, sentence):
    """Each tile against the cells of the whole map."""
    whole = analysis.weights_of(step, head, sentence=sentence)
    cells = whole[rows, columns].double().numpy()
    open = analysis.may_attend(step, head, sentence=sentence)[rows, columns].numpy()
    queries, keys = (np.arange(n)[part] for n, part in zip(step.shape[2:], (rows, columns), strict=True))
    found = analysis.pooled(step, head, sentence=sentence, rows=rows, columns=columns, tile=tile)
    close = 1e-10 if step.query.dtype is torch.float64 else 1e-5

    assert found.queries.tolist() == queries[::tile].tolist()
    assert found.keys.tolist() == keys[::tile].tolist()
    for i in range(len(found.queries)):
        for j in range(len(found.keys)):
            square = slice(i * tile, (i + 1) * tile), slice(j * tile, (j + 1) * tile)
            assert found.largest[i, j] == pytest.approx(cells[square].max(), abs=close, nan_ok=True)
            assert found.sums[i, j] == pytest.approx(cells[square].sum(), abs=10 * close, nan_ok=True)
            assert found.open[i, j] == open[square].sum()
            assert found.sizes[i, j] == open[square].size
            at = found.at_query[i, j], found.at_key[i, j]
            assert at[0] in queries[square[0]]
            assert at[1] in keys[square[1]]
            assert float(whole[at]) == pytest.approx(found.largest[i, j], abs=close, nan_ok=True)


@given(
    step=steps,
    head=st.integers(0, H - 1) | st.sampled_from(analysis.AGGREGATIONS),
    tile=st.integers(1, 9),
    block=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    window=st.tuples(windows, windows),
    sentence=st.integers(0, B - 1),
)
def test_every_tile_is_what_the_whole_map_gives(step, head, tile, block, window, sentence):
    """Over masks, biases, softcaps, temperatures, sinks, empty rows, types of numbers, sizes of blocks."""
    if not all(len(range(n)[part]) for n, part in zip(step.shape[2:], window, strict=True)):
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "HEIGHT", block[0])
        patch.setattr(blocks, "WIDTH", block[1])
        check(step, head, tile, *window, sentence)


@given(
    step=steps,
    heads=st.lists(st.integers(0, H - 1), min_size=2, max_size=H, unique=True),
    tile=st.integers(2, 9),
    block=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    window=st.tuples(windows, windows),
    sentence=st.integers(0, B - 1),
)
def test_heads_together_have_the_tiles_of_each_alone(step, heads, tile, block, window, sentence):
    """The largest weights, what is open, and the states and rules of the cells that are drawn."""
    if not all(len(range(n)[part]) for n, part in zip(step.shape[2:], window, strict=True)):
        return
    where = {"sentence": sentence, "rows": window[0], "columns": window[1], "tile": tile}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "HEIGHT", block[0])
        patch.setattr(blocks, "WIDTH", block[1])
        together = analysis.cells_of(step, heads, **where)
    close = 1e-10 if step.query.dtype is torch.float64 else 1e-5

    for head, found in zip(heads, together, strict=True):
        alone = analysis.cells(step, head, **where)
        assert found.weights == pytest.approx(alone.weights, abs=close, nan_ok=True)
        for name in ("queries", "keys", "states", "blocked"):
            assert np.array_equal(getattr(found, name), getattr(alone, name)), name
        assert found.reasons == alone.reasons


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_number_that_is_none_at_a_blocked_key_is_not_seen(number):
    """As padding may hold anything."""
    query, key, value = tensors(torch.float32)
    _, sums = attend(query, key, value, mask := Window(2))
    key[:, :, 0] = number
    step = Step(SITE, query, key, value, mask, sums, Scoring())
    rows = slice(3, Q)

    for found in (analysis.cells_of(step, [0, 1], rows=rows, tile=2)[0], analysis.cells(step, 0, rows=rows, tile=2)):
        assert np.isfinite(found.weights).all()


def test_what_is_known_to_be_blocked_is_not_computed(monkeypatch):
    """A causal mask needs half of the blocks, a window those around the diagonal; the first token adds one block."""
    monkeypatch.setattr(blocks, "HEIGHT", 10)
    monkeypatch.setattr(blocks, "WIDTH", 10)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    query, key, value = torch.randn(3, 1, 1, 100, 4)
    computed = []
    add = maps._Tiles.add
    monkeypatch.setattr(maps._Tiles, "add", lambda self, block: (computed.append(block.weights), add(self, block)))

    for mask, expected in ((None, 100), (Subsequent(), 55), (Window(10), 19), (Window(10) | Global((0,)), 19 + 17)):
        computed.clear()
        _, sums = attend(query, key, value, mask)
        analysis.pooled(Step(SITE, query, key, value, mask, sums, Scoring()), 0, tile=5)
        assert sum(weights is not None for weights in computed) == expected, mask


def test_tiles_of_131_072_tokens_are_those_of_float64():
    """Some rows far down of a causal head, each tile of 64 x 64 beside the whole rows in double precision."""
    n, tile = 131_072, 64
    rows = slice(n - 5 * tile, n - 4 * tile)
    query, key = torch.randn(2, 1, 1, n, 64) * 2
    exact = query[0, 0, rows].double() @ key[0, 0].double().T / 8
    allowed = Subsequent().grid(n, rows=rows)
    exact = exact.masked_fill_(~allowed, -math.inf)
    sums = torch.zeros(1, 1, n, dtype=torch.float64)
    sums[0, 0, rows] = exact.logsumexp(1)
    exact = exact.softmax(1).view(tile, -1, tile)

    found = analysis.pooled(Step(SITE, query, key, key, Subsequent(), sums, Scoring()), 0, rows=rows, tile=tile)

    torch.testing.assert_close(torch.from_numpy(found.sums[0]), exact.sum((0, 2)), rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(torch.from_numpy(found.largest[0]).double(), exact.amax((0, 2)), rtol=1e-4, atol=1e-12)
    at = found.at_query[0] - rows.start, found.at_key[0] // tile, found.at_key[0] % tile
    torch.testing.assert_close(exact[at], exact.amax((0, 2)), rtol=1e-4, atol=1e-12)
    assert found.open[0].tolist() == allowed.view(tile, -1, tile).sum((0, 2)).tolist()
