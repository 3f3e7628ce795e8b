"""Weights over patches, beside a neutral question and without sinks, held to numbers worked out by hand."""

import pytest
import torch

from attnviz.analysis import pictured
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Subsequent
from attnviz.core.places import Picture, grid
from attnviz.core.record import Record
from attnviz.core.scoring import Scoring
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence, Token

SITE = Site("decoder", 0)
PICTURE = Picture(torch.arange(48, dtype=torch.uint8).reshape(4, 4, 3))
EVEN = [1 / 6] * 6


def record_of(*last, picture=PICTURE, mask=None):
    """A record of one head over a picture of four patches and two words, whose last rows have these weights."""
    wanted = torch.tensor([EVEN] * (6 - len(last)) + [list(row) for row in last]).double()[None, None]
    tap, ones = Tap(), torch.eye(6).double()[None, None]
    tap.attend(wanted.log(), ones, ones, site=SITE, mask=mask, scoring=Scoring(scale=1.0))
    tokens = [Token(f"row{i // 2}·col{i % 2}", 0, 0, 0, box=box) for i, box in enumerate(grid(2, 2))]
    tokens += [Token(word, 1, i, i + 1) for i, word in enumerate("ab")]
    sentence = Sentence("ab", tuple(tokens), 6, (picture,) if picture else ())
    return Record((sentence,), "test", "random", Edits(), tuple(tap.steps), torch.zeros(1, 6, 6))


def test_a_neutral_question_is_taken_off_patch_by_patch():
    asked, neutral = record_of((0.2, 0.4, 0.1, 0.1, 0.1, 0.1)), record_of((0.1, 0.4, 0.1, 0.2, 0.1, 0.1))
    difference = pictured.minus_neutral(asked, neutral, SITE, 0)

    assert difference.tolist() == pytest.approx([0.1, 0.0, 0.0, -0.1])
    assert pictured.minus_neutral(asked, asked, SITE, "mean").eq(0).all()


def test_a_patch_that_always_wins_is_set_aside_and_the_others_share_the_rest():
    """Mean weights from the last patch on are 0.09, 0.53, 0.10 and 0.11, its own 0.01, 0.7, 0.03, 0.04."""
    rows = (0.01, 0.5, 0.01, 0.02, 0.23, 0.23), (0.01, 0.7, 0.03, 0.04, 0.11, 0.11)
    record = record_of(*rows, mask=Subsequent())
    shares = pictured.without_sinks(record, SITE, 0, multiple=4)

    assert shares[1].isnan()
    assert shares[[0, 2, 3]].tolist() == pytest.approx([0.01 / 0.08, 0.03 / 0.08, 0.04 / 0.08])
    assert pictured.without_sinks(record, SITE, 0, multiple=6)[1] == pytest.approx(0.7 / 0.78)


def test_rows_that_see_a_part_of_the_picture_make_no_sink():
    """Under a causal mask the first patch has the whole of the first row, which says nothing of it."""
    shares = pictured.without_sinks(record_of(mask=Subsequent()), SITE, 0, multiple=1.01)

    assert shares.tolist() == pytest.approx([0.25] * 4)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: pictured.weights(record_of(), SITE, 0, 6), "There is no row 6; there are 6"),
        (lambda: pictured.minus_neutral(record_of(), record_of(picture=None), SITE, 0), "of different pictures"),
    ],
)
def test_what_cannot_be_read_off_says_why(call, error):
    with pytest.raises(InputError, match=error):
        call()
