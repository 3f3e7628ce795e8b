"""Files of texts, and the texts that ship."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz import api
from attnviz.core.errors import InputError
from attnviz.sources.trained import Trained
from attnviz.studies import texts
from attnviz.training import __main__ as training


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1), min_size=1, max_size=9)
)
def test_a_file_is_a_text_a_line(found):
    """Also as some programs write it: with a mark at the beginning, other line ends and empty lines."""
    assert texts.lines("\r\n\r\n".join(found).encode("utf-8-sig")) == tuple(found)


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"", "0 lines"), (b"a\n" * 1001, "1,001 lines"), (b"ab\xff", "Byte 2"), (b"a" * 1_000_001, "1,000,001 bytes")],
)
def test_a_file_that_cannot_be_read_says_why(data, says):
    with pytest.raises(InputError, match=says):
        texts.lines(data)


@pytest.mark.parametrize("name", Trained.names)
def test_shipped_texts_are_the_held_out_ones_and_known_to_their_model(name):
    """The file is what `python -m attnviz.training texts` writes; no word of it is unknown."""
    source = api.load(name)
    shipped = texts.shipped(source)

    assert list(shipped) == training.texts(name)
    assert len(set(shipped)) == training.TEXTS
    assert source.unknown(list(shipped)) == {}
    assert source.tokenize(list(shipped))
