"""Painting: what a click and a drag do to the rules."""

from hypothesis import given
from hypothesis import strategies as st

from attnviz.core.masks import Full, Opened, Painted, Subsequent, Window
from attnviz.core.stack import Entry, Stack
from attnviz.ui.masks import painting
from attnviz.ui.masks.presets import CAUSAL

N = 7
cells = st.tuples(st.integers(0, N - 1), st.integers(0, N - 1))
bases = st.sampled_from(
    [
        Stack(),
        CAUSAL,
        Stack((Entry(Window(1, 1)), Entry(Painted(((0, 0),)), negated=True))),
        Stack((Entry(Subsequent()), Entry(Opened(((0, 5),)), "or"), Entry(Window(3, 3)))),
    ]
)


def grid(stack: Stack):
    return (stack.mask() or Full()).grid(N, N)


@given(bases, st.lists(cells, max_size=8))
def test_a_click_turns_its_cell_around_and_no_other(stack, clicks):
    """Whatever the rules say, and whatever was painted before."""
    for query, key in clicks:
        before = grid(stack)
        stack = painting.flipped(stack, (query, key))
        changed = grid(stack) != before

        assert changed[query, key]
        assert changed.sum() == 1


@given(bases, st.lists(cells, max_size=8))
def test_a_second_click_takes_the_first_back(stack, clicks):
    """No entry is left that holds no cell."""
    after = stack
    for cell in [*clicks, *reversed(clicks)]:
        after = painting.flipped(after, cell)

    assert after == stack


@given(bases, st.lists(st.tuples(st.sets(cells, min_size=1), st.booleans()), max_size=5))
def test_painted_cells_are_held_by_two_entries_at_most(stack, strokes):
    """One at the end blocks, one opens; the rules before them stay as they were."""
    after = stack
    for some, opened in strokes:
        after = painting.painted(after, some, opened=opened)

        assert {bool(grid(after)[cell]) for cell in some} == {opened}
    assert after.entries[: len(stack.entries)] == stack.entries
    assert len(after.entries) <= len(stack.entries) + 2


def over(queries, keys):
    """What the browser says of a drag."""
    ends = zip(("row", "column"), (queries, keys), strict=True)
    return {name: [min(places) + 0.3, max(places) + 0.6] for name, places in ends}


def test_a_drag_blocks_its_cells_or_opens_them_if_all_are_blocked():
    """Over the lower left corner of a causal mask it blocks; once more, it opens."""
    first = painting.dragged(CAUSAL, over([5, 6], [0, 1]), None)

    assert not grid(first.stack)[5:, :2].any()
    assert not first.goes_on

    second = painting.dragged(first.stack, over([5, 6], [0, 1]), None)

    assert second.stack == CAUSAL


def test_a_slow_drag_is_one_stroke():
    """The browser says its beginning first: the rest goes on from what was before it, and does the same."""
    first = painting.dragged(CAUSAL, over([0], [5, 6]), None)

    assert first.opened

    whole = painting.dragged(first.stack, over([0, 1, 2, 3, 4, 5, 6], [4, 5, 6]), first)

    assert whole.goes_on
    assert grid(whole.stack)[:, 4:].all()
    assert whole.stack == painting.painted(CAUSAL, whole.cells, opened=True)


def test_a_drag_over_nothing_changes_nothing():
    """A selection may hold no stretch."""
    assert painting.dragged(CAUSAL, {"row": [], "column": None}, None).stack == CAUSAL
