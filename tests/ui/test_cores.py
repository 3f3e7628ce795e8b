"""How many cores a run in the app uses."""

from types import SimpleNamespace

import pytest
import torch

from attnviz.sources.scratch import Scratch
from attnviz.ui import cores


@pytest.fixture
def two(monkeypatch):
    """A machine that has two, whatever this one has."""
    before = torch.get_num_threads()
    monkeypatch.setattr(cores, "settle", lambda: torch.set_num_threads(1) or 2)
    yield
    torch.set_num_threads(before)


def pretrained(weights: int) -> SimpleNamespace:
    """What `used_by` looks at of a model of Hugging Face."""
    model = SimpleNamespace(num_parameters=lambda: weights)
    return SimpleNamespace(provenance="pretrained", loaded=SimpleNamespace(model=model))


@pytest.mark.parametrize(
    ("source", "used"), [(Scratch(), 1), (pretrained(22_000_000), 1), (pretrained(110_000_000), 2)]
)
def test_only_a_large_model_runs_on_all_cores(two, source, used):
    """And afterwards there is one again."""
    with cores.used_by(source):
        inside = torch.get_num_threads()

    assert (inside, torch.get_num_threads()) == (used, 1)
