"""The benchmark of many people at once does what it says: its users open pages, and what they click is there."""

import argparse
import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import load
import pytest


@pytest.mark.sweep
def test_users_of_the_benchmark_open_pages_and_toggle_heads_and_masks(app, monkeypatch):
    """One of a class and one of their own; each toggle is answered, and most lead to states never seen before."""
    toggled = []
    monkeypatch.setattr(load.User, "click", _noted(load.User.click, toggled))
    asked = argparse.Namespace(users=2, seconds=4, every=0.25, shared=0.5)
    address = f"ws{app.removeprefix('http')}/_stcore/stream"
    with ThreadPoolExecutor(1) as thread:  # Playwright may run a loop in this one
        pages, clicks = thread.submit(asyncio.run, load.load(asked, address)).result()

    assert len(pages) == 2
    assert len(clicks) >= 2
    assert all(click.messages and click.size for click in clicks)
    assert all(user.pills.keys() >= {load.RULES, load.EYES} for user in toggled)
    for user in toggled:
        off = parse_qs(user.address).get("heads_off", [""])[0]
        _, _, heads, on = user.pills[load.EYES]

        assert {int(place.rpartition(".")[2]) for place in off.split("-") if place} == {*range(len(heads))} - {
            heads.index(head) for head in on
        }
    assert sum(click.new for click in clicks) >= 2


def _noted(click, toggled):
    async def noted(user, seen):
        toggled.append(user)
        return await click(user, seen)

    return noted
