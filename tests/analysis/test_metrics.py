"""Numbers read off records."""

import math
from dataclasses import replace

import pytest
import torch
from pictures import SITE, record_of, story_of, translation_of

from attnviz import analysis
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError, ShapeError

WORDS = "a b c d e f g h i j k l m".split()


def step_of(**settings):
    return record_of(WORDS, **settings).step(SITE)


def test_combined_heads_are_the_mean_largest_and_smallest_of_each_cell():
    step = step_of(heads=3)
    each = torch.stack([step.weights(head) for head in range(3)])

    torch.testing.assert_close(analysis.weights_of(step, "mean"), each.mean(0))
    assert analysis.weights_of(step, "max").equal(each.amax(0))
    torch.testing.assert_close(analysis.weights_of(step, "min", slice(2, 5)), each.amin(0)[2:5])
    with pytest.raises(InputError, match="median"):
        analysis.weights_of(step, "median")


def test_change_is_a_share_of_the_length_before():
    before = record_of(WORDS)
    after = record_of(WORDS, edits=Edits(heads_off=frozenset({(SITE, 0)})))

    change = analysis.output_change(before, after)

    expected = before.output[0, :, :3].norm(dim=-1) / before.output[0].norm(dim=-1)
    torch.testing.assert_close(change, expected)
    assert analysis.output_change(before, before).eq(0).all()
    with pytest.raises(ShapeError):
        analysis.output_change(before, record_of(WORDS[:4]))


def test_outputs_of_other_tokens_are_not_compared_and_why_stands_in_words():
    """An encoder-decoder that wrote another text stands at other tokens, be they as many or not."""
    la, le = ({"la": 1.0, "le": 0.0}, {"la": 0.0, "le": 1.0})
    end = {"<eos>": 1.0}
    one, other, longer = (translation_of(["the"], *says) for says in ((la, end), (le, end), (la, la, end)))

    assert analysis.output_change(one, one).tolist() == [0, 0]
    with pytest.raises(ShapeError, match=r"wrote another text.* other tokens, 2 each"):
        analysis.output_change(one, other)
    with pytest.raises(ShapeError, match=r"wrote another text.* 2 tokens and 3"):
        analysis.output_change(one, longer)
    with pytest.raises(ShapeError, match=r"of other texts.* 13 tokens and 4"):
        analysis.output_change(record_of(WORDS), record_of(WORDS[:4]))


def test_what_is_said_after_each_token():
    """Without padding; what is no number is named."""
    record = story_of(["the", "cat", "<pad>"], {"cat": 0.75, "sat": 0.25}, {"sat": 1.0}, {"sat": 1.0}, length=2)

    said = analysis.predicted_words(record)

    assert [(one.token, one.word) for one in said] == [("the", "cat"), ("cat", "sat")]
    assert [one.probability for one in said] == pytest.approx([0.75, 1.0])
    for wrong in (math.nan, math.inf):
        logits = record.prediction.logits.clone()
        logits[0, 1, 0] = wrong
        broken = analysis.predicted_words(replace(record, prediction=replace(record.prediction, logits=logits)))
        assert [one.word for one in broken] == ["cat", "NaN"]
    with pytest.raises(InputError, match="predicts no words"):
        analysis.predicted_words(record_of(WORDS))


def test_next_words_are_those_of_either_run():
    before = story_of(["the"], {"a": 0.6, "b": 0.3, "c": 0.1})
    after = story_of(["the"], {"a": 0.1, "b": 0.2, "c": 0.7})

    found = analysis.next_words(after, 0, before=before, count=1)

    assert [next.word for next in found] == ["c", "a"]
    assert [(next.probability, next.before) for next in found] == [
        pytest.approx(pair, abs=1e-6) for pair in ((0.7, 0.1), (0.1, 0.6))
    ]
    assert [next.before for next in analysis.next_words(after, 0, count=9)] == [None] * 3


def test_the_most_changed_prediction_is_the_one_whose_words_moved_most():
    """By total variation, of positions at which both had read the same; where no number moved there is none."""
    before = story_of(["the", "cat", "sat"], {"a": 0.6, "b": 0.4}, {"a": 0.5, "b": 0.5}, {"a": 0.1, "b": 0.9})
    after = story_of(["the", "cat", "ran"], {"a": 0.5, "b": 0.5}, {"a": 0.2, "b": 0.8}, {"a": 0.9, "b": 0.1})

    assert analysis.most_changed(before, after) == 1
    assert analysis.most_changed(before, before) is None
