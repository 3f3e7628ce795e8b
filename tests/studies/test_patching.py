"""The way from one text to another that each head carries: one run over copies measures what a run per head would."""

import pytest

import attnviz
from attnviz import Edits, Take
from attnviz.core.errors import Canceled, InputError
from attnviz.studies import ablation

A, B = "the cat sat on the mat", "the dog ran on the rug"


@pytest.mark.parametrize(("name", "part"), [("story", "output"), ("story", "pattern"), ("translator", "values")])
def test_copies_measure_what_a_run_for_each_head_does(name, part, monkeypatch):
    monkeypatch.setattr(ablation, "TOKENS", 40)
    source, (a, b) = attnviz.load(name), (A, B) if name == "story" else ("the cat sleeps", "the dog eats")
    carried = ablation.carried(source, source.tokenize([a]), b, part=part)
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
    carried = ablation.carried(source, sentences, B, position=3)
    logits = [attnviz.analyze(text, source).prediction.logits[0, 3] for text in (A, B)]
    assert carried.same_prediction == (logits[0].argmax() == logits[1].argmax())
    moved = ablation.carried(source, sentences, "the cat sat on the rug", position=-1)
    for one in (carried, moved):
        if one.same_prediction:
            assert "A and B predict the same word" in one.in_words()
            assert one.before > one.other


def test_what_has_no_way_is_refused():
    source = attnviz.load("story")
    sentences = source.tokenize([A])
    with pytest.raises(InputError, match="so a head can carry no share of it; choose other words"):
        ablation.carried(source, sentences, A)
    with pytest.raises(InputError, match="take at one position"):
        ablation.carried(source, sentences, "the cat")
    with pytest.raises(InputError, match="A stream has no heads"):
        ablation.carried(source, sentences, B, part="stream")
    with pytest.raises(InputError, match="there are 2"):
        ablation.carried(source, source.tokenize([A, B]), B)
    with pytest.raises(Canceled, match="was ended after"):
        ablation.carried(source, sentences, B, report=lambda done, of: False)
