"""The model that learns to repeat: what it reads, and what its shipped weights do."""

import json
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz.models import trained
from attnviz.sources import cards
from attnviz.tokenizers.vocabulary import UNK, read
from attnviz.training import harness, induction, patterns
from attnviz.training.induction.measure import accuracy, measure, off
from attnviz.training.induction.texts import LONGEST, VOCABULARY, draw, sample, tensors, told

SEEDS = st.integers(0, 10_000).map(Random)
GOALS = {"previous": 0.9, "prefix": 0.9, "accuracy": 0.95}


@pytest.fixture(scope="module")
def held_out():
    return sample(Random(7), 200, held_out=True)


@pytest.fixture(scope="module")
def model():
    return trained.load("induction")


@given(SEEDS)
def test_a_passage_is_said_again_and_nothing_else_is_told(chance):
    """After the opening every word is the one a period before; the passage is said once in full, and then again."""
    drawn = draw(chance)
    start, period = drawn.opening, drawn.period

    assert len(drawn.words) == LONGEST
    assert 4 <= period <= 20
    assert start + 2 * period <= LONGEST
    assert drawn.words[start + period :] == drawn.words[start:-period]


@given(SEEDS)
def test_what_is_told_can_be_known(chance):
    """Where a word is counted, it came one period before, after the word that is read there again."""
    drawn = draw(chance)
    ids, after = tensors([drawn])
    rows = told([drawn])[0].nonzero().flatten()

    assert rows.tolist() == list(range(drawn.opening + drawn.period + 1, LONGEST))
    for row in rows.tolist():
        assert ids[0, row] == ids[0, row - drawn.period]
        assert after[0, row] == ids[0, row - drawn.period + 1] or drawn.words[row] == UNK
        assert patterns.after_same(ids)[0, row, row - drawn.period + 1]


def test_an_unknown_word_is_read_and_never_asked_for():
    drawn = sample(Random(0), 50, held_out=False)
    ids, after = tensors(drawn)
    unknown = VOCABULARY.names.index(UNK)

    assert (ids == unknown).any()
    assert not (after == unknown).any()


def test_held_out_texts_are_never_trained_on():
    trained_on = {one.text for one in sample(Random(0), 300, held_out=False)}
    measured = {one.text for one in sample(Random(0), 30, held_out=True)}

    assert not any(map(harness.is_held_out, trained_on))
    assert all(map(harness.is_held_out, measured))


def test_texts_depend_on_the_seed_alone():
    first, again, other = (draw(Random(seed)) for seed in (0, 0, 1))

    assert first == again
    assert first != other


def test_the_shipped_vocabulary_is_the_one_trained_on():
    assert read(trained.folder("induction") / "vocabulary.json") == {"english": VOCABULARY}
    assert len(set(VOCABULARY.words)) == len(VOCABULARY.words)


@pytest.mark.parametrize(
    "text", [*induction.EXAMPLES, "The cat sat on the mat", "The cat sat on the mat because it was tired."]
)
def test_examples_are_in_the_vocabulary_and_short_enough(text):
    assert VOCABULARY.unknown(text) == ()
    assert len(VOCABULARY.encode(text)) < LONGEST


def test_the_heads_meet_their_goals(model, held_out):
    """A previous-token head below, an induction head above, and almost every word said again is guessed right."""
    found = measure(model, held_out)

    assert found.behind[0] == 0
    assert found.previous[found.behind] >= GOALS["previous"]
    assert found.finder[0] == 1
    assert found.prefix[found.finder] >= GOALS["prefix"]
    assert accuracy(model, held_out) >= GOALS["accuracy"]


def test_the_heads_are_what_does_it(model, held_out):
    """Without the previous-token head the induction heads look elsewhere, and without either words are not found."""
    whole = measure(model, held_out)
    cut = measure(model, held_out, off(whole.behind))

    assert cut.prefix[whole.finder] < 0.2
    assert accuracy(model, held_out, off(whole.behind)) < 0.2
    assert accuracy(model, held_out, off((1, 0), (1, 1))) < 0.02


def test_the_model_was_not_born_with_it(held_out):
    """Before training no head looks back, and words are guessed by chance."""
    newborn = trained.load("induction", 0)

    assert max(measure(newborn, held_out[:50]).prefix.values()) < 0.2
    assert accuracy(newborn, held_out) < 0.02


@pytest.mark.parametrize(
    ("text", "next_word"),
    [
        ("The cat sat down. The cat sat", "down"),
        ("the cat sat on the mat because it was tired. The cat sat on the mat because it was", "tired"),
        ("river seven window apple cold bread river seven", "window"),
        ("Emma found an old book. Emma found an old", "book"),
    ],
)
def test_typed_words_said_twice_are_continued(model, text, next_word):
    """Short inputs too, and ones whose words make sense."""
    ids = torch.tensor([[1, *(token.id for token in VOCABULARY.encode(text))]])

    assert VOCABULARY.names[int(model(ids)[1][0, -1].argmax())] == next_word


def test_where_nothing_is_told_it_does_not_seem_sure(model, held_out):
    """On words that come for the first time its best guess has little probability."""
    ids, _ = tensors(held_out)
    sure = model(ids)[1].softmax(-1).amax(-1)
    opening = torch.arange(LONGEST) < torch.tensor([one.opening for one in held_out]).unsqueeze(1)

    assert sure[opening].mean() < 0.05
    assert sure[told(held_out)].mean() > 0.9


def test_the_shipped_card_says_what_a_fresh_measurement_says():
    """Within sampling error; everything but the numbers word for word."""
    shipped = json.loads((trained.folder("induction") / "card.json").read_text(encoding="utf-8"))
    fresh = induction.card(200)

    assert {key: shipped[key] for key in shipped if key not in ("measured", "findings")} == {
        key: fresh[key] for key in fresh if key not in ("measured", "findings")
    }
    for old, new in zip(shipped["measured"], fresh["measured"], strict=True):
        assert (old["what"], old["goal"]) == (new["what"], new["goal"])
        assert old["value"] == pytest.approx(new["value"], abs=0.01)
    for old, new in zip(shipped["findings"], fresh["findings"], strict=True):
        assert [old[name] for name in ("kind", "layer", "heads", "role", "does")] == [
            new[name] for name in ("kind", "layer", "heads", "role", "does")
        ]
        for name in ("shares", "off"):
            assert old[name] == pytest.approx(new[name], abs=0.02)


def test_every_head_has_a_finding():
    card = cards.card("induction")

    for site in trained.load("induction").config.sites:
        for head in range(2):
            assert card.behavior(site, head).does.startswith("looks at ")


def test_the_files_stay_small():
    """Below 3 MB in all, so that cloning and starting stay quick."""
    assert sum(path.stat().st_size for path in trained.folder("induction").iterdir()) < 3e6
