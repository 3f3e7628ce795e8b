"""Models of transformers run in several ways: right families give the same, and wrong calls are named."""

import families
import pytest
import torch
import zoo
from examples import some

import attnviz
from attnviz.core.errors import InputError

TEXTS = [[5, 9, 13, 17, 21, 25, 29], [40, 44, 48, 52, 56], [60, 61, 62, 63, 64, 65, 66, 67, 68]]
CAUSAL = (*families.DECODERS, "Bloom", "GPTJ", "GPTNeo", "Falcon")
EXPECTED = {family: {"packed": "mask"} for family in ("OPT", "GptOss", "Falcon")} | {"Bloom": {"packed": "not tried"}}
"""Families whose masks do not see that position_ids restart, and one that takes none."""


def causes(test):
    """The cause of each way that is not the same."""
    return {result.run: result.cause for result in test.results if not result.same}


@pytest.mark.parametrize("family", [*EXPECTED, *some([family for family in CAUSAL if family not in EXPECTED], 4)])
def test_a_causal_family_gives_the_same_however_it_is_run(family):
    assert causes(attnviz.same_run(families.build(family), TEXTS)) == EXPECTED.get(family, {})


def test_a_leak_of_packed_texts_is_one():
    """OPT ignores restarting positions; the outputs of its second document change with the first."""
    model = families.build("OPT")
    (result,) = (one for one in attnviz.same_run(model, TEXTS, "packed").results if one.run == "packed")
    positions = torch.tensor([[0, 1, 2, 0, 1, 2]])
    ids = [torch.tensor([[first, 6, 7, 8, 9, 10]]) for first in (5, 50)]
    rows = [model(input_ids=row, position_ids=positions).logits[0, 3:] for row in ids]

    assert not torch.allclose(*rows, atol=1e-3)
    assert "Document 2 sees document 1 (35 cells" in result.message
    assert "query 7, key 0" in result.message
    assert "causal over the whole row" in result.message


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
