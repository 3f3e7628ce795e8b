"""A person's own model in the app: shown from a process of one's own, in a real Chromium."""

import os
import subprocess
import sys
from pathlib import Path

import driver
import pytest
from playwright.sync_api import expect

TESTS = Path(__file__).parents[1]
SCRIPT = """
import attnviz, torch
from own_models import WORDS, tokenize
from seeing import PICTURE, Sees, seen_by
from tutorial import Transformer

torch.manual_seed(0)
model = Transformer(len(WORDS), len(WORDS), 0, 0)
code = {"words": WORDS, "pad": 0, "call": lambda model, ids, read: model(ids, read)}
attnviz.show(attnviz.wrap(model, tokenize, "the cat sat on the mat ||| the dog ran", **code))

seen_by(sees := Sees(), PICTURE)

def look(edits):
    with torch.no_grad(), attnviz.capture(sees, edits) as seen:
        sees(PICTURE[None])
    return seen.record(places=(3, 5), image=PICTURE)

attnviz.show(look).wait()
"""


@pytest.fixture(scope="module")
def addresses():
    """Where a script of a person's own shows a tutorial's Transformer, and a model of pictures."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (TESTS.parent, TESTS)))}
    command = [sys.executable, "-c", SCRIPT]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        yield [process.stdout.readline().split()[-1] for _ in range(2)]
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_tutorial_s_transformer_and_a_model_of_pictures_are_models_like_any_other(addresses, page):
    """Its layers by the names of its modules, its words, and a head switched off where it is seen.

    A click on a picture shows where that patch looks: it is in the link, and in words.
    """
    driver.open_page(page, addresses[0] + "&layer=c1&heads_off=c1.2")
    for width, scheme in ((1440, "light"), (390, "dark")):
        driver.resize(page, width, 900, scheme)
        driver.settled(page)

        expect(page.get_by_role("button", name="head 2 of cross layer 1 off")).to_be_visible()
        expect(page.get_by_text("Head 0 of cross layer 1 · Transformer").first).to_be_visible()
        assert driver.is_as_wide_as(page, width)

    page.set_viewport_size({"width": 1440, "height": 900})
    driver.open_page(page, addresses[1] + "&form=picture")
    driver.click_at(page, "head-picture", 0.25, 0.6)

    driver.expect_link(page, "cell=")
    expect(page.locator(".words").first).to_contain_text(" gives ")
