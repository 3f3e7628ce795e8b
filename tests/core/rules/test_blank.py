"""Keys that nobody sees."""

from hypothesis import given
from hypothesis import strategies as st

from attnviz.core.masks import Blank, mask_from_text


@given(positions=st.sets(st.integers(0, 9), max_size=5))
def test_blank_keys_are_closed_to_all_and_no_others(positions):
    grid = Blank(tuple(positions)).grid(4, 10)

    assert [key for key in range(10) if not grid[:, key].any()] == sorted(positions)
    assert all(bool(grid[:, key].all()) for key in range(10) if key not in positions)


def test_its_text_is_read_again():
    mask = Blank((7, 3, 3))
    assert (mask.positions, mask_from_text(mask.text)) == ((3, 7), mask)
