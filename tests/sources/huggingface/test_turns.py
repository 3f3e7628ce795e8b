"""Runs do not change what later runs, or runs beside them, give: also of models that would."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import fake_hub
import pytest
import torch
import transformers
from fake_hub import WORDS

from attnviz import api
from attnviz.sources.huggingface import tapped
from attnviz.sources.huggingface.loaded import Turns

pytestmark = pytest.mark.usefixtures("nothing_is_kept")
SIZES = {"vocab_size": len(WORDS), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 24, "num_key_value_heads": 1, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
ROTARY = {"rope_theta": 10_000.0, "original_max_position_embeddings": 8}
KINDS = {
    "dynamic": ("Llama", {"max_position_embeddings": 8}, {"factor": 2.0}),
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


def ids(length: int) -> torch.Tensor:
    return torch.arange(length)[None] + 5


@torch.no_grad()
def test_what_a_run_gives_does_not_depend_on_the_run_before():
    """transformers keeps the frequencies of the longest text so far; here each run begins as a fresh model does."""
    lengths = (7, 9, 12, 8, 10, 7, 9)
    fresh = {length: made("dynamic")(ids(length)).logits for length in lengths}
    model, plain = made("dynamic"), made("dynamic")
    turns = Turns(model)
    with suppress(MemoryError), turns.turn():  # a run that fails leaves the model as it was
        model(ids(12))
        raise MemoryError
    for length in lengths:
        with turns.turn():
            assert model(ids(length)).logits.equal(fresh[length])

    assert not all(plain(ids(length)).logits.equal(fresh[length]) for length in lengths)


def test_short_and_long_texts_run_one_after_the_other(tmp_path, monkeypatch):
    """In a model whose frequencies depend on the length: while one runs, no other can set them."""
    opened = api.load(str(fake_hub.write(tmp_path / "phi3", made("longrope"))))
    expected = [api.analyze(text, opened).output for text in (SHORT, LONG)]
    free, site, lock = [], tapped.ModelRun.site, opened.loaded.turns._lock

    def asks(run, module):
        free.append(lock.acquire(blocking=False))
        return site(run, module)

    monkeypatch.setattr(tapped.ModelRun, "site", asks)
    with ThreadPoolExecutor(2) as pool:
        outputs = [*pool.map(lambda text: api.analyze(text, opened).output, (SHORT, LONG))]

    assert free == [False] * 4
    assert all(one.equal(other) for one, other in zip(outputs, expected, strict=True))
