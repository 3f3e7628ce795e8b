"""What the page Steps writes into a link, read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.core.edits import KINDS, Site
from attnviz.core.errors import InputError
from attnviz.core.origin import MATRICES, Change
from attnviz.ui.steps import link
from attnviz.walk import Knobs

small = st.integers(0, 300)
numbers = st.floats(-9e5, 9e5, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6)
changes = st.builds(
    Change,
    st.builds(Site, st.sampled_from(KINDS), small),
    small,
    st.sampled_from(MATRICES),
    small,
    small,
    numbers,
    small,
)


@given(st.lists(changes, max_size=5).map(tuple))
def test_numbers_set_by_hand_are_read_back_as_they_were(made):
    """To the last digit of float32."""
    import numpy as np

    back = link.decode_changes(link.encode_changes(made))

    assert [one.place for one in back] == [one.place for one in made]
    assert [np.float32(one.value) for one in back] == [np.float32(one.value) for one in made]


@given(
    st.booleans(),
    st.sampled_from(["replace", "add"]),
    st.sampled_from([0.0, 0.1, 0.35, 0.9]),
    st.integers(0, 10**9 - 1),
)
def test_knobs_are_read_back_as_they_were(after, masking, p, seed):
    knobs = Knobs(after, masking, p, seed if p else 0)

    assert link.decode_knobs(link.encode_knobs(knobs)) == knobs


@given(st.sampled_from([0.1, 0.5, 1.0, 2.0, 10.0]), st.booleans())
def test_temperature_and_scale_are_read_back_as_they_were(temperature, scaled):
    tuned = link.Tuned(temperature, scaled)

    assert link.decode_tuned(link.encode_tuned(tuned)) == tuned


@given(st.text(max_size=40))
def test_any_other_text_is_refused_in_one_sentence(text):
    for decode, encode in (
        (link.decode_tuned, link.encode_tuned),
        (link.decode_knobs, link.encode_knobs),
        (link.decode_changes, link.encode_changes),
    ):
        try:
            encode(decode(text))
        except InputError as error:
            assert str(error).endswith(".")


def test_too_many_changes_are_refused():
    with pytest.raises(InputError, match="201 numbers are set by hand"):
        link.decode_changes("-".join(["e0_0_wq_0_0_0_1"] * 201))
