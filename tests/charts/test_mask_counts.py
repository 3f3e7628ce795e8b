"""What the grid of a mask says at the ends of its rows."""

from pictures import drawing

from attnviz import figures
from attnviz.core.masks import Padding, Subsequent

WORDS = list("abcdefg")


def said(mask, **options) -> list[str]:
    return [word["text"] for word in drawing(figures.mask(mask, WORDS, **options)).frame.words]


def test_each_row_says_how_many_keys_it_has_left():
    """Those that have none say so in a word, and are framed."""
    words = said(Subsequent() & Padding((5,), left=7), counted=True)

    assert words[words.index("keys") :][:8] == ["keys", "none", "none", "1", "2", "3", "4", "5"]
    assert "fully masked row" not in words


def test_without_counts_empty_rows_are_named():
    """The picture that is not of the lab stays as it is."""
    words = said(Subsequent() & Padding((5,), left=7))

    assert "keys" not in words
    assert "fully masked row" in words


def test_a_long_reason_breaks_and_widens_nothing():
    """No line of the legend is wider than the words above the picture may be."""
    mask = (Subsequent() & Padding((6,))) | ~(Subsequent() & Padding((3,))) & Subsequent(2) & Padding((5,), left=7)
    wide = max(len(word) for word in said(mask))

    assert wide < len(f"blocked by {mask}")
    assert wide * 6.7 < 7 * 60 + 60
