"""Weights in files: what was written is read, and whatever else a file may hold is refused in one sentence."""

import io
import json
import pickle
import struct
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
    metadata = {"config": json.dumps(CONFIG.to_json() | (config or {}))} | other
    save_file(load_file(path) if weights is None else weights, path, metadata)
    return path


@pytest.mark.parametrize("name", ["translator", "story"])
def test_what_was_written_is_read(tmp_path, name):
    """The same sizes, and the same numbers as far as float16 holds them; ready to run, and not to be trained on."""
    model = tiny.config(name).build()
    trained.write(model, tmp_path / "deep" / "er" / "00000.safetensors")
    read = trained.read(tmp_path / "deep" / "er" / "00000.safetensors")

    assert read.config == model.config
    assert not read.training
    assert {
        name: tensor.half().float() for name, tensor in model.state_dict().items()
    }.keys() == read.state_dict().keys()
    for name, tensor in read.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name].half().float())
    assert not any(parameter.requires_grad for parameter in read.parameters())


def test_reading_draws_no_random_numbers(file):
    """Whatever else a process draws."""
    torch.manual_seed(5)
    state = torch.get_rng_state()
    trained.read(file)

    assert torch.equal(torch.get_rng_state(), state)


def test_the_last_kept_moment_is_the_model(folder):
    last, first = trained.load("story"), trained.load("story", 0)

    assert trained.checkpoints("story") == tiny.STEPS
    assert trained.load("story") is last
    for name, tensor in trained.read(trained.place("story", 300)).state_dict().items():
        assert_close(tensor, last.state_dict()[name], rtol=0, atol=0)
    assert not torch.equal(first.unembedding.weight, last.unembedding.weight)


def test_other_files_in_the_folder_are_no_weights(folder):
    (folder / "story" / "notes.safetensors").write_bytes(b"x")
    (folder / "story" / "00400.safetensors.part").write_bytes(b"x")

    assert trained.checkpoints("story") == tiny.STEPS


@pytest.mark.parametrize(
    ("name", "step", "message"),
    [
        ("story", 7, "No weights of 'story' were kept after step 7; there are those after 0, 20, 300."),
        ("none", None, "The weights of 'none' are missing: there is no *.safetensors in assets/models/none."),
        ("none", 3, "The weights of 'none' are missing: there is no *.safetensors in assets/models/none."),
    ],
)
def test_what_is_not_there_is_told_with_what_is(folder, name, step, message):
    with pytest.raises(AttnvizError) as caught:
        trained.load(name, step)

    assert str(caught.value) == message


# Damaged files


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    assert refused(tmp_path / "00001.safetensors", "are damaged or missing")
    assert refused(tmp_path, "are damaged or missing")


@pytest.mark.parametrize("left", [0, 4, 8, 100, 1000, -1])
def test_a_truncated_file_is_refused(file, left):
    file.write_bytes(file.read_bytes()[:left])

    assert refused(file, "are damaged or missing")


@pytest.mark.parametrize("size", [2**64 - 1, 2**63, 10**9, 100_000_001, 0, 1])
def test_a_header_that_claims_another_length_is_refused(file, size):
    """No memory is taken for what it claims."""
    file.write_bytes(struct.pack("<Q", size) + file.read_bytes()[8:])

    assert refused(file, "are damaged or missing")


@pytest.mark.parametrize(
    "header",
    [
        b"{}",
        b"null",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"__metadata__": {"config": 3}}',
        b'{"x": {"dtype": "F16", "shape": [1099511627776], "data_offsets": [0, 2199023255552]}}',
        b'{"x": {"dtype": "F16", "shape": [4294967296, 4294967296, 4294967296], "data_offsets": [0, 8]}}',
        b'{"x": {"dtype": "Q9", "shape": [1], "data_offsets": [0, 8]}}',
        b'{"x": {"dtype": "F16", "shape": [-1], "data_offsets": [8, 0]}}',
        b"\xff\xfe\x00",
    ],
)
def test_a_header_that_claims_what_is_not_there_is_refused(file, header):
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))

    assert refused(file, "")


@pytest.mark.parametrize("config", ["", "null", "{", "[" * 10_000, "9" * 10_000, '{"d_model": 15}', "NaN"])
def test_sizes_that_cannot_be_read_are_refused(file, config):
    save_file(load_file(file), file, {"config": config})

    assert refused(file, "")


@pytest.mark.parametrize(
    "sizes",
    [
        {"d_model": 18},
        {"d_model": 16},
        {"num_layers": 3},
        {"num_layers": 1},
        {"d_ff": 0},
        {"vocabulary": 22},
        {"written": 0},
        {"longest": 12},
        {"longest": "13"},
        {"d_model": 10**100},
    ],
)
def test_sizes_that_the_weights_do_not_have_are_refused(file, sizes):
    assert refused(rewritten(file, config=sizes), "do not fit the sizes that the file states")


def test_large_sizes_that_are_only_claimed_take_no_memory(file, monkeypatch):
    """A thousand million parameters, drawn at random, would end a small server."""
    largest = {name: most for name, (_, most) in CONFIG.BOUNDS.items()}

    def no_numbers(tensor, *_, **__):
        assert tensor.is_meta
        return tensor

    monkeypatch.setattr(torch.nn.init, "normal_", no_numbers)
    monkeypatch.setattr(torch.nn.init, "xavier_uniform_", no_numbers)
    assert refused(rewritten(file, config=largest), "do not fit the sizes that the file states")


@pytest.mark.parametrize("change", ["gone", "more", "shape"])
def test_weights_that_are_missing_or_too_many_are_refused(file, change):
    weights = load_file(file)
    name = next(iter(weights))
    if change == "gone":
        del weights[name]
    else:
        weights["more" if change == "more" else name] = torch.zeros(3)

    assert refused(rewritten(file, weights), "do not fit the sizes that the file states")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers_are_refused(file, value):
    """One among thousands is enough: it would blank every picture."""
    weights = load_file(file)
    weights["unembedding.bias"][3] = value

    assert refused(rewritten(file, weights), "hold numbers that are not finite")


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
