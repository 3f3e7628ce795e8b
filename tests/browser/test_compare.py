"""The page Compare in a real Chromium: what moved is under the pointer, in the link and on a phone."""

import re

import driver
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from test_journeys import picture

CAT = "compare?model=story&text=The+cat+sat+on+the+mat+because+it+was+tired."


def test_a_changed_word_is_read_under_the_pointer_clicked_and_linked(page, server, chromium):
    """Typing B moves the maps; a cell of the difference is clicked in; the link opens the same; a head is focused."""
    page.goto(f"{server}/{CAT}")
    driver.settled(page)
    page.get_by_label("The sentence of B").fill("The cat sat on the chair because it was tired.")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.search.includes('chair')")
    driver.settled(page)
    drawing = picture(page, "difference")

    expect(drawing).to_contain_text("mat → chair")

    box = drawing.locator(".panels image").nth(2).bounding_box()
    cell = box["width"] / 12
    page.mouse.move(box["x"] + 4.5 * cell, box["y"] + 6.5 * cell)

    expect(drawing).to_contain_text("query mat (6) → chair (6)   key on (4)")
    expect(drawing.locator("text", has_text=re.compile("(A|B) more$")).first).to_be_attached()

    page.mouse.click(box["x"] + 4.5 * cell, box["y"] + 6.5 * cell)
    page.wait_for_function("() => location.search.includes('cell=6.4')")
    driver.settled(page)
    words = page.locator(".words").first

    expect(words).to_have_text(re.compile(r"^'mat' \(6\) gives .* to 'on' \(4\) in A, and in B 'chair' \(6\) gives "))

    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    other = context.new_page()
    other.goto(page.evaluate("location.href"))
    driver.settled(other)

    expect(other.locator(".words").first).to_have_text(words.text_content())

    context.close()
    picture(page, "alike-map").locator(".view_1_marks path, .layer_0_marks path").first.click()
    page.wait_for_function("() => location.search.includes('show=0')")
    driver.settled(page)

    expect(page.locator(".words", has_text="Heads that look most like decoder layer 0 head 0")).to_be_visible()


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_compare_is_no_wider_than_the_page_and_axe_finds_nothing_serious(chromium, server, width, scheme):
    """At a desk and on a phone, with maps of two sentences and of two models."""
    size = {"width": width, "height": 900}
    context = chromium.new_context(viewport=size, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    problems = driver.watch(page)
    for path in (CAT, f"{CAT}&b=model-translator"):
        page.goto(f"{server}/{path}")
        driver.settled(page)
        serious = [v for v in Axe().run(page).response["violations"] if v["impact"] in ("critical", "serious")]

        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert [(v["id"], [node["html"][:160] for node in v["nodes"]][:3]) for v in serious] == []
    context.close()

    assert problems == []
