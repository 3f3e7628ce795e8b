"""What the link holds, and what a bad link gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.core.edits import KINDS, Site
from attnviz.core.errors import InputError
from attnviz.ui import state

sites = st.builds(Site, st.sampled_from(KINDS), st.integers(0, 99))
heads = st.frozensets(st.tuples(sites, st.integers(0, 99)), max_size=30)


@given(heads)
def test_heads_that_are_off_survive_the_link(off):
    """Reading what was written gives the same heads."""
    assert state.decode_heads(state.encode_heads(off)) == off


@given(st.none() | st.tuples(st.integers(0, 99_999), st.integers(0, 99_999)))
def test_the_selected_cell_survives_the_link(cell):
    """Reading what was written gives the same cell."""
    assert state.decode_cell(state.encode_cell(cell)) == cell


@given(st.text(max_size=40))
def test_any_other_text_is_refused_with_a_sentence(text):
    """A link may hold anything; it is read, or refused by the one error whose words can be shown."""
    for decode, encode in ((state.decode_heads, state.encode_heads), (state.decode_cell, state.encode_cell)):
        try:
            assert decode(encode(decode(text))) == decode(text)
        except InputError as error:
            assert "should look like" in str(error)


@pytest.mark.parametrize("text", ["e0", "x0.1", "e0.1-", "e٣.1", "e-1.0", "e0.1 ", "e1000.1"])
def test_what_does_not_name_heads_is_refused(text):
    """Letters, digits and order are all checked; digits of other scripts are not digits here."""
    with pytest.raises(InputError, match="does not name heads"):
        state.decode_heads(text)
