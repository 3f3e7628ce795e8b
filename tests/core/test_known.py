"""Blocks of cells that a mask knows to be open or blocked without computing a cell."""

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rules import of
from strategies import B, K, Q, masks

from attnviz.core.masks import (
    RULES,
    BlockDiffusion,
    Blocks,
    Documents,
    Mask,
    Media,
    Neighborhood,
    Opened,
    PatchWindows,
    Prefix,
    Random,
    Subsequent,
    Window,
)
from attnviz.core.tap import MaskBesideSink


def stretches(size):
    """A range of positions that is not empty, also with gaps."""
    return st.builds(range, st.integers(0, size - 1), st.just(size), st.integers(1, 3)).flatmap(
        lambda part: st.integers(1, len(part)).map(lambda count: part[:count])
    )


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.keyword], ids=lambda rule: rule.rule)
@given(data=st.data())
def test_what_a_rule_knows_of_any_block_holds_for_every_cell(rule, data):
    """Every block of a grid, for numbers that fit it; of a single cell all is known, but whether it is drawn."""
    mask, size = data.draw(of(rule, longest=5)).shifted(data.draw(st.integers(-2, 2))), 8
    grid = mask.grid(size)
    for query, key in product(combinations(range(size + 1), 2), repeat=2):
        cells, known = grid[slice(*query), slice(*key)], mask.is_open(range(*query), range(*key))

        assert known is not True or cells.all(), (mask, query, key)
        assert known is not False or not cells.any(), (mask, query, key)
        assert known is not None or cells.numel() > 1 or rule is Random, (mask, query, key)


@given(mask=masks(), queries=stretches(3 * Q), keys=stretches(3 * K), sink=st.none() | st.integers(0, 3 * K))
def test_what_is_known_of_a_block_holds_for_every_cell(mask, queries, keys, sink):
    """For any mask, joined, changed and shifted as may be, and for all sentences of a batch; also beside a sink."""
    mask = mask if sink is None else MaskBesideSink(mask, sink)
    known = mask.is_open(queries, keys)
    cells = mask.tensor(3 * Q, 3 * K)[:, 0, list(queries)][:, :, list(keys)]

    assert known is not True or cells.all()
    assert known is not False or not cells.any()


@given(mask=masks(), queries=stretches(3 * Q), size=st.integers(1, 5), sentence=st.integers(0, B - 1))
def test_nothing_is_open_outside_of_its_span(mask, queries, size, sentence):
    keys = range(3 * K)
    span = mask.of_sentence(sentence).span(queries, keys, size)
    grid = mask.grid(3 * Q, 3 * K, sentence=sentence)[list(queries)]

    assert set(grid.any(0).nonzero().flatten().tolist()) <= set(span)
    assert not mask.span(range(0), keys, size)


FAR = [
    (Subsequent(), (2, 3), (3, 2)),
    (Window(2000), (9, 0), (9, 8)),
    (Documents((5000, 5000)), (9, 0), (9, 5)),
    (Blocks(100, 10, 10, 1), (9, 4), (4, 4)),
    (Neighborhood(100, 10_000), (9, 0), None),
    (Media((0, 5000), 5000), (0, 9), (9, 9)),
    (PatchWindows(100, 10), (9, 0), None),
    (BlockDiffusion(1000, 5000), (1, 0), (9, 5)),
    (Opened(((1, 1),)), (3, 3), None),
    (Subsequent() & ~Prefix(1000), (9, 0), (9, 8)),
]


@pytest.mark.parametrize(("mask", "blocked", "opened"), FAR, ids=lambda one: str(one)[:30])
def test_blocks_of_long_inputs_are_known(mask, blocked, opened):
    """Among 10 x 10 blocks of 1,000 x 1,000 cells, one block that is blocked and one that is open."""
    for place, claim in ((blocked, False), (opened, True)):
        if place is not None:
            block = [range(1000 * i, 1000 * i + 1000) for i in place]
            assert mask.is_open(*block) is claim
            assert (~mask).is_open(*block) is not claim


def test_nothing_is_known_of_a_predicate_that_needs_tensors():
    """A mask of one's own may call any function of torch."""

    class Even(Mask):
        def allows(self, query, key, sentence):
            return (query.float() + key.double()) % 2 == 0

    assert Even().is_open(range(2), range(2)) is None
    assert Even().keys_left(3, 4).tolist() == [2, 2, 2]
