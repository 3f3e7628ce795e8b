"""Every rule is known everywhere; rules of papers, held against the papers' own words; and predicates that print."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attnviz
from attnviz.core import masks
from attnviz.core.errors import MaskError
from attnviz.core.masks import (
    RULES,
    BlockDiffusion,
    Blocks,
    Dilated,
    Fixed,
    Global,
    Media,
    Neighborhood,
    Padding,
    PatchWindows,
    Random,
    Window,
)

OWN = [rule for rule in RULES.values() if rule.__module__.startswith(masks.rules.__name__)]


def test_every_rule_is_among_the_masks_and_at_the_top_of_the_package():
    assert {rule.__name__ for rule in OWN} == {*attnviz._MASKS.split()}
    assert all(getattr(masks, rule.__name__) is getattr(attnviz, rule.__name__) is rule for rule in OWN)


@pytest.mark.parametrize("rule", OWN, ids=lambda rule: rule.rule)
def test_a_rule_says_what_it_is(rule):
    """Each rule has a description, labels of its numbers, and a name that contains each number."""
    started = masks.initial_mask(rule, 7, (5,))

    assert rule.meaning[0].islower()
    assert all(one.label for one in rule.parameters())
    assert {*re.findall(r"{(\w+)}", rule.words)} <= {one.name for one in rule.parameters()}
    assert not re.search(r"[\[\]{}]", str(started))
    assert attnviz.mask(started.text) == started


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Dilated(1, step=0), "The step of 'dilated' is 0; it must be 1 or more."),
        (lambda: Dilated(1, step=None), "The step of 'dilated' is a whole number; given None."),
        (lambda: Global((-1,)), "A position of 'global' is -1; it must be 0 or more."),
        (lambda: Global(3), "The positions of 'global' are a list of whole numbers; given 3."),
        (lambda: Global((1.5,)), "The positions of 'global' are a list of whole numbers; given (1.5,)."),
        (lambda: Blocks(2, first=-1), "The first of 'blocks' is -1; it must be 0 or more."),
        (lambda: Random(3, 2), "3 keys of every 2 cannot be chosen; choose at most 2."),
        (lambda: Padding(()), "Padding needs the length of at least one sentence."),
        (lambda: Window("2"), "The before of 'window' is a whole number; given '2'."),
        (lambda: Media((0,), 0), "The size of 'media' is 0; it must be 1 or more."),
    ],
)
def test_numbers_that_a_rule_cannot_have_are_refused(make, says):
    with pytest.raises(MaskError, match=f"^{re.escape(says)}$"):
        make()


@given(size=st.integers(1, 6), length=st.integers(1, 12))
def test_block_diffusion_is_the_three_masks_of_its_paper(size, length):
    """Block-diagonal over the noised copy, offset block-causal to the clean one, block-causal over that."""
    block = torch.arange(length) // size
    own, before, so_far = (op(block[:, None], block) for op in (torch.eq, torch.gt, torch.ge))
    nothing = torch.zeros(length, length, dtype=torch.bool)
    paper = torch.cat([torch.cat([own, before], 1), torch.cat([nothing, so_far], 1)])

    grid = BlockDiffusion(size, length).grid(2 * length + 1)
    assert torch.equal(grid[:-1, :-1], paper)
    assert not grid[-1].any()
    assert not grid[:, -1].any()


@given(stride=st.integers(1, 7), summary=st.integers(0, 7), n=st.integers(1, 15))
def test_fixed_is_both_heads_of_the_sparse_transformer(stride, summary, n):
    """A(1): the same block so far. A(2): the last `summary` places of every block."""
    grid = Fixed(stride, summary).grid(n)

    for i in range(n):
        first = {j for j in range(i + 1) if j // stride == i // stride}
        second = {j for j in range(i + 1) if j % stride in range(stride - min(summary, stride), stride)}
        assert set(grid[i].nonzero().flatten().tolist()) == first | second


@given(places=st.lists(st.integers(0, 9), max_size=4, unique=True), size=st.integers(1, 4))
def test_media_shows_text_the_image_just_before_it(places, size):
    """Counted at each token: the text before the first image sees nothing, the <image> token its own."""
    grid = Media(tuple(places), size).grid(11, max(1, len(places) * size))

    before = 0
    for i in range(11):
        before += i in places
        own = range((before - 1) * size, before * size) if before else []
        assert grid[i].nonzero().flatten().tolist() == list(own)


@given(size=st.integers(1, 9), length=st.integers(1, 15), step=st.integers(1, 5))
def test_each_query_sees_its_neighborhood(size, length, step):
    """The neighborhood lies in the query's own group, moved inward at the ends; beyond the length it is empty."""
    grid = Neighborhood(size, length, step).grid(length + 2)

    assert not grid[length:].any()
    for i in range(length):
        group = list(range(i % step, length, step))
        start = min(max(group.index(i) - size // 2, 0), max(len(group) - size, 0))
        assert grid[i].nonzero().flatten().tolist() == group[start : start + size]


@given(rows=st.integers(1, 3), columns=st.integers(1, 3), size=st.integers(1, 4), data=st.data())
def test_a_patch_sees_its_window_as_in_swin(rows, columns, size, data):
    """The window of the rolled picture, and within it the patches from the same strips of the picture."""
    shift = data.draw(st.integers(0, size - 1))
    height, width = rows * size, columns * size
    rolled = torch.arange(height * width).reshape(height, width).roll((-shift, -shift), (0, 1))
    part = {}
    for row in range(height):
        for column in range(width):
            from_start = row >= height - shift, column >= width - shift
            part[int(rolled[row, column])] = (row // size, column // size, from_start)
    grid = PatchWindows(width, size, shift).grid(height * width)

    for query, of_query in part.items():
        assert grid[query].tolist() == [part[key] == of_query for key in range(height * width)]
