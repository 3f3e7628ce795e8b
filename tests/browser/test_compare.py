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

    box = drawing.locator(".panels image").nth(2).bounding_box()
    cell = box["width"] / 12
    page.mouse.move(box["x"] + 4.5 * cell, box["y"] + 6.5 * cell)

    expect(drawing).to_contain_text("mat (6) → chair (6) looks at on (4)")
    expect(drawing.locator("text", has_text=re.compile("higher in (A|B)$")).first).to_be_attached()

    page.mouse.click(box["x"] + 4.5 * cell, box["y"] + 6.5 * cell)
    expect_link(page, "cell=6.4")
    words = page.locator(".words").first

    expect(words).to_have_text(re.compile(r"^“mat” \(6\) gives .* to “on” \(4\) in A, and in B “chair” \(6\) gives "))

    before = words.text_content()
    page.reload()

    expect(words).to_have_text(before)

    driver.settled(page)

    page.get_by_role("button", name=re.compile(r"^Head 0 of decoder layer 0: 0\.\d\d$")).click()
    expect_link(page, "b=head-d0.0")


def test_a_phone_shows_a_and_b_and_their_difference_at_once(window, server):
    """Small A and B above the difference: all three have room on one screen, and nothing scrolls sideways.

    In half a window they stand so, too; in a whole one in a row, which begins at one height whatever is said of B: with
    changes, and where B lacks a word and another layer is shown, what is said of that stands below.
    """
    page = window(390, 844)
    driver.open_page(page, f"{server}/{CAT}")
    maps = [image.bounding_box() for image in picture(page, "difference").locator(".panels image").all()]

    assert len(maps) == 3
    expect(page.locator(".words").first).to_contain_text("Largest difference in head 0 of decoder layer 1: “was” (9)")
    expect(picture(page, "difference")).to_contain_text("query ↓")
    assert max(box["y"] + box["height"] for box in maps) - min(box["y"] for box in maps) < 600
    assert page.locator(".st-key-picture-difference[data-wide]").count() == 0
    for width, in_a_row in ((1000, False), (1440, True)):
        driver.resize(page, width, 844, "light")
        driver.settled(page)
        tops = [image.bounding_box()["y"] for image in picture(page, "difference").locator(".panels image").all()]
        assert (tops[0] == tops[2]) == in_a_row
        assert page.locator(".st-key-picture-difference[data-wide]").count() == 0
    tops = [picture(page, "difference").bounding_box()["y"]]
    for link in (f"{CAT}&off=d0.0&mask=subsequent", "compare?model=story&text=The+keys&off=d0.0&b=model-translator"):
        driver.open_page(page, f"{server}/{link}")
        tops.append(picture(page, "difference").bounding_box()["y"])

    assert max(tops) == min(tops) < 240
