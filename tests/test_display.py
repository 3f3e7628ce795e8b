"""Text made safe to draw."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from attnviz.core.display import LONGEST, LONGEST_TITLE, in_title, visible_text

ANY = st.text(st.characters(codec=None, categories=None), max_size=60)
"""Everything a Python string can hold, surrogates included."""


@given(ANY)
def test_nothing_dangerous_is_drawn(text):
    """No control, surrogate, direction mark or character without width comes through."""
    for character in visible_text(text):
        assert unicodedata.category(character) not in ("Cc", "Cs", "Cf", "Zs", "Zl", "Zp")


def test_no_code_point_comes_through_that_draws_nothing_or_turns_the_line():
    """Every code point of the planes that have such, one by one."""
    for code in (*range(0x20000), *range(0xE0000, 0xE1000), 0x10FFFE, 0x10FFFF):
        for character in visible_text(chr(code)):
            assert unicodedata.category(character) not in ("Cc", "Cs", "Cf", "Zs", "Zl", "Zp"), hex(code)
            assert not 0xFDD0 <= ord(character) <= 0xFDEF
            assert ord(character) & 0xFFFE != 0xFFFE


@given(ANY)
def test_what_is_drawn_is_short_and_never_empty(text):
    assert 1 <= len(visible_text(text)) <= LONGEST


@given(ANY)
def test_what_is_drawn_can_be_written_to_a_file(text):
    assert visible_text(text).encode("utf-8")


@given(
    st.text(
        st.characters(categories=["L", "N", "P"], exclude_characters="\u3164\uffa0\u115f\u1160"),
        min_size=1,
        max_size=24,
    )
)
def test_ordinary_words_stay_as_they_are(text):
    assert visible_text(text) == text


def test_whitespace_and_nothing_are_visible():
    assert visible_text(" a\tb\r\n") == "␣a⇥b↵↵"
    assert visible_text("") == "∅"


def test_control_characters_become_their_pictures():
    assert visible_text("\x00\x1b\x7f") == "␀␛␡"


def test_at_most_four_marks_follow_a_letter():
    """A pile of accents does not grow over its neighbors."""
    assert visible_text("e" + "\u0301" * 50) == "e" + "\u0301" * 4
    assert visible_text("\u0301") == "◌\u0301"


def test_what_is_cut_ends_with_an_ellipsis():
    assert visible_text("a" * 25) == "a" * 23 + "…"
    assert visible_text("abcdef", 4) == "abc…"


def test_a_long_text_is_read_only_as_far_as_it_is_drawn():
    """A token of a million characters costs as much as one of thirty."""
    assert visible_text("x" * 10**6) == "x" * 23 + "…"


def test_the_blanks_of_a_name_in_a_title_are_blanks():
    """A token's blank must be visible; that of a model's name must not."""
    assert in_title("translator after step 400") == "translator after step 400"
    assert in_title("a\tb\0") == "a⇥b␀"
    assert len(in_title("long " * 20)) == LONGEST_TITLE
