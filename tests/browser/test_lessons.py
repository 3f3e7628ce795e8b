"""The course, as somebody takes it: a chapter done by hand, the next one, and another day the way back."""

import re

import driver
from driver import expect_link
from playwright.sync_api import expect


def test_a_chapter_is_done_by_hand_and_another_day_goes_on(page, server):
    """A click on the right cell gives the answer; a later visit leads on."""
    driver.open_page(page, f"{server}/learn")
    expect(page.locator("h2").first).to_have_text("1 · A word looks at other words")
    page.get_by_role("combobox", name="Chapter").click()
    expect(page.get_by_role("option", name="5 · The mask: no peeking")).to_be_visible()
    page.keyboard.press("Escape")
    cells = page.locator(".st-key-picture-head .mark-rect.role-mark").first.bounding_box()
    page.mouse.click(cells["x"] + cells["width"] * 2.5 / 11, cells["y"] + cells["height"] * 7.5 / 11)

    expect_link(page, "cell=7.2", "learned=1")
    expect(page.get_by_text("At “cat”: 0.84 of the attention of this row.")).to_be_visible()

    page.get_by_role("button", name="Next chapter").click()
    expect(page.locator("h2").first).to_have_text(re.compile("^2 · "))
    expect_link(page, "chapter=2")
    page.goto(f"{server}/learn?model=story")
    page.get_by_role("link", name="Go on where you stopped: 1 done").click()

    expect(page.locator("h2").first).to_have_text(re.compile("^2 · "))

    page.goto(f"{server}/learn?chapter=5&model=story&own_mask=true&learned=5")
    page.get_by_role("link", name="Go on where you stopped: 2 done").click()
    expect_link(page, "chapter=5", "learned=1-5")
