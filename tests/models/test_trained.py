"""Weights in files: what was written is read, and whatever else a file may hold is refused in one sentence."""

import io
import json
import pickle
import struct
from dataclasses import asdict
from pathlib import Path

import pytest
import tiny
import torch
from examples import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from attnviz.core.errors import AttnvizError
from attnviz.models import trained

CONFIG = tiny.config("translator")


@pytest.fixture
def file(tmp_path):
    """Good weights."""
    path = tmp_path / "mine" / "00020.safetensors"
    trained.write(CONFIG.build(), path)
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    yield tiny.install(tmp_path, monkeypatch)
    tiny.forget()


def refused(path, how):
    """The one sentence that names the file."""
    with pytest.raises(AttnvizError) as caught:
        trained.read(path)
    said = str(caught.value)
    assert said.startswith(f"The weights {path.parent.name}/{path.name} {how}")
    assert "\n" not in said
    return True


def rewritten(path, weights=None, config=None, **other):
    """The file with other weights, or other sizes in its header."""
    metadata = {"config": json.dumps(asdict(CONFIG) | (config or {}))} | other
    save_file(load_file(path) if weights is None else weights, path, metadata)
    return path


@pytest.mark.parametrize("name", ["translator", "story"])
def test_what_was_written_is_read(tmp_path, name):
    """The same sizes, and the same numbers as far as float16 holds them; ready to run, and not to be trained on."""
    model = tiny.config(name).build()
    trained.write(model, tmp_path / "deep" / "er" / "00000.safetensors")
    state = torch.get_rng_state()
    read = trained.read(tmp_path / "deep" / "er" / "00000.safetensors")

    assert read.config == model.config
    assert torch.equal(torch.get_rng_state(), state)
    assert not read.training
    assert model.state_dict().keys() == read.state_dict().keys()
    for name, tensor in read.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name].half().float())
    assert not any(parameter.requires_grad for parameter in read.parameters())


def test_the_last_kept_moment_is_the_model(folder):
    last, first = trained.load("story"), trained.load("story", 0)

    assert trained.checkpoints("story") == tiny.STEPS
    assert trained.load("story") is last
    for name, tensor in trained.read(trained.weights_path("story", 300)).state_dict().items():
        assert_close(tensor, last.state_dict()[name], rtol=0, atol=0)
    assert not torch.equal(first.unembedding.weight, last.unembedding.weight)


@pytest.mark.parametrize(
    ("name", "step", "message"),
    [
        ("story", 7, "'story' has no weights for training step 7. Available steps: 0, 20, 300."),
        ("none", None, "The weights of 'none' are missing: there is no *.safetensors in assets/models/none."),
    ],
)
def test_what_is_not_there_is_told_with_what_is(folder, name, step, message):
    with pytest.raises(AttnvizError) as caught:
        trained.load(name, step)

    assert str(caught.value) == message


@pytest.mark.parametrize("left", [0, 8, 100, -1, None])
def test_a_missing_or_truncated_file_is_refused(file, left):
    file.write_bytes(file.read_bytes()[:left]) if left is not None else file.unlink()

    assert refused(file, "are damaged or missing")


@pytest.mark.parametrize("config", [None, {}, {"more": 1}])
def test_sizes_that_cannot_be_read_are_refused(file, config):
    """Without a header, and with other names in it."""
    save_file(load_file(file), file, None if config is None else {"config": json.dumps(config)})

    assert refused(file, "are damaged or missing")


@pytest.mark.parametrize("change", [{"d_model": 18}, {"d_model": 16}, {"num_layers": 3}, {"written": 0}])
def test_sizes_that_the_weights_do_not_have_are_refused(file, change):
    assert refused(rewritten(file, config=change), "do not fit the sizes that the file states")


class Trap:
    """Runs code when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_pickles_are_never_loaded(file, tmp_path):
    """Neither bare nor as PyTorch writes them: nothing in a file of weights can run."""
    trap = tmp_path / "sprung"
    written = io.BytesIO()
    torch.save({"x": Trap(trap)}, written)

    for content in (pickle.dumps(Trap(trap)), written.getvalue()):
        file.write_bytes(content)
        assert refused(file, "are damaged or missing")
    assert not trap.exists()
    pickle.loads(pickle.dumps(Trap(trap)))
    assert trap.exists()


@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_damage_is_refused_or_changes_numbers_only(file, data):
    """Bytes turned at random: one sentence, or a model of the same sizes."""
    good = trained.write(CONFIG.build(), file) or bytearray(file.read_bytes())
    end = 8 + struct.unpack("<Q", good[:8])[0]
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, end + 50))] = data.draw(st.integers(0, 255))
    file.write_bytes(good)

    try:
        assert trained.read(file).config == CONFIG
    except AttnvizError as error:
        assert str(error).startswith("The weights mine/00020.safetensors ")
