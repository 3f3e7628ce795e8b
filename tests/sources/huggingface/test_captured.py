"""Models of transformers captured as anyone's: what is no plain map is refused, never misread."""

import pytest
import torch
import zoo
from torch.testing import assert_close

import attnviz
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError

IDS = torch.arange(5, 14).reshape(1, 9)


def captured(model, ids=IDS, edits=Edits(), **given):
    with torch.inference_mode(), attnviz.capture(model, edits) as seen:
        model(ids, **given)
    return seen


def words(ids: torch.Tensor) -> list[str]:
    return [str(id) for id in ids[0].tolist()]


def test_longformer_is_refused():
    """Its scores are a band, which has the shape of heads."""
    model = zoo.build("longformer", "LongformerModel", attention_window=4)
    seen = captured(model)

    with pytest.raises(AttnvizError):
        seen.record(words(IDS))
    with pytest.raises(AttnvizError, match="The edits"):
        captured(model, edits=Edits(temperature=2.0))


@pytest.mark.parametrize(("family", "name"), [("gpt2", "GPT2LMHeadModel"), ("bloom", "BloomForCausalLM")])
def test_a_generation_is_one_whole_forward(family, name):
    """The maps of prompt and words, stitched; the same words with and without a capture."""
    model = zoo.build(family, name)
    settings = {"max_new_tokens": 4, "do_sample": False, "use_cache": True, "eos_token_id": None, "pad_token_id": 0}
    alone = model.generate(IDS, **settings)
    with attnviz.capture(model) as seen:
        written = model.generate(IDS, **settings)
    whole = captured(model, written[:, :-1])

    assert torch.equal(written, alone)
    assert seen.sites == whole.sites
    assert Site("decoder", 1) in seen.sites
    for step, expected in zip(seen.steps, whole.steps, strict=True):
        assert step.shape == expected.shape == (1, 4, 12, 12)
        for head in range(4):
            assert_close(step.weights(head), expected.weights(head), atol=1e-5, rtol=1e-4)
    assert len(seen.record(words(written[:, :-1])).steps) == 2
