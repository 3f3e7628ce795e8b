"""The stories keep the rules that they are there to teach."""

import random
from itertools import islice

import pytest

from attnviz.tokenizers.vocabulary import Vocabulary
from attnviz.training.harness import is_held_out
from attnviz.training.story import words as w
from attnviz.training.story import writer as writing
from attnviz.training.story.grammar import stories, vocabulary
from attnviz.training.story.measure import Bigrams, cases

VOCABULARY = Vocabulary(vocabulary())
PRONOUN = {noun.word: noun.pronoun for noun in (*w.NAMES, *w.NOUNS, *w.PLACES)}


@pytest.fixture(scope="module")
def told():
    """Two thousand stories of each kind: for training, and held out."""
    return {held: list(islice(stories(random.Random(3), held_out=held), 2_000)) for held in (False, True)}


@pytest.fixture(scope="module")
def tested(told):
    """Every tested word with its story and the nouns between its source and itself."""
    found = []
    for story in told[False] + told[True]:
        for test in story.tested:
            between = [word for word in story.words[test.source[-1] + 1 : test.at] if word in PRONOUN]
            found.append((story, test, between))
    return found


def test_a_seed_gives_the_same_stories():
    """And another seed gives others."""
    first, again, other = (list(islice(stories(random.Random(seed), held_out=False), 50)) for seed in (0, 0, 1))

    assert first == again
    assert first != other


def test_the_vocabulary_is_what_the_stories_are_made_of(told):
    """Each story has only words of it, and reading the text back gives the story."""
    assert list(vocabulary()) == sorted(set(vocabulary()))
    for story in told[False] + told[True]:
        assert tuple(token.text.lower() for token in VOCABULARY.encode(story.text)) == story.words
        assert len(story.words) <= writing.LONGEST


@pytest.fixture
def few_words(monkeypatch):
    """The same grammar with a handful of words, so that a given sentence is soon drawn."""
    keep = {"cat", "key", "box", "ball", "book", "hat", "mat"}
    for name in ("NOUNS", "PLACES"):
        nouns = getattr(w, name)
        pairs = zip(nouns[::2], nouns[1::2], strict=True)
        kept = [pair for pair in pairs if pair[0].group == "people" or pair[0].word in keep]
        monkeypatch.setattr(w, name, tuple(noun for pair in kept for noun in pair))
    monkeypatch.setitem(w.MOVES, "animals", w.MOVES["animals"][:1])
    monkeypatch.setitem(w.OWN_MOVES, "cat", ())
    monkeypatch.setattr(writing, "_AMONG", ("it", "it", "it", "they"))
    monkeypatch.setitem(w.QUALITIES, "animals", ["tired"])


def test_the_sentences_that_everybody_types_are_in_the_grammar(few_words):
    """The cat sits on its mat, and may be tired."""
    draw, drawn = random.Random(0).random, set()
    for _ in range(60_000):
        writer = writing.Writer(draw, past=True)
        writer.sentence()
        drawn.add(" ".join(writer.words))

    for text in ("the cat sat on the mat .", "the cat sat down .", "the cat sat on the mat because it was tired ."):
        assert text in drawn


def test_some_stories_just_stop(told):
    """So that a text without its final period is not foreign to the model."""
    assert 50 < sum(story.words[-1] != "." for story in told[False]) < 400


def test_a_tested_pronoun_stands_for_its_source(tested):
    """One noun asks for its pronoun; two people are they."""
    pronouns = [(story, test) for story, test, _ in tested if test.kind == "pronoun"]

    assert {story.words[test.at] for story, test in pronouns} == set(w.PRONOUNS)
    for story, test in pronouns:
        source = [story.words[at] for at in test.source]
        right = PRONOUN[source[0]] if len(source) == 1 else "they"
        assert story.words[test.at] == right
        assert set(test.wrong) == set(w.PRONOUNS) - {right}


def test_the_noun_before_a_tested_word_misleads(tested):
    """It asks for another pronoun than the right one, or for the other form of the verb."""
    for story, test, between in tested:
        if test.kind == "pronoun":
            assert PRONOUN[between[-1]] != story.words[test.at]
        if test.kind == "verb":
            assert (PRONOUN[between[-1]] == "they") != (PRONOUN[story.words[test.source[0]]] == "they")


def test_no_word_in_between_gives_the_pronoun_away(tested):
    """Not "Anna lost her key because she ...": the model could look at "her"."""
    clues = {*w.PRONOUNS, *w.POSSESSIVES.values(), *w.REFLEXIVES.values()}
    for story, test, _ in tested:
        if test.kind != "name":
            assert clues.isdisjoint(story.words[test.source[-1] + 1 : test.at])


def test_a_tested_verb_agrees_with_its_source(tested):
    """Many keys are, one key is."""
    verbs = [verb for group in (*w.MOVES.values(), *w.OWN_MOVES.values(), *w.DEEDS.values()) for verb in group]
    verbs += [w.HAVE, w.LOSE, w.FIND]
    many = {verb.many for verb in verbs} | {"are", "were"}
    one = {verb.one for verb in verbs} | {"is", "was"}
    for story, test, _ in tested:
        if test.kind == "verb":
            plural = PRONOUN[story.words[test.source[0]]] == "they"
            assert story.words[test.at] in (many if plural else one)
            assert test.wrong[0] in (one if plural else many)


def test_a_repeated_name_is_the_one_of_the_two_that_gives_nothing(tested):
    """Anna and Tom went to the park. Anna gave the ball to Tom."""
    for story, test, between in tested:
        if test.kind == "name":
            name, sentence = story.words[test.at], test.opening.split(" . ")[1].split()
            assert story.words[test.source[0]] == name
            assert name in test.opening.split(" . ")[0].split()
            assert name not in sentence
            assert between[-1] not in {name.word for name in w.NAMES}


def test_training_never_meets_an_opening_that_is_held_out(told):
    """Not, that is, with a word after it that must agree."""
    trained = {test.opening for story in told[False] for test in story.tested}

    assert not any(map(is_held_out, trained))
    for kind in ("pronoun", "verb", "name"):
        assert trained.isdisjoint(case.test.opening for case in cases(kind, 100))


@pytest.mark.parametrize(("kind", "most"), [("pronoun", 0.4), ("verb", 0.4), ("name", 0.1)])
def test_the_word_before_does_not_tell(kind, most):
    """Pairs of words alone get most of them wrong."""
    assert Bigrams(3_000).correct(cases(kind, 300)) < most
