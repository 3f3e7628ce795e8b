"""Masks composed rule by rule: what the entries make, and how they are changed."""

from functools import reduce

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import B, K, Q, masks

from attnviz.core.errors import MaskError
from attnviz.core.masks import Full, Padding, Prefix, Subsequent, Window, mask_from_text
from attnviz.core.masks.text import MOST, Entry, Stack

entries = st.builds(Entry, masks(), st.sampled_from(["and", "or"]), st.booleans(), st.booleans())
stacks = st.lists(entries, max_size=5).map(Stack)


NINE_DEEP = reduce(lambda mask, n: ~(mask | Prefix(n)), range(4), Full())


def grid(mask, sentence=0):
    return (mask or Full()).grid(Q, K, sentence=sentence)


def test_entries_are_joined_from_left_to_right():
    """Without precedence: (subsequent or prefix) and padding, then what is painted open again."""
    a, b, c = Subsequent(), Prefix(3), Padding((5,))

    assert Stack((Entry(a), Entry(b, "or"), Entry(c))).mask() == (a | b) & c
    assert Stack((Entry(a), Entry(b), Entry(c, "or"))).mask() == (a & b) | c
    assert Stack((Entry(a, "or"), Entry(b, "and", negated=True))).mask() == a & ~b
    assert Stack((Entry(a, on=False), Entry(b, "or"), Entry(c, on=False))).mask() == b
    assert Stack((Entry(a, on=False),)).mask() is Stack().mask() is None


@given(stacks, st.integers(0, B - 1))
def test_a_stack_is_its_entries_one_after_the_other(stack, sentence):
    """As booleans of one cell at a time."""
    state = None
    for entry in stack.entries:
        if entry.on:
            own = grid(entry.mask, sentence) ^ entry.negated
            state = own if state is None else state | own if entry.join == "or" else state & own
    expected = torch.ones(Q, K, dtype=torch.bool) if state is None else state

    assert torch.equal(grid(stack.mask(), sentence), expected)


def test_entries_are_added_removed_moved_and_replaced():
    """Each gives another stack; the one before stays."""
    a, b, c = (Entry(Window(n)) for n in range(3))
    stack = Stack((a, b)).added(c)

    assert stack.entries == (a, b, c)
    assert stack.removed(1).entries == (a, c)
    assert stack.moved(0, 2).entries == (b, c, a)
    assert stack.moved(2, 0).entries == (c, a, b)
    assert stack.moved(1, 1) == stack
    assert stack.replaced(0, c).entries == (c, b, c)
    assert stack.entries == (a, b, c)


@pytest.mark.parametrize("index", [-1, 2])
def test_an_entry_that_is_not_there_is_refused(index):
    """With the number there is; -1 is not the last."""
    stack = Stack((Entry(Full()), Entry(Full())))
    asks = (stack.removed, lambda i: stack.moved(i, 0), lambda i: stack.moved(0, i))
    for ask in (*asks, lambda i: stack.replaced(i, Entry(Full()))):
        with pytest.raises(MaskError, match=f"no entry {index}; there are 2"):
            ask(index)


# Bounds


def test_the_mask_of_the_deepest_stack_can_be_read():
    """As many entries as there may be, joined in turns, the first as deep as it may be."""
    last = Entry(Window(1), "or", negated=True)
    stack = Stack((Entry(NINE_DEEP), *(Entry(Window(n), "or" if n % 2 else "and") for n in range(MOST - 2)), last))

    assert mask_from_text(stack.mask().text) == stack.mask()
    with pytest.raises(MaskError, match=f"at most {MOST} entries; given {MOST + 1}"):
        Stack((Entry(Window(1)),) * (MOST + 1))


def test_a_stack_of_masks_for_different_batches_is_refused():
    """As the masks are."""
    with pytest.raises(MaskError, match="1 and 2 sentences"):
        Stack((Entry(Padding((1,))), Entry(Padding((1, 2)))))
