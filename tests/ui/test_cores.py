"""How many cores a run in the app uses."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace

import pytest
import torch

from attnviz.sources.scratch import Scratch
from attnviz.ui import cores

PATIENCE = 60
"""Seconds that a test waits for what must come."""


@pytest.fixture(autouse=True)
def two(monkeypatch):
    """Pretend that the machine has two cores."""
    before = torch.get_num_threads()
    monkeypatch.setattr(cores, "_core_count", 2)
    yield
    torch.set_num_threads(before)


def pretrained(weights: int) -> SimpleNamespace:
    """Make a stand-in for a Hugging Face model with the attributes that `used_by` reads."""
    return SimpleNamespace(facts=SimpleNamespace(parameters=weights))


SMALL, LARGE = pretrained(22_000_000), pretrained(110_000_000)


def in_a_new_thread(act):
    """Return the result of a call in a thread that has never computed anything."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(act).result(PATIENCE)


@pytest.mark.parametrize(("source", "used"), [(Scratch(), 1), (SMALL, 1), (LARGE, 2)])
def test_only_a_large_model_runs_on_all_cores(source, used):
    """And afterwards there is one again."""
    with cores.used_by(source):
        inside = torch.get_num_threads()

    assert (inside, torch.get_num_threads()) == (used, 1)


def test_the_first_of_two_large_runs_to_end_leaves_the_other_all_cores():
    """Each in a thread of its own; afterwards there is one again in both."""
    both, first_ended = Barrier(2), Barrier(2)

    def run(is_first: bool) -> tuple[int, int]:
        with cores.used_by(LARGE):
            both.wait(PATIENCE)
            if not is_first:
                first_ended.wait(PATIENCE)
            inside = torch.get_num_threads()
        if is_first:
            first_ended.wait(PATIENCE)
        return inside, torch.get_num_threads()

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(run, (True, False), timeout=PATIENCE)) == [(2, 1), (2, 1)]


def test_what_begins_beside_a_large_run_uses_one_core():
    """Whether it is a small run or anything else in a new thread, also after the large run ended."""

    def small() -> int:
        with cores.used_by(SMALL):
            return torch.get_num_threads()

    with cores.used_by(LARGE):
        assert in_a_new_thread(torch.get_num_threads) == 1
        assert in_a_new_thread(small) == 1
        assert torch.get_num_threads() == 2

    assert in_a_new_thread(torch.get_num_threads) == 1
