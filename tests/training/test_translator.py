"""The shipped translator: its translations, and the head that aligns both languages."""

import pytest

from attnviz.models import trained
from attnviz.sources.cards import card
from attnviz.training import translator, translator_grammar
from attnviz.training.translator_grammar import Pair


@pytest.fixture(scope="module")
def held_out() -> list[Pair]:
    return translator_grammar.held_out_pairs(150, translator.SEED)


def translated(text: str) -> tuple[str, ...]:
    english = [token.id for token in translator.ENGLISH.encode(text)]
    return translator.translate(trained.load("translator"), [[*english, translator.END]])[0]


def test_one_head_alone_recovers_the_alignment(held_out):
    """The head that the app opens on, far above chance; before the training no head does."""
    opens = card("translator").opens
    looks = translator.measure_heads(trained.load("translator"), held_out)
    untrained = translator.measure_heads(trained.load("translator", 0), held_out[:30])

    assert looks[opens]["alignment"].rate >= translator.ALIGNED - 0.02
    assert looks[opens]["alignment"].even < 0.2
    assert max(named["alignment"].rate for head, named in untrained.items() if "alignment" in named) < 0.3


TRANSLATIONS = (
    "le chat noir dort sur la chaise rouge",
    "le chat s' est assis sur le tapis",
    "le chat s' est assis",
    "le chat s' est assis sur le tapis parce qu' il était fatigué .",
    "la souris s' est assise sur le tapis parce qu' elle était fatiguée .",
    "l' oiseau n' a pas traversé la rue parce qu' elle était trop large .",
    "elle n' aime pas les petites fleurs jaunes .",
    "Anna a donné un vieux livre italien aux enfants .",
)


@pytest.mark.parametrize(("text", "written"), [*zip(card("translator").examples, TRANSLATIONS, strict=True)])
def test_every_example_is_translated_right(text, written):
    assert not translator.ENGLISH.unknown(text)
    assert translated(text) == tuple(written.split())


def test_a_full_stop_is_written_where_one_is_read():
    """The same sentence with and without."""
    assert translated("The cat sat down.") == (*translated("The cat sat down"), ".")
