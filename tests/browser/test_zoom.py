"""A large map is zoomed into with the pointer, the wheel and the keyboard, in a real Chromium."""

import re

import driver
from playwright.sync_api import Page, expect
from test_journeys import open_app, picture

import attnviz

WORDS = "+".join(f"w{i}" for i in range(96))


def drag(page: Page, box: dict, begin: float, end: float) -> None:
    """From a point on the diagonal of the map to another, as shares of its side."""
    for share, then in ((begin, page.mouse.down), (end, page.mouse.up)):
        for nearer in (0.9, 1):
            page.mouse.move(box["x"] + share * nearer * box["width"], box["y"] + share * nearer * box["height"])
        then()


def zoomed(page: Page, window: str) -> None:
    page.wait_for_url(re.compile(rf"[&?]zoom={re.escape(window)}(&|$)") if window else re.compile(r"^((?!zoom=).)*$"))


def test_a_drag_the_wheel_and_keys_zoom_in_and_out_and_a_phrase_is_found(page, server):
    """A drag selects no cell; the thumbnail shows where one is; a part of few tokens has a rectangle for each cell.

    The wheel with Ctrl and the keys: in to half of what is seen, around the pointer or the cell that was walked to, and
    out again. A phrase leads to its strongest cell.
    """
    page.set_viewport_size({"width": 1440, "height": 1600})
    open_app(page, server, f"?text={WORDS}")
    box = picture(page, "head").locator(".cells image").bounding_box()

    drag(page, box, 0.501, 0.749)
    zoomed(page, "48.71.48.71")
    said = picture(page, "head").locator("text").filter(has_text="queries 48 to 71 of 96")
    expect(said).to_have_count(1)
    expect(picture(page, "head").locator(".cells image")).to_have_count(0)
    assert "cell=" not in page.url

    page.get_by_role("button", name="Whole map").click()
    zoomed(page, "")
    page.get_by_role("button", name="Undo").click()
    zoomed(page, "48.71.48.71")
    page.get_by_role("button", name="Redo").click()
    zoomed(page, "")
    driver.settled(page)

    page.mouse.move(box["x"] + 0.505 * box["width"], box["y"] + 0.505 * box["height"])
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    zoomed(page, "24.72.24.72")
    walk = picture(page, "head").locator("xpath=ancestor-or-self::*[@role='application']")
    walk.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("+")
    zoomed(page, "24.72.24.72-24.36.24.36")
    page.get_by_role("button", name="queries 24–72, keys 24–72").click()
    zoomed(page, "24.72.24.72")
    walk.focus()
    page.keyboard.press("-")
    zoomed(page, "")

    page.get_by_role("button", name="Find").click()
    expect(page.get_by_label("Token or phrase")).to_be_focused()
    page.keyboard.type("W40 w41")
    page.keyboard.press("Enter")
    page.get_by_role("button", name=re.compile("^40 · ")).first.click()
    page.wait_for_url(re.compile(r"cell=40\.\d+&zoom=24\.55\."))
    expect(page.get_by_label("Token or phrase")).to_have_count(0)
    expect(page.locator(".words")).to_have_text([re.compile("“w40”")])


def test_a_square_of_many_cells_is_read_and_selected_as_the_strongest_of_them(page, server):
    words = [f"w{i}" for i in range(600)]
    record = attnviz.analyze(" ".join(words), "scratch")
    weights = record.step(record.sites[0]).weights(0)[200:202, 400:402]
    query, key = 200 + int(weights.argmax()) // 2, 400 + int(weights.argmax()) % 2
    page.set_viewport_size({"width": 1440, "height": 1600})
    open_app(page, server, f"?text={'+'.join(words)}")
    box = picture(page, "head").locator(".cells image").bounding_box()

    at = box["x"] + 200.5 / 300 * box["width"], box["y"] + 100.5 / 300 * box["height"]
    page.mouse.move(*at)
    said = picture(page, "head").locator("text").filter(has_text=f"from query {query} to key {key}")
    expect(said).to_have_count(1)
    page.mouse.click(*at)
    page.wait_for_url(re.compile(rf"[?&]cell={query}\.{key}(&|$)"))
