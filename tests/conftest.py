"""Settings and fixtures of all tests."""

import gc
import os

os.environ["HF_HUB_OFFLINE"] = "1"  # no test asks another host for anything
os.environ["OMP_NUM_THREADS"] = os.environ.get("ATTNVIZ_TEST_THREADS", "1")  # here and in what is started: as the app

import pytest
import torch
from examples import FEWER, USUAL
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "attnviz",
    max_examples=FEWER,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a law that fails says so at once; the sweep shrinks
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "sweep",
    settings.get_profile("attnviz"),
    derandomize=False,
    max_examples=50 * USUAL,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
settings.load_profile("attnviz")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Exempt the collected tests from garbage collection, which would visit them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def seeded():
    """Every test draws the same random numbers, alone or among others."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def chromium():
    """One real Chromium for all: Playwright runs once in a process."""
    import driver

    with driver.chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def installed(tmp_path_factory, worker_id):
    """attnviz as a person has it after `pip install`; the processes of a run share it."""
    from installed import Installed

    of_run = tmp_path_factory.getbasetemp()
    folder = (of_run if worker_id == "master" else of_run.parent) / "installed"
    folder.mkdir(exist_ok=True)
    return Installed(folder)


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Runs a command of the shell in an empty folder; gives status, stdout and stderr."""
    from attnviz.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(arguments)
        return status, *capsys.readouterr()

    return run
