"""Why there is a scale, what positions are for, numbers edited by hand, PyTorch beside ours, and growth."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_walk_rows import SITE
from torch.testing import assert_close

from attnviz import api, walk
from attnviz.core.amounts import rounding
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError, ShapeError
from attnviz.core.masks import Padding, Painted, Subsequent
from attnviz.core.modifiers import ALiBi
from attnviz.core.origin import MATRICES, Change
from attnviz.sources.scratch import Scratch

TEXT = "the cat sat on the mat"
SMALL = Scratch(d_model=12, num_heads=3, num_layers=2)


def run(source, text=TEXT, edits=Edits()):
    return source.run(source.tokenize([text]), edits)


# The scale


@given(seed=st.integers(0, 50))
def test_the_variance_of_a_dot_product_is_its_dimension(seed):
    """Within five standard errors: of N products, and of n queries that share them."""
    samples, keys = 400, 8

    for spread in walk.dot_product_variance([1, 16, 128], seed=seed, samples=samples, keys=keys):
        d = spread.d_k
        error = math.sqrt((2 * d**2 + 6 * d) / (samples * keys) + 2 * d / samples)
        assert abs(spread.variance - d) < 5 * error
        assert spread.scaled_variance == pytest.approx(spread.variance / d)


def test_without_the_scale_the_softmax_saturates_as_d_k_grows():
    """The largest weight rises, entropy and gradient fall; with the scale they stay; the same seed gives the same."""
    spreads = walk.dot_product_variance([4, 16, 64, 256])

    for name, falls in (("largest", False), ("entropy", True), ("gradient", True)):
        unscaled = [getattr(spread.unscaled, name) for spread in spreads]
        assert sorted(unscaled, reverse=falls) == unscaled
        scaled = [getattr(spread.scaled, name) for spread in spreads]
        assert max(scaled) - min(scaled) < 0.1 * max(scaled)
    assert walk.dot_product_variance([4, 16, 64, 256]) == spreads
    assert walk.dot_product_variance([16])[0] == spreads[1]
    with pytest.raises(InputError, match="samples is 1;"):
        walk.dot_product_variance([4], samples=1)


# Positions


@given(order=st.permutations(range(6)), cloned=st.booleans())
def test_without_positions_the_output_is_permuted_with_the_words(order, cloned):
    """Whatever the order; with positions, or a mask that looks at the order, it is not."""
    source = replace(SMALL, positions=False, cloned=cloned)

    found = walk.permutation(source, run(source), order=order)

    assert found.follows
    assert_close(found.after.output[0], found.before.output[0, list(order)], rtol=1e-4, atol=1e-5)
    assert found.message.startswith("Each word keeps its output: the order is not seen. ")


def test_with_positions_or_a_mask_the_order_matters():
    without = replace(SMALL, positions=False)

    for source, edits in ((SMALL, Edits()), (without, Edits(mask=Subsequent()))):
        found = walk.permutation(source, run(source, edits=edits))
        assert not found.follows
        assert found.order == (5, 4, 3, 2, 1, 0)
        moved = found.after.output[0] - found.before.output[0, list(found.order)]
        assert found.difference == pytest.approx(float(moved.abs().max()))
    with pytest.raises(InputError, match="names each once"):
        walk.permutation(SMALL, run(SMALL), order=[0, 0, 1, 2, 3, 4])
    with pytest.raises(InputError, match="writes another text"):
        walk.permutation(api.load("translator"), run(api.load("translator")))


def test_special_tokens_stay_in_place():
    source = Scratch(sos=True)

    assert walk.permutation(source, run(source, "a b c")).order == (0, 3, 2, 1)


def test_words_are_permuted_within_their_batch():
    """Under a mask that is for two sentences, and with a number set by hand in the other one, which stays as it is."""
    source = replace(SMALL, positions=False, changes=(Change(SITE, 0, "query", 1, 0, 5.0, sentence=1),))
    record = source.run(source.tokenize([TEXT, "a dog"]), Edits(mask=Padding((6, 2))))
    found = walk.permutation(source, record)

    assert found.follows
    assert_close(found.before.output, record.output)
    assert_close(found.after.output[1], record.output[1])
    assert not walk.permutation(source, record, sentence=1).follows


def test_outputs_that_are_no_numbers_are_not_said_to_follow_or_to_change():
    """A row with no key left is NaN, and so is what comes of it."""
    edits = Edits(mask=Painted(tuple((2, key) for key in range(6))), empty_rows="nan")
    found = walk.permutation(SMALL, run(SMALL, edits=edits))

    assert not found.follows
    assert found.message.startswith("Some outputs are not numbers, so it cannot be said whether they follow ")


# The cloned start


def test_cloned_projections_make_symmetric_scores():
    """Query and key are one vector, so a token's score with itself is its squared length; independent ones differ."""
    cloned, independent = (run(replace(SMALL, cloned=cloned)).step(SITE) for cloned in (True, False))

    for head in range(3):
        scores = cloned.scores(head)
        assert_close(scores, scores.T)
        assert torch.equal(cloned.query, cloned.key)
        assert (scores.diagonal() > 0).all()
    assert not torch.allclose(independent.scores(0), independent.scores(0).T)


def test_with_cloned_projections_most_tokens_prefer_themselves_and_not_all():
    """A longer vector nearby can draw more than a token's own: what is said of clones is no more than that."""
    scores = [
        step.scores(head)
        for seed in range(3)
        for step in run(Scratch(cloned=True, seed=seed)).steps
        for head in range(step.num_heads)
    ]
    own = torch.stack([one.diagonal() >= one.amax(1) for one in scores])

    assert 0.6 < own.float().mean() < 1


# Numbers edited by hand


@pytest.mark.parametrize("matrix", MATRICES)
def test_an_edited_number_is_the_one_that_runs(matrix):
    """The table read back is the edited one; what is made of it is made by the one attention; the source stays."""
    record, head = run(SMALL), 1
    table = walk.editable(record, SMALL, SITE, head, matrix).clone()
    table[2, 3] = 2.5

    edited = walk.with_edited(record, SMALL, SITE, head, matrix, table)
    after = run(edited)

    assert edited.changes == (Change(SITE, head, matrix, 2, 3, 2.5),)
    assert SMALL.changes == ()
    assert torch.equal(walk.editable(after, edited, SITE, head, matrix), table)
    assert not torch.equal(after.output, record.output)
    assert torch.equal(run(SMALL).output, record.output)
    step, stages = after.step(SITE), {s.key: s for s in walk.chain(after, edited, SITE, head)}
    scores = step.query[0, head].double() @ step.key[0, head].double().T / math.sqrt(4)
    assert_close(stages["softmax"].matrix("weights").values.double(), scores.softmax(-1), rtol=1e-5, atol=1e-6)
    by_hand = "Of its numbers, 1 are set by hand." if matrix in ("query", "key", "value") else "No number changed."
    assert stages["split"].changed.endswith(by_hand)
    for other in {0, 2}:
        for name in ("query", "key", "value"):
            assert torch.equal(getattr(step, name)[0, other], getattr(record.step(SITE), name)[0, other])


def test_edits_of_tables_add_up_and_the_last_one_counts():
    """A second table keeps what the first one changed; equal tables change nothing; sources are equal by value."""
    record = run(SMALL)
    table = walk.editable(record, SMALL, SITE, 0, "query").clone()
    table[0, 0] = 1.5
    once = walk.with_edited(record, SMALL, SITE, 0, "query", table)
    table[0, 0], table[1, 1] = 3.0, -1.0

    twice = walk.with_edited(run(once), once, SITE, 0, "query", table)

    assert {change.place[3:5]: change.value for change in twice.changes} == {(0, 0): 3.0, (1, 1): -1.0}
    assert walk.with_edited(run(twice), twice, SITE, 0, "query", table) == twice
    assert hash(once) == hash(walk.with_edited(record, SMALL, SITE, 0, "query", run(once).step(SITE).query[0, 0]))


def test_tables_that_cannot_be_edited_are_refused():
    """Of other models, too large ones, other shapes, numbers that are none, cells that are not there."""
    record, table = run(SMALL), torch.zeros(6, 4)
    translator = api.load("translator")
    large = Scratch(d_model=512, num_heads=4)

    with pytest.raises(InputError, match="'translator' cannot be edited; those of 'scratch' can"):
        walk.editable(run(translator), translator, Site("cross", 0), 0, "query")
    with pytest.raises(InputError, match="w_q is 512 x 128, too large"):
        walk.editable(run(large), large, SITE, 0, "w_q")
    with pytest.raises(InputError, match="no matrix 'bias'"):
        walk.editable(record, SMALL, SITE, 0, "bias")
    with pytest.raises(ShapeError, match=r"\(6, 5\); it must be \(6, 4\)"):
        walk.with_edited(record, SMALL, SITE, 0, "query", torch.zeros(6, 5))
    with pytest.raises(InputError, match="at most 1,000,000"):
        walk.with_edited(record, SMALL, SITE, 0, "query", table + math.inf)
    beyond = replace(SMALL, changes=(Change(SITE, 0, "query", 6, 0, 1.0),))
    with pytest.raises(InputError, match="query of head 0 of encoder layer 0 is 6 x 4; it has no row 6, column 0"):
        run(beyond)
    with pytest.raises(InputError, match="There is no head 0 of encoder layer 2 to edit"):
        replace(SMALL, changes=(Change(Site("encoder", 2), 0, "query", 0, 0, 1.0),))


# PyTorch beside ours


@pytest.mark.parametrize("edits", [Edits(), Edits(mask=Subsequent()), Edits(mask=Subsequent(), bias=(ALiBi(),))])
@pytest.mark.parametrize(
    ("source", "site"),
    [(SMALL, SITE), (Scratch(bias=False), SITE), (api.load("translator"), Site("cross", 1))],
    ids=["scratch", "scratch without biases", "translator"],
)
def test_pytorch_gives_the_same(source, site, edits):
    """Its function, and its module with the weights copied: outputs and weights but for rounding."""
    check = walk.check(run(source, edits=edits), source, site)

    for against in (check.function, check.module):
        assert 0 <= against.output < 5e-6
        assert 0 <= against.weights < 2e-6
        output, weights = rounding(against.output), rounding(against.weights)
        assert f"outputs differ by at most {output}, weights by at most {weights}." in against.message


def test_a_number_that_is_off_is_found():
    """A record whose values or log-sum-exp are not those of its queries and keys differs from PyTorch by as much."""
    record = run(SMALL)
    step = record.step(SITE)
    steps = (replace(step, logsumexp=step.logsumexp + 0.1), *record.steps[1:])

    check = walk.check(replace(record, steps=steps), SMALL, SITE)

    largest = max(float(step.weights(head).max()) for head in range(3))
    for against in (check.function, check.module):
        assert against.weights == pytest.approx(largest * (1 - math.exp(-0.1)), rel=1e-3)
        assert against.output > 1e-3


def test_what_pytorch_cannot_do_is_said():
    """Softcaps; other scales in the module; a model not taken apart; numbers by hand; rows with no key left."""
    edits = Edits(mask=Subsequent() & Painted(((0, 0),)), scale=0.3, temperature=2.0)
    record = run(SMALL, edits=edits)

    check = walk.check(record, SMALL, SITE)
    assert check.function.output < 1e-5
    assert check.function.message.endswith(" 3 row(s) with no key left are not compared.")
    assert check.module.output is None
    assert "knows no temperature" in check.module.message
    capped = walk.check(run(SMALL, edits=Edits(softcap=5.0)), SMALL, SITE)
    assert capped.function.output is capped.module.output is None
    assert "no softcap" in capped.function.message
    assert "not taken apart" in walk.check(run(SMALL), None, SITE).module.message
    by_hand = replace(SMALL, changes=(Change(SITE, 0, "query", 0, 0, 1.0),))
    check = walk.check(run(by_hand), by_hand, SITE)
    assert check.function.output < 1e-5
    assert "set by hand" in check.module.message


def test_empty_rows_are_left_out_of_the_module_too():
    """There it gives NaN."""
    record = run(SMALL, edits=Edits(mask=Subsequent() & Painted(((0, 0),))))

    check = walk.check(record, SMALL, SITE)

    assert check.module.output < 5e-6
    assert check.module.weights < 2e-6


def test_bias_and_temperature_are_compared_together():
    """The function adds the bias after the temperature divides, so both are divided for it."""
    check = walk.check(run(SMALL, edits=Edits(bias=(ALiBi(),), temperature=0.25)), SMALL, SITE)

    assert check.function.output < 5e-6
    assert check.function.weights < 2e-6
