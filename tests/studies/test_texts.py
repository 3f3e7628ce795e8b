"""Heads over many texts: the mean and the spread of what one text gives."""

import statistics

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz import api
from attnviz.analysis.heads import METRICS, head_metrics
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import Canceled, InputError
from attnviz.sources.trained import Trained
from attnviz.studies import texts
from attnviz.training import texts as made

SOURCE = api.load("constructed")
TEXTS = ("a b c a b", "x y z", "the cat saw the dog and the cat", "one two one two one two")


def test_many_texts_are_the_mean_and_spread_of_each(monkeypatch):
    """Whatever is run together, a text counts once; what few texts have is the mean of those."""
    monkeypatch.setattr(texts, "TOKENS", 12)
    table = texts.over_texts(SOURCE, TEXTS)
    each = [head_metrics(api.analyze(text, SOURCE)) for text in TEXTS]

    assert table["texts"].eq(4).all()
    for head in range(8):
        for name in (one.name for one in METRICS):
            known = [one[name][head] for one in each if one[name][head] is not pd.NA]
            assert table[f"{name}_texts"][head] == len(known)
            if known:
                assert table[name][head] == pytest.approx(statistics.mean(known), abs=1e-4)
            else:
                assert table[name][head] is pd.NA
            if len(known) > 1:
                assert table[f"{name}_spread"][head] == pytest.approx(statistics.stdev(known), abs=1e-4)
            else:
                assert table[f"{name}_spread"][head] is pd.NA
    assert table["rows"].eq(5 + 3 + 8 + 6).all()
    assert table["induction_texts"].eq(3).all()


def test_edits_hold_for_every_text():
    """Without the previous-token head the induction head finds nothing."""
    off = Edits(heads_off={(Site("decoder", 0), 0)})
    without = texts.over_texts(SOURCE, TEXTS, edits=off).set_index(["layer", "head"])

    assert without.loc[(1, 0), "induction"] < 0.7
    assert without.loc[(0, 0), "output_share_texts"] == 0


def test_progress_is_told_and_can_end_it(monkeypatch):
    told = []
    monkeypatch.setattr(texts, "TOKENS", 8)

    def report(done, total):
        told.append((done, total))
        return done < 2

    with pytest.raises(Canceled, match="of 4 texts"):
        texts.over_texts(SOURCE, TEXTS, report=report)
    assert told == [(1, 4), (2, 4)]


def test_a_text_that_cannot_be_read_is_named():
    with pytest.raises(InputError, match=r"^Text 2: "):
        texts.over_texts(api.load("story"), ["The cat sat.", "cat " * 200])
    with pytest.raises(InputError, match="no texts"):
        texts.over_texts(SOURCE, [])


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
    """The file is what `python -m attnviz.training.texts` writes; no word of it is unknown."""
    source = api.load(name)
    shipped = texts.shipped(source)

    assert list(shipped) == made.TEXTS[name]()
    assert len(set(shipped)) == made.COUNT
    assert source.unknown(list(shipped)) == {}
    assert source.tokenize(list(shipped))


@pytest.mark.parametrize(("value", "expected"), [(0.0, True), (2.0, True), (4.0, True), (4.25, False), (-0.25, False)])
def test_a_text_is_typical_within_two_standard_deviations_of_the_mean(value, expected):
    """Of numbers with mean 2 and standard deviation 1, on either side; both ends count."""
    assert texts.is_typical(value, 2.0, 1.0) is expected
