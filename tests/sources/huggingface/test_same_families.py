"""Models of transformers run in several ways: right families give the same, and wrong calls are named."""

import families
import pytest
import torch
import transformers
import zoo

import attnviz
from attnviz.core.errors import InputError

TEXTS = [[5, 9, 13, 17, 21, 25, 29], [40, 44, 48, 52, 56], [60, 61, 62, 63, 64, 65, 66, 67, 68]]
CAUSAL = (*families.DECODERS, "Bloom", "GPTJ", "GPTNeo", "Falcon")
EXPECTED = {family: {"packed": "mask"} for family in ("OPT", "GptOss", "Falcon")} | {"Bloom": {"packed": "not tried"}}
"""Families whose masks do not see that position_ids restart, and one that takes none."""


def causes(test):
    """The cause of each way that is not the same."""
    return {result.run: result.cause for result in test.results if not result.same}


def result_of(test, run):
    return next(result for result in test.results if result.run == run)


@pytest.mark.parametrize("family", CAUSAL)
def test_a_causal_family_gives_the_same_however_it_is_run(family):
    assert causes(attnviz.same_run(families.build(family), TEXTS)) == EXPECTED.get(family, {})


@pytest.mark.parametrize("family", ["GPT2", "Llama", "Mistral", "Gemma3Text", "GPTNeoX"])
def test_with_the_kernels_of_pytorch_too(family):
    assert attnviz.same_run(families.build(family, "sdpa"), TEXTS).ok


def test_a_leak_of_packed_texts_is_one():
    """OPT ignores restarting positions; the outputs of its second document change with the first."""
    model = families.build("OPT")
    result = result_of(attnviz.same_run(model, TEXTS, "packed"), "packed")
    positions = torch.tensor([[0, 1, 2, 0, 1, 2]])
    ids = [torch.tensor([[first, 6, 7, 8, 9, 10]]) for first in (5, 50)]
    rows = [model(input_ids=row, position_ids=positions).logits[0, 3:] for row in ids]

    assert not torch.allclose(*rows, atol=1e-3)
    assert "Document 2 sees document 1 (35 cells" in result.message
    assert "query 7, key 0" in result.message
    assert "causal over the whole row" in result.message


def test_padding_on_the_left_is_run_as_generate_does():
    """GPT-2 counts positions from the padding on; Llama's are relative."""
    absolute, rotary = (
        result_of(attnviz.same_run(families.build(family), TEXTS, "left"), "left") for family in ("GPT2", "Llama")
    )

    assert absolute.same
    assert rotary.same


def wrong(model, ids, tokens=None, documents=None, **given):
    """Packs without positions, pads without a mask, and forgets the cache when it counts positions."""
    if "cache" not in given:
        return model(input_ids=ids)
    positions = torch.arange(ids.shape[1])[None]
    output = model(input_ids=ids, past_key_values=given["cache"], position_ids=positions, use_cache=True)
    return output, output.past_key_values


@pytest.mark.parametrize("family", ["GPT2", "Llama", "Qwen3"])
def test_wrong_calls_of_right_models_are_named(family):
    ways = ("packed", "left", "right", "cached", "chunked", "batched")
    test = attnviz.same_run(families.build(family), TEXTS, ways, call=wrong)

    assert causes(test) == {"packed": "mask", "left": "mask", "cached": "positions", "chunked": "positions"}
    assert "sees padding" in result_of(test, "left").message
    assert "takes token 3 to stand at position 0" in result_of(test, "cached").message


@pytest.mark.parametrize("family", ["Llama", "Mistral"])
def test_a_cache_of_a_fixed_size_gives_the_same(family):
    model = families.build(family)

    def fixed(model, ids, **given):
        if "cache" not in given:
            return model(input_ids=ids)
        cache = given["cache"] or transformers.StaticCache(config=model.config, max_cache_len=16)
        return model(input_ids=ids, past_key_values=cache, use_cache=True), cache

    assert attnviz.same_run(model, TEXTS, ("cached", "chunked"), call=fixed).ok


def test_a_call_of_your_own_is_judged_as_it_is():
    """GPT-2 padded on the left without position_ids gives other outputs, and is not run as `generate` does."""

    def plain(model, ids, tokens=None):
        return model(input_ids=ids, attention_mask=None if tokens is None else tokens.long())

    test = attnviz.same_run(families.build("GPT2"), TEXTS, ("left", "right"), call=plain)

    assert causes(test) == {"left": "positions"}
    assert "takes token 0 to stand at position 2" in test.results[0].message


def test_an_encoder_is_padded_and_batched_and_the_rest_is_not_tried():
    test = attnviz.same_run(families.build("Bert"), TEXTS)

    assert causes(test) == dict.fromkeys(("packed", "cached", "chunked", "written"), "not tried")
    assert test.ok


def test_a_model_of_two_texts_is_refused():
    with pytest.raises(InputError, match="reads two texts"):
        attnviz.same_run(families.build("T5"), TEXTS)


def test_a_folder_is_run_with_its_own_tokenizer(tmp_path):
    zoo.save("llama", "LlamaForCausalLM", tmp_path)
    test = attnviz.same_run(str(tmp_path), ["A cat sat.", "It was."])

    assert test.ok
    assert test.tokens == (11, 8)


def test_a_model_in_half_precision_is_compared_in_single_precision():
    """And it is left as it was, as are random numbers."""
    model, state = families.build("Llama").bfloat16(), torch.random.get_rng_state()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    test = attnviz.same_run(model, TEXTS)

    assert test.ok
    assert test.dtype == "float32"
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert torch.equal(state, torch.random.get_rng_state())
