"""Lines and the shaded text in a real Chromium: pointing, picking, selecting."""

import re

import driver
from driver import expect_link
from playwright.sync_api import Page, expect

LINES = "?model=scratch&text=the+cat+sat+down&as=lines"


def label(page: Page, name: str, text: str, index: int):
    """A token of a picture, of several of the same text by its index."""
    return page.locator(f".st-key-picture-{name} .marks text", has_text=re.compile(f"^{text}$")).nth(index)


def test_tokens_are_pointed_at_and_picked_and_a_cell_of_the_map_is_a_line_and_a_token_of_the_text(page, server):
    """Pointing hides all other lines; clicks pick a query and a key, a second click and Escape let them go.

    A cell goes from map to lines to text; a click in the text chooses another token.
    """
    driver.open_page(page, f"{server}/{LINES}")
    seen = "els => els.filter(el => +(el.getAttribute('stroke-opacity') ?? 1) > 0).length"
    strokes = page.locator(".st-key-picture-lines .marks .mark-rule.role-mark").first.locator("line")
    every = strokes.evaluate_all(seen)
    label(page, "lines", "cat", 0).hover(force=True)

    page.wait_for_function("() => document.querySelector('#vg-tooltip-element.visible')")
    assert every - strokes.evaluate_all(seen) == 12

    label(page, "lines", "cat", 0).click(force=True)
    expect_link(page, "pins=q1")
    label(page, "lines", "down", 1).click(force=True)

    expect_link(page, "pins=q1-k3")
    expect(page.locator(".st-key-picture-lines .marks")).to_contain_text(
        "all 7 weights of the picked tokens have a line"
    )

    label(page, "lines", "cat", 0).click(force=True)

    expect_link(page, "pins=k3")

    page.keyboard.press("Escape")

    expect(page.locator(".st-key-picture-lines .marks")).to_contain_text("all 16 weights have a line")
    expect(page).not_to_have_url(re.compile("[?&]pins="))

    driver.open_page(page, f"{server}/{LINES}&cell=2.0")

    expect(page.locator(".words")).to_contain_text("“sat” (2) gives")
    expect(page.locator(".st-key-beside")).to_contain_text("Selected cell outlined; Esc to clear")

    page.get_by_role("radio", name="text").or_(page.get_by_role("button", name="text", exact=True)).first.click()

    expect(page.locator(".words")).to_contain_text("“sat” (2) looks most at")
    expect(page.get_by_role("button", name="Show how the first number is computed")).to_be_visible()

    driver.settled(page)
    label(page, "text", "down", 0).click(force=True)

    expect(page.locator(".words")).to_contain_text("“down” (3) looks most at")
    expect_link(page, "pins=q3")
    expect(page).not_to_have_url(re.compile("[?&]cell="))
