"""What a large map says of the cell under the pointer, in a real Chromium."""

import re

import driver
import pytest
from examples import some
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


def expect_walk(page: Page) -> None:
    """Cells are walked with arrow keys and spoken: the first key goes to the first, Enter selects, Escape clears."""
    picture(page, "head").locator("xpath=ancestor-or-self::*[@role='application']").focus()
    for way in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowRight"):
        page.keyboard.press(way)

    expect(page.locator('.unseen[aria-live="polite"]')).to_have_text(re.compile(r"w2 \(2\).*w1 \(1\).*weight 0\.\d+"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"cell=2\.1"))
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("cell="))


@pytest.mark.parametrize("rules", some([10, 8], 1))
def test_the_cell_under_the_pointer_names_every_rule_that_blocks_it(page, server, rules):
    """Of eight rules the cells of 48 tokens name 256 combinations, of ten far more. An image is walked as cells are."""
    mask = And(tuple(Random(1, 2, seed) for seed in range(rules)))
    link = ".".join(f"and-random-1-2-{seed}" for seed in range(rules))
    empty = (mask.keys_left(48, 48) == 0).tolist()
    page.set_viewport_size({"width": 1440, "height": 1600})  # or the sticky rows lie over the first cells
    open_app(page, server, f"?text={WORDS.replace(' ', '+')}&mask={link}")

    said = page.locator(".st-key-beside .words").bounding_box()  # the map is too wide for it: under the thumbnails
    assert said["x"] + said["width"] < picture(page, "head").bounding_box()["x"]
    assert said["y"] + said["height"] < 900
    for query, key in ((0, 0), (5, 40), (23, 24), (47, 3), (47, 47)):
        reason = " and ".join(mask.blocked_by(query, key))
        point(page, query, key, of=48)

        expect(readout(page, rf"\W*w{query}\W.*looks at\W+w{key}\W.*")).to_have_count(1)
        state = f"{'fully masked row: zeros, ' if empty[query] else ''}blocked by {reason}"
        expect(readout(page, rf"weight 0\.000000[^a-z]+score[^a-z]+{re.escape(state)}")).to_have_count(1)
    expect_walk(page)


def test_a_picture_is_one_stop_of_tab_and_its_cells_are_walked_and_pointed_at(page, server):
    """The buttons that Streamlit draws over a picture are hidden, and cover no title; Export holds what they do.

    Under the pointer the row and the column are lit, and what is written keeps a cell's distance. Both end when the
    pointer or the keyboard leaves, even if the cell is drawn anew meanwhile.
    """
    open_app(page, server, f"?text={'+'.join(f'w{i}' for i in range(10))}")
    expect(page.locator('[role="application"]')).to_have_count(2)
    stops = page.locator(
        '[class*="st-key-picture"] :is(button, a, input, [tabindex="0"]):not([tabindex="-1"]) >> visible=true'
    )
    assert stops.count() == 0

    cells = picture(page, "head").locator(".mark-rect > path")
    count = cells.count()
    cells.nth(33).hover()
    page.wait_for_selector("#vg-tooltip-element.visible")

    cell, shown = cells.nth(33).bounding_box(), page.locator("#vg-tooltip-element").bounding_box()
    border = 34
    assert shown["x"] + border > cell["x"] + cell["width"]
    assert shown["y"] + border > cell["y"] + cell["height"]
    expect(cells).to_have_count(count + 2)

    page.mouse.move(0, 0)
    expect_walk(page)
    driver.settled(page)
    label = picture(page, "head").locator(".role-axis-label text").filter(has_text="w3").last.bounding_box()
    page.mouse.click(label["x"] + label["width"] / 2, label["y"] + label["height"] / 2)  # what lies over it is clicked
    expect(page).to_have_url(re.compile(r"cell=3\.\d"))
    tooltip = page.locator("#vg-tooltip-element")
    expect(tooltip).to_be_hidden()

    driver.settled(page)
    page.keyboard.press("ArrowRight")
    expect(tooltip).to_be_visible()
    page.keyboard.press("Tab")
    expect(tooltip).to_be_hidden()
    lit = picture(page, "head").locator('.mark-rect > path[stroke-width="1.5"]')
    cells.nth(44).hover()
    expect(lit).to_have_count(2)
    expect(tooltip).to_be_visible()
    cells.nth(44).evaluate("one => one.remove()")  # as Vega does where the picture changes under the pointer
    page.mouse.move(0, 0)
    expect(tooltip).to_be_hidden()
    expect(lit).to_have_count(0)


@pytest.mark.parametrize("change", ["mask=prefix-0", "layer=d1&head=0&heads_off=d1.0"])
def test_a_map_is_no_wider_for_what_was_changed(page, server, change):
    """Masked rows and changed predictions are named under it: what is said of the head stays right of it."""
    driver.open_page(page, f"{server}/?model=story")
    width = picture(page, "head").bounding_box()["width"]
    driver.open_page(page, f"{server}/?model=story&{change}")
    beside, shown = page.locator(".st-key-beside").bounding_box(), picture(page, "head").bounding_box()

    assert shown["width"] == pytest.approx(width, abs=2)
    assert beside["x"] >= shown["x"] + shown["width"]


def test_on_a_phone_a_map_scrolls_in_its_own_frame(page, server):
    """And says so; it begins at its start, or at a cell of the link."""
    page.set_viewport_size({"width": 390, "height": 844})
    text = "+".join(f"w{i}" for i in range(24))
    open_app(page, server, f"?text={text}")
    wide = page.locator(".st-key-picture-head[data-wide]")
    expect(wide).to_have_count(1)

    assert wide.evaluate("one => one.scrollLeft + one.scrollTop") == 0
    assert page.evaluate("document.documentElement.scrollWidth") == 390

    open_app(page, server, f"?text={text}&cell=20.21")
    cell = picture(page, "head").locator('[stroke-width="2.5"]').bounding_box()

    assert 0 < cell["x"] < 390 - cell["width"]  # what is outlined is scrolled into sight
