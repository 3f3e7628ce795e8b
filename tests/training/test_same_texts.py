"""A seed gives the texts, the tokenizer and the first weights that the shipped models were made from."""

import random
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from itertools import islice

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

from attnviz.core import assets
from attnviz.models import trained
from attnviz.training import corpus, induction, recipe
from attnviz.training.story_grammar import stories
from attnviz.training.translator_grammar import draw_pair


def translator_texts():
    generator = random.Random(0)
    for _ in range(1_000):
        pair = draw_pair(generator, held_out=False)
        yield pair.english, pair.french, [sorted(places) for places in pair.alignment], pair.roles, pair.refers


def story_texts():
    for story in islice(stories(random.Random(0), held_out=False), 1_000):
        yield story.words, [(test.kind, test.position, test.wrong, test.source, test.opening) for test in story.tested]


def induction_texts():
    return [text.words for text in induction.sample(random.Random(0), 1_000, held_out=False)]


@pytest.mark.parametrize(
    ("drawn", "digest"),
    [
        (translator_texts, "d35ea62d2dfdefbb"),
        (story_texts, "2a3ed00f135e8ef0"),
        (induction_texts, "85ea555647315e1c"),
        (lambda: corpus.lines(sentences=1_000), "527878b21e77d3eb"),
    ],
)
def test_a_seed_draws_the_same_texts_for_ever(drawn, digest):
    """`make train` gives the shipped weights only from the same texts; after a change on purpose, train again."""
    assert sha256(repr(list(drawn())).encode()).hexdigest()[:16] == digest


def test_training_the_tokenizer_again_gives_the_shipped_file():
    """Byte for byte, with the pinned version of the tokenizers library."""
    assert corpus.train_tokenizer().encode() == assets.path("tokenizers/bpe.json").read_bytes()


@pytest.mark.parametrize(
    ("name", "shipped", "weights"),
    [
        *((name, ("vocabulary.json", "00000.safetensors"), "00002") for name in ("translator", "story", "induction")),
        ("shapes", ("config.json", "preprocessor_config.json"), "model"),
    ],
)
def test_a_training_begins_with_the_shipped_files_and_depends_on_its_seed_alone(name, shipped, weights, tmp_path):
    """The vocabulary and the weights before the first step are those that ship, but for rounding; two steps repeat."""
    threads, plan = torch.get_num_threads(), import_module(f"attnviz.training.{name}").RECIPE
    short = replace(plan, steps=2, checkpoints=(0, 2))
    for folder, seed in (("first", 0), ("again", 0), ("other", 1)):
        recipe.train(replace(short, seed=seed), folder=tmp_path / folder)
    torch.set_num_threads(threads)
    first, again, other = ((tmp_path / folder / f"{weights}.safetensors") for folder in ("first", "again", "other"))

    for file in shipped:
        made, kept = tmp_path / "first" / file, trained.folder(name) / file
        if file.endswith(".json"):
            assert made.read_bytes() == kept.read_bytes()
        else:  # other kernels round random numbers otherwise
            assert_close(load_file(made), load_file(kept), rtol=2e-3, atol=1e-6)
    assert first.read_bytes() == again.read_bytes() != other.read_bytes()


@pytest.mark.parametrize("name", ["translator", "story", "induction"])
def test_the_kept_weights_are_those_of_the_recipe(name):
    """So that the slider over the training has its steps, and the files stay small."""
    module = import_module(f"attnviz.training.{name}")

    assert trained.checkpoints(name) == module.RECIPE.checkpoints
    assert trained.load(name).config == module.CONFIG
    assert trained.read(trained.weights_path(name, 0)).config == module.CONFIG
    assert sum(path.stat().st_size for path in trained.folder(name).iterdir()) < 16e6
