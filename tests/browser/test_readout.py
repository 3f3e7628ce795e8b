"""What a large map says of the cell under the pointer, in a real Chromium."""

import re

import pytest
from playwright.sync_api import Page, expect
from test_journeys import open_app, picture

from attnviz.core.masks import And, Random

WORDS = " ".join(f"w{i}" for i in range(48))


def point(page: Page, query: int, key: int, *, of: int) -> None:
    """Move the pointer to a cell of the large map, which has so many rows and columns."""
    picture(page, "head").scroll_into_view_if_needed()
    box = picture(page, "head").locator(".cells image").bounding_box()
    page.mouse.move(box["x"] + (key + 0.5) / of * box["width"], box["y"] + (query + 0.5) / of * box["height"])


def readout(page: Page, text: str):
    """The line under a map, if it says so."""
    return picture(page, "head").locator("text").filter(has_text=re.compile(rf"^{text}$"))


@pytest.mark.parametrize("rules", [8, 10])
def test_the_cell_under_the_pointer_names_every_rule_that_blocks_it(page, server, rules):
    """Of eight rules the cells of 48 tokens name 256 combinations, of ten far more."""
    mask = And(tuple(Random(1, 2, seed) for seed in range(rules)))
    link = ".".join(f"and-random-1-2-{seed}" for seed in range(rules))
    empty = (mask.keys_left(48, 48) == 0).tolist()
    open_app(page, server, f"?text={WORDS.replace(' ', '+')}&mask={link}")

    for query, key in ((0, 0), (5, 40), (23, 24), (47, 3), (47, 47)):
        reason = " and ".join(mask.blocked_by(query, key))
        point(page, query, key, of=48)

        expect(readout(page, rf"\W*w{query}\W.*looks at\W+w{key}\W.*")).to_have_count(1)
        state = f"{'no key left: zeros, ' if empty[query] else ''}blocked by {reason}"
        expect(readout(page, rf"weight 0\.000000[^a-z]+score[^a-z]+{re.escape(state)}")).to_have_count(1)
