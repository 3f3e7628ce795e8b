"""The page Compare in a real Chromium: what moved is under the pointer, in the link and on a phone."""

import re

import driver
from driver import expect_link, picture
from playwright.sync_api import expect

CAT = "compare?model=story&text=The+cat+sat+on+the+mat+because+it+was+tired."


def test_a_changed_word_is_read_under_the_pointer_clicked_and_linked(page, server):
    """Typing B moves the maps; a cell of the difference is clicked in; the link opens the same; a head is compared."""
    page.goto(f"{server}/{CAT}")
    driver.settled(page)
    page.get_by_label("Compare with").click()
    page.get_by_role("option", name="another sentence").click()
    page.get_by_label("The sentence of B").fill("The cat sat on the chair because it was tired.")
    page.keyboard.press("Enter")
    expect_link(page, "b=sentence-The+cat+sat+on+the+chair")
    drawing = picture(page, "difference")

    expect(drawing).to_contain_text("mat → chair")

    cell = drawing.locator(".d_cells_marks path").nth(6 * 12 + 4)
    cell.hover()

    expect(page.locator("#vg-tooltip-element")).to_contain_text("mat (6) → chair (6)")
    expect(page.locator("#vg-tooltip-element")).to_contain_text(re.compile("higher in (A|B)"))

    cell.click()
    expect_link(page, "cell=6.4")
    words = page.locator(".words").first

    expect(words).to_have_text(re.compile(r"^“mat” \(6\) gives .* to “on” \(4\) in A, and in B “chair” \(6\) gives "))

    before = words.text_content()
    page.reload()

    expect(words).to_have_text(before)

    driver.settled(page)

    page.get_by_role("button", name=re.compile(r"^Head 0 of decoder layer 0: 0\.\d\d$")).click()
    expect_link(page, "b=head-d0.0")


def test_three_maps_stand_in_a_row_which_begins_at_one_height_whatever_is_said_of_b(window, server):
    """With changes, and where B lacks a word and another layer is shown: what is said of that stands below.

    On a phone the row scrolls in its own frame, and the page does not.
    """
    page, tops = window(), []
    for link in (
        CAT,
        f"{CAT}&heads_off=d0.0&mask=subsequent",
        "compare?model=story&text=The+keys&heads_off=d0.0&b=model-translator",
    ):
        driver.open_page(page, f"{server}/{link}")
        tops.append(picture(page, "difference").bounding_box()["y"])
        maps = picture(page, "difference").locator("[class*=_cells_marks] path:first-child").all()
        assert len({one.bounding_box()["y"] for one in maps}) <= 1

    assert max(tops) == min(tops) < 240

    driver.resize(page, 390, 844, "light")
    driver.open_page(page, f"{server}/{CAT}")

    assert driver.is_as_wide_as(page, 390)
    expect(page.locator(".words").first).to_contain_text("Largest difference in head 0 of decoder layer 1: “was” (9)")
