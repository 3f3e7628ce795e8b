"""Lines and the shaded text in a real Chromium: pointing, picking, selecting."""

import re

import driver
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

LINES = "?model=scratch&text=the+cat+sat+down&as=lines"


def opened(page: Page, server: str, path: str) -> None:
    page.goto(f"{server}/{path}")
    driver.settled(page)


def click(page: Page, target) -> None:
    target.click(force=True)
    page.wait_for_timeout(300)
    driver.settled(page)


def link(page: Page) -> str:
    return page.evaluate("location.search")


def label(page: Page, name: str, text: str, index: int):
    """A token of a picture, of several of the same text by its index."""
    return page.locator(f".st-key-picture-{name} .marks text", has_text=re.compile(f"^{text}$")).nth(index)


def test_tokens_are_pointed_at_and_picked_and_let_go(page, server):
    """Pointing hides all other lines; clicks pick a query and a key, a second click and Escape let them go."""
    opened(page, server, LINES)
    seen = "els => els.filter(el => +(el.getAttribute('opacity') ?? 1) > 0).length"
    strokes = page.locator(".st-key-picture-lines .marks .mark-rule").first.locator("line")
    every = strokes.evaluate_all(seen)
    label(page, "lines", "cat", 0).hover(force=True)

    page.wait_for_function("() => document.querySelector('#vg-tooltip-element.visible')")
    assert every - strokes.evaluate_all(seen) == 12

    click(page, label(page, "lines", "cat", 0))
    click(page, label(page, "lines", "down", 1))

    assert "pins=q1-k3" in link(page)
    expect(page.locator(".st-key-picture-lines .marks")).to_contain_text("all 7 weights of the picked tokens are lines")

    click(page, label(page, "lines", "cat", 0))

    assert "pins=k3" in link(page)

    page.keyboard.press("Escape")
    driver.settled(page)

    expect(page.locator(".st-key-picture-lines .marks")).to_contain_text("all 16 weights are lines")
    page.wait_for_function("() => !location.search.includes('pins')")


def test_the_cell_of_the_map_is_the_line_and_the_token_of_the_text(page, server):
    """A cell goes from map to lines to text; a click in the text chooses another token."""
    opened(page, server, LINES + "&cell=2.0")

    expect(page.locator(".words")).to_contain_text("'sat' (2) gives")
    expect(page.locator(".st-key-picture-lines .marks")).to_contain_text("what is framed is the selected cell")

    click(page, page.get_by_role("radio", name="text").or_(page.get_by_role("button", name="text", exact=True)).first)

    expect(page.locator(".words")).to_contain_text("'sat' (2) looks most at")

    click(page, label(page, "text", "down", 0))

    expect(page.locator(".words")).to_contain_text("'down' (3) looks most at")
    assert "pins=q3" in link(page)
    assert "cell" not in link(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("form", ["lines&also=1-2&pins=q1", "text"])
def test_axe_finds_nothing_serious_in_lines_and_text(chromium, server, form, scheme):
    """No critical or serious finding of axe-core, in light and in dark."""
    context = chromium.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    opened(page, server, f"?model=scratch&as={form}")
    found = Axe().run(page).response["violations"]
    wide = page.evaluate("document.documentElement.scrollWidth")
    context.close()

    serious = [v for v in found if v["impact"] in ("critical", "serious")]
    assert [(v["id"], [node["html"][:160] for node in v["nodes"]][:3]) for v in serious] == []
    assert wide <= 390
