"""Runs do not change what later runs, or runs beside them, give: also of models that would."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import fake_hub
import pytest
import torch
from families import build

from attnviz import api
from attnviz.sources.huggingface import tapped
from attnviz.sources.huggingface.loaded import Turns

pytestmark = pytest.mark.usefixtures("nothing_is_kept")
ROTARY = {"rope_theta": 10_000.0, "original_max_position_embeddings": 8}
DYNAMIC = ROTARY | {"rope_type": "dynamic", "factor": 2.0}
LONGROPE = ROTARY | {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [3.0] * 4}
"""Rotary positions that are others in texts of more than 8 tokens."""
SHORT, LONG = "the cat sat", "the cat sat on the mat and the dog ran on the mat"


def dynamic() -> torch.nn.Module:
    return build("Llama", max_position_embeddings=8, rope_parameters=DYNAMIC)


def ids(length: int) -> torch.Tensor:
    return torch.arange(length)[None] + 5


@torch.no_grad()
def test_what_a_run_gives_does_not_depend_on_the_run_before():
    """transformers keeps the frequencies of the longest text so far; here each run begins as a fresh model does."""
    lengths = (7, 9, 12, 8, 10, 7, 9)
    fresh = {length: dynamic()(ids(length)).logits for length in lengths}
    model, plain = dynamic(), dynamic()
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
    opened = api.load(str(fake_hub.write(tmp_path / "phi3", build("Phi3", rope_parameters=LONGROPE))))
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
