"""The source with random weights: from its seed alone, without a trace, and with padding that changes nothing."""

import threading

import pytest
import torch
from torch.testing import assert_close

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Subsequent
from attnviz.core.tokens import Sentence
from attnviz.sources import scratch
from attnviz.sources.scratch import Scratch

LONG, SHORT = "the cat sat on the mat", "the cat sat down"
SITE = Site("encoder", 0)


def run(texts, source=Scratch(), edits=Edits()):
    return source.run(source.tokenize(texts), edits)


def test_a_sentence_becomes_a_record_of_every_layer():
    """Its tokens, its name, and where its weights come from."""
    source = Scratch(d_model=30, num_heads=5, num_layers=3)

    record = run([LONG], source)

    assert record.sites == source.sites == tuple(Site("encoder", layer) for layer in range(3))
    assert record.sentences[0].labels == tuple(LONG.split())
    assert (record.source, record.provenance) == ("scratch", "random")
    assert record.output.shape == (1, 6, 30)
    assert record.step(SITE).shape == (1, 5, 6, 6)
    assert record.step(SITE).query.shape[-1] == 6


# The seed


def test_the_same_source_gives_the_same_bits():
    """Also when its layers are built anew."""
    first = run([LONG])
    scratch._stacks.clear()
    scratch._vector.cache_clear()

    assert torch.equal(run([LONG]).output, first.output)
    assert not torch.allclose(run([LONG], Scratch(seed=1)).output, first.output)


def test_sources_built_at_the_same_time_are_those_built_one_by_one():
    """Two users who open the page at once get the weights of their seeds."""
    sources = [Scratch(seed=seed, num_layers=6) for seed in range(8)]
    alone = [run([LONG], source).output for source in sources]
    scratch._stacks.clear()
    together, start = {}, threading.Barrier(len(sources))

    def build(source):
        start.wait()
        together[source.seed] = run([LONG], source).output

    threads = [threading.Thread(target=build, args=(source,)) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for source, output in zip(sources, alone, strict=True):
        assert torch.equal(together[source.seed], output)


# Edits leave no trace


EDITS = [
    Edits(mask=Subsequent()),
    Edits(own_mask=False),
    Edits(heads_off={(SITE, 0), (SITE, 3), (Site("encoder", 1), 2)}),
    Edits(temperature=0.1),
    Edits(scale=3.0),
    Edits(mask=~Subsequent(99), empty_rows="nan"),
]


@pytest.mark.parametrize("edits", EDITS, ids=lambda edits: edits.in_words()[0])
def test_edits_change_the_run_and_leave_the_model_as_it_was(edits):
    """Every parameter bit by bit, and the next run without edits bit by bit."""
    stack = Scratch()._layers()
    before, parameters = run([LONG, SHORT]), {name: p.clone() for name, p in stack.state_dict().items()}

    edited = run([LONG, SHORT], edits=edits)

    assert edited.edits == edits
    assert not torch.equal(edited.output, before.output)
    assert all(torch.equal(p, parameters[name]) for name, p in stack.state_dict().items())
    again = run([LONG, SHORT])
    assert torch.equal(again.output, before.output)
    for one, other in zip(again.steps, before.steps, strict=True):
        for name in ("query", "key", "value", "logsumexp"):
            assert torch.equal(getattr(one, name), getattr(other, name))


# Padding


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


# Tokens and positions


def test_a_token_keeps_its_embedding_when_the_sentence_changes():
    """Without positions the query of a word is the same wherever it stands, whatever stands beside it."""
    source = Scratch(positions=False)

    one, other = run(["the cat"], source).step(SITE), run(["a black cat ran"], source).step(SITE)

    assert_close(one.query[0, :, 1], other.query[0, :, 2], rtol=1e-5, atol=1e-6)


def test_without_positions_the_order_of_words_does_not_matter():
    """And with them it does."""
    for positions in (False, True):
        source = Scratch(positions=positions)
        forward, backward = (run([text], source).output[0] for text in ("cats chase mice", "mice chase cats"))

        assert torch.allclose(forward, backward.flip(0), atol=1e-5) != positions


def test_sos_stands_before_the_first_word():
    """As in the input of a decoder; it is a token like others to attention."""
    record = run([SHORT], Scratch(sos=True))

    assert len(record.sentences[0].tokens) == 5
    assert record.sentences[0].tokens[0].special
    assert record.step(SITE).shape == (1, 4, 5, 5)


# What is refused


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("d_model", 0),
        ("d_model", 1025),
        ("num_heads", 0),
        ("num_heads", 65),
        ("num_layers", 0),
        ("num_layers", 25),
        ("seed", -1),
        ("seed", 2**31),
        ("d_model", 64.0),
        ("num_layers", "2"),
        ("num_heads", True),
        ("seed", None),
    ],
)
def test_sizes_out_of_bounds_are_refused(field, value):
    """With the bounds; also what is no whole number, as a link may hold it."""
    with pytest.raises(InputError, match=f"^{field} is .*; it must be a whole number from [01] to "):
        Scratch(**{field: value})


def test_heads_that_do_not_divide_the_width_are_refused():
    """Both are named."""
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
