"""The shipped byte-pair encoding can be made again."""

from itertools import islice

from attnviz.core import assets
from attnviz.training import bpe, corpus


def test_training_again_gives_the_shipped_file():
    """Byte for byte, with the pinned version of the tokenizers library."""
    assert bpe.train().encode() == assets.path("tokenizers/bpe.json").read_bytes()


def test_the_corpus_depends_on_its_seed_alone():
    first, again, other = (list(islice(corpus.lines(seed), 50)) for seed in (0, 0, 1))

    assert first == again
    assert first != other
