"""Two maps beside each other, and every head beside every other."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from pictures import SITE, record_of

from attnviz import api
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError, ShapeError
from attnviz.core.masks import Full, Painted, Subsequent
from attnviz.metrics.alike import Divergences, divergences, farthest, map2d, tree
from attnviz.metrics.compare import Side, align, compare, first_moved, jensen_shannon, total_variation

DISTRIBUTIONS = st.integers(1, 6).flatmap(
    lambda n: st.tuples(*[st.lists(st.floats(0.001, 1), min_size=n, max_size=n)] * 2)
).map(lambda pair: [torch.tensor(p, dtype=torch.float64) / sum(p) for p in pair])  # fmt: skip
WORDS = st.lists(st.sampled_from("a b c d".split()), max_size=8)


@given(DISTRIBUTIONS)
def test_variation_and_divergence_are_symmetric_and_bounded(pair):
    """0 only where nothing differs; at most 1, and at most ln 2."""
    p, q = pair
    variation, divergence = float(total_variation(p, q)), float(jensen_shannon(p, q))

    assert 0 <= variation <= 1 + 1e-12
    assert 0 <= divergence <= math.log(2) + 1e-12
    assert variation == pytest.approx(float(total_variation(q, p)))
    assert divergence == pytest.approx(float(jensen_shannon(q, p)))
    assert variation**2 / 2 <= divergence + 1e-12  # Pinsker
    assert divergence <= variation * math.log(2) + 1e-12  # Lin 1991, theorem 3


def test_variation_and_divergence_by_hand():
    """(1, 0) and (0, 1) are as far apart as can be; (1, 0) and (½, ½) as computed on paper."""
    one, other, even = torch.tensor([[1.0, 0], [0, 1], [0.5, 0.5]]).double()

    assert total_variation(one, other) == 1
    assert jensen_shannon(one, other) == pytest.approx(math.log(2))
    assert total_variation(one, even) == 0.5
    paper = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25)) - math.log(2) / 2
    assert jensen_shannon(one, even) == pytest.approx(paper)
    with pytest.raises(ShapeError, match=r"\(2,\) and \(3,\)"):
        total_variation(one, torch.zeros(3))


@given(WORDS, WORDS)
def test_every_token_is_paired_or_said_to_be_alone(before, after):
    """Pairs are in order and tokens that differ are told from those that do not."""
    found = align(before, after)

    assert sorted([i for i, _ in found.pairs] + list(found.only_before)) == list(range(len(before)))
    assert sorted([j for _, j in found.pairs] + list(found.only_after)) == list(range(len(after)))
    assert list(found.pairs) == sorted(found.pairs)
    assert sorted(j for _, j in found.pairs) == [j for _, j in found.pairs]
    assert {(i, j) for i, j in found.pairs if before[i] != after[j]} == set(found.changed)
    assert found.same == (before == after)


def test_a_word_that_stands_often_is_paired_in_a_long_text():
    assert align(["a"] * 300, ["b", *["a"] * 300]).only_after == (0,)


def test_one_word_changed_stands_where_the_other_stood():
    found = align("The cat sat on the mat".split(), "The big mouse sat on my mat today".split())

    assert found.pairs == ((0, 0), (2, 3), (3, 4), (4, 5), (5, 6))
    assert found.changed == ((4, 5),)
    assert found.only_before == (1,)
    assert found.only_after == (1, 2, 7)


def test_an_edit_moves_what_it_moves_and_no_more():
    """The difference is exact and signed, the variation of a row half of what it moved; other rows stay at 0."""
    words = "a b c d".split()
    before, after = record_of(words), record_of(words, edits=Edits(mask=Painted(((2, 0),))))
    found = compare(Side(before, SITE, 1), Side(after, SITE, 1))
    old, new = (record.step(SITE).weights(1).double() for record in (before, after))

    assert torch.equal(found.difference, new - old)
    assert found.queries.same
    assert found.variation[2] == pytest.approx(float(old[2, 0]), abs=1e-6)
    assert found.variation[[0, 1, 3]].eq(0).all()


def test_rows_without_a_distribution_are_not_compared():
    """A row with no key left, and the largest of all heads, are no distributions; their maps are there."""
    record = record_of("a b c".split(), edits=Edits(mask=Painted(((1, 0), (1, 1), (1, 2)))))
    found, largest = (compare(one, one) for one in (Side(record, SITE, 0), Side(record, SITE, "max")))

    assert found.counted.tolist() == [True, False, True]
    assert found.variation.isnan().tolist() == [False, True, False]
    assert not largest.counted.any()
    assert largest.before.shape == (3, 3)


def test_sentences_are_compared_where_their_tokens_belong_together():
    """A word that was put in leaves rows and columns out; what looks at it counts as one more key. Padding is none."""
    source = api.load("constructed")
    batch = api.analyze(["a b c d", "a b x c d e"], source)
    found = compare(*(Side(batch, Site("decoder", 0), 0, sentence) for sentence in (0, 1)))

    assert found.queries.pairs == ((0, 0), (1, 1), (2, 3), (3, 4))
    assert found.queries.only_after == (2, 5)
    assert found.before.shape == found.after.shape == (4, 4)
    assert found.variation.tolist() == pytest.approx([0, 0, 1, 0], abs=1e-4)
    assert found.difference[2, 1] == pytest.approx(-1, abs=1e-4)
    assert compare(*[Side(batch, Site("decoder", 0), 0)] * 2).before.shape == (4, 4)


def test_a_head_is_compared_with_another_of_the_same_record():
    record = record_of("a b c".split(), heads=2)
    found = compare(Side(record, SITE, 0), Side(record, SITE, 1))

    assert torch.equal(found.after, record.step(SITE).weights(1).double())
    assert torch.equal(found.before, record.step(SITE).weights(0).double())
    with pytest.raises(InputError, match="no tokens that belong together"):
        compare(Side(record, SITE, 0), Side(record_of("x y".split()), SITE, 0))


@examples(20)
@given(heads=st.integers(1, 5), n=st.integers(1, 6), causal=st.booleans())
def test_divergences_are_means_over_rows_of_every_two_heads(heads, n, causal):
    """Against one call for each pair."""
    record = record_of(["w"] * n, heads=heads, edits=Edits(mask=Subsequent() if causal else None))
    found, step = divergences(record), record.step(SITE)

    for i, (_, one) in enumerate(found.heads):
        for j, (_, other) in enumerate(found.heads):
            rows = jensen_shannon(step.weights(one).double(), step.weights(other).double())
            assert found.divergence[i, j] == pytest.approx(float(rows.mean()), abs=1e-7)


def test_blocks_of_rows_do_not_change_divergences(monkeypatch):
    record = record_of("a b c d e f g".split(), heads=3)
    once = divergences(record).divergence
    monkeypatch.setattr("attnviz.metrics.blocks.BLOCK", 45)

    assert np.allclose(divergences(record).divergence, once, atol=1e-7)


def test_heads_that_look_alike_are_found_first():
    """Of heads set by hand on tokens that differ: previous-token beside nothing else, both that look at themselves."""
    found = divergences(api.analyze("a b c d e f", "constructed"))
    (site, head, apart), *_ = found.nearest(Site("decoder", 0), 2)

    assert (site.layer, head) in {(1, 1), (1, 3)}
    assert apart < 0.01
    assert found.divergence.max() <= math.log(2) + 1e-9
    with pytest.raises(InputError, match="not among"):
        found.nearest(Site("decoder", 5), 0)


@pytest.mark.parametrize(("model", "kind"), [("constructed", "decoder"), ("translator", "cross")])
def test_the_farthest_heads_are_those_of_all_divergences(model, kind):
    """One head beside all others gives what every two give: the farthest first, never the head itself."""
    record = api.analyze("the black cat sleeps", model)
    found = divergences(record, kind)
    for at, (site, head) in enumerate(found.heads):
        others = farthest(record, site, head, count=len(found.heads))
        apart = [found.divergence[at, found.heads.index((place, number))] for place, number, _ in others]

        assert len({(place, number) for place, number, _ in others} - {(site, head)}) == len(found.heads) - 1
        values = [value for _, _, value in others]
        np.testing.assert_allclose(values, apart, atol=1e-12)
        assert values == sorted(values, reverse=True)
        assert farthest(record, site, head) == others[:3]


def test_a_head_that_shares_no_row_is_not_among_the_farthest():
    record = record_of(["a", "b"], heads=3)
    step = record.steps[0]
    nothing = step.logsumexp.clone()
    nothing[0, 1] = -math.inf
    record = replace(record, steps=(replace(step, logsumexp=nothing),))

    assert [head for _, head, _ in farthest(record, SITE, 0)] == [2]
    assert farthest(record, SITE, 1) == []
    assert farthest(record_of(["a", "b"], heads=1), SITE, 0) == []
    with pytest.raises(InputError, match="not among"):
        farthest(record, SITE, 3)


def test_heads_that_have_no_rows_are_left_out_and_said():
    record = record_of(["a", "b"], heads=3)
    step = record.steps[0]
    nothing = step.logsumexp.clone()
    nothing[0, 1] = -math.inf
    found = divergences(replace(record, steps=(replace(step, logsumexp=nothing),)))

    assert found.heads == ((SITE, 0), (SITE, 2))
    assert found.left_out == ((SITE, 1),)
    assert np.isfinite(found.divergence).all()


def test_a_row_that_one_head_has_not_is_in_no_mean_with_it():
    """The other heads are compared over all rows."""
    record = record_of(["a", "b", "c"], heads=3)
    step = record.steps[0]
    nothing = step.logsumexp.clone()
    nothing[0, 1, 2] = -math.inf
    found = divergences(replace(record, steps=(replace(step, logsumexp=nothing),)))
    weights = [step.weights(head).double() for head in range(3)]

    assert found.left_out == ()
    some, every = jensen_shannon(weights[0], weights[1])[:2], jensen_shannon(weights[0], weights[2])
    assert found.divergence[0, 1] == found.divergence[1, 0] == pytest.approx(float(some.mean()), abs=1e-7)
    assert found.divergence[0, 2] == pytest.approx(float(every.mean()), abs=1e-7)
    assert found.divergence[1, 2] == pytest.approx(float(jensen_shannon(*weights[1:])[:2].mean()), abs=1e-7)


def test_kinds_stand_over_different_tokens():
    """A model with several kinds of site asks which."""
    record = api.analyze("the black cat sleeps", "translator")

    with pytest.raises(InputError, match="encoder, decoder, cross"):
        divergences(record)
    assert {site.kind for site, _ in divergences(record, "cross").heads} == {"cross"}


def square(values):
    return Divergences(tuple((SITE, i) for i in range(len(values))), np.array(values))


def test_a_tree_joins_the_most_alike_first():
    """Two close heads, one far: on paper."""
    found = tree(square([[0, 0.01, 0.36], [0.01, 0, 0.64], [0.36, 0.64, 0]]))

    assert found.linkage[0, :3].tolist() == pytest.approx([0, 1, 0.1])
    assert found.linkage[1, 2:].tolist() == pytest.approx([0.7, 3])
    assert sorted(found.leaves) == [0, 1, 2]
    assert found.lines.shape == (2, 4, 2)
    assert set(found.lines[0, [0, 3], 0]) <= {0.0, 1.0, 2.0}
    with pytest.raises(InputError, match="at least two"):
        tree(square([[0.0]]))


def test_a_map_keeps_distances_that_fit_a_plane():
    """A rectangle of 3 x 4 comes back with its sides and diagonals."""
    corners = np.array([[0, 0], [3, 0], [3, 4], [0, 4]])
    distances = np.linalg.norm(corners[:, None] - corners, axis=-1)
    places = map2d(square(distances**2))

    assert np.allclose(np.linalg.norm(places[:, None] - places, axis=-1), distances)
    assert places.max(0).tolist() == pytest.approx([2, 1.5])
    assert map2d(square([[0.0]])).tolist() == [[0, 0]]


def test_a_head_that_is_off_moves_the_weights_of_later_layers_alone():
    """Those of its own layer are made before; after the last layer there are none."""
    before = api.analyze("the cat sat", "story")
    first, last = (api.analyze("the cat sat", "story", Edits(heads_off={(Site("decoder", i), 0)})) for i in (0, 1))

    site, head = first_moved(before, first)
    assert site == Site("decoder", 1)
    moved = [float((first.step(site).weights(i) - before.step(site).weights(i)).abs().max()) for i in range(2)]
    assert moved[head] == max(moved) > 0
    assert first_moved(before, first, least=1.0) is None
    assert first_moved(before, last) is None
    assert first_moved(before, api.analyze("the cat sat", "story", Edits(~Full())))[0] == Site("decoder", 0)


def test_another_text_that_was_written_is_a_change():
    """The decoder reads other words, so its maps are others."""
    before = api.analyze("the black cat sleeps", "translator")
    after = api.analyze("the red dog sleeps", "translator")

    assert first_moved(before, after) == (Site("encoder", 0), 0)
