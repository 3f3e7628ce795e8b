"""Attention rollout, computed on paper and by laws."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pictures import record_of

from attnviz import api
from attnviz.analysis.rollout import MixingMatrices, mixed, rollout, rows
from attnviz.core.errors import InputError

LAYERS = st.integers(0, 10**6).flatmap(
    lambda seed: st.tuples(st.just(seed), st.integers(1, 3), st.integers(1, 5), st.booleans())
)


def mixed_of(*layers):
    layers = torch.tensor(layers, dtype=torch.float64)
    return MixingMatrices("encoder", tuple(record_of(["w"] * layers.shape[1]).sentences[0].tokens), layers, 0, None)


def random_layers(seed, depth, n, causal):
    """½ A + ½ I of random weights."""
    scores = torch.randn(depth, n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 3
    if causal:
        scores = scores.masked_fill(~torch.ones(n, n).tril().bool(), -torch.inf)
    return mixed_of(*((scores.softmax(-1) + torch.eye(n)) / 2).tolist())


def test_rollout_multiplies_the_later_layer_from_the_left():
    """Layer 0: token 1 takes half from token 0. Layer 1: token 2 takes half from token 1, so a quarter from 0."""
    below = [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]]
    above = [[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5]]
    traced = rollout(mixed_of(below, above))

    assert traced[0].tolist() == below
    assert traced[1].tolist() == [[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]]
    assert rollout(mixed_of(above, below))[1, 2].tolist() == [0, 0.5, 0.5]


@given(LAYERS)
def test_rollout_shares_one_among_the_tokens_and_none_of_it_is_from_the_future(drawn):
    found = random_layers(*drawn)
    traced = rollout(found)

    torch.testing.assert_close(traced.sum(-1), torch.ones(traced.shape[:2], dtype=torch.float64))
    assert (traced >= 0).all()
    if drawn[-1]:
        assert traced.triu(1).eq(0).all()


@pytest.mark.parametrize(
    ("text", "model", "kind"),
    [
        (["a b c a b d e a c", "x y"], "constructed", None),
        ("the black cat sleeps", "translator", "encoder"),
        ("the black cat sleeps", "translator", None),
    ],
)
def test_rows_of_a_long_text_are_those_of_the_whole_table(text, model, kind):
    """After each layer, of padded texts and of several positions at once."""
    record = api.analyze(text, model)
    sentence = len(record.sentences) - 1
    found = mixed(record, kind, sentence=sentence)

    for layer, whole in enumerate(rollout(found), 1):
        same, followed = rows(record, (1, 0), kind, layers=layer, sentence=sentence)
        torch.testing.assert_close(followed, whole[[1, 0]], rtol=0, atol=1e-6)
        assert (same.tokens, same.kind, same.note) == (found.tokens, found.kind, found.note)


def test_an_encoder_decoder_is_followed_stack_by_stack_and_says_so():
    record = api.analyze("the black cat sleeps", "translator")
    encoder, decoder = mixed(record, "encoder"), mixed(record)

    assert (encoder.kind, encoder.note, len(encoder.tokens)) == ("encoder", None, 5)
    assert decoder.kind == "decoder"
    assert "Cross-attention is not followed" in decoder.note
    with pytest.raises(InputError, match="'cross'; it has encoder and decoder"):
        mixed(record, "cross")


def test_what_is_too_large_says_its_numbers(monkeypatch):
    with pytest.raises(InputError, match="no position 3; there are 3"):
        rows(record_of("a b c".split()), (3,))
    monkeypatch.setattr("attnviz.analysis.rollout.MOST_CELLS", 8)
    with pytest.raises(InputError, match="1 layers of 3 x 3"):
        mixed(record_of("a b c".split()))
