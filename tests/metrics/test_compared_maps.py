"""Two maps beside each other, and every head beside every other."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pictures import SITE, record_of, vectors_of

from attnviz import api, metrics
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError, ShapeError
from attnviz.core.masks import Full, Painted
from attnviz.metrics.alike import farthest
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


@pytest.mark.parametrize(("model", "kind"), [("constructed", "decoder"), ("translator", "cross")])
def test_the_farthest_heads_are_those_of_whole_maps(model, kind, monkeypatch):
    """The mean Jensen-Shannon divergence of the rows, in blocks or not; the farthest first, never the head itself."""
    record = api.analyze("the black cat sleeps", model)
    heads = {
        (s.site, i): s.weights(i).double() for s in record.steps if s.site.kind == kind for i in range(s.num_heads)
    }
    for (site, head), weights in heads.items():
        others = farthest(record, site, head, count=len(heads))

        assert {(place, number) for place, number, _ in others} == {*heads} - {(site, head)}
        values = [value for _, _, value in others]
        means = [float(jensen_shannon(weights, heads[place, number]).mean()) for place, number, _ in others]
        np.testing.assert_allclose(values, means, atol=1e-7)
        assert values == sorted(values, reverse=True)
        assert farthest(record, site, head) == others[:3]
        with monkeypatch.context() as patch:
            patch.setattr("attnviz.metrics.blocks.BLOCK", 45)
            np.testing.assert_allclose([v for _, _, v in farthest(record, site, head, count=len(heads))], values)


def test_rows_that_one_head_has_not_are_in_no_mean():
    """A head without any row is not among the farthest; one that lacks a row is compared over the others."""
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

    record = record_of(["a", "b", "c"], heads=2)
    step = record.steps[0]
    nothing = step.logsumexp.clone()
    nothing[0, 1, 2] = -math.inf
    record = replace(record, steps=(replace(step, logsumexp=nothing),))
    every = jensen_shannon(*(step.weights(head).double() for head in range(2)))
    ((_, _, divergence),) = farthest(record, SITE, 0)
    assert divergence == pytest.approx(float(every[:2].mean()), abs=1e-7)


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


@given(seed=st.integers(0, 999), scale=st.floats(0.01, 100))
def test_similarity_of_sentences_is_a_cosine(seed, scale):
    """Symmetric, 1 of a sentence with itself, and of directions alone; nothing moves that is only scaled."""
    vectors = torch.randn(5, 7, generator=torch.Generator().manual_seed(seed))
    one, other = (vectors_of(["x"] * 5, (vectors * factor).tolist()) for factor in (1, scale))
    found = metrics.similarity(one)

    expected = torch.nn.functional.cosine_similarity(vectors[:, None].double(), vectors[None].double(), dim=-1)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(metrics.similarity(other), found, atol=1e-5, rtol=0)
    torch.testing.assert_close(metrics.shift(one, other), torch.zeros(5).double(), atol=1e-5, rtol=0)
    assert metrics.shift(one, one).eq(0).all()


def test_a_shift_is_one_less_the_cosine():
    """NaN of a vector of zeros; runs of other sentences, and of models without vectors, are refused."""
    moved = metrics.shift(
        vectors_of(["x"] * 3, [[1.0, 0], [1, 0], [0, 0]]), vectors_of(["x"] * 3, [[0.0, 3], [-5, 0], [1, 1]])
    )

    assert moved.tolist() == pytest.approx([1, 2, math.nan], nan_ok=True)
    with pytest.raises(InputError, match="no vectors"):
        metrics.similarity(record_of(["x"]))
    with pytest.raises(InputError, match="other sentences"):
        metrics.shift(vectors_of(["x"], [[1.0]]), vectors_of(["y"], [[1.0]]))
