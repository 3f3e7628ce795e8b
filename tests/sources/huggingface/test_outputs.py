"""Attention that transformers returns, given to `from_arrays`."""

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


def test_a_generation_is_refused_with_what_to_give_instead():
    model = build("GPT2")
    written = generated(model, PROMPT)

    for steps in (written, written.attentions):
        with pytest.raises(InputError, match=r"give model\(generated_ids, output_attentions=True\).attentions"):
            from_arrays(steps)
    assert from_arrays(model(written.sequences, output_attentions=True)).steps[0].shape[2] == len(written.sequences[0])


def test_what_a_model_returns_is_taken_whole():
    """Its output, or the tuple in it."""
    given = build("Bert")(PROMPT, output_attentions=True)

    for record in (from_arrays(given), from_arrays(given.attentions)):
        assert_close(record.steps[1].weights(2), given.attentions[1][0, 2], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("empty", [(), [], (None, None), ((), ()), "sdpa", "sdpa generation"])
def test_no_attention_says_how_to_get_it(empty):
    """As of the default attention of transformers."""
    if empty == "sdpa":
        empty = build("Bert", attention="sdpa")(PROMPT)
    if empty == "sdpa generation":
        empty = generated(build("GPT2", attention="sdpa"), PROMPT, output_attentions=False)

    with pytest.raises(InputError, match='attn_implementation="eager"'):
        from_arrays(empty)


@pytest.mark.parametrize("odd", [[{"a": 1}], object(), {"layer": np.ones((2, 2))}, [[1, 2], [3]]])
def test_anything_else_is_one_sentence_of_ours(odd):
    """Not NumPy's."""
    with pytest.raises(InputError) as caught:
        from_arrays(odd)

    assert "\n" not in str(caught.value)
    for words in ("inhomogeneous", "can't convert", "setting an array", "np."):
        assert words not in str(caught.value)
