"""The twelve chapters: what they say of their pictures is what the models give."""

import math

import pytest
import torch

from attnviz import api, lessons
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Subsequent
from attnviz.core.record import Record
from attnviz.lessons import peeking

STEPS = lessons.course().steps


def run(chapter: int, edits: Edits = Edits(), **settings) -> Record:
    """The record of the model and the text of a chapter."""
    link = STEPS[chapter - 1].link
    source = api.load(link["model"][0], **settings)
    return source.run(source.tokenize(link["text"]), edits)


def weights(chapter: int, site: str, head: int, edits: Edits = Edits(), **settings) -> torch.Tensor:
    record = run(chapter, edits, **settings)
    return record.step(next(one for one in record.sites if f"{one.kind[0]}{one.layer}" == site)).weights(head)


def row_of(record: Record, word: str) -> int:
    return [token.text for token in record.read[0].tokens].index(word)


def test_there_are_twelve_and_each_has_all_its_parts():
    """One idea, one thing to do, one question with its answer, and new words with where they come from."""
    assert len(STEPS) == 12
    assert all(step.idea and step.do and step.question and step.answer for step in STEPS)
    assert sum(bool(term.source) for step in STEPS for term in step.terms) >= 12


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.title)
def test_a_chapter_acts_first(step):
    """At most 60 words stand before the first thing to do, and none refers to another chapter."""
    assert len(step.idea.split()) <= 60
    assert "chapter" not in f"{step.idea} {step.do} {step.question} {step.answer}".lower()


def test_because_looks_at_cat():
    """Chapter 1: 0.84 of the row "because", its largest weight; of Anna it is she."""
    record, rows = run(1), weights(1, "d1", 0)
    because, cat = row_of(record, "because"), row_of(record, "cat")

    assert float(rows[because, cat]) == pytest.approx(0.84, abs=0.005)
    assert int(rows[because].argmax()) == cat
    assert record.prediction.words()[because] == "it"

    source = api.load("story")
    other = source.run(source.tokenize([STEPS[0].link["text"][0].replace("The cat", "Anna")]))
    because, anna = row_of(other, "because"), row_of(other, "Anna")
    assert int(other.step(Site("decoder", 1)).weights(0)[because].argmax()) == anna
    assert other.prediction.words()[because] == "she"


def test_who_reads_the_answer_learns_nothing_else():
    """Chapter 6: without a mask the loss falls to nearly 0, and writing is worse than a guess."""
    masked, peeks = peeking.learn(Subsequent()), peeking.learn(None)

    assert f"{math.log(peeking.WORDS):.2f}" in STEPS[5].idea
    assert masked.losses[-1][1] == pytest.approx(peeking.GUESS, abs=0.15)
    assert masked.generation_loss == pytest.approx(peeking.GUESS, abs=0.15)
    assert peeks.losses[-1][1] < 0.1
    assert peeks.generation_loss > peeking.GUESS + 1


def test_one_head_looks_from_adjectives_to_nouns():
    """Chapter 7: head 2, and no other, has its largest weight from both adjectives at their nouns."""
    record = run(7)
    black, cat, red, chair = (row_of_text(record, word) for word in ("black", "cat", "red", "chair"))
    agrees = [
        head
        for head in range(4)
        if (rows := weights(7, "e1", head).argmax(-1).tolist())[black] == cat and rows[red] == chair
    ]

    assert agrees == [2]
    before = weights(7, "e1", 3).argmax(-1)[1:] == torch.arange(8)
    assert int(before.sum()) * 2 > len(before)  # "most rows"


def row_of_text(record: Record, word: str) -> int:
    return [token.text for token in record.sentences[0].tokens].index(word)


def test_noir_is_written_where_black_is_looked_at():
    """Chapter 8: in the row "chat", which predicts "noir"; the row "noir" looks at "sleeps"."""
    record, rows = run(8), weights(8, "c1", 3)
    chat, noir = row_of(record, "chat"), row_of(record, "noir")

    assert record.prediction.words()[chat] == "noir"
    assert int(rows[chat].argmax()) == row_of_text(record, "black")
    assert int(rows[noir].argmax()) == row_of_text(record, "sleeps")


def test_without_positions_equal_words_have_equal_rows():
    """Chapter 9: both words "dog", in every head; with positions they differ."""
    for head in range(2):
        plain, without = weights(9, "e0", head), weights(9, "e0", head, positions=False)

        assert not torch.allclose(plain[1], plain[4], atol=1e-3)
        assert torch.allclose(without[1], without[4], atol=1e-6)


def test_of_two_dark_cells_one_matters():
    """Chapter 10: without head 1, which gives 0.95 to the beginning, still "tom" with 0.94; without head 0 no more."""
    last = weights(10, "d1", 1)[-1]

    def best(*heads_off: int) -> tuple[str, float]:
        off = frozenset((Site("decoder", 1), head) for head in heads_off)
        prediction = run(10, Edits(heads_off=off)).prediction
        return prediction.most_probable(prediction.logits.shape[1] - 1, 1)[0]

    assert (int(last.argmax()), float(last.max())) == (0, pytest.approx(0.95, abs=0.005))
    assert float(weights(10, "d1", 0)[-1].max()) == pytest.approx(0.98, abs=0.005)
    assert best() == ("tom", pytest.approx(0.99, abs=0.005))
    assert best(1) == ("tom", pytest.approx(0.94, abs=0.005))
    assert best(0)[0] != "tom"


def test_an_induction_head_comes_within_a_few_steps():
    """Chapter 11: at step 200 "seven" does not look at what followed it, from step 275 on it does."""
    steps = [step for step in api.load("induction").steps if step >= 275]
    seven, window = 8, 3

    assert float(weights(11, "d1", 0, step=200)[seven, window]) < 0.1
    assert all(float(weights(11, "d1", 0, step=step)[seven, window]) > 0.9 for step in steps)
