"""Models that are built and run at the same time, or one after the other, give what each gives alone."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import fake_hub
import pytest
import torch
import transformers
from examples import some
from fake_hub import GPT2, WORDS
from families import OWN, TAPPED, build
from torch.testing import assert_close

from attnviz import api
from attnviz.models import constructed
from attnviz.models import trained as weights
from attnviz.sources import scratch
from attnviz.sources.huggingface import files, loading, tapped
from attnviz.sources.huggingface.loaded import Turns
from attnviz.sources.scratch import Scratch

ROOT = Path(__file__).parents[3]
PATIENCE = 60
"""Seconds that a test waits for what must come."""
TEXT = "the cat sat on the mat"
pytestmark = pytest.mark.usefixtures("nothing_is_kept")
XGLM = transformers.XGLMConfig(vocab_size=len(WORDS), d_model=32, attention_heads=4, ffn_dim=48, num_layers=2)
"""Configuration of a model whose positions are a table of torch's default type."""


def folder_of(path: Path, seed: int = 0, **sizes) -> str:
    """A tiny GPT-2 in bfloat16, whose weights are tied."""
    torch.manual_seed(seed)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2 | sizes))
    return str(fake_hub.write(path / f"gpt2-{seed}", model.to(torch.bfloat16)))


@pytest.fixture
def place(tmp_path) -> str:
    return folder_of(tmp_path)


def all_anew() -> list[torch.Tensor]:
    """Return the weights of sources that are built anew: random ones, ones set by hand, and ones from a file."""
    scratch._build_layers.cache_clear()
    for kept in (scratch._vector, constructed.build, constructed._code, weights.load):
        kept.cache_clear()
    return [api.analyze(TEXT, one).output for one in (Scratch(), "constructed", "story")]


def test_what_runs_while_a_model_is_built_gives_the_same(place, monkeypatch):
    """The model has another type of numbers than torch's default one, which stays as it is."""
    expected, given = all_anew(), []
    make = transformers.GPT2LMHeadModel.__init__

    def observed(self, *args, **kwargs):
        make(self, *args, **kwargs)
        with ThreadPoolExecutor(1) as pool:  # another thread runs sources in the middle of the load
            given.append(pool.submit(all_anew).result(PATIENCE))

    monkeypatch.setattr(transformers.GPT2LMHeadModel, "__init__", observed)

    assert loading.load(place).dtype is torch.bfloat16
    assert given
    for outputs in given:
        assert_close(outputs, expected, rtol=0, atol=0)


def test_two_different_models_open_at_once(tmp_path):
    """Both come whole, and so does the next: transformers ties weights as it did before."""
    places, begin = [folder_of(tmp_path, seed, n_layer=8) for seed in range(3)], threading.Barrier(2)

    def opened(place: str) -> torch.Tensor:
        begin.wait(PATIENCE)
        return api.analyze(TEXT, api.load(place)).output

    tie, linspace = transformers.PreTrainedModel.tie_weights, torch.linspace
    with ThreadPoolExecutor(2) as pool:
        at_once = [*pool.map(opened, places[:2])]
    loading._models.clear()
    begin = threading.Barrier(1)
    alone = [opened(place) for place in places]

    assert (transformers.PreTrainedModel.tie_weights, torch.linspace) == (tie, linspace)
    assert all(one.equal(other) for one, other in zip(at_once, alone, strict=False))


FAMILIES = [name for name in (*TAPPED, *OWN) if name not in ("ViT", "Whisper")]


@pytest.mark.parametrize(
    ("family", "dtype"),
    [
        *((name, torch.bfloat16) for name in (*some(tuple(FAMILIES), 12), "XGLM")),
        ("GPT2", torch.float64),
        ("T5", torch.float16),
    ],
)
def test_a_model_is_what_transformers_makes_of_its_files(tmp_path, family, dtype):
    """Alone in a process, where it may change the default type: every weight and buffer has that type and value."""
    model = build(family) if family in TAPPED | OWN else transformers.AutoModelForCausalLM.from_config(XGLM)
    model.to(dtype).save_pretrained(tmp_path)
    kind, config = type(model), transformers.AutoConfig.from_pretrained(tmp_path)
    expected = kind.from_pretrained(tmp_path, dtype=dtype, attn_implementation="eager")
    with files.alone():
        made, told = files.build(kind, tmp_path, config, dtype)

    assert type(made) is kind
    assert not told["missing_keys"]
    assert torch.get_default_dtype() is torch.float32
    for all_of in ("named_parameters", "named_buffers"):
        ours, theirs = dict(getattr(made, all_of)()), dict(getattr(expected, all_of)())
        assert {name: one.dtype for name, one in ours.items()} == {name: one.dtype for name, one in theirs.items()}
        assert_close(ours, theirs, rtol=0, atol=0)


def test_a_model_that_fails_leaves_no_trace(place, monkeypatch):
    """The next is built, and transformers speaks as loudly as before."""
    loudness = transformers.logging.get_verbosity()
    with monkeypatch.context() as patched:
        patched.setattr(transformers.GPT2LMHeadModel, "__init__", lambda self, config: 1 / 0)
        with pytest.raises(loading.AttnvizError, match="division by zero"):
            loading.load(place)

    assert transformers.logging.get_verbosity() == loudness
    assert loading.load(place).task == "next"


FIRST = """
import sys
from concurrent.futures import ThreadPoolExecutor
from attnviz.sources.huggingface.source import HuggingFace

with ThreadPoolExecutor() as pool:
    print(len([*pool.map(HuggingFace, sys.argv[1:])]))
"""


def test_the_first_loads_of_a_process_do_not_meet(tmp_path):
    """All of them import transformers."""
    folders = [str(fake_hub.write(tmp_path / str(i))) for i in range(3)]
    ended = subprocess.run([sys.executable, "-c", FIRST, *folders], capture_output=True, text=True, cwd=ROOT)

    assert (ended.stdout.strip(), ended.returncode) == ("3", 0), ended.stderr


# Runs of models whose rotary positions depend on the length

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
