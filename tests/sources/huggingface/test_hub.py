"""From a name to a folder: what is here, what a hub has, and what a hub does wrong, on 127.0.0.1 alone."""

import sys
from pathlib import Path

import fake_hub
import pytest
from fake_hub import COMMIT
from huggingface_hub import constants

from attnviz.core.errors import AttnvizError
from attnviz.sources.huggingface import files, hub

NAME = "tiny/story"


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    return fake_hub.write(tmp_path_factory.mktemp("models") / "gpt2")


@pytest.fixture
def world(model, tmp_path, monkeypatch):
    """A hub with one model, and an empty cache."""
    monkeypatch.chdir(tmp_path)
    with fake_hub.running() as (fake, address):
        fake_hub.connect(monkeypatch, address, tmp_path / "cache")
        fake.add(NAME, model)
        yield fake


def refusal(do) -> str:
    """The one sentence, or the few, of an error; a hub that hangs does so for longer than anybody would wait."""
    with pytest.raises(AttnvizError) as caught:
        do()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_model_is_found_fetched_and_found_again(world):
    """Sizes come first, then the files, then the cache is asked and nobody else."""
    world.files[NAME]["vocab.txt"] = bytes(300_000)
    place = hub.find(NAME)
    told = []

    fetched = hub.fetch(place, told.append)

    assert (place.kind, place.commit) == ("download", COMMIT)
    assert place.size == sum(len(data) for data in world.files[NAME].values())
    assert (fetched.kind, fetched.name, fetched.size) == ("cached", NAME, 0)
    assert (fetched.folder / "model.safetensors").read_bytes() == world.files[NAME]["model.safetensors"]
    assert told[-1].done == told[-1].total == place.size
    assert [one.what for one in told] == sorted((one.what for one in told), reverse=True)
    world.asked.clear()
    assert hub.find(NAME) == fetched
    assert world.asked == []


def test_a_revision_is_asked_for_by_its_name(world):
    """After "@" stands a branch, a tag or a commit; it is part of the name."""
    place = hub.fetch(hub.find(f"{NAME}@v1"))

    assert place.name == f"{NAME}@v1" == hub.find(f"{NAME}@v1").name
    assert hub.find(f"{NAME}@{COMMIT}").kind == "cached"
    assert hub.find(NAME).kind == "download"


def test_neither_code_nor_pickle_nor_a_second_format_is_fetched(world, model):
    """Only configuration, tokenizer and one set of safetensors."""
    world.files[NAME] |= dict.fromkeys(
        ["modeling_story.py", "pytorch_model.bin", "model.fp16.safetensors", "onnx/model.onnx", "../out.safetensors"],
        b"x",
    )
    world.files[NAME]["1_Pooling/config.json"] = b"{}"

    place = hub.find(NAME)

    assert {file.name for file in place.files} == {path.name for path in model.iterdir()} | {"1_Pooling/config.json"}


def test_a_model_that_was_renamed_is_found_by_its_old_name(world):
    """A redirect inside the hub is followed."""
    world.renamed["tale"] = NAME

    place = hub.fetch(hub.find("tale"))

    assert files.whole(place.folder)
    assert hub.find("tale") == place


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("gated", "is gated"),
        (401, "There is no model"),
        (403, "is gated"),
        (429, "error 429"),
        (500, "error 500"),
        ("hang", "cannot be reached"),
    ],
)
def test_a_hub_that_refuses_or_hangs_gives_one_sentence(world, monkeypatch, fault, says):
    """In time, with the name that was asked for; what is not here cannot be used."""
    if fault == "hang":
        monkeypatch.setattr(hub, "SECONDS", 0.3)
    world.fault = fault

    sentence = refusal(lambda: hub.find(NAME))

    assert says in sentence
    assert NAME in sentence


def test_what_the_hub_does_not_have_is_said(world):
    """A model, a revision, weights without pickle, a model of transformers."""
    world.files["tiny/pickle"] = {"config.json": b"{}", "pytorch_model.bin": b"x"}
    world.files["tiny/words"] = {"README.md": b"x"}

    assert "There is no model 'tiny/none'" in refusal(lambda: hub.find("tiny/none"))
    assert "no revision 'v2'" in refusal(lambda: hub.find(f"{NAME}@v2"))
    assert "pickle" in refusal(lambda: hub.find("tiny/pickle"))
    assert "it is not a model of transformers" in refusal(lambda: hub.find("tiny/words"))


def test_a_hub_that_is_not_there_is_said(world, monkeypatch, tmp_path):
    """Nobody listens, or this machine is told to stay alone."""
    fake_hub.connect(monkeypatch, "http://127.0.0.1:9", tmp_path / "cache")

    assert "127.0.0.1:9 cannot be reached" in refusal(lambda: hub.find(NAME))

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    assert "HF_HUB_OFFLINE" in refusal(lambda: hub.find(NAME))


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("corrupt", "checksum is not the hub's"),
        ("short", "broke off"),
        ("long", "more of"),
        ("redirect", "another host, 'localhost'"),
        ("hang in a file", "cannot be reached, or broke off"),
    ],
)
def test_a_file_that_does_not_come_whole_is_not_kept(world, monkeypatch, fault, says):
    """The download ends and says why, and the file is not there; once the hub is well, it comes."""
    place, world.fault = hub.find(NAME), fault
    if fault == "hang in a file":
        monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.3)

    sentence = refusal(lambda: hub.fetch(place))

    assert says in sentence
    blobs = Path(constants.HF_HUB_CACHE) / "models--tiny--story" / "blobs"  # not made yet where it ended at once
    assert fake_hub.digest("model.safetensors", world.files[NAME]["model.safetensors"]) not in {
        blob.name for blob in blobs.glob("*")
    }
    if fault == "corrupt":
        world.fault = None
        again = hub.find(NAME)
        assert [file.name for file in again.files] == ["model.safetensors"]
        assert files.whole(hub.fetch(again).folder)


def test_a_download_ends_with_its_next_bytes_when_it_is_canceled(world, monkeypatch):
    """In the middle of a file, too; the next download goes on, and no half of a file is left."""
    world.files[NAME]["vocab.txt"] = bytes(300_000)
    place, told = hub.find(NAME), []

    def goes_on(progress) -> bool:
        told.append(progress.done)
        return progress.done < 100_000

    with pytest.raises(hub.Canceled, match="canceled after"):
        hub.fetch(place, goes_on)

    assert 100_000 <= told[-1] < 200_000
    assert files.whole(hub.fetch(hub.find(NAME)).folder)
    assert not [*Path(constants.HF_HUB_CACHE).glob("*/blobs/*.incomplete")]


def test_a_download_has_bounds(world, monkeypatch):
    """Bytes that may be fetched, and bytes the disk has left: both are said, and nothing comes."""
    size = len(world.files[NAME]["model.safetensors"])
    monkeypatch.setenv("ATTNVIZ_MAX_DOWNLOAD", "2000")

    sentence = refusal(lambda: hub.find(NAME))

    assert "at most 2.0 kB" in sentence
    assert f"{size / 1000:.0f}"[:1] in sentence
    monkeypatch.setenv("ATTNVIZ_MAX_DOWNLOAD", "much")
    assert "'much'" in refusal(lambda: hub.find(NAME))
    monkeypatch.delenv("ATTNVIZ_MAX_DOWNLOAD")
    monkeypatch.setattr(hub.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 300}))
    assert "300 bytes left" in refusal(lambda: hub.find(NAME))


def test_a_token_goes_to_the_hub_alone_and_into_no_sentence(world, monkeypatch, tmp_path):
    """Neither on a redirect, nor in an error, nor from an address with a password in it."""
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecret")
    place = hub.find(NAME)
    assert {token for _, _, token in world.asked} == {"Bearer hf_secretsecret"}
    world.fault = 401

    assert "HF_TOKEN" in (sentence := refusal(lambda: hub.find(NAME)))
    assert "secret" not in sentence

    world.fault = "redirect"
    assert "secret" not in refusal(lambda: hub.fetch(place))
    fake_hub.connect(monkeypatch, "http://me:secret@127.0.0.1:9", tmp_path / "cache")
    assert "secret" not in refusal(lambda: hub.find(NAME))


def test_what_is_no_name_is_said_at_once(world):
    """Nobody is asked about it."""
    for name in ("", "a b", "a/b/c", "x" * 200, "a--b", "a/..", "-x", "x@", "a\0b", "\ud800", "é", "<b>"):
        assert "no name of a model" in refusal(lambda name=name: hub.find(name))
    assert world.asked == []


def test_a_folder_comes_first(world, model, tmp_path):
    """By its path, or by a name that a folder here has; one without a model is no such folder."""
    fake_hub.copy(model, tmp_path / "tiny" / "story")
    (tmp_path / "gpt2").mkdir()

    assert hub.find(str(model)).folder == model
    assert hub.find(NAME).kind == "folder"
    assert "has no config.json" in refusal(lambda: hub.find("./gpt2"))
    assert "is not there" in refusal(lambda: hub.find("./none"))
    assert "There is no model 'gpt2'" in refusal(lambda: hub.find("gpt2"))


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_minilm_is_found_in_its_package(world, name):
    """The package is not imported, its weights are those of the original, and nobody is asked."""
    place = hub.find(name)

    assert (place.kind, place.name) == ("package", "sentence-transformers/all-MiniLM-L6-v2")
    assert files.whole(place.folder)
    assert hub.PACKED not in sys.modules
    assert world.asked == []


def test_a_server_can_be_limited_to_a_list(world, model, tmp_path, monkeypatch):
    """Other names and all folders are refused, also one with a listed name; an empty list allows nothing."""
    fake_hub.copy(model, tmp_path / "tiny" / "story")
    monkeypatch.setenv("ATTNVIZ_MODELS", f" {NAME}, all-MiniLM-L6-v2,{NAME}")

    assert hub.allowed() == (NAME, "all-MiniLM-L6-v2")
    assert hub.find(NAME).kind == "download"
    assert hub.find("all-MiniLM-L6-v2").kind == "package"
    assert f"are: {NAME}, all-MiniLM-L6-v2." in refusal(lambda: hub.find(f"{NAME}@v1"))
    assert "may not be loaded" in refusal(lambda: hub.find(str(model)))
    monkeypatch.setenv("ATTNVIZ_MODELS", "")
    assert "are: none" in refusal(lambda: hub.find(NAME))
    monkeypatch.delenv("ATTNVIZ_MODELS")
    assert hub.allowed() is None
