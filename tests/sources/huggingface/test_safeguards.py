"""What guards a person's machine while a model is looked for, fetched and built."""

import threading
from pathlib import Path

import fake_hub
import pytest
import transformers
from huggingface_hub import constants, get_session

from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.huggingface import building, hub, loading, opening

NAME = "tiny/story"


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    return fake_hub.write(tmp_path_factory.mktemp("guarded") / "gpt2")


@pytest.fixture
def world(model, tmp_path, monkeypatch):
    """A hub with one model, and an empty cache."""
    monkeypatch.chdir(tmp_path)
    with fake_hub.running() as (fake, address):
        fake_hub.connect(monkeypatch, address, tmp_path / "cache")
        fake.add(NAME, model)
        yield fake


def refusal(do) -> str:
    with pytest.raises(AttnvizError) as caught:
        do()
    return str(caught.value)


def test_a_package_with_other_weights_is_refused(world, tmp_path, monkeypatch):
    """Its name alone proves nothing."""
    package = tmp_path / hub.PACKED
    fake_hub.write(package / "model")
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    assert "checksum differs" in refusal(lambda: hub.find("all-MiniLM-L6-v2"))


def test_a_configuration_is_not_endless(model, tmp_path):
    """Its size is looked at before it is read."""
    folder = fake_hub.copy(model, tmp_path / "other", comment="x" * opening.LONGEST_CONFIG)

    assert "2.0 MB is the most" in refusal(lambda: loading.load(str(folder)))


def test_settings_of_the_library_are_as_before_once_nobody_asks(world):
    """Though two downloads began and ended in turns."""
    before = {name: getattr(constants, name) for name in hub.SETTINGS}
    hooks = list(get_session().event_hooks["request"])
    first, second = hub._guarded_requests(NAME, None), hub._guarded_requests(NAME, None)
    first.__enter__()
    second.__enter__()
    assert constants.HF_HUB_DISABLE_XET
    first.__exit__(None, None, None)
    assert constants.HF_HUB_DISABLE_XET
    second.__exit__(None, None, None)

    assert {name: getattr(constants, name) for name in hub.SETTINGS} == before
    assert get_session().event_hooks["request"] == hooks


def test_the_small_files_are_judged_before_the_weights_come(world):
    """What cannot be used is not fetched first."""

    def refuse(folder: Path) -> None:
        assert (folder / "config.json").is_file()
        raise InputError("not this one")

    with pytest.raises(InputError, match="not this one"):
        hub.fetch(hub.find(NAME), check=refuse)

    assert not [path for path in world.paths("GET") if path.endswith(".safetensors")]


def test_models_are_built_one_at_a_time(model, monkeypatch):
    """A build draws its random numbers and prints nothing while no other is at work."""
    held, make = [], transformers.GPT2LMHeadModel.__init__

    def makes(self, *args, **kwargs):
        other = threading.Thread(target=lambda: held.append(building._build_lock.acquire(blocking=False)))
        other.start()
        other.join()
        make(self, *args, **kwargs)

    monkeypatch.setattr(transformers.GPT2LMHeadModel, "__init__", makes)
    loading.load(str(model))

    assert held
    assert not any(held)
