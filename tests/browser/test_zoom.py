"""A large map is zoomed into with the pointer, the wheel and the keyboard, in a real Chromium."""

import re

import driver
from driver import picture
from playwright.sync_api import Page, expect

import attnviz

WORDS = "+".join(f"w{i}" for i in range(96))


def drag(page: Page, box: dict, begin: float, end: float) -> None:
    """Drag along the diagonal of the map, between two points given as shares of its side."""
    for share, then in ((begin, page.mouse.down), (end, page.mouse.up)):
        for nearer in (0.9, 1):
            page.mouse.move(box["x"] + share * nearer * box["width"], box["y"] + share * nearer * box["height"])
        then()


def expect_zoom(page: Page, window: str) -> None:
    """Wait until the link holds exactly this part of the map, or no part."""
    if window:
        page.wait_for_url(re.compile(rf"[&?]zoom={re.escape(window)}(&|$)"), wait_until="commit")
        driver.settled(page)
    else:
        driver.expect_no_link(page, "zoom=")


def test_a_drag_and_the_wheel_zoom_in_crumbs_lead_out_and_a_phrase_is_found(page, app):
    """A drag selects no cell; a part of few tokens has a rectangle for each cell.

    The wheel with Ctrl goes in to half of what is seen, around the pointer. A phrase leads to its strongest cell.
    """
    page.set_viewport_size({"width": 1440, "height": 1600})
    driver.open_page(page, f"{app}/?model=scratch&text={WORDS}")
    box = driver.place_of(picture(page, "head-map").locator(".cells image"))

    drag(page, box, 0.501, 0.749)
    expect_zoom(page, "48.71.48.71")
    readout = picture(page, "head-map").locator("text").filter(has_text="queries 48 to 71 of 96")
    expect(readout).to_have_count(1)
    expect(picture(page, "head-map").locator(".cells image")).to_have_count(0)
    assert "cell=" not in page.url

    page.get_by_role("button", name="Whole map").click()
    expect_zoom(page, "")
    page.get_by_role("button", name="Undo").click()
    expect_zoom(page, "48.71.48.71")
    page.get_by_role("button", name="Redo").click()
    expect_zoom(page, "")

    box = driver.place_of(picture(page, "head-map").locator(".cells image"))
    page.mouse.move(box["x"] + 0.505 * box["width"], box["y"] + 0.505 * box["height"])
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    expect_zoom(page, "24.72.24.72")
    page.get_by_role("button", name="Zoom in").click()
    driver.expect_link(page, "zoom=24.72.24.72-")
    page.get_by_role("button", name="rows 24–72, columns 24–72").click()
    expect_zoom(page, "24.72.24.72")
    page.get_by_role("button", name="Whole map").click()
    expect_zoom(page, "")

    page.get_by_role("button", name="Find").click()
    page.get_by_label("Word or phrase").fill("w40 w41")
    page.keyboard.press("Enter")
    page.get_by_role("button", name=re.compile("^40 · ")).first.click()
    page.wait_for_url(re.compile(r"cell=40\.\d+&zoom="), wait_until="commit")
    expect(page.locator(".words").first).to_contain_text("“w40”")


def test_a_square_of_many_cells_is_read_and_selected_as_the_strongest_of_them(page, app):
    words = [f"w{i}" for i in range(600)]
    record = attnviz.analyze(" ".join(words), "scratch")
    weights = record.step(record.sites[0]).weights(0)[200:202, 400:402]
    query, key = 200 + int(weights.argmax()) // 2, 400 + int(weights.argmax()) % 2
    page.set_viewport_size({"width": 1440, "height": 1600})
    driver.open_page(page, f"{app}/?model=scratch&text={'+'.join(words)}")
    box = driver.place_of(picture(page, "head-map").locator(".cells image"))

    at = box["x"] + 200.5 / 300 * box["width"], box["y"] + 100.5 / 300 * box["height"]
    page.mouse.move(*at)
    readout = picture(page, "head-map").locator("text").filter(has_text=f"from query {query} to key {key}")
    expect(readout).to_have_count(1)
    page.mouse.click(*at)
    page.wait_for_url(re.compile(rf"[?&]cell={query}\.{key}(&|$)"))
