"""Models are built one at a time, and nothing that runs meanwhile can tell."""

import subprocess
import sys
import threading
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
from attnviz.sources.huggingface import files, loading
from attnviz.sources.scratch import Scratch

ROOT = Path(__file__).parents[3]
PATIENCE = 60
"""Seconds that a test waits for what must come."""
TEXT = "the cat sat on the mat"
POSITIONS = {"d_model": 32, "max_position_embeddings": 64, "attention_heads": 4, "ffn_dim": 48, "num_layers": 2}
POSITIONS |= {
    f"{part}_{name}": POSITIONS[name] for part in ("encoder", "decoder") for name in ("attention_heads", "ffn_dim")
}
TABLES = {
    "M2M100": POSITIONS | {"encoder_layers": 2, "decoder_layers": 2, "vocab_size": len(WORDS)},
    "XGLM": POSITIONS | {"vocab_size": len(WORDS)},
}
"""Families whose positions are a table of torch's default type."""


def folder_of(path: Path, seed: int = 0, **sizes) -> str:
    """A tiny GPT-2 in bfloat16, whose weights are tied."""
    torch.manual_seed(seed)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2 | sizes))
    return str(fake_hub.write(path / f"gpt2-{seed}", model.to(torch.bfloat16)))


@pytest.fixture(autouse=True)
def nothing_kept():
    yield
    loading._models.clear()


@pytest.fixture
def place(tmp_path) -> str:
    return folder_of(tmp_path)


@pytest.fixture
def held(place, monkeypatch):
    """Stop each GPT-2 at two barriers while it is built."""
    inside = threading.Barrier(2)
    make = transformers.GPT2LMHeadModel.__init__

    def stopped(self, *args, **kwargs):
        make(self, *args, **kwargs)
        inside.wait(PATIENCE)
        inside.wait(PATIENCE)

    monkeypatch.setattr(transformers.GPT2LMHeadModel, "__init__", stopped)
    return inside


def all_anew() -> list[torch.Tensor]:
    """Return the weights of sources that are built anew: random ones, ones set by hand, and ones from a file."""
    scratch._build_layers.cache_clear()
    for kept in (scratch._vector, constructed.build, constructed._code, weights.load):
        kept.cache_clear()
    return [api.analyze(TEXT, one).output for one in (Scratch(), "constructed", "story")]


def test_what_runs_while_a_model_is_built_gives_the_same(place, held):
    """The model has another type of numbers than torch's default one, which stays as it is."""
    expected, loaded = all_anew(), []
    loader = threading.Thread(target=lambda: loaded.append(loading.load(place)), daemon=True)
    loader.start()
    held.wait(PATIENCE)
    given = all_anew()

    assert torch.get_default_dtype() is torch.float32
    assert [one.dtype for one in given] == [torch.float32] * 3
    assert_close(given, expected, rtol=0, atol=0)
    held.wait(PATIENCE)
    loader.join(PATIENCE)
    assert loaded[0].dtype is torch.bfloat16


def test_two_different_models_open_at_once(tmp_path):
    """Both come whole, and so does the next: transformers ties weights as it did before."""
    places, come, begin = [folder_of(tmp_path, seed, n_layer=8) for seed in range(3)], {}, threading.Barrier(2)

    def open(place: str) -> None:
        begin.wait(PATIENCE)
        come[place] = api.analyze(TEXT, api.load(place)).output

    tie, linspace = transformers.PreTrainedModel.tie_weights, torch.linspace
    threads = [threading.Thread(target=open, args=(place,), daemon=True) for place in places[:2]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    at_once = dict(come)
    loading._models.clear()
    begin = threading.Barrier(1)
    for place in places:
        open(place)

    assert (transformers.PreTrainedModel.tie_weights, torch.linspace) == (tie, linspace)
    assert all(at_once[place].equal(come[place]) for place in places[:2])


FAMILIES = [name for name in (*TAPPED, *OWN, *TABLES) if name not in ("ViT", "Whisper")]


@pytest.mark.parametrize(
    ("family", "dtype"),
    [*((name, torch.bfloat16) for name in some(tuple(FAMILIES), 12)), ("GPT2", torch.float64), ("T5", torch.float16)],
)
def test_a_model_is_what_transformers_makes_of_its_files(tmp_path, family, dtype):
    """Alone in a process, where it may change the default type: every weight and buffer has that type and value."""
    if family in TABLES:
        config = getattr(transformers, f"{family}Config")(**TABLES[family])
        model = (
            transformers.AutoModelForSeq2SeqLM if family == "M2M100" else transformers.AutoModelForCausalLM
        ).from_config(config)
    else:
        model = build(family)
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
import sys, threading, time
from attnviz.sources.huggingface.source import HuggingFace

faults = []

def load(name):
    try:
        HuggingFace(name)
    except BaseException as error:
        faults.append(repr(error))

threads = [threading.Thread(target=load, args=(name,)) for name in sys.argv[1:]]
for thread in threads:
    thread.start()
    time.sleep(0.2)  # the next comes while transformers is being imported
for thread in threads:
    thread.join()
print(faults)
"""


def test_the_first_loads_of_a_process_do_not_meet(tmp_path):
    """All of them import transformers."""
    folders = [str(fake_hub.write(tmp_path / str(i))) for i in range(8)]
    ended = subprocess.run([sys.executable, "-c", FIRST, *folders], capture_output=True, text=True, cwd=ROOT)

    assert (ended.stdout.strip(), ended.returncode) == ("[]", 0), ended.stderr
