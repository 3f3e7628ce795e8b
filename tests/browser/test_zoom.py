"""A large map is zoomed into and read, in a real Chromium."""

import re

import driver
from driver import picture
from playwright.sync_api import Page, expect

import attnviz

WORDS = "+".join(f"w{i}" for i in range(96))


def expect_zoom(page: Page, window: str) -> None:
    """Wait until the link holds exactly this part of the map, or no part."""
    if window:
        page.wait_for_url(re.compile(rf"[&?]zoom={re.escape(window)}(&|$)"), wait_until="commit")
        driver.settled(page)
    else:
        driver.expect_no_link(page, "zoom=")


def test_a_button_zooms_in_crumbs_lead_out_and_a_phrase_is_found(page, app):
    """A part of few tokens has a rectangle for each cell. A phrase leads to its strongest cell."""
    page.set_viewport_size({"width": 1440, "height": 1600})
    driver.open_page(page, f"{app}/?model=scratch&text={WORDS}&cell=60.60")

    page.get_by_role("button", name="Zoom in").click()
    expect_zoom(page, "36.83.36.83")
    readout = picture(page, "head-map").locator("text").filter(has_text="queries 36 to 83 of 96")
    expect(readout).to_have_count(1)
    page.get_by_role("button", name="Zoom in").click()
    driver.expect_link(page, "zoom=36.83.36.83-")
    expect(picture(page, "head-map").locator(".cells image")).to_have_count(0)
    page.get_by_role("button", name="rows 36–83, columns 36–83").click()
    expect_zoom(page, "36.83.36.83")

    page.get_by_role("button", name="Whole map").click()
    expect_zoom(page, "")
    page.get_by_role("button", name="Undo").click()
    expect_zoom(page, "36.83.36.83")
    page.get_by_role("button", name="Redo").click()
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
