"""Held-out cases of the story model, and the heads of the shipped weights that solve them."""

import random
from itertools import islice

import pytest

from attnviz.core.edits import Edits, Site
from attnviz.models import trained
from attnviz.sources.cards import card
from attnviz.training import story, story_grammar
from attnviz.training.recipe import is_held_out


@pytest.mark.parametrize(("kind", "most"), [("pronoun", 0.4), ("verb", 0.4), ("name", 0.1)])
def test_a_case_is_held_out_and_the_word_before_does_not_tell(kind, most):
    """Training never meets its opening, and pairs of words alone get most of them wrong."""
    stories = islice(story_grammar.stories(random.Random(3), held_out=False), 2_000)
    openings = {test.opening for each in stories for test in each.tested}
    held = story.cases(kind, 300)

    assert all(is_held_out(test.opening) and test.opening not in openings for _, test in held)
    assert story.correct_by_pairs(held, 3_000) < most


@pytest.fixture(scope="module")
def model():
    return trained.load("story")


def test_heads_make_verbs_and_pronouns_agree(model):
    """One head of the last layer looks at the subject of a verb, the other at that of a pronoun."""
    heads = [(Site("decoder", 1), head) for head in (0, 1)]
    looks, right = {}, {}
    for kind in ("pronoun", "verb"):
        held = story.cases(kind, 120)
        looks[kind] = story.measure_heads(model, kind, held)
        right[kind] = [
            story.share_correct(model, held, Edits(heads_off=off)) for off in ((), *((head,) for head in heads), heads)
        ]

    assert card("story").opens == heads[0]
    assert looks["verb"][heads[1]]["verb"].rate > 0.95
    assert looks["pronoun"][heads[0]]["pronoun"].rate > 0.9
    assert right["verb"][0] > 0.97 > 0.8 > right["verb"][2] >= right["verb"][3] - 0.1
    assert right["pronoun"][0] > 0.97 > 0.9 > right["pronoun"][1] > 0.5 > right["pronoun"][3]
