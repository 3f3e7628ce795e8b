"""Sources without training: random weights from a seed alone, and weights that are set by hand."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.testing import assert_close

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Subsequent
from attnviz.core.tokens import Sentence
from attnviz.sources import scratch
from attnviz.sources.scratch import Constructed, Scratch

LONG, SHORT = "the cat sat on the mat", "the cat sat down"
SITE = Site("encoder", 0)


def run(texts, source=Scratch(), edits=Edits()):
    return source.run(source.tokenize(texts), edits)


def test_the_same_source_gives_the_same_bits():
    """Also when its layers are built anew."""
    first, random_state = run([LONG]), torch.get_rng_state()
    scratch._build_layers.cache_clear()
    scratch._vector.cache_clear()

    assert torch.equal(run([LONG]).output, first.output)
    assert torch.equal(torch.get_rng_state(), random_state)
    other = run([LONG], Scratch(seed=1))
    assert not torch.allclose(other.output, first.output)
    weights = [Scratch(seed=seed).model_weights().sites[SITE].w_q.weight for seed in (0, 1)]
    assert not torch.allclose(*weights)


def test_sources_built_at_the_same_time_are_those_built_one_by_one():
    """Two users who open the page at once get the weights of their seeds."""
    sources = [Scratch(seed=seed, num_layers=6) for seed in range(8)]
    alone = [run([LONG], source).output for source in sources]
    scratch._build_layers.cache_clear()
    start = threading.Barrier(len(sources))

    def build(source):
        start.wait()
        return run([LONG], source).output

    with ThreadPoolExecutor(len(sources)) as pool:
        together = [*pool.map(build, sources)]

    assert all(torch.equal(one, other) for one, other in zip(together, alone, strict=True))


@pytest.mark.parametrize("edits", [Edits(), Edits(mask=Subsequent(), temperature=0.3)], ids=["plain", "edited"])
def test_padding_changes_nothing_of_the_shorter_sentence(edits):
    """Its real rows are those of the sentence run alone: weights and output in every layer."""
    together, alone = run([LONG, SHORT], edits=edits), run([SHORT], edits=edits)

    assert alone.step(SITE).mask == edits.mask
    assert_close(together.output[1, :4], alone.output[0], rtol=1e-5, atol=1e-5)
    for one, other in zip(together.steps, alone.steps, strict=True):
        for head in range(one.num_heads):
            window = one.weights(head, slice(0, 4), slice(0, 4), sentence=1)
            assert_close(window, other.weights(head), rtol=1e-5, atol=1e-6)


def test_a_token_keeps_its_embedding_when_the_sentence_changes():
    """Without positions the query of a word is the same wherever it stands, whatever stands beside it."""
    source = Scratch(positions=False)

    one, other = run(["the cat"], source).step(SITE), run(["a black cat ran"], source).step(SITE)

    assert_close(one.query[0, :, 1], other.query[0, :, 2], rtol=1e-5, atol=1e-6)


def test_sizes_out_of_bounds_are_refused():
    """With the bounds; also what is no whole number, as a link may hold it, and heads that do not divide the width."""
    refused = {"d_model": (0, 1025, 64.0), "num_heads": (0, 65, True), "num_layers": (0, 25, "2")}
    for field, values in (refused | {"seed": (-1, 2**31, None)}).items():
        for value in values:
            with pytest.raises(InputError, match=f"^{field} is .*; it must be a whole number from [01] to "):
                Scratch(**{field: value})
    with pytest.raises(InputError, match="d_model is 64 and num_heads is 5"):
        Scratch(num_heads=5)


def test_nothing_to_look_at_is_said():
    """No sentence, or one without a token."""
    for sentences in ((), (Sentence("", (), 0),)):
        with pytest.raises(InputError, match="no token"):
            Scratch().run(sentences)


def test_biases_are_drawn_and_change_nothing_but_themselves():
    """With and without bias the weights are the same, and what attention sees differs."""
    with_bias, without = (Scratch(bias=bias).run(Scratch().tokenize(["a b c"])) for bias in (True, False))

    assert not torch.equal(with_bias.steps[0].query, without.steps[0].query)
    change = with_bias.steps[0].query - without.steps[0].query
    assert torch.allclose(change, change[:, :, :1], atol=1e-5)


def test_heads_set_by_hand_read_any_text():
    """No word is unknown, and no picture of it can be taken for something learned."""
    source = Constructed()
    record = run(["Zürich 猫 🐈 cat 猫"], source)

    assert (record.source, record.provenance, record.prediction) == ("constructed", "constructed", None)
    assert record.output.shape == (1, 5, source.d_model)
    assert source.unknown(["Zürich 猫"]) == {}
