"""Text that sees the image before it, held against Flamingo's definition in plain steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.core.errors import MaskError
from attnviz.core.masks import Media


@given(places=st.lists(st.integers(0, 9), max_size=4, unique=True), size=st.integers(1, 4))
def test_text_sees_the_image_just_before_it(places, size):
    """Counted at each token: the text before the first image sees nothing, the <image> token its own."""
    mask = Media(tuple(places), size)
    grid = mask.grid(11, max(1, len(places) * size))

    before = 0
    for i in range(11):
        before += i in places
        own = range((before - 1) * size, before * size) if before else []
        assert grid[i].nonzero().flatten().tolist() == list(own)


def test_its_numbers_are_put_in_order_and_held_to_what_they_may_be():
    assert Media((4, 0), 2) == Media([0, 4], 2)
    with pytest.raises(MaskError, match="The size of 'media' is 0; it must be 1 or more"):
        Media((0,), 0)
    with pytest.raises(MaskError, match="A place of 'media' is -1"):
        Media((-1,))
