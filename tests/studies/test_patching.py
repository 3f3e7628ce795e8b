"""The way from one text to another that each head carries: one run over copies measures what a run per head would."""

from dataclasses import replace

import pandas as pd
import pytest

import attnviz
from attnviz import Edits, Take
from attnviz.core.errors import Canceled, InputError
from attnviz.studies import ablation, patching

A, B = "the cat sat on the mat", "the dog ran on the rug"


@pytest.mark.parametrize(("name", "part"), [("story", "output"), ("story", "pattern"), ("translator", "values")])
def test_copies_measure_what_a_run_for_each_head_does(name, part, monkeypatch):
    monkeypatch.setattr(ablation, "TOKENS", 40)
    source, (a, b) = attnviz.load(name), (A, B) if name == "story" else ("the cat sleeps", "the dog eats")
    carried = patching.carried(source, source.tokenize([a]), b, part=part)
    before = attnviz.analyze(a, source)
    targets = before.targets
    after = source.run(source.tokenize([b]), targets=targets)
    first, second = (before.prediction.vocabulary.index(word) for word in carried.words)

    def difference(record):
        logits = record.prediction.logits[0, carried.position]
        return float(logits[first] - logits[second])

    assert carried.before == pytest.approx(difference(before), abs=1e-4)
    assert carried.other == pytest.approx(difference(after), abs=1e-4)
    assert len(carried.table) == sum(source.heads.values())
    for row in carried.table.itertuples():
        take = Take(b, part, attnviz.Site(row.kind, row.layer), row.head)
        taken = difference(source.run(before.sentences, Edits(taken=(take,)), targets))
        assert row.difference == pytest.approx(taken, abs=1e-4)
        assert row.carried == pytest.approx(
            (taken - difference(before)) / (difference(after) - difference(before)), abs=1e-3
        )
    assert carried.strongest[0].head(carried.strongest[1]) in carried.in_words().lower()


def test_where_both_predict_the_same_the_words_that_move_most_are_taken():
    source = attnviz.load("story")
    sentences = source.tokenize([A])
    carried = patching.carried(source, sentences, B, position=3)
    logits = [attnviz.analyze(text, source).prediction.logits[0, 3] for text in (A, B)]
    assert carried.moved == (logits[0].argmax() == logits[1].argmax())
    moved = patching.carried(source, sentences, "the cat sat on the rug", position=-1)
    for one in (carried, moved):
        if one.moved:
            assert "A and B predict the same word" in one.in_words()
            assert one.before > one.other


def test_a_begins_without_what_is_taken():
    """All else that the edits change stays in A and in B."""
    source, site = attnviz.load("story"), attnviz.Site("decoder", 0)
    edits, taken = Edits(temperature=2.0), (Take(B, "output", site, 1),)
    plain, carried = (
        patching.carried(source, source.tokenize([A]), B, one) for one in (edits, replace(edits, taken=taken))
    )
    unchanged = patching.carried(source, source.tokenize([A]), B)

    assert (carried.before, carried.other, carried.words) == (plain.before, plain.other, plain.words)
    pd.testing.assert_frame_equal(carried.table, plain.table)
    assert plain.before != unchanged.before


def test_switching_heads_off_is_measured_with_what_is_taken():
    source = attnviz.load("story")
    edits = Edits(taken=(Take(B, "output", attnviz.Site("decoder", 0), 1),))
    swept = ablation.sweep(source, source.tokenize([A]), edits)

    both = Edits(taken=edits.taken, heads_off={swept.heads[0]})
    off = attnviz.analyze(A, source, both)
    moved = (off.output - swept.before.output).norm(dim=-1) / swept.before.output.norm(dim=-1)
    assert swept.output[0][0] == pytest.approx(moved[0].double().numpy(), abs=1e-4)


def test_what_has_no_way_is_refused():
    source = attnviz.load("story")
    sentences = source.tokenize([A])
    with pytest.raises(InputError, match="so there is no way between them; choose other words"):
        patching.carried(source, sentences, A)
    with pytest.raises(InputError, match="take at one position"):
        patching.carried(source, sentences, "the cat")
    with pytest.raises(InputError, match="A stream has no heads"):
        patching.carried(source, sentences, B, part="stream")
    with pytest.raises(InputError, match="there are 2"):
        patching.carried(source, source.tokenize([A, B]), B)
    with pytest.raises(Canceled, match="was ended after"):
        patching.carried(source, sentences, B, report=lambda done, of: False)


def test_gradients_do_not_pass_over_what_is_taken():
    from attnviz.studies import gradients

    source = attnviz.load("story")
    record = attnviz.analyze(A, source, Edits(taken=(Take(B, "output", attnviz.Site("decoder", 0)),)))
    with pytest.raises(InputError, match="remove what is taken"):
        gradients.relevance(source, record)
