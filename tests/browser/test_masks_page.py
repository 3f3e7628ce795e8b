"""The page Masks: rules, painting, the mask as code, and the check of arrays and models."""

import driver
import numpy as np
import pytest
from playwright.sync_api import expect

LOWER = "\n".join(" ".join("1" if key <= query else "0" for key in range(5)) for query in range(5))
"""A causal mask of five tokens, as it is printed."""


@pytest.fixture
def opened(page, app):
    def opened(link: str = "", model: str = "story"):
        driver.open_page(page, f"{app}/masks?model={model}&{link}")
        return page

    return opened


def grid(page):
    """Return a function that gives the position of a cell of the mask on the screen."""
    box = driver.place_of(page.locator(".st-key-painted-mask-marks .cells_marks"))
    count = len("<sos> The cat sat on the mat because it was tired".split())

    def place(query: int, key: int) -> tuple[float, float]:
        return box["x"] + box["width"] * (key + 0.5) / count, box["y"] + box["height"] * (query + 0.5) / count

    return place


def test_a_rule_is_added_in_two_clicks_changed_joined_and_undone(opened):
    page = opened()
    page.get_by_role("button", name="Basic").click()
    page.get_by_role("menuitem", name="window:").click()
    driver.expect_mask(page, "window(2)")
    page.get_by_label("keys before").fill("3")
    page.get_by_label("keys before").press("Enter")
    driver.expect_mask(page, "window(3)")
    page.get_by_role("button", name="Long context").click()
    page.get_by_role("menuitem", name="strided:").click()
    driver.expect_mask(page, "window(3) & strided(3)")
    page.get_by_role("combobox", name="How rule 2 is joined").click()
    page.get_by_role("option", name="or not").click()
    driver.expect_mask(page, "window(3) | ~strided(3)")
    page.locator(".st-key-arrow_upward-rule-1 button").first.click()
    driver.expect_mask(page, "~strided(3)")
    page.get_by_role("button", name="Undo").click()
    driver.expect_mask(page, "window(3) | ~strided(3)")
    page.locator(".st-key-close-rule-0 button").first.click()
    driver.expect_mask(page, "~strided(3)")
    page.get_by_text("strided", exact=True).first.click()
    driver.expect_mask(page, "off: ~strided(3)")


def test_clicks_and_drags_paint_and_a_drag_is_one_step_of_undo(opened):
    page = opened("own_mask=false&mask=causal")
    page.get_by_text("Paint cells", exact=True).click()
    cell = grid(page)
    page.mouse.click(*cell(5, 1))
    driver.expect_mask(page, "causal & blocked(5:1)")
    page.mouse.move(*cell(7, 0))
    page.mouse.down()
    page.mouse.move(*cell(8, 1), steps=4)
    page.mouse.move(*cell(9, 2), steps=4)
    page.mouse.up()
    driver.expect_mask(page, "causal & blocked(5:1, 7-9:0-2)")
    page.get_by_role("button", name="Undo").click()
    driver.expect_no_link(page, "7-9")

    assert "blocked" in page.url


def test_a_cell_that_the_built_in_mask_blocks_is_not_painted_but_explained(opened):
    page = opened()
    page.get_by_text("Paint cells", exact=True).click()
    page.mouse.click(*grid(page)(1, 8))

    expect(page.locator(".note.notice")).to_contain_text("The built-in mask (causal) blocks this")
    assert "mask=" not in page.url.replace("own_mask", "")


def test_what_is_pasted_is_judged_in_one_sentence_with_a_repair_to_copy(opened, app):
    """First the example, which leaks; then a mask that is right; then what is no array."""
    page = opened("lab=check")

    expect(page.locator(".verdict")).to_contain_text("position 2 saw position 4")
    expect(page.locator("[data-testid=stCode]").filter(has_text="tril").first).to_be_visible()
    expect(driver.picture(page, "checked")).to_contain_text("evidence")

    box = page.get_by_label("Paste a printed tensor")
    box.fill(LOWER)
    box.press("Control+Enter")
    expect(page.locator(".verdict.right")).to_contain_text("causal decoder")
    box.fill("no numbers <script>alert(1)</script>")
    box.press("Control+Enter")

    expect(page.locator(".note.error")).to_have_count(1)
    page.get_by_role("link", name="Heads").click()
    expect(driver.picture(page, "head-map")).to_be_visible()
    page.get_by_role("link", name="Masks").click()
    expect(page.get_by_label("Paste a printed tensor")).to_have_value("no numbers <script>alert(1)</script>")


def test_a_file_is_held_to_an_intent_and_the_repaired_mask_is_saved(opened, tmp_path):
    """The upper triangle where the lower one is meant: the file that is saved is the lower one."""
    np.save(tmp_path / "mask.npy", np.triu(np.ones((6, 6), bool)))
    page = opened("lab=check&intent=causal")
    page.locator("input[type=file]").set_input_files(tmp_path / "mask.npy")

    expect(page.locator(".verdict.error")).to_contain_text("transposed", ignore_case=True)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the repaired mask").click()
    assert (np.load(saved.value.path()).squeeze() == np.tril(np.ones((6, 6), bool))).all()
