"""Runs do not change what later runs, or runs beside them, give: also of models that would."""

from concurrent.futures import ThreadPoolExecutor

import fake_hub
import pytest
import torch
import transformers
from fake_hub import WORDS

from attnviz import api
from attnviz.core.errors import AttnvizError
from attnviz.sources.huggingface import loading, tapped

pytestmark = pytest.mark.usefixtures("nothing_is_kept")
SIZES = {"vocab_size": len(WORDS), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 24, "num_key_value_heads": 1, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
ROTARY = {"rope_theta": 10_000.0, "original_max_position_embeddings": 8}
KINDS = {
    "dynamic": ("Llama", {"max_position_embeddings": 64}, {"factor": 8.0}),
    "longrope": ("Phi3", {"max_position_embeddings": 64}, {"short_factor": [1.0] * 4, "long_factor": [3.0] * 4}),
}
SHORT, LONG = "the cat sat", "the cat sat on the mat and the dog ran on the mat"


def made(kind: str) -> transformers.PreTrainedModel:
    """A model whose rotary positions are others in texts of more than 8 tokens."""
    family, sizes, rope = KINDS[kind]
    config = getattr(transformers, f"{family}Config")(
        **SIZES | sizes, rope_parameters=ROTARY | rope | {"rope_type": kind}
    )
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_run_gives_does_not_depend_on_other_runs(kind, tmp_path, monkeypatch):
    """Not on a longer text before, not on a run that failed, and not on one in another thread: it waits.

    transformers keeps the frequencies of the longest text so far.
    """
    place = str(fake_hub.write(tmp_path / kind, made(kind)))
    expected = {}
    for text in (SHORT, LONG):
        loading._models.clear()
        expected[text] = output(text, place)
    with monkeypatch.context() as patched:
        patched.setattr(tapped.ModelRun, "site", lambda run, module: 1 / 0)
        with pytest.raises(AttnvizError):
            output(LONG, place)
    assert all(output(text, place).equal(expected[text]) for text in (SHORT, LONG, SHORT))

    others, site, turns = [], tapped.ModelRun.site, api.load(place).loaded.turns

    def asks(run, module):
        others.append(turns._lock.acquire(blocking=False))
        return site(run, module)

    monkeypatch.setattr(tapped.ModelRun, "site", asks)
    with ThreadPoolExecutor(2) as pool:
        outputs = [*pool.map(output, expected, (place, place))]

    assert others == [False] * 4
    assert all(one.equal(expected[text]) for one, text in zip(outputs, expected, strict=True))


def output(text: str, place: str) -> torch.Tensor:
    return api.analyze(text, api.load(place)).output
