"""Every head of a model at once, in a real Chromium: heads by the keyboard."""

import re

import driver
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect


def picture(page: Page, name: str):
    return page.locator(f".st-key-picture-{name} .marks")


def panel(page: Page):
    return page.locator(".st-key-beside")


def frame(page: Page, head: str) -> None:
    """Wait until a head is framed and all is painted."""
    expect(panel(page)).to_contain_text(head)
    driver.settled(page)


def test_heads_are_framed_with_the_keyboard(chromium, server):
    """In the table, by the arrow keys and Shift with space; axe finds nothing serious on the page."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, color_scheme="dark", bypass_csp=True)
    page = context.new_page()
    problems = driver.watch(page)
    page.goto(f"{server}/overview?model=translator")
    expect(picture(page, "every")).to_be_visible()
    frame(page, "Head 3 · cross layer 1")
    page.get_by_test_id("stDataFrame").first.locator("canvas").first.focus()
    for key in ("ArrowDown", "ArrowDown", "Shift+Space"):
        page.keyboard.press(key)

    frame(page, "Head 2 · encoder layer 0")
    expect(page).to_have_url(re.compile(r"[?&]site=e0&show=2(&|$)"))

    found = Axe().run(page).response["violations"]
    context.close()
    assert [one["id"] for one in found if one["impact"] in ("critical", "serious")] == []
    assert problems == []
