"""Models are loaded once, and let go of when others are asked for."""

from threading import Event, Thread

import pytest

from attnviz.core.errors import InputError
from attnviz.sources.huggingface.kept import Kept


def test_the_last_ones_are_kept():
    """The one that was not asked for the longest is let go."""
    loaded = []
    kept = Kept(lambda name, report: loaded.append(name) or name.upper(), most=2)

    assert [kept(name) for name in "abacab"] == list("ABACAB")
    assert loaded == ["a", "b", "c", "b"]


def test_one_is_let_go_before_another_is_loaded():
    """So that there is room for it."""
    held = []
    kept = Kept(lambda name, report: held.append(len(kept._models)) or name, most=2)
    for name in "abcd":
        kept(name)

    assert held == [0, 1, 1, 1]


def test_who_asks_for_one_that_is_being_loaded_waits_for_it():
    """It is loaded once; another one is not held up."""
    loading, go_on, loaded = Event(), Event(), []

    def load(name, report):
        loaded.append(name)
        if name == "slow":
            loading.set()
            go_on.wait(10)
        return name

    kept, got = Kept(load, most=2), []
    askers = [Thread(target=lambda: got.append(kept("slow"))) for _ in range(2)]
    for asker in askers:
        asker.start()
    assert loading.wait(10)

    assert kept("quick") == "quick"
    assert got == []
    go_on.set()
    for asker in askers:
        asker.join(10)
    assert got == ["slow", "slow"]
    assert sorted(loaded) == ["quick", "slow"]


def test_what_could_not_be_loaded_is_tried_again():
    answers = iter([InputError("gone"), "there"])

    def load(name, report):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    kept = Kept(load, most=2)
    with pytest.raises(InputError, match="gone"):
        kept("a")
    assert kept("a") == "there"
