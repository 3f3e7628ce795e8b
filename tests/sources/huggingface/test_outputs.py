"""What transformers returns as attention, given to `from_arrays`: held to one run over all that was written."""

import numpy as np
import pytest
import torch
from families import build
from torch.testing import assert_close

from attnviz import from_arrays
from attnviz.core.errors import InputError

PROMPT = torch.tensor([[5, 6, 7, 8]])
NO_END = {"max_new_tokens": 6, "do_sample": False, "output_attentions": True, "return_dict_in_generate": True}
NO_END |= {"pad_token_id": 0, "eos_token_id": 98}


def generated(model, ids, **more):
    torch.manual_seed(0)
    return model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **NO_END | more)


def weights_of(record, layer, sentence=0):
    step = record.steps[layer]
    return torch.stack([step.weights(head, sentence=sentence) for head in range(step.num_heads)])


@pytest.mark.parametrize("family", ["GPT2", "Llama", "Mistral"])
@pytest.mark.parametrize(
    "more",
    [{}, {"num_beams": 3}, {"num_beams": 3, "num_return_sequences": 2}, {"cache_implementation": "static"}],
    ids=["greedy", "beams", "beams of which two are returned", "a static cache"],
)
def test_a_generation_is_one_map(family, more):
    """Of the sequences that were returned, whichever beam each of their tokens was of."""
    model = build(family)
    found = generated(model, PROMPT, **more)
    given = found if more.get("num_beams") else found.attentions
    record = from_arrays(given, tokens=[[str(id) for id in row] for row in found.sequences.tolist()])

    assert {step.site.kind for step in record.steps} == {"decoder"}
    for sentence, row in enumerate(found.sequences[:, :-1]):
        expected = model(row.unsqueeze(0), output_attentions=True).attentions
        for layer, weights in enumerate(expected):
            assert_close(weights_of(record, layer, sentence), weights[0], rtol=1e-4, atol=1e-5)
    assert record.sentences[0].labels == tuple(map(str, found.sequences[0, :-1].tolist()))


@pytest.mark.parametrize("more", [{}, {"num_beams": 3}])
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_each_kind_of_an_encoder_decoder_is_one_map(kind, more):
    """By the kind that is asked for."""
    model = build("Bart")
    found = generated(model, PROMPT, **more)
    record = from_arrays(found, kind=kind)

    read = found.sequences[:, :-1]
    expected = model(input_ids=PROMPT, decoder_input_ids=read, output_attentions=True)[f"{kind}_attentions"]
    for layer, weights in enumerate(expected):
        assert_close(weights_of(record, layer), weights[0], rtol=1e-4, atol=1e-5)


def test_what_a_model_returns_is_taken_whole():
    """Its output, or the tuple in it."""
    given = build("Bert")(PROMPT, output_attentions=True)

    whole, part = from_arrays(given), from_arrays(given.attentions)
    assert torch.equal(weights_of(whole, 1), weights_of(part, 1))
    assert_close(weights_of(whole, 1), given.attentions[1][0], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("empty", [(), [], (None, None), ((), ()), "sdpa", "sdpa generation"])
def test_no_attention_says_how_to_get_it(empty):
    """As of the default attention of transformers."""
    if empty == "sdpa":
        empty = build("Bert", attention="sdpa")(PROMPT)
    if empty == "sdpa generation":
        empty = generated(build("GPT2", attention="sdpa"), PROMPT, output_attentions=False)

    with pytest.raises(InputError, match='attn_implementation="eager"'):
        from_arrays(empty)


@pytest.mark.parametrize(
    "odd",
    [
        [np.ones((2, 2)), "text"],
        [{"a": 1}],
        object(),
        {"layer": np.ones((2, 2))},
        [[np.ones((1, 2, 3, 3)), np.ones((1, 2, 3, 3))], [np.ones((1, 2, 1, 4))]],
        [[np.ones((1, 2, 3, 3))], [np.ones((2, 2, 1, 4))]],
        [[1, 2], [3]],
    ],
)
def test_anything_else_is_one_sentence_of_ours(odd):
    """Not NumPy's."""
    with pytest.raises(InputError) as caught:
        from_arrays(odd)

    assert "\n" not in str(caught.value)
    for words in ("inhomogeneous", "can't convert", "setting an array", "np."):
        assert words not in str(caught.value)
