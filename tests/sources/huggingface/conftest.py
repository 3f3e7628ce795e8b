"""Tiny models that are loaded once, and what a sweep over all families says at its end."""

import shutil
from collections import defaultdict
from functools import cache

import pytest

import attnviz
from attnviz.sources.huggingface import loading, trial


@pytest.fixture(scope="module")
def load_each(tmp_path_factory):
    """From a function that writes a folder of a family, one that gives the source of a family, each loaded once."""
    return lambda folder: cache(lambda family: attnviz.load(str(folder(tmp_path_factory.mktemp(family), family))))


@pytest.fixture
def nothing_is_kept(tmp_path):
    """No model stays in memory or on the disk after a test."""
    yield
    loading._models.clear()
    shutil.rmtree(tmp_path, ignore_errors=True)


def pytest_terminal_summary(terminalreporter):
    """How many classes had which outcome, and of which families; each sentence of a refusal."""
    outcomes = defaultdict(list)
    for report in terminalreporter.stats.get("passed", ()):
        for kind, *rest in (value for key, value in report.user_properties if key == "outcome"):
            outcomes[kind].append(rest)
    for kind, found in sorted(outcomes.items()):
        terminalreporter.section(f"{kind}: {len(found)}")
        terminalreporter.write_line(", ".join(sorted({family for family, _, _ in found})))
        if kind == "refused":
            for _, name, told in found:
                terminalreporter.write_line(f"  {name}: {told}")


@pytest.fixture(autouse=True)
def trials_are_forgotten():
    """A class that a test has changed is tried anew in the next."""
    yield
    trial._trials.clear()
