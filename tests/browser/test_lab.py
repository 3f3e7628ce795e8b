"""What a person does in the mask lab, done in a real Chromium."""

import re

import driver
import pytest
from driver import expect_mask, picture
from playwright.sync_api import Page, expect
from test_journeys import open_app

N = 7
"""Tokens of the opening sentence, with <sos>."""


def cell(page: Page, query: int, key: int) -> tuple[float, float]:
    """Where a cell of the grid stands in the window."""
    grid = picture(page, "mask")
    grid.scroll_into_view_if_needed()
    box = grid.locator(f"g.mark-rect:has(path:nth-child({N * N})) path").nth(query * N + key).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def paint(page: Page) -> None:
    page.get_by_text("Paint", exact=True).click()
    expect(page.locator(".st-key-picture-mask .drag_brush")).to_be_attached()
    driver.settled(page)


def test_a_rule_is_switched_off_undone_and_linked(page, server):
    """The grid follows each click, and the link opens the same. What is pointed at is marked in the weights, too.

    These stand right of the mask. A phone shows the mask first, then the weights, then the rules.
    """
    open_app(page, server, "masks?mask=subsequent.window-1")
    expect(picture(page, "mask")).to_contain_text("blocked by you: window (1 before, 0 after)")
    page.get_by_text("window", exact=True).click()
    expect_mask(page, "causal & off: window(1)")

    expect(picture(page, "mask")).not_to_contain_text("window")

    page.get_by_role("button", name="Undo", exact=False).first.click()
    expect_mask(page, "causal & window(1)")

    expect(picture(page, "mask")).to_contain_text("blocked by you: window (1 before, 0 after)")

    before = picture(page, "mask").text_content()
    page.reload()

    expect(picture(page, "mask")).to_have_text(before)

    driver.settled(page)
    page.mouse.move(*cell(page, 4, 2))
    row, column = page.locator(".st-key-picture-head .twin").all()
    there = picture(page, "head").locator(f"g.mark-rect:has(path:nth-child({N * N})) path").nth(4 * N + 2)
    there, row, column = there.bounding_box(), row.bounding_box(), column.bounding_box()

    assert (column["x"], row["y"]) == pytest.approx((there["x"], there["y"]), abs=2)
    assert (column["width"], row["height"]) == pytest.approx((there["width"], there["height"]), abs=5)

    mask, head = page.locator(".st-key-picture-mask, .st-key-picture-head").all()

    assert head.bounding_box()["y"] == mask.bounding_box()["y"]

    page.set_viewport_size({"width": 390, "height": 844})
    open_app(page, server, "masks?mask=subsequent.prefix-3.not-window-1.off-padding-5-7.painted-6_0")
    order = (".st-key-picture-mask", ".st-key-picture-head", ".st-key-list")
    tops = [page.locator(name).bounding_box()["y"] for name in order]

    assert tops == sorted(tops)
    assert tops[0] < 430


def test_clicks_and_drags_paint_and_are_taken_back(page, server):
    """Open becomes blocked by hand, blocked becomes open; a rectangle is one step, and a cell in it can be clicked.

    By keyboard, Enter turns the cell around that the arrows lead to.
    """
    open_app(page, server, "masks")
    for text in ("blocked by you: causal", "<sos>", "may attend"):
        expect(picture(page, "mask")).to_contain_text(text)
    paint(page)
    page.mouse.click(*cell(page, 5, 1))
    expect_mask(page, "causal & blocked(5:1)")

    expect(picture(page, "mask")).to_contain_text("blocked by you: painted")

    page.mouse.click(*cell(page, 5, 1))
    expect(picture(page, "mask")).not_to_contain_text("painted")
    driver.settled(page)
    page.mouse.click(*cell(page, 1, 5))
    expect_mask(page, "causal | opened(1:5)")
    page.get_by_role("button", name="Undo").first.click()
    expect(page).not_to_have_url(re.compile("opened"))
    driver.settled(page)

    page.mouse.move(*cell(page, 4, 0))
    page.mouse.down()
    page.mouse.move(*cell(page, 5, 1), steps=4)
    page.mouse.move(*cell(page, 6, 2), steps=4)
    page.mouse.up()
    expect_mask(page, "causal & blocked(4-6:0-2)")
    expect(page.locator(".st-key-picture-mask .drag_brush path")).to_have_attribute("d", "M0,0h0v0h0Z")
    page.mouse.click(*cell(page, 5, 0))
    expect_mask(page, "causal & blocked(4:0-2, 5:1-2, 6:0-2)")
    for _ in range(2):
        page.get_by_role("button", name="Undo").first.click()
        driver.settled(page)
    expect_mask(page, "causal")

    expect(picture(page, "mask")).not_to_contain_text("painted")

    picture(page, "mask").locator("xpath=ancestor-or-self::*[contains(@class, 'st-key-picture')]").last.focus()
    for key in ("ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect_mask(page, "causal & blocked(0:0)")
    driver.settled(page)
    for key in ("ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect_mask(page, "causal & blocked(0-1:0)")
