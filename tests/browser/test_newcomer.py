"""Ten tasks of somebody who opens attnviz for the first time: each takes at most two clicks, typing aside."""

from contextlib import contextmanager

import driver
from playwright.sync_api import Locator, Page, expect

MOST = 2
"""Clicks of one task."""


class Newcomer:
    """Somebody whose clicks are counted, task by task."""

    def __init__(self, page: Page):
        self.page, self.clicks = page, {}

    @contextmanager
    def task(self, name: str):
        self.name, self.clicks[name] = name, 0
        yield

    def click(self, target: Locator, **where) -> None:
        self.clicks[self.name] += 1
        target.first.click(**where)
        driver.settled(self.page)

    def press(self, name: str) -> None:
        self.click(self.page.get_by_role("button", name=name, exact=True))

    def follow(self, name: str) -> None:
        self.click(self.page.get_by_role("link", name=name, exact=True))

    def sees(self, text: str) -> None:
        expect(self.page.get_by_text(text).first, self.name).to_be_visible()


def test_ten_tasks_take_two_clicks_each_at_most(page, app):
    """Before them the first screen says, without a click, what this is and where a head looks. No change moves it."""
    driver.open_page(page, app)
    newcomer = Newcomer(page)
    with newcomer.task("what is this"):
        newcomer.sees("See where each attention head looks, and what breaks when you change it.")
        newcomer.sees("To predict the next word “it”, “because” (7) gives 0.84 of its attention to “cat” (2).")
    with newcomer.task("how that number is computed"):
        newcomer.follow("Steps")
        newcomer.sees("0.84 of its attention to “cat” (2), step by step")
        newcomer.follow("Heads")
    with newcomer.task("what changes without this head"):
        before = driver.picture(page, "head-map").bounding_box()
        newcomer.click(page.locator(".st-key-heads_off button"))
        newcomer.sees("head 0 of decoder layer 1 off")
        newcomer.sees("most changed")
        assert driver.picture(page, "head-map").bounding_box()["x"] == before["x"]
    with newcomer.task("take that back"):
        newcomer.press("Undo")
        expect(page.get_by_text("head 0 of decoder layer 1 off")).to_have_count(0)
    with newcomer.task("another head"):
        newcomer.click(driver.picture(page, "every"), position={"x": 100, "y": 330})
        newcomer.sees("Head 1 of decoder layer 1")
    with newcomer.task("the exact numbers"):
        newcomer.click(page.get_by_text("Numbers", exact=True))
        expect(page.get_by_test_id("stDataFrame").first).to_be_visible()
    with newcomer.task("a link for a friend"):
        newcomer.press("Link")
        expect(page.get_by_test_id("stCode").first).to_contain_text("model=story")
        page.keyboard.press("Escape")
    with newcomer.task("a picture for my slides"):
        newcomer.press("Export")
        with page.expect_download() as download:
            newcomer.press("PNG")
        assert download.value.suggested_filename.endswith(".png")
        page.keyboard.press("Escape")
    with newcomer.task("hide all but the words just before"):
        newcomer.press("Mask")
        newcomer.press("window")
        page.wait_for_url("**mask=window*")
        page.keyboard.press("Escape")
    with newcomer.task("my own sentence"):
        page.get_by_label("Text").first.fill("The dog saw the girl because she was loud")
        page.keyboard.press("Control+Enter")
        page.wait_for_url("**text=The+dog+saw+the+girl*")
        driver.settled(page)
    with newcomer.task("all heads at once"):
        newcomer.follow("Overview")
        expect(driver.picture(page, "every").first).to_be_visible()
    with newcomer.task("what the heads of this model do, and how that is known"):
        newcomer.press("Model card")
        newcomer.sees("How well it does")

    assert len(newcomer.clicks) == 12
    assert {name: clicks for name, clicks in newcomer.clicks.items() if clicks > MOST} == {}
