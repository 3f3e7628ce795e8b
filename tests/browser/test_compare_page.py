"""The page Compare: B in the link, cells, heads that differ, and activation patching."""

import re
from urllib.parse import parse_qs, urlsplit

import driver
from playwright.sync_api import expect

from attnviz import link

DOGS = "compare?model=story&layer=d1&head=0&b=" + "part%3Dtext%26text%3DThe+dogs+sat+on+the+mat+because+it+was+tired"


def b_of(url: str) -> link.Choices:
    """B as the link holds it."""
    choices, complaints = link.read(parse_qs(urlsplit(url).query))
    assert complaints == ()
    return choices["b"]


def test_the_text_of_b_begins_as_that_of_a_and_a_changed_word_moves_the_maps(page, app):
    """The link holds B; both predictions stand above the maps; undo goes back."""
    driver.open_page(page, f"{app}/compare?model=story&layer=d1&head=0")
    page.get_by_label("Compare with").click()
    page.get_by_role("option", name="another text").click()
    typed = page.get_by_label("Text of B")

    expect(typed).to_have_value("The cat sat on the mat because it was tired")

    typed.fill("The dogs sat on the mat because it was tired")
    typed.press("Enter")
    driver.expect_link(page, "b=text%3DThe%2Bdogs")

    assert b_of(page.url)["text"] == "The dogs sat on the mat because it was tired"
    expect(driver.picture(page, "difference")).to_contain_text("cat → dogs")
    both = page.locator(".st-key-predictions .says")
    expect(both).to_have_text([re.compile("^A: After “because”"), re.compile("^B: After “because”")])
    assert driver.place_of(both.last)["y"] < driver.place_of(driver.picture(page, "difference"))["y"] < 245

    page.get_by_role("button", name="Undo").click()
    driver.expect_no_link(page, "dogs")


def test_a_head_that_differs_is_compared_with_one_click(page, app):
    driver.open_page(page, f"{app}/compare?model=story&layer=d1&head=0")
    page.get_by_role("button", name=re.compile(r"^Head \d of decoder layer \d: 0\.\d\d$")).first.click()
    driver.expect_link(page, "b=layer%3D")

    expect(page.locator(".says").first).to_contain_text("A and B are the same run.")


def test_a_part_of_b_is_taken_and_the_way_that_each_head_carries_is_a_map(page, app):
    """Activation patching: the take is a chip, its effect stands in the line of A."""
    driver.open_page(page, f"{app}/{DOGS}")
    expect(page.get_by_text("Activation patching: take from B")).to_be_visible()
    page.get_by_role("button", name="Take", exact=True).click()
    driver.expect_link(page, "take=output-d1.0")

    expect(page.locator(".st-key-predictions .says").first).to_contain_text("in place of")
    expect(page.get_by_role("button", name=re.compile("^output of head 0 of decoder layer 1 from"))).to_be_visible()

    page.get_by_text("How much of the way from A to B each head carries").click()
    expect(driver.picture(page, "carried")).to_be_visible()
    expect(page.locator(".words").last).to_contain_text("carries the largest share of the way from A to B")
