"""The bug museum: each mistake does what its symptom says, is found by what it names, and its lines of code make it."""

import copy
import math
from types import SimpleNamespace

import pytest
import torch
import wrong_maps
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from attnviz import lessons
from attnviz.core.masks import Subsequent
from attnviz.lessons import peeking

BUGS = {bug.name: bug for bug in lessons.museum()}
CHECKED = [name for name, bug in BUGS.items() if bug.rule]
N = 11
FUTURE = torch.ones(N, N, dtype=torch.bool).triu(1)


@pytest.fixture(scope="module")
def live():
    """Function that returns the maps of a bug, made once."""
    kept = {}

    def of(name):
        return kept.setdefault(name, wrong_maps.made(name))

    return of


def test_what_is_said_of_each_is_complete():
    """Twelve, each with an address, a line to replace and what finds it."""
    assert len(BUGS) == 12
    assert [*BUGS] == [*wrong_maps.BUILDERS]
    for bug in BUGS.values():
        assert bug.source.startswith("https://")
        assert {line[0] for line in bug.fix.splitlines()} - {" "} == {"-", "+"}
        assert bool(bug.rule) != bool(bug.found_by)


@pytest.mark.parametrize("name", CHECKED)
def test_the_named_check_finds_it_and_does_not_complain_of_what_is_right(live, name):
    """By the rule that it names; of what is right there are notes at most."""
    right, _ = live(name).reports

    assert live(name).finding(BUGS[name].rule)
    assert not right.rules("warning", "error")


@pytest.mark.parametrize("name", [name for name in BUGS if name not in {"unshifted", *CHECKED}])
def test_what_is_said_to_be_found_by_no_check_is_found_by_none(live, name):
    """The museum does not claim less than the check can do."""
    assert not live(name).reports[1].rules("warning", "error")


# Mistakes whose map does not follow from the lines of the fix alone


def test_dropout_zeroes_some_weights_and_raises_the_others(live):
    """By one factor."""
    right, wrong = live("dropout").weights
    ratio = (wrong / right)[~FUTURE]

    assert {round(one, 3) for one in ratio.tolist()} == {0.0, 1 / (1 - wrong_maps.DROPOUT)}


def test_targets_that_are_not_shifted_are_copied():
    """The loss goes to 0 although the future is hidden, and writing is worse than a guess."""
    run = peeking.learn(Subsequent(), steps=60, shift=0)

    assert run.losses[-1][1] < 0.1
    assert run.generation_loss > peeking.GUESS


def test_cloned_projections_make_symmetric_scores(live):
    """Each word looks most at itself."""
    _, wrong = live("cloned").weights
    scores = wrong.double().log()
    difference = scores - scores.T

    assert torch.equal(wrong.argmax(-1), torch.arange(len(wrong)))
    assert_close(difference, difference[:, :1] + difference[:1], atol=1e-4, rtol=0)


# The lines of code make the maps


CALLS = {
    "inverted": wrong_maps._story,
    "empty": lambda: wrong_maps._story(wrong_maps.STORY, wrong_maps.SHORTER, sentence=1),
    "after": wrong_maps._story,
    "axis": wrong_maps._story,
    "diagonal": wrong_maps._story,
    "padding": lambda: wrong_maps._encoder(wrong_maps.ENGLISH, wrong_maps.SHORT_ENGLISH, sentence=1),
    "half": wrong_maps._story,
    "dropout": wrong_maps._story,
    "scale": wrong_maps._story,
    "broadcast": lambda: wrong_maps._story(wrong_maps.STORY, wrong_maps.SHORTER, head=1),
}


def executed(bug, call, sign):
    """Run the lines of a fix, with "-" those of the mistake, and return their weights."""
    lines = [line[2:] for line in bug.fix.splitlines() if line[0] in (" ", sign)]
    n = call.key.shape[2]
    scope = {"torch": torch, "F": F, "nn": nn, "math": math, "copy": copy, "n": n}
    scope |= {"q": call.query, "k": call.key, "v": torch.eye(n).expand(*call.step.shape)}
    scope |= {"causal": call.causal, "real": call.real, "self": SimpleNamespace(training=False)}
    scope["scores"] = call.scores.half() if bug.name == "half" else call.scores
    exec("\n".join(lines), scope)
    weights = scope["weights"] if "weights" in scope else scope["output"]
    return weights[call.sentence, call.head].float()


@pytest.mark.parametrize("name", CALLS)
def test_the_lines_of_a_fix_compute_the_maps_beside_it(live, name):
    """Lines with a minus compute the wrong map, lines with a plus the right one, by the one attention."""
    right, wrong = live(name).weights
    near = {"atol": 2e-3, "rtol": 0} if name == "half" else {}

    assert_close(executed(BUGS[name], CALLS[name](), "+"), right, **near)
    if name != "dropout":  # another draw
        found = executed(BUGS[name], CALLS[name](), "-")
        found = found.nan_to_num() if name == "inverted" else found  # PyTorch's kernels differ in a row without a key
        assert_close(found, wrong, equal_nan=True, **near)
